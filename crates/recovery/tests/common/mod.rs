//! A stage for [`Recovery`]: sends packets, delivers ACKs, keeps the time.
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

pub mod world;

use std::ops::RangeInclusive;

use thalweg_recovery::trace::Event;
use thalweg_recovery::{
    AckFrame, AckOfUnsent, Budget, Config, Ecn, EcnCounts, NewPath, Outcome, Path, PathId, Policies, Recovery, Sent,
    SpaceId, Timeout,
};
use thalweg_units::{Duration, Instant};

pub const SIZE: u32 = 1_200;

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn at(at: u64) -> Instant {
    Instant::ZERO + ms(at)
}

/// The thresholds and the probe timer of RFC 9002, which tests of rules count by, and what `policies` says besides.
pub fn of_rfc9002(policies: &str) -> Policies {
    let fields = |text: &str| -> Vec<(String, String)> {
        Policies::items(text)
            .filter_map(|item| item.split_once('='))
            .map(|(field, value)| (field.trim().to_owned(), value.trim().to_owned()))
            .collect()
    };
    let mut all = Policies::default();
    for (field, value) in
        fields("start=hystart++, reordering=fixed, probe=rfc, ack-allowance=always, ack-rate=off, mark=reduce")
            .into_iter()
            .chain(fields(policies))
    {
        all.set(&field, &value).unwrap();
    }
    all
}

/// A configuration with [`of_rfc9002`].
pub fn rfc9002() -> Config {
    Config { policies: of_rfc9002(""), ..Config::default() }
}

pub struct Stage {
    pub recovery: Recovery<u64>,
    pub now: Instant,
    pub path: PathId,
    pub next: [u64; 3],
    pub out: Outcome<u64>,
}

impl Stage {
    pub fn new(config: Config, is_client: bool) -> Stage {
        let mut recovery = Recovery::new(config, is_client);
        let path = recovery.add_path(Instant::ZERO, NewPath::new(SIZE as u16));
        Stage { recovery, now: Instant::ZERO, path, next: [0; 3], out: Outcome::default() }
    }

    /// A server with the handshake behind it, without pacing and ECN.
    pub fn confirmed(policies: &str) -> Stage {
        let policies = of_rfc9002(&format!("pacing=off, {policies}"));
        let mut stage = Stage::new(Config { policies, ecn: false, trace: true, ..Config::default() }, false);
        stage.recovery.set_handshake_confirmed(Instant::ZERO);
        stage
    }

    /// The same with one round trip of 100 ms measured: smoothed 100 ms, variation 50 ms. The time is 100 ms and
    /// nothing is in flight.
    pub fn sampled(policies: &str) -> Stage {
        let mut stage = Stage::confirmed(policies);
        stage.send(1);
        stage.wait(100);
        stage.ack(0..=0);
        stage
    }

    pub fn wait(&mut self, span: u64) {
        self.now += ms(span);
    }

    pub fn packet(&mut self, space: SpaceId) -> Sent<u64> {
        let number = self.next[space.index()];
        self.next[space.index()] += 1;
        Sent {
            number,
            time: self.now,
            size: SIZE,
            ack_eliciting: true,
            in_flight: true,
            mtu_probe: false,
            ecn: self.path().ecn_codepoint(),
            path: self.path,
            data: number,
        }
    }

    /// Sends `count` full packets of application data and has more to send.
    pub fn send(&mut self, count: u64) {
        self.send_in(SpaceId::DATA, count);
    }

    pub fn send_in(&mut self, space: SpaceId, count: u64) {
        for _ in 0..count {
            let packet = self.packet(space);
            self.recovery.on_sent(space, packet, true);
        }
    }

    pub fn send_on(&mut self, path: PathId, count: u64) {
        for _ in 0..count {
            let packet = Sent { path, ..self.packet(SpaceId::DATA) };
            self.recovery.on_sent(SpaceId::DATA, packet, true);
        }
    }

    pub fn send_with(&mut self, change: impl FnOnce(&mut Sent<u64>)) -> u64 {
        let mut packet = self.packet(SpaceId::DATA);
        change(&mut packet);
        let number = packet.number;
        self.recovery.on_sent(SpaceId::DATA, packet, true);
        number
    }

    pub fn skip(&mut self, count: u64) {
        self.next[SpaceId::DATA.index()] += count;
    }

    /// Fills the window; returns how many packets it took.
    pub fn fill(&mut self) -> u64 {
        let mut count = 0;
        while matches!(self.recovery.budget(self.now, self.path), Budget::Now(_)) {
            self.send(1);
            count += 1;
        }
        count
    }

    pub fn ack(&mut self, range: RangeInclusive<u64>) {
        self.ack_ranges(&[range]);
    }

    pub fn ack_ranges(&mut self, ranges: &[RangeInclusive<u64>]) {
        self.try_ack(SpaceId::DATA, ranges, Duration::ZERO, None).unwrap();
    }

    pub fn ack_in(&mut self, space: SpaceId, range: RangeInclusive<u64>, delay: Duration) {
        self.try_ack(space, &[range], delay, None).unwrap();
    }

    pub fn ack_ecn(&mut self, range: RangeInclusive<u64>, ect0: u64, ce: u64) {
        let counts = EcnCounts { ect0, ect1: 0, ce };
        self.try_ack(SpaceId::DATA, &[range], Duration::ZERO, Some(counts)).unwrap();
    }

    pub fn try_ack(
        &mut self,
        space: SpaceId,
        ranges: &[RangeInclusive<u64>],
        delay: Duration,
        ecn: Option<EcnCounts>,
    ) -> Result<(), AckOfUnsent> {
        self.out.clear();
        let frame = AckFrame { delay, ecn, ..AckFrame::new(self.now, ranges.iter().cloned()) };
        self.recovery.on_ack(self.now, space, frame, &mut self.out)
    }

    /// Moves on to when the timer is due, and lets it expire.
    pub fn expire(&mut self) -> Timeout {
        self.now = self.now.max(self.recovery.timer().unwrap());
        self.out.clear();
        self.recovery.on_timeout(self.now, &mut self.out)
    }

    pub fn path(&self) -> &Path {
        self.recovery.path(self.path).unwrap()
    }

    pub fn window(&self) -> u64 {
        self.path().window()
    }

    pub fn lost(&self) -> Vec<u64> {
        self.out.lost.iter().map(|packet| packet.number).collect()
    }

    pub fn acked(&self) -> Vec<u64> {
        self.out.acked.iter().map(|packet| packet.number).collect()
    }

    pub fn events(&mut self) -> Vec<(Instant, Event)> {
        let mut events = Vec::new();
        self.recovery.drain_trace(|now, _, event| events.push((now, *event)));
        events
    }
}

pub const MARK: Ecn = Ecn::Ect0;
