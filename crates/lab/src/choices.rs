//! The points of a scenario as a table: a row for each place, a column for each choice.
//!
//! A *place* is a set of circumstances, such as a path. A *choice* is what somebody would decide about, such as
//! policies or a stack. Which axes of `[vary]` are choices, [`Axis::is_choice`] says. One choice is the *reference*:
//! what is shipped if it is run, else the first. Other choices are compared with it in the same place.

use serde::Serialize;
use thalweg_recovery::Policies;
use thalweg_units::{Rate, parse_bytes, parse_duration};

use crate::metric::Unit;
use crate::scenario::{Axis, OURS, Point, STACK, Scenario};

/// How many colors pictures have for choices. A choice beyond has the color of the one so many before it, and its lines
/// are dashed.
pub const COLORS: usize = 8;

/// How many choices can be told apart by color and dash.
pub const LOOKS: usize = 2 * COLORS;

/// A set of circumstances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// In words; empty if nothing but choices varies.
    pub name: String,
    /// The value of each axis that is no choice, by number of the axis.
    pub labels: Vec<(usize, String)>,
}

/// Something that is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// In words; empty if nothing is chosen.
    pub name: String,
    /// Whether another stack is in our place.
    pub is_rival: bool,
    /// Whether every flow of ours has the shipped policies.
    pub is_shipped: bool,
    /// Its color in every picture, below [`LOOKS`].
    pub color: usize,
}

/// Places and choices of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grid {
    /// In the order of the scenario.
    pub places: Vec<Place>,
    /// The reference first, then in the order of the scenario.
    pub choices: Vec<Choice>,
    /// The place and the choice of each point.
    pub of: Vec<(usize, usize)>,
    /// What a place is: a "path" if nothing else varies, or a "place".
    pub kind: &'static str,
    points: Vec<Vec<Option<usize>>>,
}

/// An axis whose values are numbers of one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// The unit; a bare number is a [`Unit::Ratio`].
    pub unit: Unit,
    /// In the order of the axis.
    pub values: Vec<f64>,
}

impl Grid {
    /// The table of a scenario.
    pub fn of(scenario: &Scenario) -> Grid {
        let axes = &scenario.axes;
        let (mut places, mut choices): (Vec<Place>, Vec<Choice>) = (Vec::new(), Vec::new());
        let mut of = Vec::with_capacity(scenario.points.len());
        let spoken = Axis::spoken(axes);
        let brief = is_clear(axes, &spoken);
        for point in &scenario.points {
            let place = place(axes, &spoken, point);
            let choice = choice(axes, &spoken, point, brief);
            of.push((
                position(&mut places, place, |one, other| one.labels == other.labels),
                position(&mut choices, choice, |one, other| one.name == other.name),
            ));
        }
        let reference = choices.iter().position(|choice| choice.is_shipped && !choice.is_rival).unwrap_or(0);
        // The reference becomes the first; the order of the others stays.
        let moved = |at: usize| match at {
            at if at == reference => 0,
            at if at < reference => at + 1,
            at => at,
        };
        if reference < choices.len() {
            choices[..=reference].rotate_right(1);
        }
        let mut points = vec![vec![None; choices.len()]; places.len()];
        for (number, (place, choice)) in of.iter_mut().enumerate() {
            *choice = moved(*choice);
            points[*place][*choice].get_or_insert(number);
        }
        paint(&mut choices);
        let mut circumstances = axes.iter().filter(|axis| !axis.is_choice).map(|axis| axis.key.split('.').collect());
        let is_path = |steps: Vec<&str>| matches!(steps[..], ["path", _] | ["flow", _, "path"]);
        let kind = if axes.iter().any(|axis| !axis.is_choice) && circumstances.all(is_path) { "path" } else { "place" };
        Grid { places, choices, of, kind, points }
    }

    /// Two sets of results, A and B, as the choices of places with these names.
    pub fn of_sets(places: &[String]) -> Grid {
        let choice =
            |(color, name): (usize, &str)| Choice { name: name.to_owned(), is_rival: false, is_shipped: false, color };
        Grid {
            places: places.iter().map(|name| Place { name: name.clone(), labels: Vec::new() }).collect(),
            choices: [(0, "A"), (1, "B")].map(choice).into(),
            of: Vec::new(),
            kind: "place",
            points: Vec::new(),
        }
    }

    /// The point of a choice in a place, if it is run.
    pub fn point(&self, place: usize, choice: usize) -> Option<usize> {
        *self.points.get(place)?.get(choice)?
    }

    /// The axes of which places differ and whose values are numbers, by number of the axis.
    pub fn numeric(&self, axes: &[Axis]) -> Vec<(usize, Numbers)> {
        // Of axes that change together one stands for all.
        let spoken = Axis::spoken(axes);
        let is_first = |at: usize| {
            let is_with = |before: &usize| axes[*before].together == axes[at].together && !axes[*before].is_choice;
            spoken[at] && (axes[at].together.is_none() || !(0..at).any(|before| is_with(&before) && spoken[before]))
        };
        let found = axes.iter().enumerate().filter(|(at, axis)| !axis.is_choice && is_first(*at));
        found.filter_map(|(at, axis)| Some((at, numbers(&axis.values)?))).collect()
    }
}

/// The number of an entry that is equal to `new`, which is added if there is none.
fn position<T>(all: &mut Vec<T>, new: T, same: impl Fn(&T, &T) -> bool) -> usize {
    match all.iter().rposition(|known| same(known, &new)) {
        Some(at) => at,
        None => {
            all.push(new);
            all.len() - 1
        }
    }
}

fn place(axes: &[Axis], spoken: &[bool], point: &Point) -> Place {
    let all = axes.iter().zip(&point.labels).enumerate();
    let labels: Vec<(usize, String)> = all
        .filter(|(at, (axis, label))| spoken[*at] && !axis.is_choice && !label.is_empty())
        .map(|(at, (_, label))| (at, label.clone()))
        .collect();
    let name = match labels.as_slice() {
        [(at, label)] => axes[*at].in_words(label),
        labels => in_words(axes, labels),
    };
    Place { name, labels }
}

fn choice(axes: &[Axis], spoken: &[bool], point: &Point, brief: bool) -> Choice {
    let all = axes.iter().zip(&point.labels).enumerate();
    let labels: Vec<(usize, String)> = all
        .filter(|(at, (axis, label))| spoken[*at] && axis.is_choice && !label.is_empty())
        // That ours is ours is no choice but where nothing else is chosen.
        .filter(|(_, (axis, label))| axis.key != "rivals" || *label != OURS)
        .map(|(at, (_, label))| (at, label.clone()))
        .collect();
    let mut ours = point.world.flows.iter().filter(|flow| flow.stack == OURS).peekable();
    let is_shipped = ours.peek().is_some() && ours.all(|flow| *flow.policies() == Policies::default());
    let name = match labels.as_slice() {
        [] if axes.iter().any(|axis| axis.label == STACK) => OURS.to_owned(),
        labels if brief => labels.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(", "),
        labels => in_words(axes, labels),
    };
    Choice { name, is_rival: point.rival.is_some(), is_shipped, color: 0 }
}

fn in_words(axes: &[Axis], labels: &[(usize, String)]) -> String {
    let parts: Vec<String> = labels.iter().map(|(at, label)| format!("{} = {label}", axes[*at].label)).collect();
    parts.join(", ")
}

/// Whether the values of all choices tell by themselves which axis they are of: none is a number, none repeats.
fn is_clear(axes: &[Axis], spoken: &[bool]) -> bool {
    let spoken = axes.iter().zip(spoken).filter(|(_, is_spoken)| **is_spoken);
    let chosen: Vec<&Axis> = spoken.map(|(axis, _)| axis).filter(|axis| axis.is_choice).collect();
    let mut values: Vec<&String> = chosen.iter().flat_map(|axis| &axis.values).collect();
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    values.len() == count && !chosen.iter().any(|axis| axis.is_bare())
}

impl Axis {
    /// Whether a value does not tell by itself what it is of: a number, or "on".
    fn is_bare(&self) -> bool {
        let is_bare =
            |value: &String| number(value).is_some() || matches!(value.as_str(), "on" | "off" | "true" | "false");
        self.values.iter().any(is_bare)
    }

    /// A value in words: with the axis before it where it does not tell by itself what it is of.
    pub(crate) fn in_words(&self, label: &str) -> String {
        if self.is_bare() { format!("{} = {label}", self.label) } else { label.to_owned() }
    }
}

/// What everybody meets often has a color of its own on every page; the others take what is left, in order.
fn paint(choices: &mut [Choice]) {
    const FIXED: [(&str, usize); 7] =
        [("shipped", 0), ("rfc", 1), ("quinn", 5), ("noq", 6), ("quiche", 7), ("tcp", 4), ("picoquic", 3)];
    let wanted = |choice: &Choice| {
        let word = choice.name.split([',', ' ', '-']).next().unwrap_or("");
        FIXED.iter().find(|(name, _)| *name == word).map(|(_, color)| *color)
    };
    let mut taken = [false; LOOKS];
    let mut open = Vec::new();
    for (at, choice) in choices.iter_mut().enumerate() {
        let color = if at == 0 { Some(0) } else { wanted(choice) };
        match color.filter(|color| !taken[*color]) {
            Some(color) => {
                choice.color = color;
                taken[color] = true;
            }
            None => open.push(at),
        }
    }
    let mut next = 0;
    for at in open {
        let free = (0..LOOKS).find(|color| !taken[*color]);
        choices[at].color = free.unwrap_or_else(|| {
            next += 1;
            next % LOOKS
        });
        taken[choices[at].color] = true;
    }
}

/// Numbers of one unit, if all values are such and at least three differ.
pub fn numbers(labels: &[String]) -> Option<Numbers> {
    let found: Option<Vec<(f64, Unit)>> = labels.iter().map(|label| number(label)).collect();
    let found = found?;
    let unit = found.first()?.1;
    let mut values: Vec<f64> = found.iter().map(|(value, _)| *value).collect();
    let all = values.clone();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    (values.len() > 2 && found.iter().all(|(_, other)| *other == unit)).then_some(Numbers { unit, values: all })
}

/// A label as a number with its unit.
fn number(label: &str) -> Option<(f64, Unit)> {
    if let Ok(value) = label.parse::<f64>() {
        return value.is_finite().then_some((value, Unit::Ratio));
    }
    if let Some(percent) = label.strip_suffix('%') {
        return Some((percent.trim().parse::<f64>().ok()? / 100.0, Unit::Share));
    }
    if let Ok(span) = parse_duration(label) {
        return Some((span.as_secs_f64(), Unit::Seconds));
    }
    if let Ok(rate) = label.parse::<Rate>() {
        return Some((rate.bps() as f64, Unit::BitsPerSecond));
    }
    parse_bytes(label).ok().map(|bytes| (bytes as f64, Unit::Bytes))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::StackInfo;

    fn grid(head: &str, vary: &str) -> (Scenario, Grid) {
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\n{head}\n[path.p]\npreset = \"broadband\"\n[[flow]]\n\
             transfer = {{ download = \"1 MB\" }}\n[vary]\n{vary}\n"
        );
        let stacks = ["thalweg", "quinn"].map(StackInfo::new);
        let scenario = Scenario::parse("t.toml", &text, Path::new(""), &stacks).unwrap();
        let grid = Grid::of(&scenario);
        (scenario, grid)
    }

    fn names<T>(all: &[T], name: fn(&T) -> &String) -> Vec<&str> {
        all.iter().map(|it| name(it).as_str()).collect()
    }

    const VARY: &str = "\"path.p\" = [{ preset = \"wifi\" }, { preset = \"satellite\" }]\n\
         \"flow.0.policies\" = [{ label = \"rfc\", probe = \"rfc\" }, { label = \"shipped\" }]";

    #[test]
    fn points_are_places_and_choices_and_what_is_shipped_comes_first() {
        let (scenario, grid) = grid("rivals = [\"quinn\"]", VARY);
        assert_eq!(names(&grid.places, |place| &place.name), ["wifi", "satellite"]);
        assert_eq!(names(&grid.choices, |choice| &choice.name), ["shipped", "rfc", "quinn"]);
        assert_eq!(grid.choices.iter().map(|choice| choice.color).collect::<Vec<_>>(), [0, 1, 5]);
        assert!(grid.choices[2].is_rival);
        for (number, point) in scenario.points.iter().enumerate() {
            let (place, choice) = grid.of[number];
            assert_eq!(grid.point(place, choice), Some(number), "{:?}", point.labels);
        }
    }

    #[test]
    fn a_scenario_says_what_it_compares() {
        let (_, grid) = grid("compare = \"p\"", VARY);
        assert_eq!(names(&grid.choices, |choice| &choice.name).len(), 2);
        assert_eq!(names(&grid.places, |place| &place.name), ["rfc", "shipped"]);
    }

    #[test]
    fn what_changes_together_with_a_choice_is_part_of_it_and_names_say_only_what_tells_apart() {
        let together = "[[vary.together]]\n\"path.p.down.delay\" = [\"1 ms\", \"2 ms\", \"3 ms\"]\n\
             \"flow.0.transfer.download\" = [\"1 MB\", \"2 MB\", \"3 MB\"]\n\
             [[vary.together]]\n\"path.p.down.aqm\" = [\"tail-drop\", \"codel\"]\n\
             \"flow.0.policies.mark\" = [\"reduce\", \"end-start\"]\n";
        let (scenario, grid) = grid("compare = \"aqm\"", together);
        assert_eq!(names(&grid.choices, |choice| &choice.name), ["tail-drop", "codel"]);
        assert_eq!(names(&grid.places, |place| &place.name), ["delay = 1 ms", "delay = 2 ms", "delay = 3 ms"]);
        let numeric = grid.numeric(&scenario.axes);
        assert_eq!((numeric.len(), numeric[0].1.unit), (1, Unit::Seconds));
    }

    #[test]
    fn without_choices_there_is_one_nameless() {
        let (scenario, grid) = grid("", "\"path.p.down.rate\" = [\"1 Mbps\", \"10 Mbps\", \"100 Mbps\"]");
        assert_eq!(names(&grid.choices, |choice| &choice.name), [""]);
        let numeric = grid.numeric(&scenario.axes);
        assert_eq!(numeric.len(), 1);
        assert_eq!((numeric[0].1.unit, &numeric[0].1.values[..]), (Unit::BitsPerSecond, &[1e6, 1e7, 1e8][..]));
        assert_eq!(grid.places[0].name, "rate = 1 Mbps");
    }

    #[test]
    fn colors_do_not_repeat_before_all_are_used() {
        let names = ["shipped", "b", "quinn", "rfc", "c", "d", "e", "f"];
        let named = |name: &&str| Choice { name: (*name).to_owned(), is_rival: false, is_shipped: false, color: 0 };
        let mut choices: Vec<Choice> = names.iter().map(named).collect();
        paint(&mut choices);
        let mut colors: Vec<usize> = choices.iter().map(|choice| choice.color).collect();
        assert_eq!((colors[0], colors[2], colors[3]), (0, 5, 1));
        colors.sort_unstable();
        assert_eq!(colors, (0..COLORS).collect::<Vec<_>>());
    }
}
