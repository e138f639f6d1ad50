//! What is kept of a log does not grow with it. The longest lists are shorter in tests.

use serde_json::json;

use super::{Facts, Limit};
use crate::read::{EventIn, Item, Tree};

impl Facts {
    /// Everything that there is a list of.
    fn kept(&self) -> usize {
        let (flight, waits) = (self.flight.kept(), &self.waits);
        flight
            + self.silences.list.len()
            + self.silences.early.len()
            + self.silences.list.iter().map(|silence| silence.came.len()).sum::<usize>()
            + self.silences.early.iter().map(|early| early.asked.len() + early.came.len()).sum::<usize>()
            + waits.pauses.len()
            + waits.credit_spans.len()
            + self.condition.damage.len()
            + self.course.handshake_losses.len()
    }
}

/// The facts of a log of so many packets, of which some are lost, some come late, and some wait for credit or for the
/// application; every thousandth record is damaged, and there is an outage after every two thousandth.
fn facts(packets: u64) -> Facts {
    let mut facts = Facts::default();
    let mut time = 0.0;
    let tell = |facts: &mut Facts, time: f64, name: &str, data: serde_json::Value| {
        let tree = Tree::of(&data).unwrap();
        facts.add(Item::Event(EventIn { time, name, data: tree.root(), connection: None }));
    };
    for number in 0..packets {
        time += if number % 2000 == 1999 { 1500.0 } else { 1.0 };
        let header = json!({ "packet_type": "1RTT", "packet_number": number });
        let reason = if number % 2 == 0 { "stream_flow_control" } else { "application" };
        tell(&mut facts, time, "connection_data_blocked_updated", json!({ "new": "blocked", "reason": reason }));
        time += 2.0;
        let stream = json!({
            "frame_type": "stream", "stream_id": 4 * (number % 6000), "offset": number * 1000,
            "raw": { "payload_length": 1000 },
        });
        let size = 1200 + number % 300;
        let sent = json!({ "header": header, "raw": { "length": size }, "frames": [stream] });
        tell(&mut facts, time, "packet_sent", sent);
        let ranges = match number % 8 {
            // Every eighth is lost, and another comes late.
            0 | 5 => json!([]),
            7 => json!([[number, number], [number - 2, number - 2]]),
            _ => json!([[number, number]]),
        };
        let ack = json!({ "frame_type": "ack", "acked_ranges": ranges });
        let received = json!({ "header": header, "raw": { "length": 40 }, "frames": [ack] });
        tell(&mut facts, time + 0.5, "packet_received", received);
        if number % 8 == 0 && number > 0 {
            let header = json!({ "packet_type": "1RTT", "packet_number": number - 8 });
            tell(&mut facts, time + 0.5, "packet_lost", json!({ "header": header }));
        }
        if number % 1000 == 0 {
            facts.add(Item::Damaged);
        }
    }
    facts.finish();
    facts
}

#[test]
fn what_is_kept_of_a_log_is_bounded() {
    let (some, more) = (facts(40_000), facts(120_000));
    assert!(some.flight.losses.lost.len() > 1000 && some.flight.losses.late.len() > 1000);
    assert!(some.waits.pauses.len() > 5_000 && some.kept() > 20_000, "{} {}", some.waits.pauses.len(), some.kept());
    assert!(more.condition.events * 10 > 29 * some.condition.events);
    // The sum of all limits; without them it would be thrice as much as of a third.
    assert!(more.kept() < 66_000 && more.kept() * 2 < some.kept() * 3, "{} and {}", some.kept(), more.kept());
}

#[test]
fn aioquic_names_the_type_of_a_lost_packet_in_its_own_way() {
    let mut facts = Facts::default();
    let mut tell = |time: f64, name: &str, data: serde_json::Value| {
        let tree = Tree::of(&data).unwrap();
        facts.add(Item::Event(EventIn { time, name, data: tree.root(), connection: None }));
    };
    for number in 0..4 {
        let frame = json!({ "frame_type": "stream", "stream_id": 0, "offset": number * 1000, "length": 1000 });
        let header = json!({ "packet_type": "1RTT", "packet_number": number });
        tell(number as f64, "packet_sent", json!({ "header": header, "raw": { "length": 1040 }, "frames": [frame] }));
    }
    tell(40.0, "packet_lost", json!({ "type": "1RTT", "packet_number": 1 }));
    assert_eq!(facts.flight.losses.lost.len(), 1);
}

/// The facts of a log without frames of a sender that may send 40,000 bytes ahead, if the receiver renews that when
/// half of it has come; with room in the congestion window for so many bytes, and what is `left` on its way when it
/// goes on.
fn stalled(room: u64, left: impl Fn(u64) -> u64) -> Facts {
    let mut facts = Facts::default();
    let tell = |facts: &mut Facts, time: f64, name: &str, data: serde_json::Value| {
        let tree = Tree::of(&data).unwrap();
        facts.add(Item::Event(EventIn { time, name, data: tree.root(), connection: None }));
    };
    let mut number = 0;
    let mut packets = Vec::new();
    for round in 0..6 {
        let time = 100.0 * round as f64;
        if round > 0 {
            // All but those that are left have come.
            let kept = left(round).div_ceil(1200) as usize;
            packets.drain(..packets.len() - kept);
            tell(
                &mut facts,
                time,
                "packet_received",
                json!({"header": {"packet_type": "1RTT", "packet_number": round}}),
            );
        }
        let flight = |packets: &[u64]| {
            json!({"bytes_in_flight": packets.iter().sum::<u64>(),
            "packets_in_flight": packets.len(), "congestion_window": room, "smoothed_rtt": 0.05, "latest_rtt": 0.1})
        };
        tell(&mut facts, time, "metrics_updated", flight(&packets));
        let count = if round == 0 { 34 } else { 17 };
        for at in 1..=count {
            // Credit ends within the last.
            let size = if at == count { 300 } else { 1200 };
            let header = json!({"packet_type": "1RTT", "packet_number": number, "length": size});
            tell(&mut facts, time, "packet_sent", json!({ "header": header }));
            number += 1;
            packets.push(size);
        }
        tell(&mut facts, time, "metrics_updated", flight(&packets));
    }
    facts.finish();
    facts
}

#[test]
fn stalls_with_as_much_left_each_time_are_those_of_a_receive_window() {
    let facts = stalled(100_000, |_| 19_000);
    let [connection, stream] = facts.waits.credit.initial.unwrap();
    assert!(connection == stream && (34_000..40_000).contains(&connection), "{connection}");
    assert_eq!(facts.unused(), 0.0, "the log says what the sender waited for");
    assert!(facts.waits.time(Limit::Credit) > 300.0 && facts.waits.credit_spans.len() >= 4);
    let is_told = |facts: Facts| facts.waits.credit.initial.is_some();
    assert!(!is_told(stalled(20_000, |_| 19_000)), "the congestion window held it");
    assert!(!is_told(stalled(100_000, |round| 3000 * round)), "an application that sends little by little");
}

#[test]
fn a_silence_that_ends_without_an_acknowledgment_is_one() {
    let mut facts = Facts::default();
    let mut tell = |time: f64, name: &str, number: u64, frame: serde_json::Value| {
        let header = json!({ "packet_type": "1RTT", "packet_number": number });
        let data = json!({ "header": header, "raw": { "length": 1040 }, "frames": [frame] });
        let tree = Tree::of(&data).unwrap();
        facts.add(Item::Event(EventIn { time, name, data: tree.root(), connection: None }));
    };
    let data = |number: u64| json!({ "frame_type": "stream", "stream_id": 0, "offset": number * 1000, "length": 1000 });
    let ack = |from: u64, to: u64| json!({ "frame_type": "ack", "acked_ranges": [[from, to]] });
    (0..20).for_each(|number| tell(number as f64, "packet_sent", number, data(number)));
    tell(100.0, "packet_received", 0, ack(0, 9));
    tell(300.0, "packet_sent", 20, data(20));
    // The peer asks twice whether anybody is there. The answer to what is sent then comes a round trip later.
    tell(2000.0, "packet_received", 9, json!({ "frame_type": "ping" }));
    tell(2000.1, "packet_received", 10, json!({ "frame_type": "ping" }));
    tell(2050.0, "packet_sent", 21, data(21));
    tell(2150.0, "packet_received", 11, ack(21, 21));
    // Then the path is interrupted once more.
    tell(2160.0, "packet_sent", 22, data(22));
    tell(2400.0, "packet_sent", 23, data(23));
    tell(4000.0, "packet_received", 12, ack(22, 23));
    facts.finish();
    let silences: Vec<(f64, f64)> = facts.silences.list.iter().map(|silence| (silence.from, silence.to)).collect();
    assert_eq!(silences, [(100.0, 2000.0), (2150.0, 4000.0)]);
    let excess = facts.silences.list[1].excess;
    assert!((4000.0 - 2260.0 - excess).abs() < 25.0, "an answer was due a round trip after the first: {excess}");
}
