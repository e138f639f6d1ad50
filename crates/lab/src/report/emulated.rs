//! The page of an emulation: its verdict, a table of the directions of its paths, and rate, queue and drops over time.

use minijinja::{Environment, context};

use super::assets::{CSS, PARTS, SAVE_JS};
use super::error::ReportError;
use super::page::serde;
use super::picture::{Course, Look, Picture, Stage, Track};
use crate::metric::Unit;

const TEMPLATE: &str = include_str!("../../assets/emulated.html");

/// A direction of a path over time. Times are in seconds; not a number where there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmulatedDirection {
    /// Of which path and which way, such as "lte down".
    pub name: String,
    /// The length of a step.
    pub step: f64,
    /// What was handed over in each step, in bits per second.
    pub rate: Vec<f64>,
    /// The mean time in queues, and the longest.
    pub sojourn: Vec<(f64, f64)>,
    /// Packets dropped.
    pub dropped: Vec<u64>,
}

/// An emulation that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Emulated {
    /// What was emulated.
    pub title: String,
    /// Its verdict, and what was wrong.
    pub verdict: Vec<String>,
    /// How long it took, in seconds.
    pub end: f64,
    /// Its directions.
    pub directions: Vec<EmulatedDirection>,
    /// Heads of the columns of the table of directions.
    pub heads: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// What else is known: names and figures.
    pub evidence: Vec<(String, String)>,
}

/// The page.
///
/// # Errors
/// When the template does not work.
pub fn emulated(emulated: &Emulated) -> Result<String, ReportError> {
    let pictures: Vec<String> = over_time(emulated).iter().map(Picture::html).collect();
    let mut environment = Environment::new();
    environment.add_template("emulated.html", TEMPLATE)?;
    environment.add_template("parts.html", PARTS)?;
    Ok(environment.get_template("emulated.html")?.render(context! {
        title => emulated.title.clone(),
        verdict => serde(&emulated.verdict),
        pictures => serde(&pictures),
        heads => serde(&emulated.heads),
        rows => serde(&emulated.rows),
        evidence => serde(&emulated.evidence),
        css => CSS,
        js => SAVE_JS,
    })?)
}

/// A figure in every step, each drawn at its beginning and its end.
fn steps(step: f64, values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let both = |(at, value): (usize, f64)| {
        let from = step * at as f64;
        [(from, value), (from + step, value)]
    };
    values.enumerate().flat_map(both).collect()
}

/// Rate, queue and drops of all directions, one above the other.
fn over_time(emulated: &Emulated) -> Option<Picture> {
    let stage = |title: &str, unit: Unit, tracks: Vec<Track>| Stage {
        title: title.to_owned(),
        unit,
        height: 130.0,
        tracks,
        keys: Vec::new(),
    };
    let colored = |values: &dyn Fn(&EmulatedDirection) -> Vec<f64>| -> Vec<Track> {
        let track = |(at, direction): (usize, &EmulatedDirection)| Track {
            look: Look::Choice(at),
            points: steps(direction.step, values(direction).into_iter()),
        };
        emulated.directions.iter().enumerate().map(track).collect()
    };
    let mut rates = stage("rate", Unit::BitsPerSecond, colored(&|direction| direction.rate.clone()));
    rates.keys =
        emulated.directions.iter().enumerate().map(|(at, each)| (Look::Choice(at), each.name.clone())).collect();
    let sojourn = |direction: &EmulatedDirection| direction.sojourn.iter().map(|(_, longest)| *longest).collect();
    let dropped = |direction: &EmulatedDirection| direction.dropped.iter().map(|count| *count as f64).collect();
    let mut stages = vec![rates, stage("longest time in a queue", Unit::Seconds, colored(&sojourn))];
    let has_drops = emulated.directions.iter().flat_map(|direction| &direction.dropped).any(|count| *count > 0);
    if has_drops {
        stages.push(stage("packets dropped", Unit::Count, colored(&dropped)));
    }
    let course = Course {
        name: "the paths over time".to_owned(),
        end: emulated.end,
        stages,
        strips: Vec::new(),
        legend: Vec::new(),
    };
    let mut csv = "seconds,what,bits_per_second,mean_sojourn,longest_sojourn,dropped\n".to_owned();
    for direction in &emulated.directions {
        let figures = direction.rate.iter().zip(&direction.sojourn).zip(&direction.dropped).enumerate();
        csv.extend(figures.map(|(at, ((rate, (mean, longest)), dropped))| {
            let second = |value: &f64| if value.is_finite() { value.to_string() } else { String::new() };
            let (start, mean, longest) = (direction.step * at as f64, second(mean), second(longest));
            format!("{start},{},{rate},{mean},{longest},{dropped}\n", direction.name)
        }));
    }
    let step = emulated.directions.first()?.step;
    Some(Picture {
        name: "paths".to_owned(),
        title: "Over time".to_owned(),
        caption: format!(
            "In steps of {step:.1} s: what was handed over, the longest time of a packet in the queue of a link, its \
             own transmission included, and what was dropped for any reason{}.",
            if has_drops { "" } else { ", which was nothing" }
        ),
        svg: course.svg()?,
        csv,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_table_and_pictures_are_on_the_page() {
        let direction = |name: &str| EmulatedDirection {
            name: name.to_owned(),
            step: 0.1,
            rate: vec![1e6, 2e6, 0.0],
            sojourn: vec![(0.01, 0.02), (0.02, 0.03), (f64::NAN, f64::NAN)],
            dropped: vec![0, 3, 0],
        };
        let mut run = Emulated {
            title: "<lte>".to_owned(),
            verdict: vec!["VALID".to_owned()],
            end: 0.3,
            directions: vec![direction("lte up"), direction("lte down")],
            heads: vec!["way".to_owned(), "packets".to_owned()],
            rows: vec![vec!["up".to_owned(), "17".to_owned()]],
            evidence: vec![("seed".to_owned(), "1".to_owned())],
        };
        let page = emulated(&run).unwrap();
        for part in ["&lt;lte&gt;", "VALID", "data-name=\"paths\"", "<td class=\"n\">17</td>", "0.1,lte down,2000000"] {
            assert!(page.contains(part), "{part}");
        }
        for wrong in ["NaN", "inf\"", "src=\"http", "@import", "<lte>"] {
            assert!(!page.contains(wrong), "{wrong}");
        }
        // Nothing crossed it.
        run.directions.clear();
        assert!(!emulated(&run).unwrap().contains("<figure"));
    }
}
