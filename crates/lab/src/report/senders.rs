//! The page of what senders did over time, read from traces: windows, thresholds, bytes in flight and round-trip times
//! with the states of congestion control, of several senders over each other.

use minijinja::{Environment, context};
use serde::Serialize;

use super::assets::{CSS, PARTS, SAVE_JS};
use super::error::ReportError;
use super::page::serde;
use super::picture::{Course, Look, Picture, Stage, Track, spans};
use super::{thin, words};
use crate::choices::LOOKS;
use crate::metric::{self, Unit};
use crate::record::Series;

const TEMPLATE: &str = include_str!("../../assets/senders.html");

/// What one sender did over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sender {
    /// Its name in legends, such as that of a file.
    pub name: String,
    /// What else is known of it; may be empty.
    pub about: String,
    /// How long it was watched, in seconds.
    pub end: f64,
    /// The congestion window, in bytes.
    pub window: Series,
    /// The slow-start threshold, in bytes; without points or not a number while there is none.
    pub threshold: Series,
    /// Bytes in flight.
    pub in_flight: Series,
    /// The round-trip time, in seconds.
    pub round_trip: Series,
    /// When each state of congestion control began, in seconds, and its name.
    pub states: Vec<(f64, String)>,
    /// When each cause of slowness showed: from and until, in seconds, and its name; one strip each.
    pub causes: Vec<(String, Vec<(f64, f64)>)>,
}

impl Sender {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        [&self.window, &self.in_flight, &self.round_trip].iter().all(|series| series.t.is_empty())
    }
}

/// Points of all lines of a page: each takes about 13 bytes.
const MOST_POINTS: usize = 16_000;
/// Of one line: two per pixel of a wide screen, and enough to see the course.
const POINTS: (usize, usize) = (160, 2_000);

/// The page. Of several senders the first picture has all over each other, and each has one of its own.
///
/// # Errors
/// When the template does not work.
pub fn senders(title: &str, senders: &[Sender]) -> Result<String, ReportError> {
    page(title, &words::count(senders.len() as u64, "trace"), "", senders)
}

/// The page of one sender, with the sentence that says what made it slow, the whole answer as text, and its causes as
/// spans of color below the window.
///
/// # Errors
/// When the template does not work.
pub fn explained(sentence: &str, answer: &str, sender: &Sender) -> Result<String, ReportError> {
    page(&sender.name, sentence, answer, core::slice::from_ref(sender))
}

fn page(title: &str, facts: &str, answer: &str, senders: &[Sender]) -> Result<String, ReportError> {
    let pictures = if senders.len() > 1 { senders.len() + 1 } else { 1 };
    // In the first picture as many lines as in all others together.
    let lines = 4 * senders.len() * pictures.min(2);
    let most = (MOST_POINTS / lines.max(1)).clamp(POINTS.0, POINTS.1);
    let drawn: Vec<Drawn<'_>> = senders.iter().map(|sender| Drawn::new(sender, most)).collect();
    let alone: Vec<String> = drawn.iter().enumerate().filter_map(|(at, one)| Some(one.alone(at)?.html())).collect();
    let together = if drawn.len() > 1 { together(title, &drawn) } else { None };
    let rows: Vec<Row> = drawn.iter().map(Drawn::row).collect();
    let mut environment = Environment::new();
    environment.add_template("senders.html", TEMPLATE)?;
    environment.add_template("parts.html", PARTS)?;
    Ok(environment.get_template("senders.html")?.render(context! {
        title => title,
        facts => facts,
        answer => answer,
        together => together.as_ref().map(Picture::html),
        alone => serde(&alone),
        rows => serde(&rows),
        css => CSS,
        js => SAVE_JS,
    })?)
}

/// A sender with as many points as a page has room for.
struct Drawn<'s> {
    sender: &'s Sender,
    window: Vec<(f64, f64)>,
    threshold: Vec<(f64, f64)>,
    in_flight: Vec<(f64, f64)>,
    round_trip: Vec<(f64, f64)>,
    states: Vec<(f64, String)>,
}

/// A line of the table.
#[derive(Serialize)]
struct Row {
    name: String,
    about: String,
    lasted: String,
    window: String,
    round_trip: String,
    states: String,
}

impl<'s> Drawn<'s> {
    fn new(sender: &'s Sender, most: usize) -> Drawn<'s> {
        let points = |series: &Series| {
            let kept = thin::kept(series, most).into_iter().map(|at| (series.t[at], series.v[at]));
            let mut points: Vec<(f64, f64)> = kept.collect();
            // The last value holds until the end.
            points.extend(points.last().filter(|last| last.0 < sender.end).map(|last| (sender.end, last.1)));
            points
        };
        let span = Series { t: vec![sender.end], states: sender.states.clone(), ..Series::default() };
        let (kinds, begun) = thin::visible_states(&span);
        Drawn {
            sender,
            window: points(&sender.window),
            threshold: points(&sender.threshold),
            in_flight: points(&sender.in_flight),
            round_trip: points(&sender.round_trip),
            states: begun.into_iter().map(|(at, kind)| (at as f64 * 1e-6, kinds[kind].clone())).collect(),
        }
    }

    /// The picture of this sender, its window in the colors of its states.
    fn alone(&self, at: usize) -> Option<Picture> {
        let track = |look: Look, points: &[(f64, f64)]| Track { look, points: points.to_vec() };
        let keys = [
            (Look::Bound(None), "slow-start threshold", &self.threshold),
            (Look::Beside, "bytes in flight", &self.in_flight),
        ];
        let keys = keys.into_iter().filter(|(_, _, points)| !points.is_empty());
        let by_state = || Look::States(self.states.clone());
        let course = Course {
            name: format!("congestion window, bytes in flight and round-trip time of {}", self.sender.name),
            end: self.sender.end,
            stages: vec![
                Stage {
                    title: "congestion window".to_owned(),
                    unit: Unit::Bytes,
                    height: 250.0,
                    tracks: vec![
                        track(Look::Bound(None), &self.threshold),
                        track(by_state(), &self.window),
                        track(Look::Beside, &self.in_flight),
                    ],
                    keys: keys.map(|(look, name, _)| (look, name.to_owned())).collect(),
                },
                Stage {
                    title: "RTT".to_owned(),
                    unit: Unit::Seconds,
                    height: 140.0,
                    tracks: vec![track(by_state(), &self.round_trip)],
                    keys: Vec::new(),
                },
            ],
            strips: self.causes(),
            legend: Vec::new(),
        };
        let below = if self.sender.causes.is_empty() { "" } else { " Below the window: when each cause showed." };
        let states = if self.states.is_empty() { " The trace says nothing of states." } else { "" };
        Some(Picture {
            name: format!("sender-{}", at + 1),
            title: self.sender.name.clone(),
            caption: format!(
                "Congestion window and RTT in the color of the state; the RTT is smoothed where the trace has that.{states}{below}"
            ),
            svg: course.svg()?,
            csv: String::new(),
        })
    }

    /// A strip for each cause, with nothing between its spans.
    fn causes(&self) -> Vec<(usize, Vec<(f64, String)>)> {
        let mut strips = Vec::new();
        for (at, (name, spans)) in self.sender.causes.iter().enumerate() {
            let marks = spans.iter().flat_map(|(from, until)| [(*from, name.clone()), (*until, String::new())]);
            strips.push((at % LOOKS, marks.collect()));
        }
        strips
    }

    fn row(&self) -> Row {
        let range = |series: &Series| {
            let finite = series.v.iter().copied();
            finite.fold(None, |range: Option<(f64, f64)>, value| {
                Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
            })
        };
        let say = |value: f64, unit: Unit| metric::format(value, unit);
        let rtt = range(&self.sender.round_trip);
        let none = || "–".to_owned();
        Row {
            name: self.sender.name.clone(),
            about: self.sender.about.clone(),
            lasted: say(self.sender.end, Unit::Seconds),
            window: range(&self.sender.window).map_or_else(none, |(_, most)| say(most, Unit::Bytes)),
            round_trip: rtt.map_or_else(none, |(least, most)| {
                format!("{} … {}", say(least, Unit::Seconds), say(most, Unit::Seconds))
            }),
            states: shares(&self.sender.states, self.sender.end),
        }
    }
}

/// "slow start 12.0 %, recovery 3.5 %", in the order of their first appearance.
fn shares(states: &[(f64, String)], end: f64) -> String {
    let mut spent: Vec<(&str, f64)> = Vec::new();
    for (from, until, state) in spans(states, end) {
        match spent.iter_mut().find(|(known, _)| *known == state) {
            Some((_, sum)) => *sum += until - from,
            None => spent.push((state, until - from)),
        }
    }
    let total: f64 = spent.iter().map(|(_, lasted)| lasted).sum();
    let share = |lasted: f64| if total > 0.0 { lasted / total } else { 0.0 };
    let texts = spent.iter().map(|(state, lasted)| format!("{state} {:.1} %", 100.0 * share(*lasted)));
    texts.collect::<Vec<_>>().join(", ")
}

/// All senders over each other, in one color each.
fn together(title: &str, all: &[Drawn<'_>]) -> Option<Picture> {
    let color = |at: usize| at % LOOKS;
    let tracks = |points: for<'d> fn(&'d Drawn<'_>) -> &'d Vec<(f64, f64)>, look: fn(usize) -> Look| -> Vec<Track> {
        let drawn =
            all.iter().enumerate().map(|(at, one)| Track { look: look(color(at)), points: points(one).clone() });
        drawn.filter(|track| !track.points.is_empty()).collect()
    };
    let stage = |title: &str, unit: Unit, height: f64, tracks: Vec<Track>| Stage {
        title: title.to_owned(),
        unit,
        height,
        tracks,
        keys: Vec::new(),
    };
    let mut windows = tracks(|one| &one.window, Look::Choice);
    let thresholds = tracks(|one| &one.threshold, |color| Look::Bound(Some(color)));
    let dashed = if thresholds.is_empty() { "" } else { " Dashed: slow-start thresholds." };
    windows.extend(thresholds);
    let strips: Vec<(usize, Vec<(f64, String)>)> = all
        .iter()
        .enumerate()
        .filter(|(_, one)| !one.states.is_empty())
        .map(|(at, one)| {
            // A state ends with the trace, which need not be the longest.
            let mut states = one.states.clone();
            states.push((one.sender.end, String::new()));
            (color(at), states)
        })
        .collect();
    let below = if strips.is_empty() { "" } else { " Below the window: the state of each sender." };
    let course = Course {
        name: title.to_owned(),
        end: all.iter().map(|one| one.sender.end).fold(0.0, f64::max),
        stages: vec![
            stage("congestion window", Unit::Bytes, 250.0, windows),
            stage("bytes in flight", Unit::Bytes, 150.0, tracks(|one| &one.in_flight, Look::Choice)),
            stage("RTT", Unit::Seconds, 150.0, tracks(|one| &one.round_trip, Look::Choice)),
        ],
        strips,
        legend: all.iter().enumerate().map(|(at, one)| (one.sender.name.clone(), color(at))).collect(),
    };
    Some(Picture {
        name: "senders".to_owned(),
        title: "All traces over each other".to_owned(),
        caption: format!(
            "Time is counted from the first event of each trace; the RTT is smoothed where a trace has that.{dashed}{below}"
        ),
        svg: course.svg()?,
        csv: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: &[(f64, f64)]) -> Series {
        Series { t: points.iter().map(|p| p.0).collect(), v: points.iter().map(|p| p.1).collect(), ..Series::default() }
    }

    fn sender(name: &str, end: f64) -> Sender {
        Sender {
            name: name.to_owned(),
            about: String::new(),
            end,
            window: series(&[(0.0, 14_000.0), (end / 2.0, 70_000.0)]),
            threshold: series(&[(end / 2.0, 70_000.0)]),
            in_flight: series(&[(0.0, 12_000.0), (end, 60_000.0)]),
            round_trip: series(&[(0.1, 0.1), (end, 0.15)]),
            states: vec![(0.0, "slow start".to_owned()), (end / 2.0, "recovery".to_owned())],
            causes: Vec::new(),
        }
    }

    #[test]
    fn causes_are_spans_below_the_window_and_the_answer_stands_above() {
        let causes = vec![
            ("interruptions".to_owned(), vec![(0.5, 0.7), (1.0, 1.5)]),
            ("random loss".to_owned(), vec![(0.6, 0.8)]),
        ];
        let page = explained("Slow <because>", "try\n  a & b", &Sender { causes, ..sender("quic", 2.0) }).unwrap();
        assert!(page.contains("<h1>Slow &lt;because&gt;</h1>") && page.contains("a &amp; b"), "{page}");
        for part in [">interruptions<", ">random loss<", "when each cause showed"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("class=\"strip ").count(), 2);
        let plain = senders("one", &[sender("quic", 2.0)]).unwrap();
        assert!(!plain.contains("class=\"strip ") && !plain.contains("<pre"));
    }

    #[test]
    fn every_sender_is_named_and_every_state_has_its_color() {
        let page = senders("two", &[sender("quic <a>", 4.0), sender("tcp", 8.0)]).unwrap();
        assert!(page.contains("quic &lt;a&gt;") && !page.contains("quic <a>"));
        for part in [">tcp<", "curve s2", "curve s1", "strip s2", "strip s1", ">slow start<", ">recovery<", "dashed c0"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<figure").count(), 3, "all over each other, and each by itself");
        assert!(page.contains("slow start 50.0 %, recovery 50.0 %"));
        for wrong in ["NaN", "inf\"", "src=\"http", "@import"] {
            assert!(!page.contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn one_sender_has_one_picture_and_what_is_not_known_is_left_out() {
        let bare = Sender { threshold: Series::default(), states: Vec::new(), ..sender("quic", 2.0) };
        let page = senders("one", &[bare]).unwrap();
        assert_eq!(page.matches("<figure").count(), 1);
        assert!(!page.contains(">slow-start threshold<") && page.contains(">bytes in flight<"));
        let whole = senders("one", &[sender("quic", 2.0)]).unwrap();
        assert!(whole.contains(">slow-start threshold<"));
    }

    #[test]
    fn a_page_of_long_traces_stays_small() {
        let long: Vec<(f64, f64)> =
            (0..200_000_u32).map(|at| (f64::from(at) * 1e-3, f64::from(at * 7_919 % 9_973))).collect();
        let mut one = sender("quic", 200.0);
        for series_of in [&mut one.window, &mut one.in_flight, &mut one.round_trip] {
            *series_of = series(&long);
        }
        one.states = (0..50_000_u32)
            .map(|at| (f64::from(at) * 4e-3, if at % 2 == 0 { "recovery" } else { "congestion avoidance" }.to_owned()))
            .collect();
        for count in [1, 2, 6] {
            let page = senders("long", &vec![one.clone(); count]).unwrap();
            assert!(page.len() < 400_000, "{count}: {}", page.len());
        }
    }
}
