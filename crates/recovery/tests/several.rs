//! Several paths in use at once, each with a packet number space: timers, backoff and what an ACK that came by another
//! path does (draft-ietf-quic-multipath-21).

use std::ops::RangeInclusive;

use thalweg_recovery::{
    AckFrame, Budget, Config, DataSpace, Ecn, NewPath, Outcome, PathId, Recovery, Sent, SpaceId, Timeout,
};
use thalweg_units::{Duration, Instant, Rate};

use crate::common::ms;

const SECOND: DataSpace = DataSpace(1);

/// A confirmed connection with two paths: round trips of 20 ms and 100 ms are known.
struct Two {
    recovery: Recovery<()>,
    now: Instant,
    paths: [PathId; 2],
    next: [u64; 2],
}

impl Two {
    fn new() -> Two {
        let now = Instant::ZERO + Duration::from_secs(1);
        let mut recovery = Recovery::new(Config::default(), false);
        let paths = [(); 2].map(|()| recovery.add_path(now, NewPath::new(1_200)));
        recovery.set_handshake_confirmed(now);
        recovery.set_space_path(SECOND, paths[1]);
        recovery.set_max_ack_delay(Duration::ZERO);
        let mut two = Two { recovery, now, paths, next: [0, 0] };
        two.send(0);
        two.send(1);
        two.now += ms(20);
        two.ack(0, 0);
        two.now += ms(80);
        two.ack(1, 0);
        two
    }

    fn space(index: usize) -> SpaceId {
        SpaceId::Data(DataSpace(index as u32))
    }

    fn send(&mut self, index: usize) {
        let number = self.next[index];
        self.next[index] += 1;
        let packet = Sent {
            number,
            time: self.now,
            size: 1_200,
            ack_eliciting: true,
            in_flight: true,
            mtu_probe: false,
            ecn: Ecn::NotEct,
            path: self.paths[index],
            data: (),
        };
        self.recovery.on_sent(Self::space(index), packet, true);
    }

    fn ack(&mut self, index: usize, number: u64) -> Outcome<()> {
        self.ack_all(index, number..=number)
    }

    fn ack_all(&mut self, index: usize, numbers: RangeInclusive<u64>) -> Outcome<()> {
        let mut outcome = Outcome::default();
        let frame = AckFrame::new(self.now, [numbers].into_iter());
        self.recovery.on_ack(self.now, Self::space(index), frame, &mut outcome).unwrap();
        outcome
    }

    fn rtt(&self, index: usize) -> Duration {
        self.recovery.path(self.paths[index]).unwrap().rtt().smoothed
    }

    fn pto_count(&self, index: usize) -> u32 {
        self.recovery.path(self.paths[index]).unwrap().pto_count()
    }

    /// Lets the timer expire; which space it was about.
    fn expire(&mut self) -> (Timeout, Outcome<()>) {
        self.now = self.recovery.timer().unwrap();
        let mut outcome = Outcome::default();
        (self.recovery.on_timeout(self.now, &mut outcome), outcome)
    }
}

#[test]
fn each_space_samples_the_round_trip_of_its_own_path() {
    let two = Two::new();
    assert_eq!((two.rtt(0), two.rtt(1)), (ms(20), ms(100)));
    assert!(two.recovery.pto(Two::space(1)) > two.recovery.pto(Two::space(0)));
    assert_eq!(two.recovery.largest_pto(), two.recovery.pto(Two::space(1)));
}

#[test]
fn the_probe_timer_of_a_space_goes_by_its_own_path() {
    let mut two = Two::new();
    let sent = two.now;
    two.send(1);
    assert_eq!(two.recovery.timer(), Some(sent + two.recovery.pto(Two::space(1))));
    two.send(0);
    assert_eq!(two.recovery.timer(), Some(sent + two.recovery.pto(Two::space(0))), "the shorter one is first");
    let (timeout, _) = two.expire();
    assert!(matches!(timeout, Timeout::Probe { space, .. } if space == Two::space(0)), "{timeout:?}");
    assert_eq!((two.pto_count(0), two.pto_count(1)), (1, 0), "the other path has no part in it");
    two.ack(1, 1);
    assert_eq!(two.pto_count(0), 1, "what arrives by one path does not end the silence of the other");
    two.ack(0, 1);
    assert_eq!(two.pto_count(0), 0);
}

#[test]
fn a_time_for_loss_in_one_space_hides_no_probe_timer_of_another() {
    let mut two = Two::new();
    two.send(0);
    // Two packets on the slow path, of which the second is acknowledged: the first has a time for loss.
    two.send(1);
    two.now += ms(1);
    two.send(1);
    two.now += ms(5);
    two.ack(1, 2);
    let probe = two.now - ms(6) + two.recovery.pto(Two::space(0));
    let mut probed = None;
    for _ in 0..2 {
        let (timeout, _) = two.expire();
        if matches!(timeout, Timeout::Probe { space, .. } if space == Two::space(0)) {
            probed = Some(two.now);
        }
    }
    assert_eq!(probed, Some(probe));
}

#[test]
fn an_amplification_limit_stops_the_probe_timer_of_its_path_only() {
    let mut two = Two::new();
    two.send(0);
    two.send(1);
    two.recovery.set_path_amplification_limited(two.now, two.paths[1], true);
    two.now += ms(20);
    two.ack(0, 1);
    assert_eq!(two.recovery.timer(), None, "nothing could be sent on the limited path");
    two.recovery.set_path_amplification_limited(two.now, two.paths[1], false);
    assert!(two.recovery.timer().is_some());
}

#[test]
fn a_space_survives_the_move_of_its_path_to_other_addresses() {
    let mut two = Two::new();
    two.send(1);
    let moved = two.recovery.add_path(two.now, NewPath::new(1_200));
    two.recovery.set_space_path(SECOND, moved);
    two.recovery.remove_path(two.paths[1]);
    two.paths[1] = moved;
    two.send(1);
    two.now += ms(30);
    let outcome = two.ack(1, 2);
    assert_eq!(outcome.acked.len(), 1);
    assert_eq!(two.rtt(1), ms(30), "the new addresses have a round trip of their own");
    assert_eq!(two.recovery.largest_acked(Two::space(1)), Some(2));
}

#[test]
fn loss_is_detected_within_a_space() {
    let mut two = Two::new();
    for _ in 0..6 {
        two.send(0);
        two.send(1);
    }
    two.now += ms(20);
    let outcome = two.ack(0, 6);
    assert!(outcome.lost.iter().all(|lost| lost.path == two.paths[0]));
    assert_eq!(two.recovery.bytes_in_flight(two.paths[1]), 6 * 1_200, "the other path has lost nothing");
}

/// Sends on each path what it may, in turns; returns the bytes of each since the start of the span, which ends after so
/// many milliseconds.
fn send_all(two: &mut Two, indices: &[usize], millis: u64, check: impl Fn(u64, [u64; 2])) -> [u64; 2] {
    let mut sent = [0; 2];
    for passed in 0..millis {
        for &index in indices {
            // Each goes first for a while.
            let turn = indices[(index + passed as usize / 7) % indices.len()];
            while let Budget::Now(_) = two.recovery.budget(two.now, two.paths[turn]) {
                two.send(turn);
                sent[turn] += 1_200;
            }
        }
        check(passed, sent);
        two.now += ms(1);
        for &index in indices {
            let newest = two.next[index] - 1;
            two.ack_all(index, 0..=newest);
        }
    }
    sent
}

#[test]
fn a_rate_limit_holds_for_all_paths_together() {
    let mut two = Two::new();
    let rate = Rate::from_bps(9_600_000);
    two.recovery.set_max_rate(two.now, Some(rate));
    // Both are known, and could carry more.
    let sent = send_all(&mut two, &[0, 1], 2_000, |passed, sent| {
        let most = rate.bytes_in(ms(passed)) + 10 * 1_200;
        assert!(sent[0] + sent[1] <= most, "{sent:?} in {passed} ms, at most {most} should be");
    });
    let all = rate.bytes_in(ms(2_000));
    assert!(sent[0] + sent[1] >= all * 95 / 100, "{sent:?} of {all}");
    assert!(sent.iter().all(|bytes| *bytes > all / 4), "{sent:?}");
    // One path alone has all of it again.
    let second = two.paths[1];
    two.recovery.remove_path(second);
    let sent = send_all(&mut two, &[0], 2_000, |_, _| ());
    assert!(sent[0].abs_diff(all) < all / 20, "{sent:?} of {all}");
}
