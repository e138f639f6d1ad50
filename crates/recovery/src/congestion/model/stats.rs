//! Statistics of a model of the path: its phases and its estimates.

use core::ops::AddAssign;

use thalweg_units::Rate;

/// What a model of the path has done and learned: what its behavior is judged by.
///
/// Phases are those of BBR (draft-ietf-ccwg-bbr section 5.3). Counters count how often each was entered, the first
/// Startup included.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelStats {
    /// The bandwidth that it takes the path for.
    pub bandwidth: Rate,
    /// The same when its start ended last; zero if it never did.
    pub start_bandwidth: Rate,
    /// The lowest bandwidth that it has gone by since then, short-term bounds included; zero as long as there is none.
    pub least_bandwidth: Rate,
    /// The most bytes that were acknowledged ahead of the bandwidth, since the path was first full.
    pub most_extra: u64,
    /// The most bytes in flight that loss has taught; zero if it has taught none.
    pub inflight_bound: u64,
    /// Startup.
    pub startups: u64,
    /// Of these, ended by loss or marks.
    pub startups_ended_by_loss: u64,
    /// Drain.
    pub drains: u64,
    /// Of these, ended because they had lasted too long.
    pub drains_ended_by_time: u64,
    /// ProbeBW_DOWN.
    pub downs: u64,
    /// Of these, ended because the next probe was due before the queue was gone.
    pub downs_ended_by_time: u64,
    /// ProbeBW_CRUISE.
    pub cruises: u64,
    /// ProbeBW_REFILL.
    pub refills: u64,
    /// ProbeBW_UP.
    pub ups: u64,
    /// Of these, ended because the delivery rate ceased to grow.
    pub ups_ended_by_plateau: u64,
    /// Of these, ended by loss or marks.
    pub ups_ended_by_loss: u64,
    /// Of these, ended with care, where the one before had lost too much.
    pub ups_ended_by_care: u64,
    /// ProbeRTT.
    pub rtt_probes: u64,
    /// Times that one was due, and idleness had done its work.
    pub rtt_probes_skipped: u64,
}

/// Counters are summed; of bandwidths and bytes the larger stays, of the lowest bandwidth the lower.
impl AddAssign for ModelStats {
    fn add_assign(&mut self, added: ModelStats) {
        // Every field, so that none is forgotten.
        let ModelStats {
            bandwidth,
            start_bandwidth,
            least_bandwidth,
            most_extra,
            inflight_bound,
            startups,
            startups_ended_by_loss,
            drains,
            drains_ended_by_time,
            downs,
            downs_ended_by_time,
            cruises,
            refills,
            ups,
            ups_ended_by_plateau,
            ups_ended_by_loss,
            ups_ended_by_care,
            rtt_probes,
            rtt_probes_skipped,
        } = added;
        self.bandwidth = self.bandwidth.max(bandwidth);
        self.start_bandwidth = self.start_bandwidth.max(start_bandwidth);
        self.least_bandwidth = match self.least_bandwidth {
            Rate::ZERO => least_bandwidth,
            least if least_bandwidth == Rate::ZERO => least,
            least => least.min(least_bandwidth),
        };
        self.most_extra = self.most_extra.max(most_extra);
        self.inflight_bound = self.inflight_bound.max(inflight_bound);
        self.startups += startups;
        self.startups_ended_by_loss += startups_ended_by_loss;
        self.drains += drains;
        self.drains_ended_by_time += drains_ended_by_time;
        self.downs += downs;
        self.downs_ended_by_time += downs_ended_by_time;
        self.cruises += cruises;
        self.refills += refills;
        self.ups += ups;
        self.ups_ended_by_plateau += ups_ended_by_plateau;
        self.ups_ended_by_loss += ups_ended_by_loss;
        self.ups_ended_by_care += ups_ended_by_care;
        self.rtt_probes += rtt_probes;
        self.rtt_probes_skipped += rtt_probes_skipped;
    }
}
