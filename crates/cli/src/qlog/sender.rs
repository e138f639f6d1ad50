//! Gathers from a trace what its sender did over time: window, threshold, bytes in flight, round-trip time, states.

use serde_json::Value;
use thalweg_lab::record::Series;
use thalweg_lab::report::Sender;

use super::summary::{integer, may_hold_an_ack};
use thalweg_why::read::{Event, FirstTrace, Header, Item};

/// Thresholds from here on mean that there is none yet: 2³² − 1 and 2⁶⁴ − 1 are how programs write that.
const NO_THRESHOLD: u64 = u32::MAX as u64;

/// Takes a trace's items one by one.
#[derive(Debug, Default)]
pub struct Builder {
    sender: Sender,
    trace: FirstTrace,
    events: u64,
    first: Option<f64>,
    has_packets: bool,
    /// Whether an acknowledgment may have arrived. Before, the round-trip time is an assumption.
    has_heard: bool,
    /// Round-trip times before; those of a trace without packets are samples, too.
    assumed: Series,
}

impl Builder {
    /// One more item. Of a file with several traces, only the first is read.
    pub fn add(&mut self, item: Item) {
        if let Some(event) = self.trace.event(item) {
            self.event(&event);
        }
    }

    fn event(&mut self, event: &Event) {
        self.events += 1;
        let time = (event.time - *self.first.get_or_insert(event.time)) / 1000.0;
        self.sender.end = self.sender.end.max(time);
        // A line goes on from left to right, whatever the writer's clock did.
        let time = self.sender.end;
        let label = |key: &str| event.data.get(key).and_then(Value::as_str);
        match event.name.as_str() {
            "packet_sent" => self.has_packets = true,
            "packet_received" => {
                self.has_packets = true;
                self.has_heard |= may_hold_an_ack(&event.data);
            }
            "recovery_metrics_updated" | "metrics_updated" => self.metrics(time, &event.data),
            "congestion_state_updated" => {
                // The first event of the kind tells what was before.
                if let (true, Some(old)) = (self.sender.states.is_empty(), label("old")) {
                    self.state(0.0, old);
                }
                if let Some(new) = label("new") {
                    self.state(time, new);
                }
            }
            _ => {}
        }
    }

    fn state(&mut self, time: f64, name: &str) {
        let name = name.replace('_', " ");
        let states = &mut self.sender.states;
        if states.last().is_none_or(|(_, last)| *last != name) {
            states.push((time, name));
        }
    }

    fn metrics(&mut self, time: f64, data: &Value) {
        let bytes = |key: &str| data.get(key).and_then(integer);
        let add = |series: &mut Series, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                series.t.push(time);
                series.v.push(value);
            }
        };
        add(&mut self.sender.window, bytes("congestion_window").map(|bytes| bytes as f64));
        let threshold = bytes("ssthresh").filter(|bytes| *bytes < NO_THRESHOLD);
        // Who writes every value each time leaves out a threshold that there is no longer, as after an undo; of who
        // writes changes only, the last one holds.
        let is_whole = ["congestion_window", "bytes_in_flight", "smoothed_rtt", "min_rtt"]
            .iter()
            .all(|key| data.get(*key).is_some());
        match threshold {
            Some(bytes) => add(&mut self.sender.threshold, Some(bytes as f64)),
            None if is_whole && self.sender.threshold.v.last().is_some_and(|last| last.is_finite()) => {
                self.sender.threshold.t.push(time);
                self.sender.threshold.v.push(f64::NAN);
            }
            None => {}
        }
        add(&mut self.sender.in_flight, bytes("bytes_in_flight").map(|bytes| bytes as f64));
        let round_trip = ["smoothed_rtt", "latest_rtt"].iter().find_map(|key| data.get(*key)?.as_f64());
        let list = if self.has_heard { &mut self.sender.round_trip } else { &mut self.assumed };
        add(list, round_trip.map(|milliseconds| milliseconds / 1000.0));
        // Programs that do not tell changes may tell the state with each value.
        if let Some(state) = data.get("state").and_then(Value::as_str) {
            self.state(time, state);
        }
    }

    /// What was gathered, under a name; why there is nothing to draw.
    pub fn finish(mut self, name: String) -> Result<Sender, &'static str> {
        if self.events == 0 {
            return Err("no qlog event is in it; take one that `--qlog DIR` of get, put or serve has written");
        }
        if !self.has_packets {
            self.sender.round_trip = self.assumed;
        }
        if self.sender.is_empty() {
            return Err(
                "no congestion window, bytes in flight or RTT is in it; take one with events metrics_updated, \
                        or leave out --html for a summary",
            );
        }
        let Header { title, vantage_point, .. } = self.trace.header;
        self.sender.about = [vantage_point, title].into_iter().flatten().collect::<Vec<_>>().join(", ");
        self.sender.name = name;
        Ok(self.sender)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sender(events: &[(f64, &str, Value)]) -> Result<Sender, &'static str> {
        let mut builder = Builder::default();
        for (time, name, data) in events {
            builder.add(Item::Event(Event::new(*time, name, data.clone())));
        }
        builder.finish("a".to_owned())
    }

    #[test]
    fn values_keep_their_time_and_states_read_as_words() {
        let metrics = |window: u64, rtt: f64| json!({"congestion_window": window, "bytes_in_flight": window / 2, "smoothed_rtt": rtt, "ssthresh": 9_000});
        let sender = sender(&[
            (500.0, "packet_sent", json!({})),
            (500.0, "metrics_updated", metrics(12_000, 333.0)),
            (600.0, "packet_received", json!({})),
            (600.0, "recovery_metrics_updated", metrics(24_000, 100.0)),
            (1500.0, "congestion_state_updated", json!({"old": "slow_start", "new": "congestion_avoidance"})),
            (2500.0, "packet_sent", json!({})),
        ])
        .unwrap();
        assert_eq!((&*sender.window.t, &*sender.window.v), (&[0.0, 0.1][..], &[12_000.0, 24_000.0][..]));
        assert_eq!(sender.in_flight.v, [6_000.0, 12_000.0]);
        assert_eq!(sender.round_trip.v, [0.1], "what was assumed before the first ACK is no sample");
        assert_eq!(sender.states, [(0.0, "slow start".to_owned()), (1.0, "congestion avoidance".to_owned())]);
        assert_eq!(sender.end, 2.0);
    }

    #[test]
    fn a_threshold_without_bound_is_none() {
        for text in [json!(u64::MAX), json!("18446744073709551615"), json!(u32::MAX), json!(null)] {
            let data = json!({"congestion_window": 12_000, "ssthresh": text});
            let sender = sender(&[(0.0, "metrics_updated", data)]).unwrap();
            assert!(sender.threshold.t.is_empty() && sender.window.v == [12_000.0], "{text}");
        }
    }

    #[test]
    fn a_threshold_ends_where_all_values_are_told_but_it() {
        let whole = json!({"congestion_window": 1, "bytes_in_flight": 1, "smoothed_rtt": 1.0, "min_rtt": 1.0});
        let mut with = whole.clone();
        with["ssthresh"] = json!(7_000);
        let changed = json!({"congestion_window": 2});
        let events = [whole.clone(), with, changed, whole.clone(), whole];
        let timed: Vec<(f64, &str, Value)> =
            (0_u32..).zip(events).map(|(at, data)| (f64::from(at) * 1000.0, "metrics_updated", data)).collect();
        let threshold = sender(&timed).unwrap().threshold;
        assert_eq!(threshold.t, [1.0, 3.0]);
        assert!(threshold.v[0] == 7_000.0 && threshold.v[1].is_nan());
    }

    #[test]
    fn a_trace_without_packets_has_round_trips() {
        let data = json!({"congestion_window": 14_480, "smoothed_rtt": 100.5, "state": "slow_start"});
        let sender = sender(&[(0.0, "metrics_updated", data)]).unwrap();
        assert_eq!(sender.round_trip.v, [0.1005]);
        assert_eq!(sender.states, [(0.0, "slow start".to_owned())]);
    }

    #[test]
    fn what_has_nothing_to_draw_says_what_would() {
        assert!(sender(&[]).unwrap_err().contains("--qlog DIR"));
        assert!(sender(&[(0.0, "packet_sent", json!({}))]).unwrap_err().contains("metrics_updated"));
    }
}
