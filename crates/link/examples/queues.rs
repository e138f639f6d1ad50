//! Pushes packets through a queue discipline as fast as the CPU goes and prints what it has done; time it from outside.
//!
//! `time target/release/examples/queues 20000000 codel`: that many packets of 16 flows leave a queue in which two
//! thousand wait, at 1 Gbps, so that it is above every target. A third argument is another rate in Mbps: at 20 a packet
//! takes 0.6 ms, and what Predict takes more than `tail-drop` is what it does at the ends of its slots of 1 ms.

use thalweg_link::queue::{
    CoDel, Cobalt, DualPi2, FqCodel, FqPie, HeadDrop, Hred, Kind, Pie, Predict, Queue, Red, Setup, SfqCodel, TailDrop,
};
use thalweg_link::{Packet, QueueLimit, Streams};
use thalweg_units::{Ecn, Instant, Rate};

const WAITING: usize = 2_000;

fn build(name: &str, rate: Rate) -> Option<Box<dyn Queue<u64>>> {
    let setup = Setup { limit: QueueLimit::Infinite, rate, start: Instant::ZERO, dice: Streams::new(1).dice("queue") };
    Some(match name {
        TailDrop::NAME => TailDrop.build(setup),
        HeadDrop::NAME => HeadDrop.build(setup),
        CoDel::NAME => CoDel::default().build(setup),
        Pie::NAME => Pie::default().build(setup),
        Red::NAME => Red::default().build(setup),
        Hred::NAME => Hred::default().build(setup),
        FqCodel::NAME => FqCodel::default().build(setup),
        FqPie::NAME => FqPie::default().build(setup),
        SfqCodel::NAME => SfqCodel::default().build(setup),
        Cobalt::NAME => Cobalt::default().build(setup),
        DualPi2::NAME => DualPi2::default().build(setup),
        Predict::NAME => Predict::default().build(setup),
        _ => return None,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let packets: u64 = args.next().map_or(Ok(20_000_000), |arg| arg.parse())?;
    let name = args.next().unwrap_or_else(|| TailDrop::NAME.to_owned());
    let rate = args.next().map_or(Ok(1_000), |arg| arg.parse::<u64>())?;
    let rate = Rate::from_bps(rate.clamp(1, 1_000_000) * 1_000_000);
    let mut queue = build(&name, rate).ok_or("give a number of packets, the name of a queue discipline, and Mbps")?;
    let mut now = Instant::ZERO;
    let (mut dropped, mut drops, mut marked, mut offered, mut last) = (Vec::new(), 0, 0u64, 0u64, 0);
    for _ in 0..packets {
        // Two at a time until enough wait, or a discipline that drops on arrival would let the queue run empty.
        for _ in 0..1 + usize::from(queue.len_packets() < WAITING) {
            let flow = (offered % 16) as u32;
            let packet =
                Packet { payload: offered, size: 1500, flow, connection: 0, ecn: Ecn::Ect0, sent: now, tail: false };
            offered += 1;
            queue.enqueue(now, packet, &mut dropped);
        }
        if let Some(queued) = queue.dequeue(now, &mut dropped) {
            marked += u64::from(queued.packet.ecn == Ecn::Ce);
            last = queued.packet.payload;
        }
        drops += dropped.len();
        dropped.clear();
        now += rate.time_for(1500);
    }
    println!(
        "{name}: {offered} packets offered, {drops} dropped, {marked} marked, {} wait; last {last}",
        queue.len_packets()
    );
    Ok(())
}
