//! What a TCP can be told that is not a policy of recovery.

use std::fmt;

use thalweg_recovery::{Flight, InitialWindow, Profile};
use thalweg_units::{Duration, exact_duration};

/// How short a retransmission timeout may be.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MinRto {
    /// `smoothed + max(4 variation, 200 ms)`, as Linux does.
    #[default]
    Linux,
    /// A second (RFC 6298 section 2.4).
    Rfc6298,
    /// So much: the timeout is `max(smoothed + 4 variation, this)`.
    At(Duration),
}

impl fmt::Display for MinRto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MinRto::Linux => f.write_str("linux"),
            MinRto::Rfc6298 => f.write_str("rfc6298"),
            MinRto::At(span) => f.write_str(&exact_duration(*span)),
        }
    }
}

/// Settings of both ends of a TCP flow; what recovery does is in the flow's policies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// The first window. Default RFC 6928: ten segments.
    pub initial_window: InitialWindow,
    /// For how long an ACK of a single segment may wait for another; zero: every segment is acknowledged at once. Default 40 ms, as in Linux;
    /// RFC 1122 allows 500 ms.
    pub delayed_ack: Duration,
    /// The shortest retransmission timeout. Default as in Linux.
    pub min_rto: MinRto,
    /// Whether segments are marked and marks responded to (RFC 3168). Default false, as most of the Internet does.
    pub ecn: bool,
    /// Tail loss probes (RFC 8985 section 7). Default true.
    pub tail_loss_probe: bool,
    /// Whether reordering policies that count segments also lose one by time, once a later one was delivered: 9/8 of the round trip, as in QUIC.
    /// Without it `reordering=fixed` is RFC 6675: three later ones have to be delivered. Policies that work by time (`rack`) do so either
    /// way. Default true.
    pub time_threshold: bool,
    /// Bytes of a full packet, IP header included. Default 1500.
    pub mtu: u16,
    /// Bytes beyond the last one acknowledged that the peer may send. Default 64 MiB: no limit.
    pub receive_window: u64,
    /// What a reduction is a share of. Default the window, as in Linux and RFC 9937.
    pub flight: Flight,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            initial_window: InitialWindow::Rfc6928,
            delayed_ack: Duration::from_millis(40),
            min_rto: MinRto::Linux,
            ecn: false,
            tail_loss_probe: true,
            time_threshold: true,
            mtu: 1500,
            receive_window: 64 << 20,
            flight: Flight::Window,
        }
    }
}

impl TcpConfig {
    /// Policies that say nothing to a TCP flow: its timers are those of RFC 6298 and RFC 8985.
    pub const IGNORED_POLICIES: &[&str] = &["probe", "ack-allowance"];

    /// Bytes of data in a full segment.
    pub(crate) fn segment_size(&self) -> u16 {
        self.mtu.saturating_sub(super::HEADERS).max(1)
    }

    pub(crate) fn profile(&self) -> Profile {
        Profile {
            initial_window: self.initial_window,
            has_time_threshold: self.time_threshold,
            flight: self.flight,
            ..Profile::TCP
        }
    }
}

impl fmt::Display for TcpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        let window = self.initial_window.bytes(self.segment_size());
        write!(
            f,
            "segments of {} B, initial window {window} B, ack delay {}, min rto {}, ecn {}, loss by time {}, tail loss probes {}",
            self.segment_size(),
            exact_duration(self.delayed_ack),
            self.min_rto,
            on(self.ecn),
            on(self.time_threshold),
            on(self.tail_loss_probe),
        )
    }
}
