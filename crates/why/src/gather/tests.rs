//! What is kept of a log does not grow with it. The longest lists are shorter in tests.

use serde_json::json;

use super::Facts;
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
