//! A measurement in words.

use std::fmt::Write as _;

use thalweg_probe::{BreakCause, Hop, Summary, Way};
use thalweg_units::{Duration, human_duration};

use super::measured::Measured;
use super::timers;
use crate::text::count;

/// Suspensions that are listed.
const MOST_EVENTS: usize = 20;

/// What ended a session, as the end of a sentence.
pub(super) fn cause(cause: BreakCause) -> &'static str {
    match cause {
        BreakCause::Stopped => "the server was stopped",
        BreakCause::Unknown => "the server no longer knew the session, as after a restart or with a new address",
        BreakCause::Unreachable => "nobody listens at the server's port any more",
        BreakCause::Silent => "nothing came from the server any more",
        _ => "the session with the server ended",
    }
}

/// A time in nanoseconds.
pub(super) fn time(nanos: i64) -> String {
    human_duration(Duration::from_nanos(nanos.max(0) as u64))
}

/// Sentence, evidence, meaning, events.
pub(super) fn report(measured: &Measured) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, measured);
    out
}

fn write(out: &mut String, measured: &Measured) -> std::fmt::Result {
    let answer = &measured.answer;
    writeln!(out, "{}", answer.sentence)?;
    for line in answer.evidence.iter().chain(&answer.meaning) {
        match line.split_once(": ") {
            Some((name, text)) => writeln!(out, "  {name:<15} {text}")?,
            None => writeln!(out, "  {line}")?,
        }
    }
    if !measured.stamped {
        writeln!(out, "  {:<15} by this program: the kernel gives none, or not for all datagrams", "arrival times")?;
    }
    if let Some(hops) = hops(&measured.hops) {
        writeln!(out, "  {:<15} {hops}", "hops")?;
    }
    if let Some(timers) = timers::words(&measured.timers) {
        writeln!(out, "  {:<15} {timers}", "timers")?;
    }
    if let Some(why) = &measured.no_load {
        writeln!(out, "  {:<15} {why}", "load")?;
    }
    for each in &measured.breaks {
        let at = each.from.saturating_sub(measured.started) as f64 / 1e9;
        let until = each.until.map_or("to the end".to_owned(), |until| time(until.saturating_sub(each.from) as i64));
        writeln!(out, "  {:<15} at {at:.1} s, {until}: {}", "no session", cause(each.cause))?;
    }
    if let Some(summary) = &measured.summary {
        events(out, summary)?;
    }
    match &measured.advice {
        Some(Ok(advice)) => {
            let is_known = |way| measured.summary.as_ref().is_some_and(|summary| summary.load(way).is_some());
            let note = match Way::BOTH.into_iter().all(is_known) {
                true => "",
                false => "; without a load each way its queue is not known, and it is taken for 1 s here",
            };
            write!(out, "\nadvice for this path{note}:\n{}", crate::lab::advise::words(advice))
        }
        Some(Err(error)) => writeln!(out, "\nno advice: {error}"),
        None => Ok(()),
    }
}

/// The least round trip to each router beyond the first; none if none of them answered.
pub(super) fn hops(hops: &[Hop]) -> Option<String> {
    let further = || hops.iter().filter(|hop| hop.hop > 1);
    further().next()?;
    let one = |hop: &Hop| {
        let address = hop.address.map_or(String::new(), |address| format!(" {address}"));
        format!("{}{address} {}", hop.hop, time(hop.least))
    };
    Some(format!("least round trips: {}", further().map(one).collect::<Vec<_>>().join(", ")))
}

fn events(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.events.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n  suspension at    length  way   datagrams")?;
    for event in summary.events.iter().take(MOST_EVENTS) {
        let (held, lost) = event.datagrams();
        let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
        let series = event.series.map_or(String::new(), |series| format!("  series {}", series + 1));
        let (at, length) = (event.start as f64 / 1e9, time(event.length()));
        writeln!(out, "  {at:>11.2} s  {length:>8}  {:<4}  {held} held{lost}{series}", event.way())?;
    }
    let more = summary.events.len().saturating_sub(MOST_EVENTS);
    if more > 0 {
        writeln!(out, "  and {} more; --json lists all", count(more as u64, "suspension"))?;
    }
    Ok(())
}
