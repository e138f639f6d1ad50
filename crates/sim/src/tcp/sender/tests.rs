//! The scoreboard against a plain account of the same: random networks between a sender and a real receiver.

use thalweg_link::{Dice, Streams};
use thalweg_recovery::Policies;
use thalweg_units::Ecn;

use super::super::receiver::Receiver;
use super::*;

const SIZE: u16 = 1_000;

/// The SACK blocks of an ACK.
type Blocks = Vec<(u64, u64)>;

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1) + Duration::from_micros(micros)
}

fn sender(policies: &str, config: TcpConfig) -> Sender {
    let policies: Policies = policies.parse().unwrap();
    let recovery = Config { policies, profile: config.profile(), ecn: false, ..Config::default() };
    let mut sender = Sender::new(&recovery, config, at(0), SIZE, true);
    sender.set_window(1 << 30);
    sender.on_handshake(at(0), Instant::ZERO + Duration::from_millis(980), false);
    sender
}

/// Everything that is kept twice says the same.
fn check(sender: &Sender) {
    let of = |state: State| sender.segments.iter().filter(move |segment| segment.state == state);
    let in_flight: u64 = of(State::InFlight).map(|segment| u64::from(segment.length)).sum();
    assert_eq!(in_flight, sender.path().path().bytes_in_flight());
    let lost: Vec<u64> = of(State::Lost).map(|segment| segment.start).collect();
    assert_eq!(lost, sender.lost.iter().copied().collect::<Vec<_>>());
    let sacked: u64 = of(State::Delivered).map(|segment| u64::from(segment.length)).sum();
    assert_eq!(sacked, sender.sacked.iter().map(|(start, end)| end - start.max(&sender.una)).sum::<u64>());
    assert!(sender.sacked.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", sender.sacked);
    let delivered = sender.order.slots.iter().filter(|slot| **slot == Slot::Delivered).count() as u64;
    assert_eq!(delivered, sender.order.delivered);
    for segment in of(State::InFlight) {
        assert_eq!(sender.order.slots[(segment.ordinal - sender.order.base) as usize], Slot::Open(segment.start));
    }
    assert_eq!(
        sender.order.slots.iter().filter(|slot| matches!(slot, Slot::Open(_))).count(),
        of(State::InFlight).count()
    );
    if sender.una < sender.next {
        assert!(sender.timers.rto.is_some(), "something is out and nobody waits for it");
    }
}

/// Segments and ACKs are lost, delayed and doubled as the dice say, until everything has arrived.
fn converse(seed: u64, policies: &str, config: TcpConfig) -> Sender {
    let dice: &mut Dice = &mut Streams::new(seed).dice("scoreboard");
    let mut sender = sender(policies, config);
    let mut receiver = Receiver::new(config, SIZE);
    let total = 50_000 + dice.below(100_000);
    sender.set_written(total);
    let loss = dice.below(30);
    // What is on its way: when it arrives, and the segment, or the ACK with its blocks.
    let mut segments: Vec<(Instant, u64, u64)> = Vec::new();
    let mut acks: Vec<(Instant, u64, Blocks)> = Vec::new();
    let mut now = at(0);
    for step in 0..200_000 {
        while let Ok(transmit) = sender.poll(now) {
            let copies = if dice.below(100) < loss { 0 } else { 1 + u64::from(dice.below(50) == 0) };
            for _ in 0..copies {
                let late = if dice.below(10) == 0 { 8_000 } else { 0 };
                let arrives = now + Duration::from_micros(10_000 + dice.below(200) + late);
                segments.push((arrives, transmit.start, transmit.start + u64::from(transmit.length)));
            }
            check(&sender);
        }
        if receiver.is_due(now) {
            let mut blocks = [(0, 0); MAX_SACKS];
            let count = receiver.on_ack_sent(&mut blocks);
            if dice.below(100) >= loss {
                let arrives = now + Duration::from_micros(10_000 + dice.below(3_000));
                acks.push((arrives, receiver.next(), blocks[..count].to_vec()));
            }
        }
        if sender.una() == total {
            check(&sender);
            assert_eq!(sender.path().path().bytes_in_flight(), 0);
            return sender;
        }
        let paced = match sender.poll(now) {
            Err(Blocked::Pacing(at)) => Some(at),
            _ => None,
        };
        let arrivals = segments.iter().map(|(at, ..)| *at).chain(acks.iter().map(|(at, ..)| *at));
        let timers = [sender.timer(), receiver.timer(), paced].into_iter().flatten();
        now = arrivals.chain(timers).min().unwrap_or_else(|| panic!("seed {seed}: deadlock at step {step}")).max(now);
        if let Some(index) = segments.iter().position(|(at, ..)| *at <= now) {
            let (_, start, end) = segments.swap_remove(index);
            receiver.on_segment(now, start, end, Ecn::NotEct, 0);
        } else if let Some(index) = acks.iter().position(|(at, ..)| *at <= now) {
            let (_, una, blocks) = acks.swap_remove(index);
            sender.on_ack(now, Ack { una, blocks: &blocks, echo: Echo::None, has_data: false, stamped: None });
            check(&sender);
        } else {
            sender.on_timer(now);
            check(&sender);
        }
    }
    panic!("seed {seed}: no end")
}

#[test]
fn everything_arrives_and_the_accounts_agree() {
    let reorderings = ["fixed", "half-in-flight", "time-only", "adaptive", "rack"];
    for seed in 0..200 {
        let reduction = ["immediate", "rate-halving", "prr-crb", "prr-ssrb", "prr"][seed as usize % 5];
        let reordering = reorderings[seed as usize / 5 % 5];
        let policies = format!("reduction={reduction}, reordering={reordering}, pacing=off");
        let config = TcpConfig {
            tail_loss_probe: seed % 2 == 0,
            time_threshold: seed % 3 == 0,
            delayed_ack: Duration::from_millis(40 * (seed % 2)),
            ..TcpConfig::default()
        };
        converse(seed, &policies, config);
    }
}

#[test]
fn acks_from_the_past_and_of_the_future_change_nothing() {
    let mut sender = sender("pacing=off", TcpConfig::default());
    sender.set_written(20_000);
    while sender.poll(at(0)).is_ok() {}
    let ack = |sender: &mut Sender, una: u64, blocks: &[(u64, u64)]| {
        sender.on_ack(at(20_000), Ack { una, blocks, echo: Echo::None, has_data: false, stamped: None });
        check(sender);
    };
    ack(&mut sender, 2_000, &[]);
    let before = sender.path().path().stats();
    ack(&mut sender, 1_000, &[(4_000, 5_000)]);
    ack(&mut sender, 1 << 40, &[]);
    ack(&mut sender, 2_000, &[(1 << 40, 1 << 41), (9_000, 8_000)]);
    assert_eq!(sender.path().path().stats().packets_acked, before.packets_acked);
    assert_eq!(sender.una(), 2_000);
}

#[test]
fn a_segment_that_acknowledges_nothing_outstanding_is_no_event_for_the_controller() {
    let config = TcpConfig::default();
    let recovery = Config { profile: config.profile(), ecn: false, trace: true, ..Config::default() };
    let mut sender = Sender::new(&recovery, config, at(0), SIZE, false);
    sender.set_window(1 << 30);
    sender.on_handshake(at(0), Instant::ZERO + Duration::from_millis(980), false);
    let events = |sender: &mut Sender, una| {
        sender.on_ack(at(50_000), Ack { una, blocks: &[], echo: Echo::None, has_data: true, stamped: None });
        let mut count = 0;
        sender.path_mut().drain_trace(|_, _| count += 1);
        count
    };
    assert!(events(&mut sender, 0) > 0, "of the handshake");
    assert_eq!(events(&mut sender, 0), 0);
    sender.set_written(u64::from(SIZE));
    assert!(sender.poll(at(10_000)).is_ok_and(|sent| sent.is_new));
    assert!(events(&mut sender, 0) > 0, "something is out");
    assert!(events(&mut sender, u64::from(SIZE)) > 0);
    assert_eq!(events(&mut sender, u64::from(SIZE)), 0);
    check(&sender);
}

/// Linux does not let a repair time out while answers come to what left before it.
#[test]
fn answers_to_what_left_before_a_repair_start_the_timer_anew() {
    for (acks, is_started) in [(TcpAcks::Linux, true), (TcpAcks::EverySecond, false)] {
        let mut sender = sender("pacing=off", TcpConfig { acks, ..TcpConfig::default() });
        sender.set_written(40_000);
        while sender.poll(at(0)).is_ok() {}
        let ack = |sender: &mut Sender, time, blocks: &[(u64, u64)]| {
            sender.on_ack(at(time), Ack { una: 0, blocks, echo: Echo::None, has_data: false, stamped: None });
            check(sender);
            sender.timers.rto.unwrap()
        };
        ack(&mut sender, 20_000, &[(1_000, 6_000)]);
        sender.on_timer(at(30_000));
        let sent: Vec<Transmit> = std::iter::from_fn(|| sender.poll(at(30_000)).ok()).collect();
        assert!(sent.iter().any(|one| one.start == 0 && !one.is_new), "{sent:?}");
        let new = sent.iter().find(|one| one.is_new).unwrap();
        let repaired = sender.timers.rto.unwrap();
        let before = ack(&mut sender, 60_000, &[(1_000, 8_000)]);
        assert_eq!(before > repaired, is_started, "what left first: {acks:?}, {repaired:?}, {before:?}");
        let block = (new.start, new.start + u64::from(new.length));
        assert_eq!(ack(&mut sender, 70_000, &[block, (1_000, 8_000)]), before, "what left after the repair");
    }
}

/// What left a quarter of the shortest round trip, 5 ms, before something that arrived, is lost at the first duplicate
/// ACK.
#[test]
fn linux_repairs_what_something_much_later_has_outrun() {
    for (acks, apart, is_repaired) in
        [(TcpAcks::Linux, 6_000, true), (TcpAcks::Linux, 4_000, false), (TcpAcks::EverySecond, 6_000, false)]
    {
        let mut sender =
            sender("pacing=off, reordering=fixed", TcpConfig { acks, time_threshold: false, ..TcpConfig::default() });
        sender.set_written(1_000);
        assert!(sender.poll(at(0)).is_ok());
        sender.set_written(40_000);
        while sender.poll(at(apart)).is_ok() {}
        let blocks = [(1_000, 2_000)];
        sender.on_ack(
            at(apart + 20_000),
            Ack { una: 0, blocks: &blocks, echo: Echo::None, has_data: false, stamped: None },
        );
        check(&sender);
        assert_eq!(!sender.lost.is_empty(), is_repaired, "{acks:?}, {apart}");
    }
}
