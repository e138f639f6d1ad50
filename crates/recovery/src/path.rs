//! Everything that belongs to a path rather than to a packet number space.

use thalweg_units::{Instant, Rate};

use crate::rtt::Rtt;
use crate::trace::{EcnState, State};
use crate::types::Ecn;

/// Counters of one path.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Packets sent.
    pub packets_sent: u64,
    /// Bytes of these.
    pub bytes_sent: u64,
    /// Packets acknowledged, late ones included.
    pub packets_acked: u64,
    /// Bytes of these.
    pub bytes_acked: u64,
    /// Packets declared lost, except MTU probes and packets that do not count in flight.
    pub packets_lost: u64,
    /// Bytes of these.
    pub bytes_lost: u64,
    /// Packets declared lost that were acknowledged after all.
    pub packets_spurious: u64,
    /// Bytes of these.
    pub bytes_spurious: u64,
    /// MTU probes declared lost.
    pub mtu_probes_lost: u64,
    /// Reductions of the window.
    pub congestion_events: u64,
    /// Of these, caused by a congestion mark.
    pub ecn_events: u64,
    /// Reductions that were taken back.
    pub undos: u64,
    /// Times that persistent congestion was established.
    pub persistent_congestions: u64,
    /// Expiries of the probe timer.
    pub ptos: u64,
    /// RTT samples.
    pub rtt_samples: u64,
    /// Packets that the peer counted as marked CE.
    pub ce_marks: u64,
    /// The largest window, in bytes.
    pub max_window: u64,
    /// The most bytes in flight.
    pub max_bytes_in_flight: u64,
}

/// One path: its round-trip time, congestion control, pacing and ECN.
#[derive(Debug)]
pub struct Path {
    rtt: Rtt,
    datagram_size: u16,
    stats: PathStats,
}

impl Path {
    pub(crate) fn new(rtt: Rtt, datagram_size: u16) -> Path {
        Path {
            rtt,
            datagram_size,
            stats: PathStats::default(),
        }
    }

    /// The round-trip estimate.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The congestion window in bytes.
    pub fn window(&self) -> u64 {
        24_000
    }

    /// The slow start threshold in bytes; `None` while unlimited.
    pub fn ssthresh(&self) -> Option<u64> {
        None
    }

    /// Bytes sent on this path that are neither acknowledged nor declared lost.
    pub fn bytes_in_flight(&self) -> u64 {
        0
    }

    /// The size in bytes of a full datagram.
    pub fn datagram_size(&self) -> u16 {
        self.datagram_size
    }

    /// Tells the path the datagram size that is now in use; window limits and pacing follow.
    pub fn set_datagram_size(&mut self, now: Instant, size: u16) {
        let _ = now;
        self.datagram_size = size;
    }

    /// How to mark the next packet.
    pub fn ecn_codepoint(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Whether the path carries ECN.
    pub fn ecn_state(&self) -> EcnState {
        EcnState::Failed
    }

    /// The counters.
    pub fn stats(&self) -> PathStats {
        self.stats
    }

    /// The rate at which packets may leave; `None` when they are not paced.
    pub fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// What congestion control is doing.
    pub fn state(&self) -> State {
        State::SlowStart
    }

    /// The same as a label.
    pub fn state_label(&self) -> &'static str {
        self.state().label()
    }
}
