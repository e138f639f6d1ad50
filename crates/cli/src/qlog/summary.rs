//! Gathers the events of a trace into the figures that explain a transfer.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use thalweg_why::read::{Event, FirstTrace, Item};

/// What a trace comes down to. Times in milliseconds since the first event, sizes in bytes.
#[derive(Debug, Clone, Serialize, PartialEq)]
#[allow(missing_docs)] // the names are the explanation; see `render` for how a person gets them
pub struct Summary {
    pub file: String,
    pub title: Option<String>,
    pub vantage_point: Option<String>,
    pub odcid: Option<String>,
    pub schema: Option<String>,
    pub version: Option<String>,
    pub alpn: Option<String>,
    pub events: u64,
    /// Records that are not JSON; a last one is normal when the program was killed.
    pub damaged_records: u64,
    pub duration_ms: f64,
    pub handshake_ms: Option<f64>,
    pub closed: Option<String>,
    pub sent: Traffic,
    pub received: Traffic,
    pub rtt: Option<Distribution>,
    pub loss: Loss,
    pub congestion_window: Option<Window>,
    pub mtu: Mtu,
    /// Time spent in each state of the congestion controller, in the order of first appearance.
    pub phases: Vec<Share>,
    /// What held the sender back, and for how long.
    pub limits: Vec<Share>,
    pub dropped_on_arrival: BTreeMap<String, u64>,
    pub ecn: Option<String>,
    pub key_updates: u64,
    pub path_changes: u64,
    pub series: Series,
}

/// One direction.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
#[allow(missing_docs)]
pub struct Traffic {
    pub packets: u64,
    pub bytes: u64,
    /// STREAM payload, each byte counted once.
    pub stream_bytes: u64,
    /// STREAM payload that went more than once.
    pub repeated_stream_bytes: u64,
    pub streams: u64,
    /// `stream_bytes` over the time from the first to the last STREAM frame.
    pub goodput_bps: Option<f64>,
}

/// Smallest, middle, largest.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
#[allow(missing_docs)]
pub struct Distribution {
    pub min_ms: f64,
    pub median_ms: f64,
    pub max_ms: f64,
    pub samples: u64,
}

/// What was lost, or thought to be.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
#[allow(missing_docs)]
pub struct Loss {
    pub packets: u64,
    pub by_trigger: BTreeMap<String, u64>,
    /// Declared lost and acknowledged later.
    pub spurious: u64,
    /// MTU probes that did not arrive; no sign of congestion.
    pub mtu_probes: u64,
    pub congestion_events: u64,
    /// Of these, taken back because their losses were spurious.
    pub undone: u64,
    pub probe_timeouts: u64,
    pub persistent_congestion: u64,
}

/// The congestion window over the connection.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
#[allow(missing_docs)]
pub struct Window {
    pub first: u64,
    pub max: u64,
    pub last: u64,
}

/// Datagram sizes.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
#[allow(missing_docs)]
pub struct Mtu {
    /// From the events that say so.
    pub last: Option<u64>,
    pub changes: u64,
    pub largest_packet_sent: u64,
    pub largest_packet_received: u64,
}

/// A part of the connection's time.
#[derive(Debug, Clone, Serialize, PartialEq)]
#[allow(missing_docs)]
pub struct Share {
    pub name: String,
    pub first_at_ms: f64,
    pub total_ms: f64,
    pub times: u64,
    pub share: f64,
}

/// Values over time, equally spaced over the duration; `null` where nothing is known yet.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
#[allow(missing_docs)]
pub struct Series {
    pub step_ms: f64,
    pub goodput_bps: Vec<f64>,
    pub window: Vec<Option<f64>>,
    pub rtt_ms: Vec<Option<f64>>,
}

#[derive(Debug, Default)]
struct Direction {
    packets: u64,
    bytes: u64,
    stream_bytes: u64,
    /// Highest offset seen of each stream.
    ends: BTreeMap<u64, u64>,
    first_stream: Option<f64>,
    last_stream: f64,
    largest: u64,
    /// (time, bytes not seen before), for the series.
    progress: Vec<(f64, u64)>,
}

impl Direction {
    fn add(&mut self, time: f64, data: &Value) {
        self.packets += 1;
        let size = data
            .pointer("/raw/length")
            .or_else(|| data.pointer("/header/packet_size"))
            .or_else(|| data.get("packet_size"))
            .and_then(Value::as_u64)
            .unwrap_or(0);
        self.bytes += size;
        self.largest = self.largest.max(size);
        for frame in data.get("frames").and_then(Value::as_array).into_iter().flatten() {
            if frame.get("frame_type").and_then(Value::as_str) != Some("stream") {
                continue;
            }
            let id = frame.get("stream_id").and_then(integer).unwrap_or(0);
            let offset = frame.get("offset").and_then(integer).unwrap_or(0);
            let len = frame
                .pointer("/raw/payload_length")
                .or_else(|| frame.get("length"))
                .or_else(|| frame.pointer("/raw/length"))
                .and_then(integer)
                .unwrap_or(0);
            self.stream_bytes += len;
            let end = self.ends.entry(id).or_insert(0);
            let fresh = offset.saturating_add(len).saturating_sub(*end);
            *end += fresh;
            self.first_stream.get_or_insert(time);
            self.last_stream = time;
            if fresh > 0 {
                self.progress.push((time, fresh));
            }
        }
    }

    fn traffic(&self) -> Traffic {
        let stream_bytes = self.ends.values().sum::<u64>();
        let span = self.last_stream - self.first_stream.unwrap_or(0.0);
        Traffic {
            packets: self.packets,
            bytes: self.bytes,
            stream_bytes,
            repeated_stream_bytes: self.stream_bytes.saturating_sub(stream_bytes),
            streams: self.ends.len() as u64,
            goodput_bps: (span > 0.0).then(|| stream_bytes as f64 * 8000.0 / span),
        }
    }
}

/// Numbers, and the numbers in strings that some writers use for 64 bits.
pub(super) fn integer(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Spans of time with a name each.
#[derive(Debug, Default)]
struct Spans(Vec<(f64, String)>);

impl Spans {
    fn begin(&mut self, time: f64, name: &str) {
        if self.0.last().is_none_or(|(_, last)| last != name) {
            self.0.push((time, name.to_owned()));
        }
    }

    fn shares(&self, end: f64) -> Vec<Share> {
        let total = self.0.first().map_or(0.0, |(start, _)| end - start);
        let mut shares: Vec<Share> = Vec::new();
        for (index, (start, name)) in self.0.iter().enumerate() {
            let until = self.0.get(index + 1).map_or(end, |(next, _)| *next);
            let span = until - start;
            match shares.iter_mut().find(|share| share.name == *name) {
                Some(share) => {
                    share.total_ms += span;
                    share.times += 1;
                }
                None => {
                    shares.push(Share { name: name.clone(), first_at_ms: *start, total_ms: span, times: 1, share: 0.0 })
                }
            }
        }
        for share in &mut shares {
            share.share = if total > 0.0 { share.total_ms / total } else { 0.0 };
        }
        shares
    }
}

/// What became of the connection.
#[derive(Debug, Default)]
struct Course {
    version: Option<String>,
    alpn: Option<String>,
    handshake: Option<f64>,
    first_one_rtt: Option<f64>,
    closed: Option<String>,
    ecn: Option<String>,
    key_updates: u64,
    path_changes: u64,
}

/// What the sender's recovery saw and did.
#[derive(Debug, Default)]
struct Recovery {
    rtt: Vec<(f64, f64)>,
    window: Vec<(f64, u64)>,
    loss: Loss,
    phases: Spans,
    limits: Spans,
    pto_count: u64,
    heard: bool,
}

/// Takes a trace's items one by one, so that a trace of any length needs little memory.
#[derive(Debug)]
pub struct Builder {
    file: String,
    trace: FirstTrace,
    events: u64,
    damaged: u64,
    first: Option<f64>,
    last: f64,
    sent: Direction,
    received: Direction,
    mtu: Mtu,
    dropped: BTreeMap<String, u64>,
    course: Course,
    recovery: Recovery,
}

impl Builder {
    /// Nothing yet.
    pub fn new(file: String) -> Self {
        Builder {
            file,
            trace: FirstTrace::default(),
            events: 0,
            damaged: 0,
            first: None,
            last: 0.0,
            sent: Direction::default(),
            received: Direction::default(),
            mtu: Mtu::default(),
            dropped: BTreeMap::new(),
            course: Course::default(),
            recovery: Recovery::default(),
        }
    }

    /// One more item. Of a file with several traces, only the first is summed up.
    pub fn add(&mut self, item: Item) {
        self.damaged += u64::from(matches!(item, Item::Damaged));
        if let Some(event) = self.trace.event(item) {
            self.event(&event);
        }
    }

    fn event(&mut self, event: &Event) {
        self.events += 1;
        let (time, data) = (event.time, &event.data);
        self.first.get_or_insert(time);
        self.last = self.last.max(time);
        let label = |key: &str| data.get(key).and_then(Value::as_str);
        match event.name.as_str() {
            "packet_sent" => {
                self.sent.add(time, data);
                self.note_one_rtt(time, data);
            }
            "packet_received" => {
                self.received.add(time, data);
                self.recovery.heard |= may_hold_an_ack(data);
                self.note_one_rtt(time, data);
            }
            "connection_state_updated" => {
                let done = ["handshake_complete", "handshake_completed", "handshake_confirmed"];
                if label("new").is_some_and(|new| done.contains(&new)) {
                    self.course.handshake.get_or_insert(time);
                }
            }
            "recovery_metrics_updated" | "metrics_updated" => self.metrics(time, data),
            "congestion_state_updated" => {
                if let Some(new) = label("new") {
                    self.recovery.phases.begin(time, new);
                }
            }
            "connection_data_blocked_updated" => match (label("new"), label("reason")) {
                (Some("blocked"), Some(reason)) => self.recovery.limits.begin(time, reason),
                (Some("blocked"), None) => self.recovery.limits.begin(time, "unknown"),
                _ => self.recovery.limits.begin(time, "nothing"),
            },
            "packet_lost" => self.lost(data),
            "spurious_loss" | "spurious_loss_detected" => self.recovery.loss.spurious += 1,
            "congestion_event" => self.recovery.loss.congestion_events += 1,
            "persistent_congestion" => self.recovery.loss.persistent_congestion += 1,
            "congestion_undone" => self.recovery.loss.undone += 1,
            "timer_updated" | "loss_timer_updated" => {
                let expired = label("event_type") == Some("expired") && label("timer_type") == Some("pto");
                self.recovery.loss.probe_timeouts += u64::from(expired);
            }
            "mtu_updated" => {
                self.mtu.last = data.get("new").and_then(integer).or(self.mtu.last);
                self.mtu.changes += 1;
            }
            "packet_dropped" => {
                let reason = label("trigger").unwrap_or("unknown").to_owned();
                *self.dropped.entry(reason).or_insert(0) += 1;
            }
            "ecn_state_updated" => self.course.ecn = label("new").map(str::to_owned),
            "key_updated" => {
                let update = matches!(label("trigger"), Some("local_update" | "remote_update"));
                self.course.key_updates += u64::from(update);
            }
            "migration_state_updated" => {
                self.course.path_changes += u64::from(label("new") == Some("migration_complete"));
            }
            "version_information" => {
                self.course.version = label("chosen_version").map(str::to_owned).or(self.course.version.take());
            }
            "connection_started" => {
                self.course.version = self.course.version.take().or_else(|| label("version").map(str::to_owned));
            }
            "alpn_information" => {
                let chosen = data.pointer("/chosen_alpn/string_value").or_else(|| data.get("chosen_alpn"));
                self.course.alpn = chosen.and_then(Value::as_str).map(str::to_owned).or(self.course.alpn.take());
            }
            "connection_closed" => self.course.closed = Some(closed(data)),
            _ => {}
        }
    }

    fn note_one_rtt(&mut self, time: f64, data: &Value) {
        let kind = data.pointer("/header/packet_type").or_else(|| data.get("packet_type"));
        if matches!(kind.and_then(Value::as_str), Some("1RTT" | "1rtt")) {
            self.course.first_one_rtt.get_or_insert(time);
        }
    }

    fn metrics(&mut self, time: f64, data: &Value) {
        // Before the first ACK there is no sample; what is written then is the initial guess. TCP of a kernel tells a
        // mean only, and no packets.
        let is_sampled = self.recovery.heard || self.sent.packets + self.received.packets == 0;
        let rtt = data.get("latest_rtt").or_else(|| data.get("smoothed_rtt")).and_then(Value::as_f64);
        if let (true, Some(rtt)) = (is_sampled, rtt) {
            self.recovery.rtt.push((time, rtt));
        }
        if let Some(window) = data.get("congestion_window").and_then(integer) {
            self.recovery.window.push((time, window));
        }
        if let Some(count) = data.get("pto_count").and_then(integer) {
            self.recovery.pto_count += u64::from(count > 0);
        }
    }

    fn lost(&mut self, data: &Value) {
        if data.get("is_mtu_probe_packet").and_then(Value::as_bool) == Some(true) {
            self.recovery.loss.mtu_probes += 1;
            return;
        }
        self.recovery.loss.packets += 1;
        let trigger = data.get("trigger").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        *self.recovery.loss.by_trigger.entry(trigger).or_insert(0) += 1;
    }

    /// The summary, with `width` points in the series; an error when there was no event at all.
    pub fn finish(mut self, width: usize) -> Result<Summary, &'static str> {
        let Some(first) = self.first else {
            return Err("no qlog event in it");
        };
        let duration = self.last - first;
        if self.recovery.loss.probe_timeouts == 0 {
            self.recovery.loss.probe_timeouts = self.recovery.pto_count;
        }
        self.mtu.largest_packet_sent = self.sent.largest;
        self.mtu.largest_packet_received = self.received.largest;
        let main = if self.sent.stream_bytes > self.received.stream_bytes { &self.sent } else { &self.received };
        let series = Series {
            step_ms: duration / width as f64,
            goodput_bps: rates(&main.progress, first, duration, width),
            window: steps(self.recovery.window.iter().map(|(t, w)| (*t, *w as f64)), first, duration, width),
            rtt_ms: steps(self.recovery.rtt.iter().copied(), first, duration, width),
        };
        Ok(Summary {
            events: self.events,
            damaged_records: self.damaged,
            duration_ms: duration,
            handshake_ms: self.course.handshake.or(self.course.first_one_rtt).map(|time| time - first),
            sent: self.sent.traffic(),
            received: self.received.traffic(),
            rtt: distribution(self.recovery.rtt.iter().map(|(_, rtt)| *rtt).collect()),
            congestion_window: self.recovery.window.first().map(|(_, first)| Window {
                first: *first,
                max: self.recovery.window.iter().map(|(_, window)| *window).max().unwrap_or(0),
                last: self.recovery.window.last().map_or(0, |(_, window)| *window),
            }),
            phases: self.recovery.phases.shares(self.last),
            limits: self.recovery.limits.shares(self.last),
            file: self.file,
            title: self.trace.header.title,
            vantage_point: self.trace.header.vantage_point,
            odcid: self.trace.header.odcid,
            schema: self.trace.header.schema,
            version: self.course.version,
            alpn: self.course.alpn,
            closed: self.course.closed,
            loss: self.recovery.loss,
            mtu: self.mtu,
            dropped_on_arrival: self.dropped,
            ecn: self.course.ecn,
            key_updates: self.course.key_updates,
            path_changes: self.course.path_changes,
            series,
        })
    }
}

/// Whether a received packet acknowledges something, or does not say what is in it.
pub(super) fn may_hold_an_ack(data: &Value) -> bool {
    let is_ack = |frame: &Value| frame.get("frame_type").and_then(Value::as_str) == Some("ack");
    data.get("frames").and_then(Value::as_array).is_none_or(|frames| frames.iter().any(is_ack))
}

fn closed(data: &Value) -> String {
    let get = |key: &str| data.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let by = get("initiator").or_else(|| get("owner"));
    let what = get("trigger").or_else(|| get("connection_error")).unwrap_or("closed");
    let mut text = match by {
        Some(by) => format!("{what}, by {by}"),
        None => what.to_owned(),
    };
    if let Some(error) = get("connection_error").filter(|error| *error != what && *error != "no_error") {
        text = format!("{text}: {error}");
    }
    if let Some(reason) = get("reason") {
        text = format!("{text} ({reason})");
    }
    text
}

fn distribution(mut values: Vec<f64>) -> Option<Distribution> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    Some(Distribution {
        min_ms: *values.first()?,
        median_ms: values[values.len() / 2],
        max_ms: *values.last()?,
        samples: values.len() as u64,
    })
}

fn bucket(time: f64, first: f64, duration: f64, width: usize) -> usize {
    if duration <= 0.0 {
        return 0;
    }
    (((time - first) / duration * width as f64) as usize).min(width.saturating_sub(1))
}

/// Bits per second in each step.
fn rates(progress: &[(f64, u64)], first: f64, duration: f64, width: usize) -> Vec<f64> {
    let mut bytes = vec![0; width];
    for (time, count) in progress {
        bytes[bucket(*time, first, duration, width)] += count;
    }
    let step = duration / width as f64;
    bytes.into_iter().map(|sum| if step > 0.0 { sum as f64 * 8000.0 / step } else { 0.0 }).collect()
}

/// The mean in each step; a step without a value keeps the last one.
fn steps(values: impl Iterator<Item = (f64, f64)>, first: f64, duration: f64, width: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0_u32, 0.0); width];
    for (time, value) in values {
        let (sum, count, last) = &mut sums[bucket(time, first, duration, width)];
        *sum += value;
        *count += 1;
        *last = value;
    }
    let mut carried = None;
    sums.into_iter()
        .map(|(sum, count, last)| {
            if count == 0 {
                return carried;
            }
            carried = Some(last);
            Some(sum / f64::from(count))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(events: &[(f64, &str, Value)]) -> Summary {
        let mut builder = Builder::new("test".into());
        for (time, name, data) in events {
            builder.add(Item::Event(Event::new(*time, name, data.clone())));
        }
        builder.finish(10).unwrap()
    }

    fn stream(offset: u64, len: u64) -> Value {
        json!({"header": {"packet_type": "1RTT"}, "raw": {"length": len + 50},
               "frames": [{"frame_type": "stream", "stream_id": 0, "offset": offset,
                           "raw": {"payload_length": len}}]})
    }

    #[test]
    fn repeated_bytes_do_not_count_as_goodput() {
        let summary = summary(&[
            (0.0, "packet_sent", stream(0, 1000)),
            (100.0, "packet_sent", stream(1000, 1000)),
            (200.0, "packet_sent", stream(0, 1000)),
        ]);
        assert_eq!(summary.sent.stream_bytes, 2000);
        assert_eq!(summary.sent.repeated_stream_bytes, 1000);
        assert_eq!(summary.sent.goodput_bps, Some(80_000.0));
        assert_eq!(summary.sent.bytes, 3150);
    }

    #[test]
    fn time_shares_add_up() {
        let summary = summary(&[
            (0.0, "congestion_state_updated", json!({"new": "slow_start"})),
            (0.0, "connection_data_blocked_updated", json!({"new": "blocked", "reason": "pacing"})),
            (30.0, "connection_data_blocked_updated", json!({"new": "blocked", "reason": "congestion_control"})),
            (40.0, "congestion_state_updated", json!({"old": "slow_start", "new": "recovery"})),
            (60.0, "congestion_state_updated", json!({"new": "slow_start"})),
            (100.0, "packet_lost", json!({"trigger": "time_threshold"})),
        ]);
        assert_eq!(summary.phases.len(), 2);
        assert_eq!(summary.phases[0].total_ms, 80.0);
        assert_eq!(summary.phases[0].times, 2);
        assert_eq!(summary.phases.iter().map(|share| share.share).sum::<f64>(), 1.0);
        assert_eq!(summary.limits[1].share, 0.7);
        assert_eq!(summary.loss.packets, 1);
    }

    #[test]
    fn rtt_and_window_come_from_either_name_of_the_event() {
        let metrics = |rtt: f64, window: u64| json!({"latest_rtt": rtt, "congestion_window": window});
        let summary = summary(&[
            (0.0, "packet_received", json!({})),
            (0.0, "metrics_updated", metrics(20.0, 12_000)),
            (5.0, "recovery_metrics_updated", metrics(30.0, 24_000)),
            (10.0, "recovery_metrics_updated", metrics(25.0, 18_000)),
        ]);
        let rtt = summary.rtt.unwrap();
        assert_eq!((rtt.min_ms, rtt.median_ms, rtt.max_ms), (20.0, 25.0, 30.0));
        let window = summary.congestion_window.unwrap();
        assert_eq!((window.first, window.max, window.last), (12_000, 24_000, 18_000));
        assert_eq!(summary.series.rtt_ms[0], Some(20.0));
        assert_eq!(summary.series.rtt_ms[4], Some(20.0), "carried on");
    }

    #[test]
    fn a_lost_probe_of_the_mtu_is_not_a_loss() {
        let summary = summary(&[(0.0, "packet_lost", json!({"is_mtu_probe_packet": true}))]);
        assert_eq!((summary.loss.packets, summary.loss.mtu_probes), (0, 1));
    }

    #[test]
    fn nothing_is_not_a_trace() {
        assert!(Builder::new("x".into()).finish(10).is_err());
    }
}
