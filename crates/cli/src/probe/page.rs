//! A measurement as a page that opens from a file.

use std::time::Duration;

use thalweg_lab::report::{self, DelayCourse, Magnified, Measurement};
use thalweg_link::Quantiles;
use thalweg_probe::{Passage, Point, Spike, Summary};
use thalweg_units::exact_duration;

use super::measured::Measured;
use super::timers;
use super::words::{self, time};
use crate::failure::{Context, Result};

/// Steps of a distribution.
const STEPS: u64 = 400;
/// Events in the table.
const MOST_EVENTS: usize = 500;

fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// The page.
///
/// # Errors
/// When its template does not work.
pub(super) fn page(measured: &Measured) -> Result<String> {
    let pairs = |lines: &[String]| -> Vec<(String, String)> {
        let pair = |line: &String| {
            let (name, text) = line.split_once(": ").unwrap_or(("", line));
            (name.to_owned(), text.to_owned())
        };
        lines.iter().map(pair).collect()
    };
    let answer = &measured.answer;
    let mut measurement = Measurement {
        sentence: answer.sentence.clone(),
        facts: format!("The path to {}", measured.server),
        meaning: pairs(&answer.meaning),
        evidence: pairs(&answer.evidence),
        ..Measurement::default()
    };
    let stamps = if measured.stamped { "the kernel's" } else { "those of the program" };
    measurement.evidence.push(("arrival times".to_owned(), format!("{stamps}, at this end")));
    if let Some(hops) = words::hops(&measured.hops) {
        measurement.evidence.push(("hops".to_owned(), hops));
    }
    if let Some(timers) = timers::words(&measured.timers) {
        measurement.evidence.push(("timers".to_owned(), timers));
    }
    if let Some(why) = &measured.no_load {
        measurement.evidence.push(("load".to_owned(), why.clone()));
    }
    if let Some(Ok(advice)) = &measured.advice {
        measurement.meaning.push(("advice".to_owned(), advice.sentence.clone()));
    }
    if let Some(summary) = &measured.summary {
        add(&mut measurement, summary);
    }
    report::measurement(&measurement).context("cannot make the page")
}

fn add(measurement: &mut Measurement, summary: &Summary) {
    let whole = |nanos: i64| exact_duration(Duration::from_secs((nanos.max(0) as u64).div_ceil(1_000_000_000)));
    let interval = exact_duration(Duration::from_nanos(summary.interval.max(0) as u64));
    measurement.facts += &format!(", {} long, a datagram every {interval} each way", whole(summary.length));
    measurement.end = seconds(summary.length);
    measurement.courses = vec![
        course("round trip", &summary.course, &summary.round_trips),
        course("way up", &summary.up.course, &summary.up.delays),
        course("way down", &summary.down.course, &summary.down.delays),
    ];
    measurement.magnified = summary.spikes.iter().map(magnified).collect();
    measurement.heads = ["event", "start", "length", "way", "held", "lost", "series"].map(str::to_owned).into();
    let mut rows = events(summary);
    rows.sort_by_key(|(at, _)| *at);
    measurement.more = rows.len().saturating_sub(MOST_EVENTS) as u64;
    measurement.events = rows.into_iter().take(MOST_EVENTS).map(|(_, row)| row).collect();
}

fn course(name: &str, points: &[Point], all: &Quantiles) -> DelayCourse {
    let of_second = |(at, point): (usize, &Point)| match point.is_some() {
        true => (at as f64, seconds(point.median), seconds(point.max)),
        false => (at as f64, f64::NAN, f64::NAN),
    };
    let shares = if all.count() > 0 { (0..=STEPS).map(|step| (step, STEPS)).collect() } else { Vec::new() };
    DelayCourse {
        name: name.to_owned(),
        points: points.iter().enumerate().map(of_second).collect(),
        quantiles: all.quantiles(shares.into_iter()).map(|delay| delay.as_secs_f64()).collect(),
    }
}

fn magnified(spike: &Spike) -> Magnified {
    let event = &spike.event;
    let (held, lost) = event.datagrams();
    let points = |passages: &[Passage]| {
        passages.iter().map(|each| (seconds(each.sent), each.delay().map_or(f64::NAN, seconds))).collect()
    };
    let way = if event.way() == "both" { "both ways" } else { event.way() };
    let lost = if lost > 0 { format!(" and {lost} were lost") } else { String::new() };
    Magnified {
        title: format!("Suspension at {:.2} s: {way}, {}", seconds(event.start), time(event.length())),
        caption: format!(
            "Each mark is a datagram, at the time when it was sent. {held} were held{lost}. A slope that falls as time \
             goes on means that datagrams arrived at once."
        ),
        ways: vec![("up".to_owned(), points(&spike.up)), ("down".to_owned(), points(&spike.down))],
    }
}

/// Start and cells of each row.
fn events(summary: &Summary) -> Vec<(i64, Vec<String>)> {
    let at = |nanos: i64| format!("{:.2} s", seconds(nanos));
    let none = String::new;
    let suspensions = summary.events.iter().map(|event| {
        let (held, lost) = event.datagrams();
        let series = event.series.map_or_else(none, |series| (series + 1).to_string());
        let way = event.way().to_owned();
        let length = time(event.length());
        (
            event.start,
            vec!["suspension".into(), at(event.start), length, way, held.to_string(), lost.to_string(), series],
        )
    });
    let pauses = summary.pauses.iter().map(|pause| {
        let what = format!("pause of the {}", pause.end_of_path.name());
        let length = time(pause.end - pause.start);
        (pause.start, vec![what, at(pause.start), length, none(), none(), none(), none()])
    });
    let mut rows: Vec<(i64, Vec<String>)> = suspensions.chain(pauses).collect();
    for (way, of_way) in [("up", &summary.up), ("down", &summary.down)] {
        for queue in &of_way.queues {
            let what = format!("standing queue of up to {}", time(queue.most));
            let length = time(queue.end - queue.start);
            rows.push((queue.start, vec![what, at(queue.start), length, way.into(), none(), none(), none()]));
        }
        for burst in of_way.fate.bursts.iter().filter(|burst| burst.count > 1) {
            let length = time(burst.end - burst.start + summary.interval);
            let cells =
                vec!["loss".into(), at(burst.start), length, way.into(), none(), burst.count.to_string(), none()];
            rows.push((burst.start, cells));
        }
    }
    rows
}
