//! The counters of one path.

use core::ops::AddAssign;

use crate::congestion::ModelStats;

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
    /// What the controller has done and learned, if it is a model of the path.
    pub model: Option<ModelStats>,
}

/// Counters are summed; of the largest window and the most bytes in flight the larger stays.
impl AddAssign for PathStats {
    fn add_assign(&mut self, added: PathStats) {
        // Every field, so that none is forgotten.
        let PathStats {
            packets_sent,
            bytes_sent,
            packets_acked,
            bytes_acked,
            packets_lost,
            bytes_lost,
            packets_spurious,
            bytes_spurious,
            mtu_probes_lost,
            congestion_events,
            ecn_events,
            undos,
            persistent_congestions,
            ptos,
            probes,
            rtt_samples,
            ce_marks,
            max_window,
            max_bytes_in_flight,
            model,
        } = added;
        self.packets_sent += packets_sent;
        self.bytes_sent += bytes_sent;
        self.packets_acked += packets_acked;
        self.bytes_acked += bytes_acked;
        self.packets_lost += packets_lost;
        self.bytes_lost += bytes_lost;
        self.packets_spurious += packets_spurious;
        self.bytes_spurious += bytes_spurious;
        self.mtu_probes_lost += mtu_probes_lost;
        self.congestion_events += congestion_events;
        self.ecn_events += ecn_events;
        self.undos += undos;
        self.persistent_congestions += persistent_congestions;
        self.ptos += ptos;
        self.probes += probes;
        self.rtt_samples += rtt_samples;
        self.ce_marks += ce_marks;
        self.max_window = self.max_window.max(max_window);
        self.max_bytes_in_flight = self.max_bytes_in_flight.max(max_bytes_in_flight);
        match (&mut self.model, model) {
            (Some(model), Some(added)) => *model += added,
            (model, added) => *model = model.or(added),
        }
    }
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

impl AddAssign for RepairStats {
    fn add_assign(&mut self, added: RepairStats) {
        // Every field, so that none is forgotten.
        let RepairStats {
            timeouts,
            entries_above,
            entries_at,
            entries_below,
            episodes_ended,
            end_window_bytes,
            end_window_datagrams,
            ended_in_slow_start,
        } = added;
        self.timeouts += timeouts;
        self.entries_above += entries_above;
        self.entries_at += entries_at;
        self.entries_below += entries_below;
        self.episodes_ended += episodes_ended;
        self.end_window_bytes += end_window_bytes;
        self.end_window_datagrams += end_window_datagrams;
        self.ended_in_slow_start += ended_in_slow_start;
    }
}
