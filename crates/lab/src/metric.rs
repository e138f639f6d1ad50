//! The catalog of metrics that expectations, tables and CSV columns draw from.

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

/// Metrics that are as good as one: what differs in several of a group is said once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// How long a transfer takes, and how fast it is.
    Completion,
    /// How long a short flow takes.
    FlowCompletion,
    /// How long the packets of a flow wait.
    FlowSojourn,
    /// How long packets wait at a link, and how many.
    Sojourn,
    /// The round-trip time.
    RoundTrip,
    /// What is lost, and sent again.
    Lost,
    /// What is found to be lost and is not.
    Spurious,
    /// Probes and the timer that asks for them.
    Probes,
    /// What a link drops.
    Dropped,
}

/// What a share is made of, if of something that is never the same twice.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ShareOf {
    /// For how much of the time something was so.
    Time,
    /// Of times or rates, in proportion to which it differs.
    Rates,
}

/// Where a metric is shown though nobody asked for it, and at which place of the order there, from 1.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Whether the traffic of a flow may be about it: it is named before others.
    pub main: bool,
    /// Among the figures of a flow, in a terminal and in the table of a page.
    pub figures: Option<u8>,
    /// Whether it is in the table of a page beside these.
    pub table: bool,
    /// Among the differences between choices, and between sets of results.
    pub differences: Option<u8>,
}

impl Rank {
    /// Shown where it is asked for.
    const NONE: Rank = Rank { main: false, figures: None, table: false, differences: None };

    /// Whether the table of flows in a page has it.
    pub fn is_tabled(&self) -> bool {
        self.table || self.figures.is_some()
    }
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
    /// Of what a run has one value each, such as a request; none if a run has one value.
    pub per: Option<&'static str>,
    /// What it is as good as one with; none if it stands for itself.
    pub group: Option<Group>,
    /// What a share is made of; none if it is one of things that are counted, or no share.
    pub share_of: Option<ShareOf>,
    /// Whether every flow with an end has it if it completes: if it does not it is as bad as can be, because leaving
    /// these runs out would make a transport look better the more often it fails.
    pub is_due: bool,
    /// Where it is shown unasked.
    pub rank: Rank,
    /// One line on what it is.
    pub doc: &'static str,
}

// Less is better where nothing else is written. `(per "request")`: a run has a value for each request. The other
// brackets are the fields of [`Metric`] in their order.
macro_rules! metrics {
    (@ better) => { Better::Less };
    (@ better $better:ident) => { Better::$better };
    (@ option) => { None };
    (@ option $value:expr) => { Some($value) };
    (@ share time) => { ShareOf::Time };
    (@ share rates) => { ShareOf::Rates };
    (@ is) => { false };
    (@ is due) => { true };
    (@ rank) => { true };
    (@ rank $place:literal) => { Some($place) };
    ($( $scope:ident { $(
        $name:literal $unit:ident $($better:ident)? $((per $per:literal))? $((in $group:ident))?
        $((share of $share:ident))? $((is $due:ident))? $((rank $($place:ident $($at:literal)?),+))? $doc:literal,
    )+ } )+) => {
        /// Every metric, in the order of tables.
        pub const METRICS: &[Metric] = &[
            $( $( Metric {
                name: $name,
                unit: Unit::$unit,
                scope: Scope::$scope,
                better: metrics!(@ better $($better)?),
                per: metrics!(@ option $($per)?),
                group: metrics!(@ option $(Group::$group)?),
                share_of: metrics!(@ option $(metrics!(@ share $share))?),
                is_due: metrics!(@ is $($due)?),
                rank: Rank { $($($place: metrics!(@ rank $($at)?),)+)? ..Rank::NONE },
                doc: concat!($doc $(, "; one value per ", $per)?),
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

    /// Whether a run can have many values.
    pub fn can_repeat(&self) -> bool {
        self.per.is_some()
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
        "completed" Share More (rank table) "1 if all data arrived within the time limit, else 0; media complete if anything of their last second arrived, an endless flow if its connection survived and delivered anything",
        "completion" Seconds (in Completion) (is due) (rank main, figures 5, differences 1) "time from the client's first datagram to the last byte",
        "completion_after_handshake" Seconds (in Completion) "`completion` minus `handshake`: time from the request to the last byte",
        "completion_less_interruptions" Seconds (in Completion) (is due) "`completion` minus the time for which the path was out or suspended during it",
        "completion_over_floor" Ratio (in Completion) (rank figures 7) "`completion` divided by the floor: the shortest time that links and policers allow for these data from the start of the flow",
        "completion_over_cold_floor" Ratio (in Completion) "`completion` divided by the floor of a connection that begins with a handshake of one round trip; no value if data do not wait for a handshake (0-RTT)",
        "completion_beyond_cold_floor" Seconds (in Completion) "`completion` minus the same floor",
        "goodput" BitsPerSecond More (in Completion) (is due) (rank main, figures 6, differences 2) "application bytes divided by `completion`, 0 for a transfer that never completes; media divide by their duration, calls by that or by `completion` if it is longer, an endless flow by its lifetime; with `measure`, the bytes within the window divided by the flow's time in it",
        "competing_share" Share Neither (share of rates) "bytes that a transfer receives divided by what all transfers receive that share its direction of a path, while all of them run (with `measure`, within the window); the lowest of several paths",
        "competing_share_over_fair" Ratio Neither "the same share divided by an equal one, 1 of n where n transfers share that direction, if all of them run for at least 30 round trips; the lowest of several paths",
        "auc_delivered" Share More (in Completion) (share of rates) "area under the delivery curve divided by that of a flow that runs at the floor; 0 if the flow never completes",
        "handshake" Seconds (rank table) "time from the client's first datagram until the client's handshake is complete",
        "response" Seconds (per "request") (rank main, figures 1, differences 3) "time from a request to the last byte of its response, infinite if the response never ended or the request was never made",
        "flow_completion" Seconds (per "flow") (in FlowCompletion) (rank main, figures 2, differences 4) "duration of a short flow, infinite if the flow never ended or never began",
        "deadline_misses" Share (rank main, figures 3, differences 5) "frames of media that arrived after their deadline or not at all, divided by all frames that were due; no value of datagrams, which have no deadline",
        "frame_delay" Seconds (per "frame that was due") (rank main, figures 4, differences 6) "delay of a real-time frame, infinite if the frame never arrived",
        "frames_missing" Share "frames that never arrived, divided by all frames that were due",
        "call_delay_mean" Seconds (rank main) "mean time from the capture of a frame of a call to its arrival, over all tracks; a frame that never arrived counts until a later one of its track did; with `measure`, of frames captured within the window",
        "call_delay_max" Seconds "longest such time",
        "audio_delay_mean" Seconds "mean of the same over the frames of audio",
        "audio_delay_max" Seconds "longest such time of an audio frame",
        "video_delay_mean" Seconds "mean of the same over the frames of the first video track",
        "video_delay_max" Seconds "longest such time of a frame of the first video track",
        "stall" Seconds (per "stall") "interval without a real-time frame in time, if longer than the deadline, between the first frame and the time of the last frame",
        "silence_after_repair" Seconds (rank figures 8, differences 7) "time from the end of the last outage or suspension to the next delivery of new data",
        "silence_after_move" Seconds "time from the last change of the client's address to the next delivery of new data",
        "longest_gap" Seconds "longest time between two deliveries of new data of a transfer that completes",
        "bytes_sent" Bytes Neither (rank differences 10) "UDP payload that the data sender sent",
        "bytes_retransmitted" Bytes (in Lost) "stream data that the data sender sent again, counted each time after the first",
        "bytes_lost" Bytes (in Lost) "UDP payload that the data sender declared lost",
        "bytes_spurious" Bytes (in Spurious) "UDP payload that was declared lost and arrived after all",
        "packets_sent" Count Neither (rank table) "packets that the data sender sent",
        "packets_lost" Count (in Lost) (rank figures 10, differences 8) "packets that the data sender declared lost; for a flow that failed, also packets that were never acknowledged",
        "packets_spurious" Count (in Spurious) (rank figures 9, differences 9) "packets that were declared lost and arrived after all",
        "spurious_rate" Share (in Spurious) "packets that were declared lost and arrived after all, divided by packets sent",
        "probe_share" Share (in Probes) "expiries of the data sender's probe timer divided by packets sent",
        "loss_rate" Share (in Lost) "packets lost, as `packets_lost` counts them, divided by packets sent; with `measure`, within the window",
        "ptos" Count (in Probes) (rank table, differences 11) "expiries of the probe timer (PTO) at both ends",
        "probes" Count (in Probes) "probe datagrams that the data sender's probe timer asked for",
        "persistent_congestions" Count "times that everything sent over three probe timeouts was lost (persistent congestion)",
        "early_probes" Count (in Probes) "needless expiries of the probe timer at both ends: the next acknowledgment was of data sent before the expiry",
        "unanswered_initials" Count "Initial datagrams that the client sent before the first reply arrived",
        "congestion_events" Count Neither "reductions of the congestion window",
        "undos" Count Neither "reductions of the congestion window that were undone because nothing had been lost",
        "connections_lost" Count "connections that were lost, counted at the end that lost more of them",
        "ce_marks" Count Neither "packets that arrived marked Congestion Experienced",
        "recovery_entry_above" Share Neither "loss episodes that began with more bytes in flight than ssthresh",
        "recovery_entry_at" Share Neither "loss episodes that began with as many whole packets in flight as ssthresh",
        "recovery_entry_below" Share Neither "loss episodes that began with fewer bytes in flight than ssthresh",
        "recovery_end_window" Count Neither "congestion window at the end of a loss episode in full packets, mean over episodes",
        "recovery_end_slow_start" Share Neither "loss episodes that ended with the congestion window below ssthresh",
        "timeouts" Count "TCP: expiries of the retransmission timer",
        "retransmissions" Count (in Lost) "TCP: segments that were retransmitted",
        "lost_retransmissions" Count "TCP: retransmitted segments that were found lost again without a timeout",
        "max_window" Bytes Neither (rank table) "largest congestion window",
        "max_in_flight" Bytes Neither "most bytes in flight",
        "rate_estimate" BitsPerSecond Neither "the data sender's estimate at the end of the flow of how fast the path delivers, without headers of IP and UDP",
        "model_bandwidth" BitsPerSecond Neither "bandwidth that a model of the path takes it for at the end of the flow, without headers of IP and UDP",
        "model_bandwidth_over_link" Ratio Neither "`model_bandwidth` divided by the rate of the slowest link in the last second of the flow, without the same headers",
        "model_start_bandwidth_over_link" Ratio Neither "the same bandwidth when the model's start ended last, divided by the rate in the first second of the flow",
        "model_least_bandwidth_over_link" Ratio Neither "lowest bandwidth that the model went by after its start, divided by the rate in the last second of the flow",
        "model_extra" Bytes Neither "most bytes that were acknowledged ahead of the model's bandwidth, after its start",
        "model_bound" Bytes Neither "bound of the bytes in flight that loss has taught the model; no value if loss has taught none",
        "model_startups" Count Neither "times that a model entered Startup, the first included",
        "model_startups_ended_by_loss" Count Neither "Startups that loss or marks ended",
        "model_drains" Count Neither "times that a model entered Drain",
        "model_drains_ended_by_time" Count Neither "Drains that ended before the queue was gone",
        "model_downs" Count Neither "times that a model entered ProbeBW_DOWN",
        "model_downs_ended_by_time" Count Neither "ProbeBW_DOWNs that ended because the next probe was due",
        "model_cruises" Count Neither "times that a model entered ProbeBW_CRUISE",
        "model_refills" Count Neither "times that a model entered ProbeBW_REFILL",
        "model_ups" Count Neither "times that a model entered ProbeBW_UP",
        "model_ups_ended_by_plateau" Count Neither "ProbeBW_UPs that ended because the delivery rate ceased to grow",
        "model_ups_ended_by_loss" Count Neither "ProbeBW_UPs that loss or marks ended",
        "model_ups_ended_by_care" Count Neither "ProbeBW_UPs that ended at the bound because the one before had lost too much",
        "model_rtt_probes" Count Neither "times that a model entered ProbeRTT",
        "model_rtt_probes_skipped" Count Neither "times that ProbeRTT was due and the application had been silent instead",
        "rtt" Seconds (in RoundTrip) (rank table) "smoothed round-trip time of the data sender at the end of the flow",
        "min_rtt" Seconds "smallest round-trip time",
        "min_rtt_over_path" Ratio "`min_rtt` divided by the sum of the path's fixed delays in both directions; no value without a floor",
        "rtt_mean" Seconds (in RoundTrip) "mean of the data sender's newest round-trip sample over all acknowledgments",
        "rtt_p50" Seconds (in RoundTrip) "median of the data sender's newest round-trip sample over all acknowledgments",
        "rtt_p95" Seconds (in RoundTrip) "95th percentile of the data sender's newest round-trip sample over all acknowledgments",
        "rtt_p99" Seconds (in RoundTrip) "99th percentile of the data sender's newest round-trip sample over all acknowledgments",
        "rtt_max" Seconds (in RoundTrip) "largest round-trip sample of the data sender",
        "reverse_bytes" Bytes Neither "UDP payload that the data receiver sent: acknowledgments and requests",
        "reverse_packets" Count Neither (rank table) "packets that the data receiver sent",
        "reverse_share" Share Neither "bytes that the data receiver sent divided by bytes that the data sender sent",
        "limited_by_application" Share Neither (share of time) "share of the time in which the application limited the sender",
        "limited_by_window" Share Neither (share of time) "share of the time in which the congestion window limited the sender",
        "limited_by_pacing" Share Neither (share of time) "share of the time in which pacing limited the sender",
        "limited_by_flow_control" Share Neither (share of time) "share of the time in which flow control limited the sender",
        "limited_by_amplification" Share Neither (share of time) "share of the time in which the amplification limit of an unvalidated address limited the sender",
        "flow_sojourn_p50" Seconds (in FlowSojourn) "median sojourn time of the flow's packets in the queue in which one of them waited longest",
        "flow_sojourn_p95" Seconds (in FlowSojourn) "95th percentile of the sojourn time of the flow's packets in that queue",
        "flow_sojourn_p99" Seconds (in FlowSojourn) "99th percentile of the sojourn time of the flow's packets in that queue",
        "flow_sojourn_max" Seconds (in FlowSojourn) "longest sojourn time of a packet of the flow in any queue",
    }
    Link {
        "link_packets" Count Neither "packets delivered",
        "link_bytes" Bytes Neither "bytes delivered, headers included",
        "link_dropped" Count (in Dropped) "packets dropped for any reason",
        "link_queue_dropped" Count (in Dropped) "packets dropped by the queue",
        "link_early_dropped" Count (in Dropped) "packets that queue management dropped, though there was room",
        "link_idle" Share Neither (share of time) "share of the time in which the link had nothing to send",
        "link_idle_time" Seconds Neither "time in which the link had nothing to send",
        "link_use" Share More (share of rates) "bytes carried divided by the bytes that the configured rate allows, from the first start to the last end of the link's flows; with `measure`, within the window",
        "link_marked" Count Neither "packets that left the queue marked Congestion Experienced",
        "link_reordered" Count Neither "packets delivered after a packet that had left the queue later",
        "queue_max" Bytes (in Sojourn) "most bytes in the queue",
        "sojourn_p50" Seconds (in Sojourn) "median sojourn time in the queue; with `measure`, within the window",
        "sojourn_p95" Seconds (in Sojourn) "95th percentile of the sojourn time in the queue; with `measure`, within the window",
        "sojourn_p99" Seconds (in Sojourn) "99th percentile of the sojourn time in the queue; with `measure`, within the window",
        "sojourn_max" Seconds (in Sojourn) "longest sojourn time in the queue; with `measure`, within the window",
    }
    Run {
        "success" Share More "1 if the run came to its end and every flow completed, else 0",
        "fairness" Share More (share of rates) "Jain's index over the goodputs of transfers that share a direction of a path, while all of them run (with `measure`, within the window); the lowest of several paths, 0 if nothing arrives",
        "completion_mean" Seconds (in Completion) "mean of `completion` over all flows that have it; no value unless all of them completed",
        "completion_last" Seconds (in Completion) "longest `completion` of all flows; no value unless all of them completed",
        "flow_sojourn_worst" Seconds (in FlowSojourn) "largest `flow_sojourn_max` of all flows; no value of a single flow",
        "flow_sojourn_best" Seconds (in FlowSojourn) "smallest `flow_sojourn_max` of all flows; no value of a single flow",
        "virtual_time" Seconds Neither "duration of the run in virtual time",
        "events" Count Neither "events of the simulator",
    }
}

/// The metrics of a flow that are known of each of several paths that it uses at once.
pub const OF_PATHS: [&str; 18] = [
    "bytes_sent",
    "bytes_lost",
    "bytes_spurious",
    "packets_sent",
    "packets_lost",
    "packets_spurious",
    "spurious_rate",
    "loss_rate",
    "ptos",
    "probes",
    "persistent_congestions",
    "congestion_events",
    "undos",
    "ce_marks",
    "max_window",
    "max_in_flight",
    "rtt",
    "min_rtt",
];

/// The metric of that name.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// The metrics that have a place in an order, by it.
pub fn in_order(place: fn(&Rank) -> Option<u8>) -> Vec<&'static Metric> {
    let placed = METRICS.iter().filter_map(|metric| Some((place(&metric.rank)?, metric)));
    let mut placed: Vec<(u8, &Metric)> = placed.collect();
    placed.sort_unstable_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, metric)| metric).collect()
}

/// Every metric as tables in Markdown, for the documentation.
pub fn markdown() -> String {
    let mut out = String::new();
    for (scope, title) in [
        (Scope::Flow, "Of a flow (`flow = \"NAME\"` selects one)"),
        (Scope::Link, "Of a direction of a path (`link = \"PATH.down\"` selects one)"),
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

/// How many digits tell numbers apart for people.
const DIGITS: usize = 4;

/// A number as people read it: four significant digits.
pub fn format(value: f64, unit: Unit) -> String {
    format_to(value, unit, DIGITS)
}

/// A number with so many significant digits, four at least.
pub fn format_to(value: f64, unit: Unit, digits: usize) -> String {
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
    let more = digits.saturating_sub(DIGITS);
    let significant = |size: f64| significant(size, more);
    match unit {
        Unit::Seconds if size >= 1.0 => format!("{sign}{} s", significant(size)),
        Unit::Seconds if size >= 1e-3 => format!("{sign}{} ms", significant(size * 1e3)),
        Unit::Seconds if size > 0.0 => format!("{sign}{} µs", significant(size * 1e6)),
        Unit::Seconds => "0 s".to_owned(),
        Unit::Bytes => format!("{sign}{}", scaled(size, &["B", "kB", "MB", "GB", "TB"], more)),
        Unit::BitsPerSecond => format!("{sign}{}", scaled(size, &["bps", "kbps", "Mbps", "Gbps", "Tbps"], more)),
        Unit::Share => format!("{sign}{} %", significant(size * 100.0)),
        Unit::Ratio | Unit::Count => format!("{sign}{}", significant(size)),
    }
}

fn scaled(mut size: f64, units: &[&str], more: usize) -> String {
    let mut at = 0;
    while size >= 1000.0 && at + 1 < units.len() {
        size /= 1000.0;
        at += 1;
    }
    format!("{} {}", significant(size, more), units.get(at).unwrap_or(&""))
}

/// Four significant digits and so many more, without zeros at the end.
fn significant(size: f64, more: usize) -> String {
    let decimals = more
        + match size {
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
        assert_eq!(format(12345.6, Unit::Seconds), "12346 s");
        assert_eq!(format_to(14.28126, Unit::Seconds, 6), "14.2813 s");
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
    fn every_place_of_an_order_is_taken_once() {
        for place in [|rank: &Rank| rank.figures, |rank: &Rank| rank.differences] {
            let places: Vec<_> = in_order(place).into_iter().filter_map(|metric| place(&metric.rank)).collect();
            assert!(places.iter().copied().eq(1..=places.len() as u8), "{places:?}");
        }
    }

    #[test]
    fn the_description_of_a_metric_with_many_values_says_of_what_there_is_one_each() {
        for metric in METRICS {
            assert_eq!(metric.can_repeat(), metric.doc.contains("one value per"), "{}", metric.name);
        }
        let many: Vec<_> = METRICS.iter().filter(|metric| metric.can_repeat()).map(|metric| metric.name).collect();
        assert_eq!(many, ["response", "flow_completion", "frame_delay", "stall"]);
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(parse("1.5 s", Unit::Seconds), Ok(1.5));
        assert_eq!(parse("1 %", Unit::Share), Ok(0.01));
        assert!(parse("15", Unit::Seconds).is_err());
        assert!(parse("1", Unit::Count).unwrap_err().contains("bare number"));
    }
}
