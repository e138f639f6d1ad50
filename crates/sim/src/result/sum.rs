//! Adds up the figures of the connections of one end.

use std::ops::AddAssign;

use super::{SideResult, TcpStats};

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
            series,
            tcp,
            measured,
        } = added;
        let before = std::mem::replace(&mut self.stats, stats);
        let sum = &mut self.stats;
        for (sum, before) in [(&mut sum.udp_sent, before.udp_sent), (&mut sum.udp_received, before.udp_received)] {
            sum.datagrams += before.datagrams;
            sum.bytes += before.bytes;
        }
        sum.packets_received += before.packets_received;
        sum.packets_dropped += before.packets_dropped;
        sum.handshake_time = before.handshake_time.or(sum.handshake_time);
        sum.key_updates += before.key_updates;
        add_all(&mut sum.ecn_received, before.ecn_received);
        let (path, before) = (&mut sum.path, before.path);
        path.packets_sent += before.packets_sent;
        path.bytes_sent += before.bytes_sent;
        path.packets_acked += before.packets_acked;
        path.bytes_acked += before.bytes_acked;
        path.packets_lost += before.packets_lost;
        path.bytes_lost += before.bytes_lost;
        path.packets_spurious += before.packets_spurious;
        path.bytes_spurious += before.bytes_spurious;
        path.mtu_probes_lost += before.mtu_probes_lost;
        path.congestion_events += before.congestion_events;
        path.ecn_events += before.ecn_events;
        path.undos += before.undos;
        path.persistent_congestions += before.persistent_congestions;
        path.ptos += before.ptos;
        path.probes += before.probes;
        path.rtt_samples += before.rtt_samples;
        path.ce_marks += before.ce_marks;
        path.max_window = path.max_window.max(before.max_window);
        path.max_bytes_in_flight = path.max_bytes_in_flight.max(before.max_bytes_in_flight);
        self.repairs.add(&repairs);
        self.connections += connections;
        self.connections_lost += connections_lost;
        add_all(&mut self.limited_by, limited_by);
        self.retransmitted += retransmitted;
        self.rtt.merge(&rtt);
        self.early_probes += early_probes;
        self.series.metrics.extend(series.metrics);
        self.series.packets.extend(series.packets);
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
        self.timeouts += added.timeouts;
        self.tail_probes += added.tail_probes;
        self.retransmissions += added.retransmissions;
        self.retransmitted_bytes += added.retransmitted_bytes;
        self.lost_retransmissions += added.lost_retransmissions;
        self.needless_retransmissions += added.needless_retransmissions;
        self.handshake_retransmissions += added.handshake_retransmissions;
    }
}

fn add_all<T: AddAssign, const N: usize>(total: &mut [T; N], added: [T; N]) {
    for (total, added) in total.iter_mut().zip(added) {
        *total += added;
    }
}
