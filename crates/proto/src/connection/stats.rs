//! The figures of one connection.

use std::ops::AddAssign;
use std::time::Duration;

use thalweg_recovery::{PathStats, trace::State};
use thalweg_units::{Instant, Rate};

use crate::observe::Limit;

/// Datagrams of one direction.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpStats {
    /// UDP datagrams.
    pub datagrams: u64,
    /// Bytes of UDP payload.
    pub bytes: u64,
}

impl AddAssign for UdpStats {
    fn add_assign(&mut self, added: UdpStats) {
        let UdpStats { datagrams, bytes } = added;
        self.datagrams += datagrams;
        self.bytes += bytes;
    }
}

/// How long each limit has kept the sender from sending more, since the connection began.
///
/// A limit counts from when it was met until another is; the time before the first is under none. With several paths at
/// once it is that of the path which was asked last.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    times: [Duration; Limit::ALL.len()],
}

impl Limits {
    /// The time spent under a limit.
    pub fn time(&self, limit: Limit) -> Duration {
        self.times[limit.index()]
    }

    /// The time spent since `earlier`, which is what the same connection said before.
    #[must_use]
    pub fn since(&self, earlier: &Limits) -> Limits {
        let mut limits = *self;
        for (time, before) in limits.times.iter_mut().zip(earlier.times) {
            *time = time.saturating_sub(before);
        }
        limits
    }

    /// The limit under which most of the time was spent; none if none was met.
    pub fn most(&self) -> Option<Limit> {
        Limit::ALL.into_iter().filter(|limit| !self.time(*limit).is_zero()).max_by_key(|limit| self.time(*limit))
    }
}

/// The limit that holds, and for how long others did.
#[derive(Debug, Default)]
pub(super) struct Limited {
    now: Option<(Limit, Instant)>,
    before: Limits,
}

impl Limited {
    /// Whether it is another one than before.
    pub(super) fn set(&mut self, now: Instant, limit: Limit) -> bool {
        if self.now.is_some_and(|(held, _)| held == limit) {
            return false;
        }
        self.before = self.until(now);
        self.now = Some((limit, now));
        true
    }

    pub(super) fn until(&self, now: Instant) -> Limits {
        let mut limits = self.before;
        if let Some((limit, since)) = self.now {
            limits.times[limit.index()] += Duration::from_nanos(now.as_nanos().saturating_sub(since.as_nanos()));
        }
        limits
    }
}

/// Figures of a connection since its start; those of recovery are of the active path. Where several paths are in use at
/// once, counters are summed over all of them, and what is a state is that of the first that is open.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// What we sent.
    pub udp_sent: UdpStats,
    /// What arrived.
    pub udp_received: UdpStats,
    /// Packets accepted.
    pub packets_received: u64,
    /// Packets thrown away: damaged, duplicate, without keys.
    pub packets_dropped: u64,
    /// Time from the first datagram to the completed handshake.
    pub handshake_time: Option<Duration>,
    /// The handshake resumed an earlier session.
    pub resumed: bool,
    /// The smoothed RTT.
    pub rtt: Duration,
    /// The smallest RTT seen.
    pub min_rtt: Duration,
    /// The newest RTT sample.
    pub latest_rtt: Duration,
    /// The RTT's mean deviation.
    pub rtt_variation: Duration,
    /// The congestion window, bytes.
    pub window: u64,
    /// The slow start threshold, bytes; `None` while unlimited.
    pub ssthresh: Option<u64>,
    /// What congestion control is doing.
    pub congestion_state: State,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// What the pacer allows.
    pub pacing_rate: Option<Rate>,
    /// How fast the path has lately delivered what we sent, from the times between acknowledgments rather than from the
    /// window; `None` before the first sample ([`Path::delivery_rate`](thalweg_recovery::Path::delivery_rate)).
    pub delivery_rate: Option<Rate>,
    /// UDP payload per datagram, bytes.
    pub mtu: u16,
    /// Key updates, ours and the peer's.
    pub key_updates: u64,
    /// Recovery's counters: packets sent, acknowledged, lost, spuriously declared lost, congestion events, probes.
    pub path: PathStats,
    /// Counts of ECN marks on received packets: ECT(0), ECT(1), CE.
    pub ecn_received: [u64; 3],
    /// What the connection takes of its budgets now, bytes
    /// ([`Streams::bytes_counted`](crate::streams::Streams::bytes_counted)).
    pub bytes_counted: u64,
    /// Bytes of streams that the peer has acknowledged, with all before them in their stream.
    pub stream_bytes_acked: u64,
}

/// Adds a later connection: counters are summed, the time of the handshake is that of the first that had one, what is
/// a state rather than a count is that of the connection added.
impl AddAssign for ConnectionStats {
    fn add_assign(&mut self, added: ConnectionStats) {
        // Every field, so that none is forgotten.
        let ConnectionStats {
            udp_sent,
            udp_received,
            packets_received,
            packets_dropped,
            handshake_time,
            resumed,
            rtt,
            min_rtt,
            latest_rtt,
            rtt_variation,
            window,
            ssthresh,
            congestion_state,
            bytes_in_flight,
            pacing_rate,
            delivery_rate,
            mtu,
            key_updates,
            path,
            ecn_received,
            bytes_counted,
            stream_bytes_acked,
        } = added;
        self.udp_sent += udp_sent;
        self.udp_received += udp_received;
        self.packets_received += packets_received;
        self.packets_dropped += packets_dropped;
        self.handshake_time = self.handshake_time.or(handshake_time);
        self.resumed = resumed;
        self.rtt = rtt;
        self.min_rtt = min_rtt;
        self.latest_rtt = latest_rtt;
        self.rtt_variation = rtt_variation;
        self.window = window;
        self.ssthresh = ssthresh;
        self.congestion_state = congestion_state;
        self.bytes_in_flight = bytes_in_flight;
        self.pacing_rate = pacing_rate;
        self.delivery_rate = delivery_rate;
        self.mtu = mtu;
        self.key_updates += key_updates;
        self.path += path;
        self.bytes_counted = bytes_counted;
        self.stream_bytes_acked += stream_bytes_acked;
        for (total, added) in self.ecn_received.iter_mut().zip(ecn_received) {
            *total += added;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_the_limit_that_holds() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let span = Duration::from_millis;
        let mut limited = Limited::default();
        assert_eq!(limited.until(at(7)), Limits::default());
        assert!(limited.set(at(10), Limit::Window));
        assert!(!limited.set(at(12), Limit::Window));
        let early = limited.until(at(15));
        assert_eq!((early.time(Limit::Window), early.most()), (span(5), Some(Limit::Window)));
        assert!(limited.set(at(20), Limit::Pacing));
        let late = limited.until(at(50));
        assert_eq!((late.time(Limit::Window), late.time(Limit::Pacing)), (span(10), span(30)));
        assert_eq!((late.since(&early).time(Limit::Window), late.most()), (span(5), Some(Limit::Pacing)));
        assert_eq!(late.since(&late).most(), None);
    }
}
