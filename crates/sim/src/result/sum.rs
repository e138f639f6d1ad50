//! Adds up the figures of the connections of one end.

use std::ops::AddAssign;

use super::{SideResult, TcpStats, WayResult};

/// Counters are summed, the largest of what has a maximum stays, lists are joined; what is none of these is that of the
/// connection added last. The time of the handshake is that of the first.
impl AddAssign for SideResult {
    fn add_assign(&mut self, added: SideResult) {
        let SideResult {
            stats,
            repairs,
            connections,
            connections_lost,
            limited_by,
            retransmitted,
            rtt,
            early_probes,
            unanswered_initials,
            series,
            ways,
            tcp,
            measured,
        } = added;
        self.stats += stats;
        self.repairs += repairs;
        self.connections += connections;
        self.connections_lost += connections_lost;
        add_all(&mut self.limited_by, limited_by);
        self.retransmitted += retransmitted;
        self.rtt.merge(&rtt);
        self.early_probes += early_probes;
        self.unanswered_initials += unanswered_initials;
        self.series.metrics.extend(series.metrics);
        self.series.packets.extend(series.packets);
        if self.ways.len() < ways.len() {
            self.ways.resize(ways.len(), WayResult::default());
        }
        for (total, WayResult { stats, rtt, min_rtt }) in self.ways.iter_mut().zip(ways) {
            total.stats += stats;
            (total.rtt, total.min_rtt) = (rtt.or(total.rtt), min_rtt.or(total.min_rtt));
        }
        if let Some(tcp) = tcp {
            *self.tcp.get_or_insert_default() += tcp;
        }
        if self.measured.is_empty() {
            self.measured = measured;
        }
    }
}

impl AddAssign for TcpStats {
    fn add_assign(&mut self, added: TcpStats) {
        let TcpStats {
            timeouts,
            tail_probes,
            retransmissions,
            retransmitted_bytes,
            lost_retransmissions,
            needless_retransmissions,
            handshake_retransmissions,
        } = added;
        self.timeouts += timeouts;
        self.tail_probes += tail_probes;
        self.retransmissions += retransmissions;
        self.retransmitted_bytes += retransmitted_bytes;
        self.lost_retransmissions += lost_retransmissions;
        self.needless_retransmissions += needless_retransmissions;
        self.handshake_retransmissions += handshake_retransmissions;
    }
}

fn add_all<T: AddAssign, const N: usize>(total: &mut [T; N], added: [T; N]) {
    for (total, added) in total.iter_mut().zip(added) {
        *total += added;
    }
}
