//! How often to ask the peer for acknowledgments (ACK_FREQUENCY, draft-ietf-quic-ack-frequency).
//!
//! At two packets per ACK, 250 Mbps of data need 5.3 Mbps of ACKs the other way, more than many an uplink has. Four ACKs per window keep
//! loss detection and growth as quick as they need to be. What we send ourselves is the transport's business.

use thalweg_units::Duration;

use crate::path::Path;

/// ACKs to ask for per window: fewer make the window move in visible steps and the pacer wait for it.
const PER_WINDOW: u64 = 4;

/// The most packets per ACK. More saves little and makes every lost ACK cost more.
const MAX_PACKETS: u64 = 10;

/// What to put into an ACK_FREQUENCY frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// Ack-Eliciting Threshold: how many ack-eliciting packets may stay unacknowledged. 1 asks for every second one.
    pub ack_eliciting_threshold: u64,
    /// Requested Max Ack Delay: a quarter of the smoothed round-trip time, 1 to 25 ms.
    pub max_ack_delay: Duration,
    /// Reordering Threshold: what our own loss detection uses, so that the ACK comes when it can be acted on. 0, no ACK for reordering, if
    /// only time counts.
    pub reordering_threshold: u64,
}

/// What suits `path` as it is now. To be sent again when it has changed noticeably.
pub fn request(path: &Path) -> AckRequest {
    let datagrams = path.window() / u64::from(path.datagram_size().max(1));
    let packets = (datagrams / PER_WINDOW).clamp(2, MAX_PACKETS);
    let delay = (path.rtt().smoothed / 4).clamp(Duration::from_millis(1), Duration::from_millis(25));
    AckRequest {
        ack_eliciting_threshold: packets - 1,
        max_ack_delay: delay,
        reordering_threshold: path.packet_threshold().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::types::{NewPath, PathId};
    use crate::{Allowance, Birth, Change, Congestion, PathView, Policies};
    use thalweg_units::Instant;

    fn path(config: &Config, datagram_size: u16, rtt: Duration) -> Path {
        let new = NewPath { initial_rtt: Some(rtt), ..NewPath::new(datagram_size) };
        Path::new(config, PathId(0), Instant::ZERO, new)
    }

    fn requested(datagram_size: u16, rtt: Duration) -> AckRequest {
        let config = Config { policies: "reordering=fixed".parse().unwrap(), ..Config::default() };
        request(&path(&config, datagram_size, rtt))
    }

    #[test]
    fn a_quarter_of_the_window_and_of_the_round_trip_within_limits() {
        let small = requested(1_200, Duration::from_millis(40));
        assert_eq!(small.ack_eliciting_threshold, 1, "ten packets: every second one");
        assert_eq!(small.max_ack_delay, Duration::from_millis(10));
        assert_eq!(small.reordering_threshold, 3);
        assert_eq!(requested(100, Duration::from_secs(1)).max_ack_delay, Duration::from_millis(25));
        assert_eq!(requested(100, Duration::ZERO).max_ack_delay, Duration::from_millis(1));
    }

    #[test]
    fn never_more_than_ten_packets_per_ack() {
        let mut large = path(&Config::default(), 9_000, Duration::from_millis(40));
        large.set_datagram_size(Instant::ZERO, 100);
        assert_eq!(request(&large).ack_eliciting_threshold, 1);
        let policies = Policies { congestion: Congestion::Custom(std::sync::Arc::new(Large)), ..Policies::default() };
        let config = Config { policies, ..Config::default() };
        let path = path(&config, 1_200, Duration::from_millis(40));
        assert_eq!(request(&path).ack_eliciting_threshold, 9);
    }

    #[test]
    fn the_reordering_threshold_is_that_of_loss_detection() {
        for (policy, threshold) in [("fixed", 3), ("half-in-flight", 5), ("time-only", 0), ("adaptive", 3), ("rack", 0)]
        {
            let policies = format!("reordering={policy}").parse().unwrap();
            let config = Config { policies, ..Config::default() };
            let path = path(&config, 1_200, Duration::from_millis(40));
            assert_eq!(request(&path).reordering_threshold, threshold, "{policy}");
        }
    }

    #[derive(Debug)]
    struct Large;

    impl crate::Controller for Large {
        fn on_ack(&mut self, _event: &crate::AckEvent<'_>) -> Change {
            Change::None
        }

        fn on_datagram_size(&mut self, _size: u16) {}

        fn allowance(&self, _path: &PathView<'_>) -> Allowance {
            Allowance::new(1_000_000, None, 1_200)
        }
    }

    impl crate::ControllerFactory for Large {
        fn name(&self) -> &str {
            "large"
        }

        fn build(&self, _birth: &Birth) -> Box<dyn crate::Controller> {
            Box::new(Large)
        }
    }
}
