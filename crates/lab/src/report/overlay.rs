//! Recordings for the time plots of a page, each with its place, choice, color and seed, so that a reader can lay any
//! of them over each other.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::ReportError;
use super::thin::{self, Detail, Thinned};
use crate::choices::Grid;
use crate::results::Results;

/// How many recordings a page has by default: the others are in files beside it.
pub const MOST_RECORDINGS: usize = 12;

/// A recording for a page.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    /// Everything below in words.
    pub(super) name: String,
    /// Circumstances, by [`Grid`]; with the scenario's name before it where there are several.
    place: String,
    /// What was chosen.
    choice: String,
    /// The color of the choice in every picture.
    color: usize,
    seed: u64,
    /// "A" or "B" where two sets of results are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<&'static str>,
    #[serde(flatten)]
    recording: Thinned,
}

/// A recording that could be shown, and what decides whether it is.
struct Candidate<'r> {
    set: &'r Results,
    point: usize,
    seed: u64,
    place: String,
    choice: String,
    color: usize,
    /// How often the same place and choice came before it.
    repeat: usize,
    place_number: usize,
    choice_number: usize,
}

/// How large the recordings of a page are at most, in bytes; beyond, lines are thinned more.
const MOST_BYTES: usize = 1_000_000;

/// The recordings of one set, or of two that are compared, `most` at most: first one of every choice, place by place,
/// then those of further seeds. No more than these are held at a time. With them how many there are in all.
pub(super) fn recordings(sets: &[&Results], most: usize) -> (Vec<Shown>, usize) {
    let names: &[Option<&'static str>] = if sets.len() == 2 { &[Some("A"), Some("B")] } else { &[None] };
    let each = most / sets.len().max(1);
    let (mut all, mut recorded) = (Vec::new(), 0);
    for (set, name) in sets.iter().zip(names.iter().cycle()) {
        let (list, count) = chosen(set, each);
        recorded += count;
        all.extend(list.into_iter().map(|it| (*name, "", it)));
    }
    (shown(&all), recorded)
}

/// The recordings of several scenarios, shared out evenly; the place of each begins with its scenario's name. With them
/// how many there are in all.
pub(super) fn of_scenarios(sets: &[Results], most: usize) -> (Vec<Shown>, usize) {
    let each = (most / sets.len().max(1)).max(1);
    let (mut all, mut recorded) = (Vec::new(), 0);
    for set in sets {
        let (list, count) = chosen(set, each);
        recorded += count;
        all.extend(list.into_iter().map(|it| (None, set.scenario.name.as_str(), it)));
    }
    (shown(&all), recorded)
}

/// The JSON that goes into a page, inside of a `<script>`.
pub(super) fn json(shown: &[Shown]) -> Result<String, ReportError> {
    // A script ends at the first "</", whatever the JSON around it means.
    Ok(serde_json::to_string(shown)?.replace("</", "<\\/"))
}

/// A recording to be shown: the set it is of, the name of its scenario if there are several, and which it is.
type Picked<'r> = (Option<&'static str>, &'r str, Candidate<'r>);

/// The recordings, with as much detail as a page of them can have.
fn shown(all: &[Picked<'_>]) -> Vec<Shown> {
    let with = |detail: Detail| -> Vec<Shown> {
        all.iter().filter_map(|(set, scenario, candidate)| show(candidate, *set, scenario, detail)).collect()
    };
    let detail = Detail::of(all.len());
    let shown = with(detail);
    let bytes: usize = shown.iter().map(|it| serde_json::to_string(it).map_or(0, |text| text.len())).sum();
    if bytes > MOST_BYTES { with(detail.scaled(MOST_BYTES, bytes)) } else { shown }
}

/// The recordings of a set to be shown, and how many there are.
fn chosen(set: &Results, most: usize) -> (Vec<Candidate<'_>>, usize) {
    let grid = Grid::of(&set.scenario);
    let mut seen: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut all: Vec<Candidate<'_>> = Vec::new();
    for run in &set.manifest.runs {
        let Some((place_number, choice_number)) = grid.of.get(run.point).copied() else { continue };
        let repeat = seen.entry((place_number, choice_number)).or_default();
        let choice = &grid.choices[choice_number];
        all.push(Candidate {
            set,
            point: run.point,
            seed: run.seed,
            place: grid.places[place_number].name.clone(),
            choice: choice.name.clone(),
            color: choice.color,
            repeat: *repeat,
            place_number,
            choice_number,
        });
        *repeat += 1;
    }
    all.sort_by_key(|it| (it.repeat, it.place_number, it.choice_number));
    all.retain(Candidate::is_kept);
    let recorded = all.len();
    all.truncate(most);
    (all, recorded)
}

impl Candidate<'_> {
    fn is_kept(&self) -> bool {
        let point = self.set.manifest.points.get(self.point);
        point.is_some_and(|point| self.set.store.has_recording(&point.key, self.seed))
    }
}

fn show(candidate: &Candidate<'_>, set: Option<&'static str>, scenario: &str, detail: Detail) -> Option<Shown> {
    let key = &candidate.set.manifest.points.get(candidate.point)?.key;
    let recording = candidate.set.store.recording(key, candidate.seed).filter(|it| !it.is_empty())?;
    let words = |parts: &[&str], between: &str| {
        parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(between)
    };
    let place = words(&[scenario, &candidate.place], ": ");
    let mut name = words(&[&place, &candidate.choice, &format!("seed {}", candidate.seed)], ", ");
    if let Some(set) = set {
        name = format!("{set}: {name}");
    }
    // Where nothing is chosen the two sets are the choices, in the colors that they have in the other pictures.
    let color = if set == Some("B") && candidate.choice.is_empty() { 1 } else { candidate.color };
    Some(Shown {
        name,
        place,
        choice: candidate.choice.clone(),
        color,
        seed: candidate.seed,
        set,
        recording: thin::thin(&recording, detail),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::results_of;
    use super::*;
    use crate::testing::Toy;

    /// Two paths and two starts, the path running fastest, every seed recorded.
    const TEXT: &str = r#"
title = "t"
question = "q?"
seeds = 2
record = "all"
[path.p]
preset = "satellite"
[[flow]]
transfer = { download = "1 MB" }
[vary]
"flow.0.policies.start" = ["standard", "peak-bandwidth"]
"path.p" = [{ preset = "wifi" }, { preset = "satellite" }]
"#;

    fn list(shown: &[Shown]) -> Vec<(&str, &str, u64, Option<&str>)> {
        shown.iter().map(|it| (it.place.as_str(), it.choice.as_str(), it.seed, it.set)).collect()
    }

    #[test]
    fn all_choices_of_a_place_come_before_the_next_place_and_further_seeds_last() {
        let directory = tempfile::tempdir().unwrap();
        let results = results_of(TEXT, directory.path(), &Toy::default());
        let (shown, recorded) = recordings(&[&results], 5);
        assert_eq!(recorded, 8, "two seeds of two choices in two places");
        let [shipped, other] = ["peak-bandwidth", "standard"];
        assert_eq!(
            list(&shown),
            [
                ("wifi", shipped, 1, None),
                ("wifi", other, 1, None),
                ("satellite", shipped, 1, None),
                ("satellite", other, 1, None),
                ("wifi", shipped, 2, None)
            ]
        );
        assert_eq!(shown[0].name, "wifi, peak-bandwidth, seed 1");
        assert!(shown[0].color == shown[2].color && shown[0].color != shown[1].color);
        let text = json(&shown).unwrap();
        let page: Value = serde_json::from_str(&text).unwrap();
        for key in ["name", "place", "choice", "color", "seed", "series", "packets"] {
            assert!(page.as_array().unwrap().iter().all(|recording| recording.get(key).is_some()), "{key}");
        }
        assert!(page[0].get("set").is_none());
    }

    #[test]
    fn a_comparison_shows_the_same_runs_of_both_sets() {
        let directory = tempfile::tempdir().unwrap();
        let a = results_of(TEXT, &directory.path().join("a"), &Toy::default());
        let b = results_of(TEXT, &directory.path().join("b"), &Toy { change: 1, ..Toy::default() });
        let (shown, recorded) = recordings(&[&a, &b], 4);
        assert_eq!(recorded, 16);
        let list = list(&shown);
        assert_eq!(list.len(), 4);
        for (one, other) in list[..2].iter().zip(&list[2..]) {
            assert_eq!((one.0, one.1, one.2), (other.0, other.1, other.2));
            assert_eq!((one.3, other.3), (Some("A"), Some("B")));
        }
        assert_eq!(shown[2].name, "B: wifi, peak-bandwidth, seed 1");
    }

    #[test]
    fn places_of_several_scenarios_say_which_they_are_of() {
        let directory = tempfile::tempdir().unwrap();
        let set = |name: &str| results_of(TEXT, &directory.path().join(name), &Toy::default());
        let (shown, recorded) = of_scenarios(&[set("a"), set("b")], 4);
        assert_eq!(recorded, 16);
        assert_eq!(shown.len(), 4);
        assert!(shown.iter().all(|it| it.place == "sat: wifi"), "{:?}", list(&shown));
    }

    #[test]
    fn what_is_told_of_a_recording_does_not_end_the_script_it_is_in() {
        let directory = tempfile::tempdir().unwrap();
        let mut results = results_of(TEXT, directory.path(), &Toy::default());
        "</script><b>".clone_into(&mut results.scenario.name);
        let text = json(&of_scenarios(&[results], 1).0).unwrap();
        assert!(text.contains("script") && !text.contains("</"), "{}", &text[..200]);
    }
}
