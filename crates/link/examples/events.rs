//! Pushes packets through a link as fast as the CPU goes and prints what it has done; time it from outside.
//!
//! `time target/release/examples/events 20000000 plain`: events are packets offered, services ended, deliveries.

use thalweg_link::{
    Direction, DirectionConfig, Jitter, LossModel, Packet, Probability, QueueLimit, Reorder, Sink, Spread, Streams,
};
use thalweg_units::{Duration, Ecn, Instant};

#[derive(Default)]
struct Count {
    last: u64,
}

impl Sink<u64> for Count {
    fn deliver(&mut self, at: Instant, packet: Packet<u64>) {
        self.last = at.as_nanos() ^ packet.payload;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let packets: u64 = args.next().map_or(Ok(20_000_000), |arg| arg.parse())?;
    let kind = args.next().unwrap_or_else(|| "plain".to_owned());
    let mut config = DirectionConfig {
        delay: Duration::from_millis(10).into(),
        queue: QueueLimit::Bytes(1_000_000),
        ..DirectionConfig::default()
    };
    match kind.as_str() {
        "plain" => {}
        "bad" => {
            config.jitter = Some(Jitter { spread: Spread::Exponential(Duration::from_millis(1)), reorder: false });
            config.loss.push(LossModel::Random(Probability::ratio(1, 100)));
            config.reorder.push(Reorder { share: Probability::ratio(1, 100), by: Duration::from_millis(5) });
        }
        _ => return Err("give a number of packets, then \"plain\" or \"bad\"".into()),
    }
    let mut link: Direction<u64> = Direction::new(&config, Instant::ZERO, &Streams::new(1))?;
    let mut count = Count::default();
    // Ten packets at a time, at 95 % of the link's rate of 100 Mbps.
    let gap = Duration::from_nanos(10 * 1500 * 8 * 1000 / 95);
    let mut now = Instant::ZERO;
    for payload in 0..packets {
        if payload % 10 == 0 {
            now += gap;
            while let Some(at) = link.next_event().filter(|at| *at <= now) {
                link.advance(at, &mut count);
            }
        }
        link.send(
            now,
            Packet { payload, size: 1500, flow: 0, connection: 0, ecn: Ecn::NotEct, sent: now, tail: false },
            &mut count,
        );
    }
    while let Some(at) = link.next_event() {
        link.advance(at, &mut count);
    }
    let stats = link.stats();
    println!(
        "{} events ({} packets, {} dropped); last {:x}",
        stats.events(),
        packets,
        stats.dropped_total(),
        count.last
    );
    Ok(())
}
