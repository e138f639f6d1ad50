//! The seat of congestion control: what a model and a start can do in it, and how choices are written.

use std::collections::VecDeque;

use thalweg_units::{Duration, Instant, Rate};

use super::start::BURST;
use super::*;
use crate::testing::ms;
use crate::{AckFrame, Budget, Config, Ecn, NewPath, Outcome, PathId, Policies, Recovery, Sent, SpaceId, Timeout};

const DATAGRAM: u16 = 1_200;
const RTT: Duration = Duration::from_millis(50);

/// A sender that always has data, over a bottleneck with an endless queue. Every packet is acknowledged by itself.
struct Sender {
    recovery: Recovery<()>,
    path: PathId,
    now: Instant,
    rate: Rate,
    /// When the bottleneck is idle again.
    free: Instant,
    /// Packets on their way: number, and when their acknowledgment arrives.
    flying: VecDeque<(u64, Instant)>,
    next: u64,
    /// When each packet left.
    sent: Vec<Instant>,
    /// Every so many packets, one is lost; zero: none.
    lose_every: u64,
}

impl Sender {
    fn new(policies: &str) -> Sender {
        let config = Config { policies: policies.parse().unwrap(), ..Config::default() };
        let mut recovery = Recovery::new(config, false);
        let path = recovery.add_path(Instant::ZERO, NewPath::new(DATAGRAM));
        recovery.set_handshake_confirmed(Instant::ZERO);
        Sender {
            recovery,
            path,
            now: Instant::ZERO,
            rate: Rate::from_bps(9_600_000),
            free: Instant::ZERO,
            flying: VecDeque::new(),
            next: 0,
            sent: Vec::new(),
            lose_every: 0,
        }
    }

    fn path(&self) -> &crate::Path {
        self.recovery.path(self.path).unwrap()
    }

    fn send_one(&mut self, has_more: bool) {
        let packet = Sent {
            number: self.next,
            time: self.now,
            size: u32::from(DATAGRAM),
            ack_eliciting: true,
            in_flight: true,
            mtu_probe: false,
            ecn: Ecn::NotEct,
            path: self.path,
            data: (),
        };
        self.recovery.on_sent(SpaceId::DATA, packet, has_more);
        self.sent.push(self.now);
        self.free = self.free.max(self.now) + self.rate.time_for(u64::from(DATAGRAM));
        if self.lose_every == 0 || self.next % self.lose_every != self.lose_every - 1 {
            self.flying.push_back((self.next, self.free + RTT));
        }
        self.next += 1;
    }

    /// Sends all that may leave now; returns when more may, if the pacer is what holds it.
    fn send(&mut self) -> Option<Instant> {
        loop {
            match self.recovery.budget(self.now, self.path) {
                Budget::Now(bytes) => (0..bytes / u64::from(DATAGRAM)).for_each(|_| self.send_one(true)),
                Budget::Paced(next) => return Some(next),
                Budget::WindowFull => return None,
            }
        }
    }

    fn run_until(&mut self, end: Instant) {
        let mut outcome = Outcome::default();
        loop {
            let paced = self.send();
            let ack = self.flying.front().map(|(_, at)| *at);
            let next = [paced, ack, self.recovery.timer()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some((number, _)) = self.flying.pop_front_if(|(_, at)| *at <= self.now) {
                let frame = AckFrame::new(self.now, [number..=number].into_iter());
                self.recovery.on_ack(self.now, SpaceId::DATA, frame, &mut outcome).unwrap();
            }
            if let Timeout::Probe { .. } = self.recovery.on_timeout(self.now, &mut outcome) {
                self.send_one(true);
            }
        }
        self.now = end;
    }

    /// Nothing is sent any more until everything is acknowledged.
    fn drain(&mut self) {
        let mut outcome = Outcome::default();
        while let Some((number, at)) = self.flying.pop_front() {
            self.now = self.now.max(at);
            let frame = AckFrame::new(self.now, [number..=number].into_iter());
            self.recovery.on_ack(self.now, SpaceId::DATA, frame, &mut outcome).unwrap();
        }
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

#[test]
fn a_model_paces_by_the_delivery_rate() {
    let mut sender = Sender::new("controller=test-rate-pacer");
    sender.run_until(at(4_000));
    let lately = sender.sent.iter().filter(|at| **at >= self::at(3_000)).count() as u64;
    let rate = Rate::from_bytes_over(lately * u64::from(DATAGRAM), ms(1_000)).bps();
    assert!(rate.abs_diff(sender.rate.bps()) <= sender.rate.bps() / 50, "{rate} instead of {}", sender.rate.bps());
    let paced = sender.path().pacing_rate().unwrap().bps();
    assert!(paced.abs_diff(12_000_000) <= 240_000, "5/4 of what was delivered: {paced}");
    assert_eq!(sender.path().state_label(), "test_rate_pacer");
}

#[test]
fn a_model_may_refuse_a_reduction() {
    let mut sender = Sender::new("controller=test-rate-pacer");
    sender.run_until(at(2_000));
    let before = sender.path().window();
    sender.lose_every = 20;
    sender.run_until(at(4_000));
    assert!(sender.path().stats().packets_lost > 20);
    assert!(sender.path().stats().congestion_events > 5, "each of them proposed a reduction");
    assert!(sender.path().window() >= before, "{} after {before}", sender.path().window());
}

#[test]
fn a_model_raises_its_rate_when_it_starts_again_after_silence() {
    let mut sender = Sender::new("controller=test-rate-pacer");
    sender.run_until(at(2_000));
    sender.drain();
    sender.now += ms(1_000);
    let steady = sender.path().allowance().rate.unwrap();
    sender.send_one(true);
    let doubled = steady.mul_ratio(8, 5);
    assert_eq!(sender.path().pacing_rate(), Some(doubled), "before anything is acknowledged");
    sender.run_until(sender.now + RTT * 2);
    assert_eq!(sender.path().pacing_rate(), Some(steady));
}

#[test]
fn a_model_hears_of_probe_timeouts() {
    let mut sender = Sender::new("controller=test-rate-pacer");
    sender.run_until(at(2_000));
    let steady = sender.path().allowance().rate.unwrap();
    // Nothing comes back any more.
    sender.flying.clear();
    sender.lose_every = 1;
    sender.run_until(at(4_000));
    assert!(sender.recovery.pto_count() > 0);
    assert_eq!(sender.path().pacing_rate(), Some(steady.mul_ratio(2, 5)));
}

#[test]
fn a_start_sends_one_measured_burst_holds_and_jumps() {
    let mut sender = Sender::new("controller=new-reno, start=test-one-burst");
    let initial = sender.path().window() / u64::from(DATAGRAM);
    sender.run_until(at(1_000));
    let bdp = sender.rate.bytes_in(RTT);
    // The initial window, then the burst on its first acknowledgment.
    let first_ack = at(51);
    let burst: Vec<&Instant> = sender.sent.iter().skip(initial as usize).collect();
    let packets = (BURST / u64::from(DATAGRAM)) as usize;
    assert!(burst[..packets].iter().all(|sent| sent.saturating_since(first_ack) < Duration::from_micros(1)));
    // A hold until the last packet of the burst but one is acknowledged: the smallest window is two datagrams.
    let last_ack = first_ack + RTT + sender.rate.time_for(BURST - u64::from(DATAGRAM));
    assert!(burst[packets].saturating_since(last_ack) <= ms(1) && *burst[packets] >= last_ack, "{:?}", burst[packets]);
    // The jump: to the delay-bandwidth product that the burst has shown, within the rounding of one packet.
    let threshold = sender.path().ssthresh().unwrap();
    assert!(threshold.abs_diff(bdp) <= bdp / 10, "{threshold} instead of {bdp}");
}

#[test]
fn a_start_answers_congestion_in_its_own_way() {
    let context = PathContext::new(Instant::ZERO, DATAGRAM);
    let mut scene = crate::testing::Scene::new();
    let (growth, start, reduction) = (GrowthPolicy::NewReno, StartPolicy::OneBurst, ReductionPolicy::Prr);
    let start = || Window::new(WindowParts { growth, start, reduction }, &context);
    let mut window = start();
    let allowance = |window: &Window, scene: &crate::testing::Scene| {
        window.allowance(&PathView::new(Instant::ZERO, &scene.rtt, 0)).window
    };
    assert_eq!(window.on_ack(&scene.congestion(crate::trace::CongestionCause::Loss)), Change::Allowance);
    assert_eq!((allowance(&window, &scene), window.ssthresh()), (2_400, None), "the minimum, and the start goes on");
    assert_eq!(window.start_exit(), None);

    let mut window = start();
    assert_eq!(window.on_ack(&scene.ack(0, Some(RTT), true)), Change::Allowance);
    assert_eq!(allowance(&window, &scene), BURST);
    let before = window.on_ack(&scene.congestion(crate::trace::CongestionCause::Loss));
    assert_eq!(before, Change::Allowance);
    assert_eq!(
        (allowance(&window, &scene), window.ssthresh()),
        (BURST / 4, Some(BURST / 4)),
        "no more than the window"
    );
    assert!(window.start_exit().is_some());
    assert_eq!(window.state(), crate::trace::State::CongestionAvoidance);
    // Like any reduction, it is taken back when it proves a mistake.
    assert!(window.undo(Instant::ZERO, scene.episode));
    assert_eq!((allowance(&window, &scene), window.ssthresh()), (BURST, None));
}

#[test]
fn the_text_of_a_model_has_the_fields_of_a_model_and_reads_back() {
    let text = "controller=test-rate-pacer, reordering=fixed";
    let policies: Policies = text.parse().unwrap();
    assert_eq!(policies.congestion, Congestion::Model(ModelPolicy::RatePacer));
    let printed = policies.to_string();
    assert!(printed.starts_with("controller=test-rate-pacer, reordering=fixed, rtt="), "{printed}");
    assert_eq!(printed.parse::<Policies>().unwrap(), policies);
}

#[test]
fn a_start_cannot_be_set_beside_a_model_in_whatever_order() {
    for text in ["controller=test-rate-pacer, start=standard", "reduction=prr, controller=test-rate-pacer"] {
        let error = text.parse::<Policies>().unwrap_err().to_string();
        assert!(error.contains("cannot be combined with controller=test-rate-pacer"), "{error}");
    }
    let mut policies: Policies = "start=standard".parse().unwrap();
    policies.set("controller", "test-rate-pacer").unwrap();
    assert!(policies.set("start", "standard").is_err());
    policies.set("controller", "regain").unwrap();
    assert_eq!(policies, Policies::default(), "back in the family of windows, its parts are the shipped ones");
}

#[test]
fn policies_say_which_fields_a_controller_has() {
    assert!(Policies::has("cubic", "start") && Policies::has("cubic", "pacing"));
    assert!(!Policies::has("test-rate-pacer", "start") && !Policies::has("test-rate-pacer", "reduction"));
    assert!(Policies::has("test-rate-pacer", "pacing"));
}

#[test]
fn a_window_and_a_model_do_not_take_over_from_each_other() {
    let mut sender = Sender::new("controller=regain");
    let asked: Policies = "controller=test-rate-pacer".parse().unwrap();
    let error = sender.recovery.set_policies(at(0), asked).unwrap_err().to_string();
    assert!(error.contains("controller=regain") && error.contains("controller=test-rate-pacer"), "{error}");
    assert_eq!(sender.recovery.policies().congestion, Congestion::default());
}
