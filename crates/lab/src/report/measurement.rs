//! The page of a path that was measured: round-trip times and one-way delays over time, suspensions magnified, their
//! distribution, and a table of events.

use minijinja::{Environment, context};

use super::assets::{CSS, PARTS, SAVE_JS};
use super::error::ReportError;
use super::page::serde;
use super::picture::{Course, Curve, Lines, Look, Picture, Reading, Stage, Track};
use super::thin;
use crate::metric::{self, Unit};
use crate::record::Series;

const TEMPLATE: &str = include_str!("../../assets/measurement.html");

/// A delay over time. Times and delays are in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DelayCourse {
    /// What is delayed, such as "round trip".
    pub name: String,
    /// When, the median and the greatest of that time.
    pub points: Vec<(f64, f64, f64)>,
    /// Share of all that do not exceed a delay: the delays of so many equal steps from 0 to 1.
    pub quantiles: Vec<f64>,
}

impl DelayCourse {
    /// Delays, and the share of all that do not exceed each.
    fn shares(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let steps = self.quantiles.len().saturating_sub(1).max(1) as f64;
        self.quantiles.iter().enumerate().map(move |(at, delay)| (*delay, at as f64 / steps))
    }
}

/// When datagrams were sent, and how long each took, in seconds; not a number for one that was lost.
pub type Delays = Vec<(f64, f64)>;

/// A time shown datagram by datagram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Magnified {
    /// What happened.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// The delays of each way, with its name.
    pub ways: Vec<(String, Delays)>,
}

/// A path that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// What was found, as a sentence.
    pub sentence: String,
    /// What was measured, when and for how long.
    pub facts: String,
    /// What it means: for whom, and what.
    pub meaning: Vec<(String, String)>,
    /// What the sentence rests on: names and figures.
    pub evidence: Vec<(String, String)>,
    /// How long it was measured, in seconds.
    pub end: f64,
    /// Delays over time.
    pub courses: Vec<DelayCourse>,
    /// Times shown datagram by datagram.
    pub magnified: Vec<Magnified>,
    /// Heads of the columns of the table of events.
    pub heads: Vec<String>,
    /// Its rows.
    pub events: Vec<Vec<String>>,
    /// Events that are not in the table.
    pub more: u64,
}

/// Points of a line: two per pixel of a wide screen.
const POINTS: usize = 2_000;

/// The page.
///
/// # Errors
/// When the template does not work.
pub fn measurement(measurement: &Measurement) -> Result<String, ReportError> {
    let mut pictures: Vec<Picture> = over_time(measurement).into_iter().collect();
    pictures.extend(measurement.magnified.iter().enumerate().filter_map(|(at, part)| magnified(at, part)));
    pictures.extend(distribution(measurement));
    let pictures: Vec<String> = pictures.iter().map(Picture::html).collect();
    let mut environment = Environment::new();
    environment.add_template("measurement.html", TEMPLATE)?;
    environment.add_template("parts.html", PARTS)?;
    Ok(environment.get_template("measurement.html")?.render(context! {
        title => measurement.sentence.clone(),
        facts => measurement.facts.clone(),
        meaning => serde(&measurement.meaning),
        evidence => serde(&measurement.evidence),
        pictures => serde(&pictures),
        heads => serde(&measurement.heads),
        events => serde(&measurement.events),
        more => measurement.more,
        css => CSS,
        js => SAVE_JS,
    })?)
}

/// A line with as many points as can be seen.
fn thinned(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let (t, v) = points.unzip();
    let series = Series { t, v, ..Series::default() };
    thin::kept(&series, POINTS).into_iter().map(|at| (series.t[at], series.v[at])).collect()
}

fn over_time(measurement: &Measurement) -> Option<Picture> {
    let stage = |(at, course): (usize, &DelayCourse)| {
        let greatest = thinned(course.points.iter().map(|(t, _, most)| (*t, *most)));
        let median = thinned(course.points.iter().map(|(t, median, _)| (*t, *median)));
        Stage {
            title: course.name.clone(),
            unit: Unit::Seconds,
            height: if at == 0 { 190.0 } else { 130.0 },
            tracks: vec![
                Track { look: Look::Choice(at), points: median },
                Track { look: Look::Beside, points: greatest },
            ],
            keys: match at {
                0 => vec![
                    (Look::Choice(0), "median of a second".to_owned()),
                    (Look::Beside, "greatest of a second".to_owned()),
                ],
                _ => Vec::new(),
            },
        }
    };
    let course = Course {
        name: "delays over time".to_owned(),
        end: measurement.end,
        stages: measurement.courses.iter().enumerate().map(stage).collect(),
        strips: Vec::new(),
        legend: Vec::new(),
    };
    let mut csv = "seconds,what,median,greatest\n".to_owned();
    for course in &measurement.courses {
        let lines = course.points.iter().map(|(t, median, most)| format!("{t},{},{median},{most}\n", course.name));
        csv.extend(lines);
    }
    Some(Picture {
        name: "delays".to_owned(),
        title: "Delays over time".to_owned(),
        caption: "Of each second the median and the greatest delay. A gap is a second in which nothing arrived."
            .to_owned(),
        svg: course.svg()?,
        csv,
    })
}

fn magnified(at: usize, part: &Magnified) -> Option<Picture> {
    let curve = |(color, (name, points)): (usize, &(String, Delays))| {
        let arrived = || points.iter().filter(|(_, delay)| delay.is_finite());
        let say = |value: f64| metric::format(value, Unit::Seconds);
        Curve {
            color,
            points: arrived().map(|(sent, delay)| (*sent, *delay, None)).collect(),
            titles: arrived().map(|(sent, delay)| format!("{name}, sent at {sent:.3} s: {}", say(*delay))).collect(),
            is_marked: true,
            is_dashed: false,
        }
    };
    let lines = Lines {
        name: part.title.clone(),
        across: ("sent, since the first datagram".to_owned(), Reading::Unit(Unit::Seconds)),
        up: ("one-way delay".to_owned(), Reading::Unit(Unit::Seconds)),
        panels: vec![(String::new(), part.ways.iter().enumerate().map(curve).collect())],
        legend: part.ways.iter().enumerate().map(|(color, (name, _))| (name.clone(), color)).collect(),
        from_zero: true,
        is_across: false,
    };
    let rows = part.ways.iter().flat_map(|(name, points)| {
        points.iter().map(move |(sent, delay)| match delay.is_finite() {
            true => format!("{sent},{name},{delay}\n"),
            false => format!("{sent},{name},lost\n"),
        })
    });
    Some(Picture {
        name: format!("event-{}", at + 1),
        title: part.title.clone(),
        caption: part.caption.clone(),
        svg: lines.svg()?,
        csv: ["sent,way,delay\n".to_owned()].into_iter().chain(rows).collect(),
    })
}

fn distribution(measurement: &Measurement) -> Option<Picture> {
    let curve = |(color, course): (usize, &DelayCourse)| {
        let points = course.shares().map(|(delay, share)| (delay, share, None)).collect();
        Curve { color, points, titles: Vec::new(), is_marked: false, is_dashed: false }
    };
    let courses = || measurement.courses.iter().enumerate();
    let lines = Lines {
        name: "distribution of delays".to_owned(),
        across: ("delay".to_owned(), Reading::Unit(Unit::Seconds)),
        up: ("share that takes no longer".to_owned(), Reading::Unit(Unit::Share)),
        panels: vec![(String::new(), courses().map(curve).collect())],
        legend: courses().map(|(color, course)| (course.name.clone(), color)).collect(),
        from_zero: true,
        is_across: false,
    };
    let mut csv = "what,share,delay\n".to_owned();
    for (_, course) in courses() {
        csv.extend(course.shares().map(|(delay, share)| format!("{},{share},{delay}\n", course.name)));
    }
    Some(Picture {
        name: "distribution".to_owned(),
        title: "Distribution of delays".to_owned(),
        caption: format!("Datagrams that arrived.{}", lines.beneath()),
        svg: lines.svg()?,
        csv,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measurement {
        let course = |name: &str| DelayCourse {
            name: name.to_owned(),
            points: (0..600).map(|at| (f64::from(at), 0.004, if at == 30 { 0.25 } else { 0.008 })).collect(),
            quantiles: (0..=100).map(|at| 0.002 * f64::from(at + 1)).collect(),
        };
        Measurement {
            sentence: "A link <stopped> 18 times".to_owned(),
            facts: "192.0.2.1".to_owned(),
            meaning: vec![("calls".to_owned(), "18 interruptions".to_owned())],
            evidence: vec![("round trip".to_owned(), "median 4 ms".to_owned())],
            end: 600.0,
            courses: ["round trip", "up", "down"].map(course).into(),
            magnified: vec![Magnified {
                title: "30 s".to_owned(),
                caption: "one way".to_owned(),
                ways: vec![("up".to_owned(), vec![(30.0, 0.25), (30.02, f64::NAN), (30.04, 0.21)])],
            }],
            heads: vec!["start".to_owned(), "way".to_owned()],
            events: vec![vec!["30 s".to_owned(), "up".to_owned()]],
            more: 2,
        }
    }

    #[test]
    fn everything_is_on_the_page() {
        let page = measurement(&measured()).unwrap();
        for part in ["&lt;stopped&gt;", "data-name=\"delays\"", "data-name=\"event-1\"", "data-name=\"distribution\""] {
            assert!(page.contains(part), "{part}");
        }
        assert!(
            page.contains("<td>30 s</td><td>up</td>") && page.contains("and 2 more") && page.contains(",up,lost\n")
        );
        for wrong in ["NaN", "inf\"", "src=\"http", "@import", "<stopped>"] {
            assert!(!page.contains(wrong), "{wrong}");
        }
        assert_eq!(page, measurement(&measured()).unwrap());
    }

    #[test]
    fn a_day_stays_small_and_nothing_is_a_page_too() {
        let mut day = measured();
        for course in &mut day.courses {
            course.points = (0..86_400).map(|at| (f64::from(at), 0.004, f64::from(at % 977) * 1e-3)).collect();
        }
        day.end = 86_400.0;
        let page = measurement(&day).unwrap();
        let without_csv = page.split("<script type=\"text/csv\">").next().unwrap();
        assert!(without_csv.len() < 300_000, "{}", without_csv.len());
        let nothing = measurement(&Measurement::default()).unwrap();
        assert!(!nothing.contains("<figure") && !nothing.contains("id=\"events\""));
    }
}
