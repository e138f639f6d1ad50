//! What is measured, by name: the catalogue that expectations, tables and CSV columns draw from.

use thalweg_units::{Duration, Rate, human_bytes, human_duration};

/// What a number means.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bits per second.
    BitsPerSecond,
    /// From 0 to 1, printed as per cent.
    Share,
    /// Times something.
    Ratio,
    /// How many.
    Count,
}

/// What a metric belongs to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A flow.
    Flow,
    /// A direction of a path, `PATH.up` or `PATH.down`.
    Link,
    /// The run as a whole.
    Run,
}

/// What a larger value means.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Better {
    /// Nothing good.
    Less,
    /// Something good.
    More,
    /// Neither: it describes, and does not judge.
    Neither,
}

/// Something measured in every run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name, as written.
    pub name: &'static str,
    /// What the number means.
    pub unit: Unit,
    /// What it belongs to.
    pub scope: Scope,
    /// What a larger value means.
    pub better: Better,
    /// One line on what it is.
    pub doc: &'static str,
}

// Less is better of what does not say otherwise.
macro_rules! metrics {
    (@ better) => { Better::Less };
    (@ better $better:ident) => { Better::$better };
    ($( $scope:ident { $( $name:literal $unit:ident $($better:ident)? $doc:literal, )+ } )+) => {
        /// Every metric, in the order of tables.
        pub const METRICS: &[Metric] = &[
            $( $( Metric {
                name: $name,
                unit: Unit::$unit,
                scope: Scope::$scope,
                better: metrics!(@ better $($better)?),
                doc: $doc,
            }, )+ )+
        ];
    };
}

impl Metric {
    /// Whether one value is better than another; never if the metric does not judge.
    pub fn is_better(&self, one: f64, other: f64) -> bool {
        match self.better {
            Better::Less => one < other,
            Better::More => one > other,
            Better::Neither => false,
        }
    }

    /// Whether each run answers with yes or no, so that runs are counted.
    pub fn is_yes_or_no(&self) -> bool {
        matches!(self.name, "success" | "completed")
    }

    /// Whether a run can have many values: its description says of what there is one each.
    pub fn can_repeat(&self) -> bool {
        self.doc.contains("one value per")
    }

    /// What counts where a failed run has no value: as bad as can be. None if the metric does not judge.
    pub fn worst(&self) -> Option<f64> {
        match self.better {
            Better::Less => Some(f64::INFINITY),
            Better::More => Some(0.0),
            Better::Neither => None,
        }
    }
}

metrics! {
    Flow {
        "completed" Share More "whether everything arrived within the time limit; of media, whether anything of the last second did; of an endless flow, whether it lived and delivered anything (1 or 0)",
        "completion" Seconds "from the client's first datagram to the last byte",
        "completion_less_interruptions" Seconds "completion less the time for which the path was out or held meanwhile",
        "completion_over_floor" Ratio "completion over what the link allows at best in the time in which the flow runs",
        "completion_over_cold_floor" Ratio "the same with a handshake of one round trip before the first data; none of transfers whose data do not wait for one (0-RTT)",
        "goodput" BitsPerSecond More "application bytes over completion, 0 of a transfer that never completes; of media over their duration, of an endless flow over its life; with `measure`, those of the window over the flow's time in it",
        "auc_delivered" Share More "area under the delivery curve over that of a flow that runs at the floor; 0 if it never completes",
        "handshake" Seconds "from the client's first datagram to its completed handshake",
        "response" Seconds "from a request to the last byte of its response; one value per request, endless for those that never ended or were never made",
        "flow_completion" Seconds "duration of each of many short flows; one value per flow, endless for those that never ended or never began",
        "deadline_misses" Share "frames that came too late or not at all, over all that were due",
        "frame_delay" Seconds "delay of real-time frames; one value per frame that was due, endless for those that never arrived",
        "stall" Seconds "how long no real-time frame came in time, whenever that was longer than the deadline, from the first frame to the time of the last; one value per stall",
        "silence_after_repair" Seconds "from the end of the last outage or suspension to the next delivery of new data",
        "silence_after_move" Seconds "from the last change of the client's address to the next delivery of new data",
        "bytes_sent" Bytes Neither "UDP payload that the data sender sent",
        "bytes_retransmitted" Bytes "stream data that the data sender sent more than once, each time after the first",
        "bytes_lost" Bytes "UDP payload declared lost by the data sender",
        "bytes_spurious" Bytes "UDP payload declared lost that arrived after all",
        "packets_sent" Count Neither "packets that the data sender sent",
        "packets_lost" Count "packets declared lost by the data sender; of a flow that failed, also those that were never acknowledged",
        "packets_spurious" Count "packets declared lost that arrived after all",
        "probe_share" Share "expiries of the data sender's probe timer over packets sent",
        "loss_rate" Share "packets lost, as `packets_lost` counts them, over packets sent; with `measure`, of the window",
        "ptos" Count "timeouts: expiries of the probe timer, both ends",
        "probes" Count "probe datagrams that the data sender's probe timer asked for",
        "persistent_congestions" Count "times that everything sent for three probe timeouts was lost",
        "early_probes" Count "expiries of the probe timer, both ends, that were too early: what had been sent before was acknowledged next",
        "congestion_events" Count Neither "reductions of the window",
        "undos" Count Neither "reductions taken back because nothing had been lost",
        "connections_lost" Count "connections that were lost, by the end that lost more of them",
        "ce_marks" Count Neither "packets that arrived marked Congestion Experienced",
        "recovery_entry_above" Share Neither "episodes of loss that began with more in flight than the threshold",
        "recovery_entry_at" Share Neither "episodes of loss that began with as much in flight as the threshold, in whole packets",
        "recovery_entry_below" Share Neither "episodes of loss that began with less in flight than the threshold",
        "recovery_end_window" Count Neither "window at the end of an episode of loss, in full packets; mean over episodes",
        "recovery_end_slow_start" Share Neither "episodes of loss that ended with the window below the threshold",
        "timeouts" Count "TCP: expiries of the retransmission timer",
        "retransmissions" Count "TCP: segments sent again",
        "lost_retransmissions" Count "TCP: segments sent again that were found lost again, without a timeout",
        "max_window" Bytes Neither "largest congestion window",
        "max_in_flight" Bytes Neither "most bytes in flight",
        "rtt" Seconds "smoothed round-trip time of the data sender at the end",
        "min_rtt" Seconds "smallest round-trip time",
        "rtt_p50" Seconds "median of the data sender's newest round-trip sample at every acknowledgment",
        "rtt_p95" Seconds "its 95th percentile",
        "rtt_p99" Seconds "its 99th percentile",
        "rtt_max" Seconds "its largest value",
        "reverse_bytes" Bytes Neither "UDP payload that the data receiver sent: acknowledgments and requests",
        "reverse_packets" Count Neither "packets that the data receiver sent",
        "reverse_share" Share Neither "bytes that the data receiver sent over bytes that the data sender sent",
        "limited_by_application" Share Neither "share of the time in which the application was the limit",
        "limited_by_window" Share Neither "share of the time in which the congestion window was the limit",
        "limited_by_pacing" Share Neither "share of the time in which pacing was the limit",
        "limited_by_flow_control" Share Neither "share of the time in which flow control was the limit",
        "limited_by_amplification" Share Neither "share of the time in which the unvalidated address was the limit",
    }
    Link {
        "link_packets" Count Neither "packets delivered",
        "link_bytes" Bytes Neither "bytes delivered, headers included",
        "link_dropped" Count "packets dropped, for whatever reason",
        "link_queue_dropped" Count "packets dropped by the queue",
        "link_idle" Share Neither "share of the time with nothing to send",
        "link_idle_time" Seconds Neither "time with nothing to send",
        "link_use" Share More "bytes carried over what the configured rate allows, from the first start to the last end of its flows; with `measure`, in the window",
        "link_marked" Count Neither "packets marked Congestion Experienced by the queue",
        "link_reordered" Count Neither "packets delivered after one that had left the queue later",
        "queue_max" Bytes "most bytes that waited",
        "sojourn_p50" Seconds "median wait in the queue; with `measure`, of the window, as are the next three",
        "sojourn_p95" Seconds "95th percentile of the wait in the queue",
        "sojourn_p99" Seconds "99th percentile of the wait in the queue",
        "sojourn_max" Seconds "longest wait in the queue",
    }
    Run {
        "success" Share More "whether the run came to its end and every flow completed (1 or 0)",
        "fairness" Share More "Jain's index over the goodputs of transfers that share a direction of a path, in the time in which all of them run (with `measure`, within the window); the lowest of several paths, 0 if nothing arrives",
        "virtual_time" Seconds Neither "how long the run lasted in virtual time",
        "events" Count Neither "events of the simulator",
    }
}

/// The metric of that name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Every metric as tables in Markdown, for the documentation.
pub fn markdown() -> String {
    let mut out = String::new();
    for (scope, title) in [
        (Scope::Flow, "Of a flow (`flow = \"NAME\"` chooses one)"),
        (Scope::Link, "Of a direction of a path (`link = \"PATH.down\"` chooses one)"),
        (Scope::Run, "Of the run as a whole"),
    ] {
        out.push_str(&format!("{title}:\n\n| metric | unit | what |\n|---|---|---|\n"));
        for metric in METRICS.iter().filter(|metric| metric.scope == scope) {
            let unit = match metric.unit {
                Unit::Seconds => "time",
                Unit::Bytes => "bytes",
                Unit::BitsPerSecond => "bit/s",
                Unit::Share => "share",
                Unit::Ratio => "ratio",
                Unit::Count => "count",
            };
            out.push_str(&format!("| `{}` | {unit} | {} |\n", metric.name, metric.doc));
        }
        out.push('\n');
    }
    out
}

/// A number as people read it.
pub fn format(value: f64, unit: Unit) -> String {
    if value == f64::INFINITY {
        return if unit == Unit::Seconds { "never" } else { "∞" }.to_owned();
    }
    if value == f64::NEG_INFINITY {
        return "−∞".to_owned();
    }
    if !value.is_finite() {
        return "–".to_owned();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    match unit {
        Unit::Seconds if size >= 10_000.0 => format!("{sign}{size:.0} s"),
        Unit::Seconds if size >= 1.0 => format!("{sign}{} s", significant(size)),
        Unit::Seconds if size >= 1e-3 => format!("{sign}{} ms", significant(size * 1e3)),
        Unit::Seconds if size > 0.0 => format!("{sign}{} µs", significant(size * 1e6)),
        Unit::Seconds => "0 s".to_owned(),
        Unit::Bytes => format!("{sign}{}", scaled(size, &["B", "kB", "MB", "GB", "TB"])),
        Unit::BitsPerSecond => format!("{sign}{}", scaled(size, &["bps", "kbps", "Mbps", "Gbps", "Tbps"])),
        Unit::Share => format!("{sign}{} %", significant(size * 100.0)),
        Unit::Ratio => format!("{sign}{}", significant(size)),
        Unit::Count if size < 10_000.0 => format!("{sign}{}", significant(size)),
        Unit::Count => format!("{sign}{size:.0}"),
    }
}

fn scaled(mut size: f64, units: &[&str]) -> String {
    let mut at = 0;
    while size >= 1000.0 && at + 1 < units.len() {
        size /= 1000.0;
        at += 1;
    }
    format!("{} {}", significant(size), units.get(at).unwrap_or(&""))
}

/// Four significant digits, without zeros at the end.
fn significant(size: f64) -> String {
    let decimals = match size {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{size:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Reads a value of this unit as scenario files write it.
///
/// # Errors
/// What would be accepted.
pub fn parse(text: &str, unit: Unit) -> Result<f64, String> {
    match unit {
        Unit::Seconds => {
            thalweg_units::parse_duration(text).map(|span| span.as_secs_f64()).map_err(|error| error.to_string())
        }
        Unit::Bytes => thalweg_units::parse_bytes(text).map(|bytes| bytes as f64).map_err(|error| error.to_string()),
        Unit::BitsPerSecond => text.parse::<Rate>().map(|rate| rate.bps() as f64).map_err(|error| error.to_string()),
        Unit::Share => text
            .trim()
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f64>().ok())
            .map(|percent| percent / 100.0)
            .ok_or_else(|| format!("\"{text}\" is not a share; write a number from 0 to 1, or \"1 %\"")),
        Unit::Ratio | Unit::Count => Err(format!("\"{text}\" is in quotes; write a bare number here")),
    }
}

/// What a value of this unit looks like in a scenario file.
pub fn example(unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("a duration such as \"{}\"", human_duration(Duration::from_millis(2500))),
        Unit::Bytes => format!("a byte count such as \"{}\"", human_bytes(1_500_000)),
        Unit::BitsPerSecond => "a rate such as \"20 Mbps\" or \"2.5 MB/s\"".to_owned(),
        Unit::Share => "a share such as 0.01 or \"1 %\"".to_owned(),
        Unit::Ratio => "a number such as 1.25".to_owned(),
        Unit::Count => "a number such as 10".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(format(4.8034, Unit::Seconds), "4.803 s");
        assert_eq!(format(0.03, Unit::Seconds), "30 ms");
        assert_eq!(format(-0.03, Unit::Seconds), "−30 ms");
        assert_eq!(format(0.0, Unit::Seconds), "0 s");
        assert_eq!(format(18_750_000.0, Unit::Bytes), "18.75 MB");
        assert_eq!(format(250e6, Unit::BitsPerSecond), "250 Mbps");
        assert_eq!(format(0.005, Unit::Share), "0.5 %");
        assert_eq!(format(1234567.0, Unit::Count), "1234567");
        assert_eq!(format(f64::NAN, Unit::Count), "–");
        assert_eq!(format(f64::INFINITY, Unit::Seconds), "never");
        assert_eq!(format(f64::INFINITY, Unit::Ratio), "∞");
        assert_eq!(format(f64::NEG_INFINITY, Unit::Seconds), "−∞");
    }

    #[test]
    fn names_are_unique() {
        for (index, metric) in METRICS.iter().enumerate() {
            assert!(METRICS[..index].iter().all(|other| other.name != metric.name), "{}", metric.name);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(parse("1.5 s", Unit::Seconds), Ok(1.5));
        assert_eq!(parse("1 %", Unit::Share), Ok(0.01));
        assert!(parse("15", Unit::Seconds).is_err());
        assert!(parse("1", Unit::Count).unwrap_err().contains("bare number"));
    }
}
