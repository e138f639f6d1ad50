//! What the log of a receiver shows, which does not know what its sender waited for.

use thalweg_units::{Duration, human_bytes, human_duration};

use crate::gather::Facts;

/// What a receiver saw of a transfer.
pub(crate) fn seen(facts: &Facts) -> String {
    let (arrivals, bytes) = (&facts.arrivals, facts.received.bytes());
    let (first, last) = facts.received.span.unwrap_or_default();
    let start = facts.course.first.unwrap_or(0.0);
    let mut shown = vec![format!("{} in {}", human_bytes(bytes), length(last - first))];
    let mean = bytes as f64 / (last - first).max(1.0);
    let best = arrivals.best_rate();
    if best > 1.2 * mean {
        shown.push(format!(
            "at {} of the rate of its best tenth of a second",
            format_args!("{:.0} %", 100.0 * mean / best)
        ));
    }
    if let Some((from, to)) = arrivals.longest.filter(|(from, to)| to - from > 0.02 * (last - first)) {
        shown.push(format!("nothing for {} from {:.3} s on", length(to - from), (from - start) / 1000.0));
    }
    let again = arrivals.bytes.saturating_sub(bytes);
    if again > 0 {
        shown.push(format!("{:.2} % of the data sent more than once", 100.0 * again as f64 / bytes.max(1) as f64));
    }
    shown.push(match arrivals.blocked {
        0 => "the sender never said that it waited for credit".to_owned(),
        1 => "the sender said once that it waited for credit, so the receive window held it".to_owned(),
        times => format!("the sender said {times} times that it waited for credit, so the receive window held it"),
    });
    shown.join(", ")
}

fn length(milliseconds: f64) -> String {
    human_duration(Duration::from_secs_f64((milliseconds / 1000.0).max(0.0)))
}
