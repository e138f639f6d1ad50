//! Quantities over time: a panel for each, one below the other, over one axis of time. Lines have the color of their
//! choice, or one for each state of the sender; strips show the states beside lines that have another color.

use std::collections::BTreeMap;

use super::ink::{Ink, Legend, Sample, WIDTH, colored};
use super::scale::{Reading, Scale};
use crate::metric::Unit;
use crate::report::assets::STATES;

/// When states began, in seconds, and their names. Each lasts until the next; a nameless one is not drawn.
pub type States = Vec<(f64, String)>;

/// When each state began and ended, and its name; the last ends at `end`.
pub fn spans(states: &[(f64, String)], end: f64) -> impl Iterator<Item = (f64, f64, &str)> {
    let ends = states.iter().skip(1).map(|(next, _)| *next).chain([end]);
    states.iter().zip(ends).map(|((from, state), until)| (*from, until, state.as_str()))
}

/// What a line looks like.
#[derive(Clone, Debug)]
pub enum Look {
    /// The color of a choice.
    Choice(usize),
    /// A color for each state.
    States(States),
    /// Thin, for a quantity beside one in the colors of its states.
    Beside,
    /// Dashed, for a bound: in the color of a choice, or plain.
    Bound(Option<usize>),
}

impl Look {
    /// The color of what is beside a line in the colors of its states: no state has it.
    const BESIDE: usize = 3;

    fn class(&self) -> String {
        match self {
            Look::Choice(color) => colored("curve", *color),
            Look::States(_) => "curve".to_owned(),
            Look::Beside => colored("curve fine", Look::BESIDE),
            Look::Bound(Some(color)) => colored("curve fine dashed", *color),
            Look::Bound(None) => "curve fine dashed bound".to_owned(),
        }
    }
}

/// A line.
#[derive(Clone, Debug)]
pub struct Track {
    /// Its look.
    pub look: Look,
    /// Seconds, ascending, and values; each is valid until the next. None is drawn of one that is not finite.
    pub points: Vec<(f64, f64)>,
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What it shows.
    pub title: String,
    /// How its values read.
    pub unit: Unit,
    /// Height of the plot area.
    pub height: f64,
    /// Its lines: the first lies on top.
    pub tracks: Vec<Track>,
    /// Explains looks that are not in the legend.
    pub keys: Vec<(Look, String)>,
}

/// The picture.
#[derive(Clone, Debug)]
pub struct Course {
    /// What it shows, for those who cannot see it.
    pub name: String,
    /// Where time ends, in seconds.
    pub end: f64,
    /// From top to bottom.
    pub stages: Vec<Stage>,
    /// The states of each choice, below the first panel.
    pub strips: Vec<(usize, States)>,
    /// Which color is which choice; may be empty.
    pub legend: Legend,
}

/// Room for ticks and titles on the left.
const LEFT: f64 = 96.0;
const RIGHT: f64 = WIDTH - 26.0;
/// Room between panels.
const GAP: f64 = 22.0;
/// Height of a strip, and room from one to the next.
const STRIP: (f64, f64) = (8.0, 12.0);

impl Course {
    /// As SVG; none if no value can be drawn.
    pub fn svg(&self) -> Option<String> {
        let across = Scale::new([self.end].into_iter(), &[0.0], (LEFT, RIGHT), Reading::Unit(Unit::Seconds))?;
        let colors = Colors::new(self);
        let mut ink = Ink::new();
        let mut y = ink.legend(&self.legend, (LEFT, 0.0));
        y += ink.keys(&colors.keys(), (LEFT, y));
        let mut bottom = None;
        for (at, stage) in self.stages.iter().enumerate() {
            let keys: Vec<(Sample, String)> =
                stage.keys.iter().map(|(look, name)| (Sample::Line(look.class()), name.clone())).collect();
            y += ink.keys(&keys, (LEFT, y)) + 6.0;
            let Some(up) = stage.scale(y) else { continue };
            if let Some((top, above)) = bottom.take() {
                for tick in &across.ticks {
                    ink.line("grid", (across.at(*tick), top), (across.at(*tick), above));
                }
            }
            stage.draw(&mut ink, &across, &up, &colors);
            bottom = Some((y, y + stage.height));
            y += stage.height;
            if at == 0 {
                y = self.draw_strips(&mut ink, &across, &colors, y);
            }
            y += GAP;
        }
        let (top, last) = bottom?;
        // The strips of a single panel lie between it and its ticks.
        let below = if self.stages.len() == 1 { y - GAP } else { last };
        across.draw_below(&mut ink, (top, below), "time since the first event");
        Some(ink.finish(below + 44.0, &self.name))
    }

    fn draw_strips(&self, ink: &mut Ink, across: &Scale, colors: &Colors, top: f64) -> f64 {
        let mut y = top + 6.0;
        for (color, states) in &self.strips {
            ink.mark(*color, (LEFT - 12.0, y + STRIP.0 / 2.0), 4.0, "");
            // A path for each state, as there may be many of each.
            let mut paths: BTreeMap<&str, String> = BTreeMap::new();
            for (from, until, state) in spans(states, self.end).filter(|(.., state)| !state.is_empty()) {
                let (left, right) = (across.at(from), across.at(until).max(across.at(from) + 0.1));
                *paths.entry(state).or_default() += &format!("M{left:.1} {:.1}H{right:.1}", y + STRIP.0 / 2.0);
            }
            for (state, d) in &paths {
                ink.stroke(&format!("strip {}", colors.class(state)), d, Some(STRIP.0));
            }
            y += STRIP.1;
        }
        if self.strips.is_empty() { top } else { y }
    }
}

impl Stage {
    fn scale(&self, top: f64) -> Option<Scale> {
        let values = || self.tracks.iter().flat_map(|track| &track.points).map(|(_, value)| *value);
        let (low, high) = values().fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)));
        // Round trips that are all alike are not shown from zero on.
        let must: &[f64] = if self.unit == Unit::Seconds && low > 0.5 * high { &[] } else { &[0.0] };
        Scale::new(values(), must, (top + self.height, top), Reading::Unit(self.unit))
    }

    fn draw(&self, ink: &mut Ink, across: &Scale, up: &Scale, colors: &Colors) {
        up.draw_left(ink, (LEFT, RIGHT));
        let middle = (up.span.0 + up.span.1) / 2.0;
        ink.upward("axis", (LEFT - up.widest() - 18.0, middle), self.height + GAP, &self.title);
        for track in self.tracks.iter().rev() {
            let Look::States(states) = &track.look else {
                let mut d = String::new();
                steps(&mut d, &track.points, (0.0, f64::INFINITY), across, up);
                ink.path(&track.look.class(), &d);
                continue;
            };
            // A path for each state: the state before the first has no color of its own.
            let mut paths: BTreeMap<&str, String> = BTreeMap::new();
            let first = states.first().map_or(f64::INFINITY, |state| state.0);
            steps(paths.entry("").or_default(), &track.points, (0.0, first), across, up);
            for (from, until, state) in spans(states, f64::INFINITY) {
                steps(paths.entry(state).or_default(), &track.points, (from, until), across, up);
            }
            for (state, d) in paths.iter().filter(|(_, d)| !d.is_empty()) {
                let class = if state.is_empty() { "bound".to_owned() } else { colors.class(state) };
                ink.path(&format!("{} {class}", track.look.class()), d);
            }
        }
    }
}

/// Adds the part of a line between two times, whose values hold until the next. It begins at the value before, so that
/// a step at the beginning of a state has the color of that state.
fn steps(d: &mut String, points: &[(f64, f64)], (from, until): (f64, f64), across: &Scale, up: &Scale) {
    let first = points.partition_point(|point| point.0 < from).saturating_sub(1);
    let last = points.partition_point(|point| point.0 < until);
    let Some(part) = points.get(first..last).filter(|part| !part.is_empty()) else { return };
    let mut pen = None;
    for (time, value) in part {
        let (x, to) = (across.at(time.max(from)), up.at(*value));
        match pen {
            Some(_) if !value.is_finite() => {
                *d += &format!("H{x:.1}");
                pen = None;
                continue;
            }
            None if !value.is_finite() => continue,
            None => *d += &format!("M{x:.1} {to:.1}"),
            // What is not seen to move needs no step.
            Some(y) if f64::abs(to - y) < 0.05 => continue,
            Some(_) => *d += &format!("H{x:.1}V{to:.1}"),
        }
        pen = Some(to);
    }
    if pen.is_some() {
        // Until the next value, in the color of this state.
        let end = points.get(last).map_or(part[part.len() - 1].0, |next| next.0).min(until);
        *d += &format!("H{:.1}", across.at(end));
    }
}

/// The colors of the states of a picture, in the order in which the table has them.
struct Colors {
    table: BTreeMap<String, String>,
    shown: Vec<String>,
}

impl Colors {
    fn new(course: &Course) -> Colors {
        let table: BTreeMap<String, String> = serde_json::from_str(STATES).unwrap_or_default();
        let of_tracks = course.stages.iter().flat_map(|stage| &stage.tracks).filter_map(|track| match &track.look {
            Look::States(states) => Some(states),
            _ => None,
        });
        let mut shown: Vec<String> = Vec::new();
        for (_, state) in of_tracks.chain(course.strips.iter().map(|strip| &strip.1)).flatten() {
            if !state.is_empty() && !shown.contains(state) {
                shown.push(state.clone());
            }
        }
        Colors { table, shown }
    }

    /// The class that has the color of a state; one that is not in the table takes a color that its name decides.
    fn class(&self, state: &str) -> String {
        const OTHERS: [&str; 3] = ["s5", "s6", "s7"];
        self.table.get(state).cloned().unwrap_or_else(|| {
            let sum = state.encode_utf16().fold(0, |sum, letter| (sum * 31 + u32::from(letter)) % 9973);
            OTHERS[sum as usize % OTHERS.len()].to_owned()
        })
    }

    fn keys(&self) -> Vec<(Sample, String)> {
        let block = |state: &String| (Sample::Block(format!("block {}", self.class(state))), state.clone());
        self.shown.iter().map(block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(look: Look, strips: Vec<(usize, States)>) -> Course {
        let points = vec![(0.0, 10.0), (1.0, 20.0), (2.0, 5.0), (4.0, 8.0)];
        let stage = Stage {
            title: "window".to_owned(),
            unit: Unit::Bytes,
            height: 100.0,
            tracks: vec![Track { look, points }],
            keys: Vec::new(),
        };
        Course { name: "w".to_owned(), end: 4.0, stages: vec![stage], strips, legend: Vec::new() }
    }

    fn states() -> States {
        vec![(0.0, "slow start".to_owned()), (2.0, "recovery".to_owned()), (3.0, "something else".to_owned())]
    }

    #[test]
    fn a_step_has_the_color_of_the_state_that_begins_with_it() {
        let svg = course(Look::States(states()), Vec::new()).svg().unwrap();
        let path = |class: &str| {
            let from = svg.split(&format!("<path class=\"curve {class}\" d=\"")).nth(1).unwrap();
            from.split('"').next().unwrap().to_owned()
        };
        let (start, recovery) = (path("s2"), path("s1"));
        // 4 s reach from 96 to 854.
        assert_eq!(start.matches('V').count(), 1, "one step up: {start}");
        assert!(start.ends_with("H475.0") && recovery.starts_with("M475.0 "), "{start} {recovery}");
        assert_eq!(recovery.matches('V').count(), 1, "the step down: {recovery}");
        assert!(recovery.ends_with("H664.5"), "{recovery}");
        assert!(svg.contains(">something else<"), "a state that nobody knows is in the legend, too");
    }

    #[test]
    fn strips_end_where_a_nameless_state_begins() {
        let mut strip = states();
        strip.push((3.5, String::new()));
        let svg = course(Look::Choice(0), vec![(0, strip)]).svg().unwrap();
        assert_eq!(svg.matches("class=\"strip ").count(), 3);
        assert!(svg.contains("H759.2\"") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_line_has_a_gap_where_it_has_no_value() {
        let mut gap = course(Look::Choice(0), Vec::new());
        gap.stages[0].tracks[0].points[1].1 = f64::NAN;
        let svg = gap.svg().unwrap();
        let d = svg.split("<path class=\"curve c0\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(d.matches('M').count(), 2, "{d}");
        assert!(d.contains("H285.5M475.0") && !svg.contains("NaN"), "{d}");
    }

    #[test]
    fn nothing_to_draw_is_no_picture() {
        let mut empty = course(Look::Choice(0), Vec::new());
        empty.stages[0].tracks.clear();
        assert!(empty.svg().is_none());
    }
}
