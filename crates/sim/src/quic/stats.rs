//! Sums the figures of several connections of one host.

use thalweg_proto::connection::ConnectionStats;

/// Adds a connection's counters to `total`; what is not a counter is replaced.
pub(crate) fn add(total: &mut ConnectionStats, other: &ConnectionStats) {
    let mut sum = other.clone();
    sum.udp_sent.datagrams += total.udp_sent.datagrams;
    sum.udp_sent.bytes += total.udp_sent.bytes;
    sum.udp_received.datagrams += total.udp_received.datagrams;
    sum.udp_received.bytes += total.udp_received.bytes;
    sum.packets_received += total.packets_received;
    sum.packets_dropped += total.packets_dropped;
    sum.handshake_time = total.handshake_time.or(other.handshake_time);
    sum.key_updates += total.key_updates;
    for (sum, before) in sum.ecn_received.iter_mut().zip(total.ecn_received) {
        *sum += before;
    }
    let (path, before) = (&mut sum.path, &total.path);
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
    *total = sum;
}
