//! A measurement as JSON. Times are in milliseconds, counted from the first datagram.

use serde_json::{Value, json};
use thalweg_link::Quantiles;
use thalweg_probe::{Event, FirstHop, Hop, LoadFindings, Summary, Suspension, WaySummary};

use super::measured::Measured;
use super::timers;

fn ms(nanos: i64) -> f64 {
    // To the microsecond: more is noise.
    (nanos as f64 / 1e3).round() / 1e3
}

fn quantiles(of: &Quantiles) -> Value {
    let at = |num, den| ms(of.quantile(num, den).as_nanos() as i64);
    json!({
        "count": of.count(),
        "min": ms(of.min().as_nanos() as i64),
        "p50": at(1, 2),
        "p90": at(90, 100),
        "p95": at(95, 100),
        "p99": at(99, 100),
        "max": ms(of.max().as_nanos() as i64),
    })
}

fn way(way: &WaySummary) -> Value {
    let fate = &way.fate;
    let bursts = |burst: &thalweg_probe::Burst| json!({"at": ms(burst.start), "count": burst.count});
    let queue = |queue: &thalweg_probe::StandingQueue| json!({"at": ms(queue.start), "length": ms(queue.end - queue.start), "most": ms(queue.most)});
    json!({
        "delay": quantiles(&way.delays),
        "sent": fate.sent,
        "lost": fate.lost,
        "loss_bursts": fate.bursts.iter().filter(|burst| burst.count > 1).map(bursts).collect::<Vec<_>>(),
        "gilbert": fate.gilbert(),
        "reordered": fate.reordered,
        "most_overtaken": fate.most_overtaken,
        "duplicates": fate.duplicates,
        "ecn": fate.ecn,
        "standing_queues": way.queues.iter().map(queue).collect::<Vec<_>>(),
        "sender_lateness": quantiles(&way.lateness),
    })
}

fn event(event: &Event) -> Value {
    let one = |each: &Suspension| {
        let (at, length) = (ms(each.start), ms(each.length()));
        json!({"at": at, "at_error": ms(each.start_error), "length": length, "held": each.held, "lost": each.lost})
    };
    json!({
        "at": ms(event.start),
        "length": ms(event.length()),
        "way": event.way(),
        "series": event.series,
        "up": event.up.as_ref().map(one),
        "down": event.down.as_ref().map(one),
    })
}

fn load(load: &LoadFindings) -> Value {
    let of = |span: std::time::Duration| ms(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX));
    json!({
        "way": load.way,
        "rate_bps": load.rate.bps(),
        "queue": of(load.queue),
        "round_trip_idle": of(load.idle),
        "round_trip_loaded": of(load.loaded),
        "round_trip_loaded_p95": of(load.loaded_p95),
        "loss": load.loss,
        "packet_loss": load.packet_loss,
        "peak_bps": load.peak.bps(),
        "burst": load.burst,
        "rpm": load.rpm,
        "largest_datagram": load.largest,
    })
}

fn summary(summary: &Summary) -> Value {
    let clock = |piece: &thalweg_probe::ClockPiece| {
        json!({
            "offset": ms(piece.offset),
            "offset_bound": ms(piece.bound),
            "drift_ppm": piece.drift * 1e6,
            "drift_ppm_bounds": [piece.drifts.0 * 1e6, piece.drifts.1 * 1e6],
        })
    };
    let pause = |pause: &thalweg_probe::Pause| json!({"at": ms(pause.start), "length": ms(pause.end - pause.start), "end": pause.end_of_path.name()});
    json!({
        "length": ms(summary.length),
        "interval": ms(summary.interval),
        "clock": summary.clock.iter().map(clock).collect::<Vec<_>>(),
        "round_trip": quantiles(&summary.round_trips),
        "up": way(&summary.up),
        "down": way(&summary.down),
        "suspensions": summary.events.iter().map(event).collect::<Vec<_>>(),
        "pauses": summary.pauses.iter().map(pause).collect::<Vec<_>>(),
        "trains": summary.trains,
        "loads": summary.loads.iter().map(load).collect::<Vec<_>>(),
        "unknown": summary.unknown,
        "omitted": summary.omitted,
    })
}

fn hop(hop: &Hop) -> Value {
    json!({
        "hop": hop.hop,
        "address": hop.address.map(|address| address.to_string()),
        "asked": hop.asked,
        "answers": hop.answers,
        "round_trip_min": ms(hop.least),
        "round_trip_p50": ms(hop.round_trip),
    })
}

fn first_hop(hop: &FirstHop) -> Value {
    json!({
        "address": hop.address.map(|address| address.to_string()),
        "answers": hop.answers,
        "round_trip": ms(hop.round_trip),
        "held": hop.held,
        "passed": hop.passed,
    })
}

/// The line of JSON at the end of a measurement.
pub(super) fn result(measured: &Measured) -> Value {
    let since = |at: u64| ms(at.saturating_sub(measured.started) as i64);
    let gap = |each: &thalweg_probe::Break| json!({"at": since(each.from), "until": each.until.map(since), "cause": each.cause});
    json!({
        "event": "result",
        "server": measured.server.to_string(),
        "answer": measured.answer,
        "first_hop": measured.first_hop.as_ref().map(first_hop),
        "hops": measured.hops.iter().map(hop).collect::<Vec<_>>(),
        "arrivals_by": if measured.stamped { "kernel" } else { "program" },
        "timers": timers::json(&measured.timers),
        "no_load": measured.no_load,
        "complete": measured.lost().is_none(),
        "without_session": measured.breaks.iter().map(gap).collect::<Vec<_>>(),
        "measured": measured.summary.as_ref().map(summary),
        "advice": measured.advice.as_ref().and_then(|advice| advice.as_ref().ok()),
    })
}
