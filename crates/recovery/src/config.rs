//! Configuration of [`Recovery`](crate::Recovery): the policies, and the few numbers that are not policies.

use thalweg_units::{Duration, Rate};

use crate::policies::Policies;
use crate::profile::Profile;

/// The configuration of [`Recovery`](crate::Recovery).
#[derive(Clone, Debug)]
pub struct Config {
    /// The rules in force.
    pub policies: Policies,
    /// The round-trip time to assume on a path before the first sample. Default 333 ms (RFC 9002 section 6.2.2).
    pub initial_rtt: Duration,
    /// The longest the peer says that it delays an ACK, until it says otherwise. Default 25 ms (RFC 9000 section 18.2).
    pub max_ack_delay: Duration,
    /// Our own idle timeout: the probe timer goes by it until the endpoints have agreed on one
    /// ([`Recovery::set_idle_timeout`]). Default none.
    ///
    /// [`Recovery::set_idle_timeout`]: crate::Recovery::set_idle_timeout
    pub idle_timeout: Option<Duration>,
    /// Seed of every random choice of recovery, such as the waits between probes into a crowded path. Default 0; a
    /// transport draws one for each connection.
    pub seed: u64,
    /// Whether to mark packets ECT(0) and to heed the peer's counts. Default true.
    pub ecn: bool,
    /// Whether to record trace events for [`Recovery::drain_trace`](crate::Recovery::drain_trace), which then has
    /// to be called now and again. Default false: it costs nothing then.
    pub trace: bool,
    /// The information in the transport's acknowledgments. Default QUIC.
    pub profile: Profile,
    /// The most that may leave on all paths together, whatever windows and pacing allow. Default none.
    pub max_rate: Option<Rate>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            policies: Policies::default(),
            initial_rtt: crate::rtt::INITIAL_RTT,
            max_ack_delay: Duration::from_millis(25),
            idle_timeout: None,
            seed: 0,
            ecn: true,
            trace: false,
            profile: Profile::QUIC,
            max_rate: None,
        }
    }
}
