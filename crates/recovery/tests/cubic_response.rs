//! CUBIC's response function (RFC 9438 section 5.1): the mean window under a loss at every 1/p-th packet, on a pipe
//! that does nothing else: one round-trip time, no queue, no other loss.

use std::collections::VecDeque;

use thalweg_recovery::{AckFrame, Budget, Config, Ecn, NewPath, Outcome, PathId, Recovery, Sent, SpaceId};
use thalweg_units::{Duration, Instant};

const SIZE: u32 = 1_200;

/// A sender with endless data on a pipe.
struct Pipe {
    recovery: Recovery<()>,
    path: PathId,
    rtt: Duration,
    /// Packets on the way, with the times at which they are acknowledged.
    flying: VecDeque<(Instant, u64)>,
    next: u64,
    /// The packet that is lost next, and how many later the one after that.
    lost: u64,
    every: u64,
    /// Packets per ACK.
    ack_every: usize,
    losses: u64,
    now: Instant,
    out: Outcome<()>,
}

impl Pipe {
    /// The first loss comes at packet `first`: it ends slow start.
    fn new(controller: &str, rtt: Duration, first: u64, every: u64, ack_every: usize) -> Pipe {
        let policies = format!("controller={controller}, start=standard, pacing=off").parse().unwrap();
        let mut recovery = Recovery::new(Config { policies, ecn: false, ..Config::default() }, false);
        let path = recovery.add_path(Instant::ZERO, NewPath::new(SIZE as u16));
        recovery.set_handshake_confirmed(Instant::ZERO);
        Pipe {
            recovery,
            path,
            rtt,
            flying: VecDeque::new(),
            next: 0,
            lost: first,
            every,
            ack_every,
            losses: 0,
            now: Instant::ZERO,
            out: Outcome::default(),
        }
    }

    fn send(&mut self) {
        while matches!(self.recovery.budget(self.now, self.path), Budget::Now(_)) {
            let number = self.next;
            self.next += 1;
            let packet = Sent {
                number,
                time: self.now,
                size: SIZE,
                ack_eliciting: true,
                in_flight: true,
                mtu_probe: false,
                ecn: Ecn::NotEct,
                path: self.path,
                data: (),
            };
            self.recovery.on_sent(SpaceId::DATA, packet, true);
            if number == self.lost {
                self.lost += self.every;
                self.losses += 1;
            } else {
                self.flying.push_back((self.now + self.rtt, number));
            }
        }
    }

    /// Runs until so many packets were lost in all; returns the mean window over the time since the call, in packets.
    fn run_to(&mut self, losses: u64) -> f64 {
        let (start, mut area) = (self.now, 0.0);
        while self.losses < losses {
            self.send();
            // An ACK for several packets leaves with the last of them; a loss among them makes two ranges.
            let count = self.ack_every.min(self.flying.len());
            let at = self.flying[count - 1].0;
            area += (at - self.now).as_secs_f64() * self.recovery.path(self.path).unwrap().window() as f64;
            self.now = at;
            let numbers: Vec<u64> = self.flying.drain(..count).map(|(_, number)| number).collect();
            let runs = numbers.chunk_by(|a, b| a + 1 == *b).rev();
            let ranges = runs.map(|run| run[0]..=run[run.len() - 1]);
            self.out.clear();
            self.recovery.on_ack(at, SpaceId::DATA, AckFrame::new(at, ranges), &mut self.out).unwrap();
        }
        area / (self.now - start).as_secs_f64() / f64::from(SIZE)
    }
}

/// The mean window in packets of the steady state.
fn mean_window(controller: &str, rtt_ms: u64, every: u64, expected: f64, ack_every: usize) -> f64 {
    // Slow start has sent as much as the window it has reached: it ends about at the expected window.
    let mut pipe = Pipe::new(controller, Duration::from_millis(rtt_ms), expected as u64, every, ack_every);
    // Fast convergence makes the way there long: as many teeth as three million packets have, but no more than it
    // takes.
    let teeth = (3_000_000 / every).clamp(3, 60);
    pipe.run_to(teeth);
    pipe.run_to(teeth + teeth.min(8))
}

#[test]
fn rfc9438_5_1_the_mean_window_follows_the_response_function() {
    // The larger of 1.054 RTT^0.75 / p^0.75 and of Reno's 1.2 / p^0.5, in packets.
    for (rtt_ms, every, expected) in [
        (100, 10_000, 187.0),
        (100, 100_000, 1_054.0),
        (100, 1_000_000, 5_926.0),
        (10, 10_000, 120.0),
        (10, 100_000, 379.0),
        (10, 1_000_000, 1_200.0),
    ] {
        let mean = mean_window("cubic", rtt_ms, every, expected, 1);
        eprintln!("{rtt_ms} ms, 1/{every}: {mean:.0}, expected {expected}");
        assert!(
            (mean / expected - 1.0).abs() < 0.1,
            "{rtt_ms} ms, one loss in {every}: {mean:.0}, expected {expected}"
        );
    }
}

#[test]
fn reno_follows_its_own() {
    for (every, expected) in [(10_000, 122.0), (100_000, 387.0)] {
        let mean = mean_window("new-reno", 50, every, expected, 1);
        eprintln!("reno, 1/{every}: {mean:.0}, expected {expected}");
        assert!((mean / expected - 1.0).abs() < 0.1, "one loss in {every}: {mean:.0}, expected {expected}");
    }
}

#[test]
fn growth_does_not_depend_on_how_often_the_peer_acknowledges() {
    for (rtt_ms, expected) in [(100, 1_054.0), (10, 379.0)] {
        let each = mean_window("cubic", rtt_ms, 100_000, expected, 1);
        for ack_every in [2, 10, 50] {
            let mean = mean_window("cubic", rtt_ms, 100_000, expected, ack_every);
            eprintln!("{rtt_ms} ms, an ACK per {ack_every}: {mean:.0}, an ACK per packet: {each:.0}");
            assert!(
                (mean / each - 1.0).abs() < 0.05,
                "{rtt_ms} ms, an ACK per {ack_every}: {mean:.0} instead of {each:.0}"
            );
        }
    }
}
