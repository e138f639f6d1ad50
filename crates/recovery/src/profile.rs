//! Differences of QUIC and TCP for recovery, in one place.

/// When a recovery period ends.
///
/// It says when the window may grow again, not which losses count: those of what was sent before the latest reduction
/// are answered by it, and the loss of anything sent since begins another reduction, within a recovery period or after
/// it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EpisodeEnd {
    /// Something sent since it began has been acknowledged.
    FirstDelivery,
    /// Everything sent before it began has been acknowledged cumulatively.
    RecoveryPoint,
}

/// The meaning of a timeout without any packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutMeaning {
    /// Nothing yet: a probe will show.
    Probe,
    /// What is outstanding is lost.
    Loss,
}

/// The window of a path about which nothing is known, in full datagrams of *size* bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InitialWindow {
    /// `min(10 size, max(14720, 2 size))` (RFC 9002 section 7.2).
    Rfc9002,
    /// `min(10 size, max(14600, 2 size))` (RFC 6928).
    Rfc6928,
    /// `min(4 size, max(4380, 2 size))` (RFC 3390): three full segments over Ethernet.
    Rfc3390,
    /// So many, whatever their size: for experiments.
    Datagrams(u16),
}

impl InitialWindow {
    /// The window in bytes.
    pub fn bytes(self, size: u16) -> u64 {
        let size = u64::from(size);
        match self {
            InitialWindow::Rfc9002 => (10 * size).min((2 * size).max(14_720)),
            InitialWindow::Rfc6928 => (10 * size).min((2 * size).max(14_600)),
            InitialWindow::Rfc3390 => (4 * size).min((2 * size).max(4_380)),
            InitialWindow::Datagrams(count) => u64::from(count.max(1)) * size,
        }
    }
}

/// Which acknowledgments show that repairs get through (SafeACK, RFC 9937 section 6.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SafeAck {
    /// Those of something sent since the episode began.
    SentSince,
    /// Those that advance the cumulative ACK (SND.UNA).
    CumulativeAdvance,
}

/// What a reduction is a share of, and what proportional reduction counts as the flight (RecoverFS).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flight {
    /// The window; the flight is what was in flight before the ACK that began the episode (RFC 9937, RFC 9002).
    Window,
    /// FlightSize, `SND.NXT - SND.UNA`, for both: what limited transmit sent counts (RFC 6937 and its tables).
    Outstanding,
}

/// What differs between QUIC and TCP in the eyes of recovery, in one place.
///
/// Estimators, controllers, reductions and pacing are the same for both. What is not follows from what an
/// acknowledgment can tell: a packet number is never used twice, a byte's sequence number is, and a TCP receiver
/// answers with one cumulative number first.
///
/// | | [`Profile::QUIC`] | [`Profile::TCP`] |
/// |---|---|---|
/// | an episode ends | with the first delivery of something sent since it began (RFC 9002 section 7.3.2) | when all that was sent before it began is acknowledged cumulatively (RFC 6675 section 5) |
/// | a reduction answers | the loss of what was sent before it (RFC 9002 section 7.3.2) | the same: a lost retransmission, and losses in two successive windows, are two indications of congestion (RFC 5681 section 4.3) |
/// | a timeout means | silence: probe, nothing is lost (RFC 9002 section 6.2) | loss of all that is not SACKed; the window falls to the minimum (RFC 5681 section 3.1) |
/// | initial window | 10 datagrams within 14720 B (RFC 9002 section 7.2) | 10 segments within 14600 B (RFC 6928) |
/// | minimum window | 2 datagrams | 1 segment (the loss window, RFC 5681); the threshold stays at 2 |
/// | a repeated packet's RTT | cannot be | gives no sample (Karn's algorithm, RFC 6298 section 3) |
/// | an ACK is safe (RFC 9937) | acknowledges something sent since the episode began | advances the cumulative ACK |
/// | lost by time alone | 9/8 of the round trip (RFC 9002 section 6.1.2) | only under reordering policies that work by time, as long as [`Profile::has_time_threshold`] is not set |
/// | the window at an episode's end | the target | no more than in flight + 1 under `immediate` (RFC 6582 section 3.2) |
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// When an episode ends.
    pub episode_end: EpisodeEnd,
    /// What a timeout means.
    pub timeout: TimeoutMeaning,
    /// The first window.
    pub initial_window: InitialWindow,
    /// The smallest window, in full datagrams.
    pub minimum_window: u8,
    /// An acknowledgment of something sent twice does not tell which of the two arrived, and gives no RTT sample.
    pub is_ambiguous: bool,
    /// Which ACKs are safe.
    pub safe_ack: SafeAck,
    /// Whether a packet is lost by time alone under reordering policies that count packets.
    pub has_time_threshold: bool,
    /// Whether an episode under `reduction=immediate` ends with a window of no more than in flight and one datagram: no
    /// burst after a long cumulative ACK.
    pub moderates_end: bool,
    /// What is reduced.
    pub flight: Flight,
    /// Whether a reduction answers whatever is lost or marked until its episode ends, what was sent since then too, and
    /// the ACK that ends it opens the window already.
    /// So does Linux (`tcp_enter_recovery`, `tcp_enter_cwr`); RFC 5681 section 4.3 has the loss of a retransmission
    /// reduce the window again.
    pub reduces_once: bool,
    /// Whether windows are whole datagrams, as in Linux (`snd_cwnd`): what a loss or a mark leaves is rounded down, and
    /// `controller=cubic` counts as `tcp_cubic.c` does. There the window grows by a datagram per 20 acknowledged until
    /// the first reduction, and from a timeout to the next. Where Reno would have a larger window, it follows within a
    /// round trip.
    pub whole_windows: bool,
}

impl Profile {
    /// RFC 9002.
    pub const QUIC: Profile = Profile {
        episode_end: EpisodeEnd::FirstDelivery,
        timeout: TimeoutMeaning::Probe,
        initial_window: InitialWindow::Rfc9002,
        minimum_window: 2,
        is_ambiguous: false,
        safe_ack: SafeAck::SentSince,
        has_time_threshold: true,
        moderates_end: false,
        flight: Flight::Window,
        reduces_once: false,
        whole_windows: false,
    };

    /// RFC 5681 with SACK (RFC 6675).
    pub const TCP: Profile = Profile {
        episode_end: EpisodeEnd::RecoveryPoint,
        timeout: TimeoutMeaning::Loss,
        initial_window: InitialWindow::Rfc6928,
        minimum_window: 1,
        is_ambiguous: true,
        safe_ack: SafeAck::CumulativeAdvance,
        has_time_threshold: false,
        moderates_end: true,
        flight: Flight::Window,
        reduces_once: false,
        whole_windows: false,
    };
}

impl Default for Profile {
    /// QUIC.
    fn default() -> Self {
        Profile::QUIC
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_windows_are_those_of_the_rfcs() {
        for (window, size, bytes) in [
            (InitialWindow::Rfc9002, 1_200, 12_000),
            (InitialWindow::Rfc9002, 9_000, 18_000),
            (InitialWindow::Rfc6928, 1_460, 14_600),
            (InitialWindow::Rfc6928, 1_500, 14_600),
            (InitialWindow::Rfc6928, 9_000, 18_000),
            (InitialWindow::Rfc3390, 1_000, 4_000),
            (InitialWindow::Rfc3390, 1_460, 4_380),
            (InitialWindow::Rfc3390, 4_000, 8_000),
            (InitialWindow::Datagrams(20), 1_000, 20_000),
        ] {
            assert_eq!(window.bytes(size), bytes, "{window:?} of {size}");
        }
    }
}
