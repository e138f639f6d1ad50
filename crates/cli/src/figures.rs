//! The figures of a connection as every report shows them.

use serde::Serialize;
use thalweg::ConnectionStats;
use thalweg_units::human_bytes;

use crate::text::milliseconds;

/// A connection's own counters. Losses, window and spurious losses are those of what *we* sent: of a download
/// the server knows them.
#[derive(Debug, Clone, Copy, Default, Serialize, PartialEq)]
pub struct Figures {
    /// From the first datagram to the completed handshake, milliseconds.
    pub handshake_ms: Option<f64>,
    /// An earlier TLS session was resumed.
    pub resumed: bool,
    /// Smoothed round-trip time, milliseconds.
    pub rtt_ms: f64,
    /// Smallest round-trip time, milliseconds.
    pub min_rtt_ms: f64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost that were acknowledged after all.
    pub packets_spuriously_lost: u64,
    /// Reductions of the congestion window.
    pub congestion_events: u64,
    /// Expiries of the probe timer.
    pub probe_timeouts: u64,
    /// Largest congestion window, bytes.
    pub max_window: u64,
    /// Most bytes in flight.
    pub max_bytes_in_flight: u64,
    /// UDP payload per datagram at the end, bytes.
    pub mtu: u16,
    /// UDP payload sent, bytes.
    pub udp_bytes_sent: u64,
    /// UDP payload received, bytes.
    pub udp_bytes_received: u64,
    /// Packets that arrived with a congestion mark (CE).
    pub ce_received: u64,
    /// Key updates.
    pub key_updates: u64,
}

impl From<&ConnectionStats> for Figures {
    fn from(stats: &ConnectionStats) -> Self {
        let ms = |span: std::time::Duration| span.as_secs_f64() * 1000.0;
        Figures {
            handshake_ms: stats.handshake_time.map(ms),
            resumed: stats.resumed,
            rtt_ms: ms(stats.rtt),
            min_rtt_ms: ms(stats.min_rtt),
            packets_sent: stats.path.packets_sent,
            packets_received: stats.packets_received,
            packets_lost: stats.path.packets_lost,
            packets_spuriously_lost: stats.path.packets_spurious,
            congestion_events: stats.path.congestion_events,
            probe_timeouts: stats.path.ptos,
            max_window: stats.path.max_window,
            max_bytes_in_flight: stats.path.max_bytes_in_flight,
            mtu: stats.mtu,
            udp_bytes_sent: stats.udp_sent.bytes,
            udp_bytes_received: stats.udp_received.bytes,
            ce_received: stats.ecn_received[2],
            key_updates: stats.key_updates,
        }
    }
}

impl Figures {
    /// One line for people, for the end that receives: the losses are the sender's to know.
    pub fn receiver_line(&self) -> String {
        let handshake = match self.handshake_ms {
            Some(ms) => format!("handshake {}, ", milliseconds(ms)),
            None => String::new(),
        };
        format!(
            "{handshake}RTT {} (min {}), MTU {}",
            milliseconds(self.rtt_ms),
            milliseconds(self.min_rtt_ms),
            self.mtu
        )
    }

    /// One line for people, for the end that sends.
    pub fn sender_line(&self) -> String {
        format!(
            "{}, {} of {} packets lost ({} of these spuriously), window up to {}",
            self.receiver_line(),
            self.packets_lost,
            self.packets_sent,
            self.packets_spuriously_lost,
            human_bytes(self.max_window),
        )
    }
}

impl From<&()> for Figures {
    fn from(_: &()) -> Self {
        Self::default()
    }
}
