//! The counters of one path.

/// Counters of one path.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Expiries of the probe timer while this path was the active one.
    pub ptos: u64,
    /// Datagrams that they asked for.
    pub probes: u64,
    /// RTT samples.
    pub rtt_samples: u64,
    /// Packets that the peer counted as marked CE.
    pub ce_marks: u64,
    /// The largest window, in bytes.
    pub max_window: u64,
    /// The most bytes in flight.
    pub max_bytes_in_flight: u64,
}

/// How the repair of losses began and ended on one path: what a comparison of reductions is judged by.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairStats {
    /// Timeouts that declared everything lost: only of a transport whose timeouts mean that, as TCP's do
    /// ([`TimeoutMeaning::Loss`](crate::TimeoutMeaning::Loss)).
    pub timeouts: u64,
    /// Episodes after a loss in which more was in flight than the threshold once the loss had been noticed, in whole
    /// datagrams.
    pub entries_above: u64,
    /// The same with as much in flight.
    pub entries_at: u64,
    /// The same with less.
    pub entries_below: u64,
    /// Episodes after a loss that ended in order: neither with a timeout nor because they were taken back.
    pub episodes_ended: u64,
    /// The window at the end of each, in bytes, summed.
    pub end_window_bytes: u64,
    /// The same in whole datagrams.
    pub end_window_datagrams: u64,
    /// How many of them left the window below the threshold: in slow start.
    pub ended_in_slow_start: u64,
}

impl RepairStats {
    /// Adds the counts of another path.
    pub fn add(&mut self, other: &RepairStats) {
        self.timeouts += other.timeouts;
        self.entries_above += other.entries_above;
        self.entries_at += other.entries_at;
        self.entries_below += other.entries_below;
        self.episodes_ended += other.episodes_ended;
        self.end_window_bytes += other.end_window_bytes;
        self.end_window_datagrams += other.end_window_datagrams;
        self.ended_in_slow_start += other.ended_in_slow_start;
    }
}
