//! A path under a transport that numbers bytes instead of packets and keeps a scoreboard of its own: TCP.

use thalweg_units::{Duration, Instant};

use crate::config::Config;
use crate::loss::{self, LossVerdict};
use crate::path::Path;
use crate::rtt::Sample;
use crate::sent::Transmission;
use crate::trace::{CongestionCause, Event, Trace};
use crate::types::{Budget, Ecn, LossTrigger, NewPath, PathId, SpaceId};
use crate::undo::NO_EPISODE;

/// Doublings of the retransmission timeout at most: 2^16 times the shortest is beyond any limit on it.
const MAX_DOUBLINGS: u32 = 16;

/// One transmission of a segment. The transport keeps it for as long as the segment's fate is open.
#[derive(Clone, Debug)]
pub struct SegmentRecord {
    sent: Transmission,
    /// The reduction that its loss belongs to.
    episode: u32,
}

impl SegmentRecord {
    /// When it left.
    pub fn sent(&self) -> Instant {
        self.sent.time
    }

    /// Bytes.
    pub fn size(&self) -> u32 {
        self.sent.size
    }
}

/// What is to be said of a transmission that is older than one that was delivered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is lost, by this rule.
    Lost(LossTrigger),
    /// It will be at this time, unless it is acknowledged before; `None`: only further deliveries can tell.
    NotBefore(Option<Instant>),
}

/// What an ACK or a timeout did, once all that it reports has been passed on.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentOutcome {
    /// Transmissions that it delivered, those declared lost before included.
    pub acked: u64,
    /// The sample of the round trip that it gave, as measured.
    pub rtt_sample: Option<Duration>,
    /// The reduction that it called for began, for this cause.
    pub congestion: Option<CongestionCause>,
}

/// A path under a transport that numbers bytes instead of packets and keeps a scoreboard of its own: TCP.
///
/// [`Recovery`](crate::Recovery) owns the packet numbers of QUIC. TCP has none; what was sent, what a SACK means and
/// when a repair was sent is its own business. [`SegmentPath`] is what remains when that is taken away: a [`Path`]
/// under a [`Profile`](crate::Profile), with its round trip, window, reduction, pacing and trace.
///
/// The calls for one ACK have this order, each line as often as it applies:
///
/// ```text
/// on_cumulative_ack ──► on_delivered, on_late ──► on_rtt_sample ──► on_ecn_echo or on_ecn_counts
///                   ──► judge, on_lost ──► finish
/// ```
///
/// ```
/// use thalweg_recovery::{Budget, Config, Profile, SegmentPath};
/// use thalweg_units::{Duration, Instant};
///
/// let config = Config { profile: Profile::TCP, ..Config::default() };
/// let mut now = Instant::ZERO;
/// let mut path = SegmentPath::new(&config, now, 1_448);
/// assert_eq!(path.budget(now), Budget::Now(14_480));
///
/// let segment = path.on_sent(now, 1_448, 1_448, false);
/// now += Duration::from_millis(50);
/// path.on_cumulative_ack(1_448);
/// path.on_delivered(now, &segment, 0);
/// path.on_rtt_sample(now, segment.sent(), false, Duration::ZERO);
/// let outcome = path.finish(now);
/// assert_eq!((outcome.acked, outcome.rtt_sample), (1, Some(Duration::from_millis(50))));
/// assert_eq!(path.path().rtt().smoothed, Duration::from_millis(50));
/// assert_eq!(path.path().bytes_in_flight(), 0);
/// ```
#[derive(Debug)]
pub struct SegmentPath {
    path: Path,
    /// Transmissions that the ACK being processed delivered.
    acked: u64,
    trace: Trace,
}

impl SegmentPath {
    /// A path with segments of up to `segment_size` bytes of data.
    pub fn new(config: &Config, now: Instant, segment_size: u16) -> SegmentPath {
        let path = Path::new(config, PathId(0), now, NewPath::new(segment_size));
        SegmentPath { path, acked: 0, trace: Trace::new(config.trace) }
    }

    /// The path: estimates, window, counters.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How much may leave now.
    pub fn budget(&mut self, now: Instant) -> Budget {
        self.path.budget(now)
    }

    /// The transport has nothing more to send although [`budget`](Self::budget) said [`Budget::Now`].
    pub fn on_app_limited(&mut self, now: Instant) {
        self.path.set_application_limited(now, true, &mut self.trace);
    }

    /// `size` bytes leave, new ones or old ones. `next` is SND.NXT afterwards; `app_has_more` states whether more would
    /// be sent at once.
    pub fn on_sent(&mut self, now: Instant, size: u32, next: u64, app_has_more: bool) -> SegmentRecord {
        let mut sent = Transmission::new(now, size, true);
        self.path.on_sent(&mut sent);
        self.path.on_sequence(next);
        self.path.set_application_limited(now, !app_has_more, &mut self.trace);
        SegmentRecord { sent, episode: NO_EPISODE }
    }

    /// An ACK arrived; everything below `una` is acknowledged.
    pub fn on_cumulative_ack(&mut self, una: u64) {
        self.path.on_cumulative_ack(una);
    }

    /// It acknowledges, cumulatively or selectively, a transmission in flight, `behind` places after the newest that
    /// was delivered before.
    ///
    /// Of a segment that was sent twice the later transmission is taken to have arrived.
    pub fn on_delivered(&mut self, now: Instant, segment: &SegmentRecord, behind: u64) {
        self.acked += 1;
        self.path.on_acked(now, &segment.sent, behind);
        self.path.on_heard();
    }

    /// It acknowledges a transmission that was declared lost and has not been repeated yet: it was not lost.
    pub fn on_late(&mut self, now: Instant, segment: &SegmentRecord) {
        self.acked += 1;
        self.path.on_late_ack(now, &segment.sent, segment.episode);
        let late_by = Duration::ZERO;
        let event = Event::SpuriousLoss { space: SpaceId::DATA, number: 0, size: segment.sent.size, late_by };
        self.trace.push(now, self.path.id(), event);
        self.path.on_heard();
    }

    /// The peer reports to have received twice (D-SACK, RFC 2883) what `segment` was declared lost for and repeated.
    pub fn on_needless_repeat(&mut self, now: Instant, segment: &SegmentRecord) {
        self.path.on_needless_repeat(now, &segment.sent, segment.episode);
    }

    /// A sample of the round trip: the acknowledgment of something that left at `sent`. Of something that was sent more
    /// than once it counts only where the profile can tell which of the two arrived. `held` is by how much the oldest
    /// that the ACK covers was sent before, where the smoothed estimate is to count from there.
    pub fn on_rtt_sample(&mut self, now: Instant, sent: Instant, is_repeated: bool, held: Duration) {
        if !(is_repeated && self.path.profile().is_ambiguous) {
            let latest = now.saturating_since(sent);
            self.path.on_rtt_sample(Sample { held, ..Sample::prompt(now, latest) });
        }
    }

    /// The peer echoes a congestion mark (ECE, RFC 3168).
    pub fn on_ecn_echo(&mut self, now: Instant) {
        self.path.on_ecn_echo(now);
    }

    /// The peer counts marked segments one by one (accurate ECN, RFC 9768): of those that this ACK delivers, `marked`
    /// were. To be called in place of [`on_ecn_echo`](Self::on_ecn_echo), also where none was marked.
    pub fn on_ecn_counts(&mut self, now: Instant, marked: u64) {
        self.path.on_ecn_counts(now, self.acked, marked);
    }

    /// Transmissions that the ACK being processed has delivered so far.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// How the next new segment is to be marked where ECN is in use: ECT(1) if marks are answered in proportion.
    pub fn ecn_codepoint(&self) -> Ecn {
        self.path.controller_codepoint()
    }

    /// A tail loss probe repaired a loss before it was noticed (RFC 8985 section 7.4.2).
    pub fn on_repaired_loss(&mut self) {
        self.path.on_repaired_loss();
    }

    /// Judges a transmission with `behind` later ones delivered, of `span` from the oldest open one to the next.
    pub fn judge(&self, now: Instant, segment: &SegmentRecord, behind: u64, span: u64) -> Judgement {
        match loss::judge(now, segment.sent.time, behind, self.path.thresholds(span)) {
            LossVerdict::Lost(trigger) => Judgement::Lost(trigger),
            LossVerdict::NotBefore(at) => Judgement::NotBefore((at < Instant::FAR_FUTURE).then_some(at)),
        }
    }

    /// A transmission is lost. `number` names it in the trace. If it was sent after the latest reduction began, by
    /// order of sending, another begins (RFC 5681 section 4.3).
    pub fn on_lost(&mut self, now: Instant, segment: &mut SegmentRecord, number: u64, trigger: LossTrigger) {
        segment.episode = self.path.on_lost(now, &segment.sent);
        let size = segment.sent.size;
        self.trace.push(now, self.path.id(), Event::PacketLost { space: SpaceId::DATA, number, size, trigger });
    }

    /// A transmission in flight is superseded by another of the same bytes that was sent without its being lost: it no
    /// longer counts.
    pub fn withdraw(&mut self, now: Instant, segment: &SegmentRecord) {
        self.path.on_settled(now, &segment.sent);
    }

    /// Draws the conclusions from everything since the last time, and says what that did.
    pub fn finish(&mut self, now: Instant) -> SegmentOutcome {
        let rtt_sample = self.path.gave_rtt_sample().then_some(self.path.rtt().latest);
        let congestion = self.path.congestion();
        self.path.finish(now, &[], &mut self.trace);
        SegmentOutcome { acked: core::mem::take(&mut self.acked), rtt_sample, congestion }
    }

    /// The retransmission timer has expired: everything outstanding is lost. To be followed by
    /// [`on_lost`](Self::on_lost) for each transmission in flight, and [`finish`](Self::finish).
    pub fn on_timeout(&mut self, now: Instant) {
        self.path.on_timeout(now);
        let expired = Event::PtoExpired { space: SpaceId::DATA, count: self.timeouts() };
        self.trace.push(now, self.path.id(), expired);
    }

    /// A tail loss probe leaves.
    pub fn on_tail_probe(&mut self, now: Instant) {
        self.path.on_probes(now, self.timeouts(), 1);
    }

    /// Retransmission timeouts in a row.
    pub fn timeouts(&self) -> u32 {
        self.path.pto_count()
    }

    /// `base` doubled for every timeout in a row, up to `longest` (RFC 6298 section 5.5).
    pub fn backed_off(&self, base: Duration, longest: Duration) -> Duration {
        base.saturating_mul(1 << self.timeouts().min(MAX_DOUBLINGS)).min(longest)
    }

    /// Whether an episode is under way: a loss is being repaired, or a mark responded to.
    pub fn is_in_episode(&self) -> bool {
        self.path.is_in_episode()
    }

    /// Hands out the events recorded since the last call, oldest first.
    pub fn drain_trace(&mut self, mut f: impl FnMut(Instant, &Event)) {
        if self.trace.is_on() {
            self.path.tell_untold(&mut self.trace);
            self.trace.drain(|now, _, event| f(now, event));
        }
    }
}

#[cfg(test)]
mod tests;
