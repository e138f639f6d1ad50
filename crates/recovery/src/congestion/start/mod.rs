//! Slow start and its variants.
//!
//! A start proposes a window on each ACK, may shape how packets leave, and says when to stop; the frame
//! ([`window`](super::window)) applies it. After persistent congestion the window opens again, up to the threshold;
//! only the first time is there anything to find out.

mod careful_resume;
mod delay_min;
mod hystart;
mod hystart_plus_plus;
mod interface;
#[cfg(test)]
mod one_burst;
mod peak;
mod rapid;
mod search;
mod standard;
mod suss;

use crate::congestion::table::algorithms;
pub(crate) use careful_resume::wrap;
use delay_min::DelayMin;
use hystart::HyStart;
use hystart_plus_plus::HyStartPlusPlus;
pub(crate) use interface::{Congested, Departure, Proposal, Start};
#[cfg(test)]
pub(crate) use one_burst::BURST;
#[cfg(test)]
use one_burst::OneBurst;
pub(crate) use peak::LONG;
use peak::Peak;
use rapid::RapidStart;
use search::Search;
use standard::Standard;
use suss::Suss;

algorithms! {
    #[doc = "How the congestion window opens at first, and what ends the start."]
    StartPolicy: Start, "start" {
        Standard "standard",
            "slow start until loss or a congestion mark (RFC 9002 section 7.3.1)",
            "for comparison; where delay varies for reasons other than queues",
            |_| Box::new(Standard);
        HyStartPlusPlus "hystart++",
            "slow start that slows down and then ends when the round-trip time rises (RFC 9406)",
            "wherever a queue is longer than a few milliseconds: fewer losses at the end of the start",
            |context| Box::new(HyStartPlusPlus::new(context));
        HyStart "hystart",
            "slow start that ends at once when a train of ACKs lasts as long as the path, or the round-trip time rises (Linux's tcp_cubic)",
            "to compare with Linux; where delay hardly varies: fewest losses at the end of the start",
            |context| Box::new(HyStart::new(context));
        DelayMin "delay-min",
            "slow start that ends when the smallest of seven round-trip samples stays a quarter above what it was (picoquic)",
            "to compare with picoquic; where delay varies by less than a quarter of the round trip",
            |_| Box::new(DelayMin::new());
        Search "search",
            "slow start that ends when what is acknowledged falls behind what was sent a round trip before (draft-chung-ccwg-search-09)",
            "where delay varies for reasons other than queues, and queues hold three times the path or more",
            |_| Box::new(Search::new());
        RapidStart "rapid-start",
            "slow start that triples until the round-trip time rises, and comes to what was delivered of the flight that met loss (draft-kazuho-ccwg-rapid-start-02)",
            "paths of any length, short transfers above all",
            |context| Box::new(RapidStart::new(context));
        Suss "suss",
            "hystart that quadruples while the time over which ACKs arrive says that it would go on doubling (SUSS, SIGCOMM 2024)",
            "to compare with SUSS; transfers of a few round trips on paths without jitter",
            |context| Box::new(Suss::new(context));
        PeakBandwidth "peak-bandwidth",
            "a jump to what the path carries at the rate that trains of packets have measured; ends there once a round trip has confirmed it (picoquic's rule, changed)",
            "long paths: fills the link after two round trips",
            |context| Box::new(Peak::new(context, peak::FILL));
        PeakBandwidthThreeQuarters "peak-bandwidth/three-quarters",
            "as peak-bandwidth, with a jump to three quarters of that",
            "to measure what caution costs",
            |context| Box::new(Peak::new(context, peak::Settings { share: (3, 4), ..peak::FILL }));
        PeakBandwidthHalf "peak-bandwidth/half",
            "as peak-bandwidth, with a jump to half of that",
            "long paths whose queues are short",
            |context| Box::new(Peak::new(context, peak::Settings { share: (1, 2), ..peak::FILL }));
        PeakBandwidthUnscaled "peak-bandwidth/unscaled",
            "as peak-bandwidth, with the same initial window for every round-trip time",
            "where no first flight may exceed ten packets",
            |context| Box::new(Peak::new(context, peak::Settings { scales_initial_window: false, ..peak::FILL }));
        PeakBandwidthSpread "peak-bandwidth/spread",
            "as peak-bandwidth, without a wait for credit for a train",
            "to measure what trains are good for",
            |context| Box::new(Peak::new(context, peak::Settings { waits_for_trains: false, ..peak::FILL }));
        PeakBandwidthPublished "peak-bandwidth/published",
            "a jump to half of what the path carries at the highest rate between two ACKs, and slow start until the delay rises (picoquic)",
            "to compare with picoquic",
            |context| Box::new(Peak::new(context, peak::PUBLISHED));
        PeakBandwidthLate "peak-bandwidth/published-late",
            "as peak-bandwidth/published, without what the handshake and the first flight tell (picoquic before that was added)",
            "to compare with picoquic",
            |context| {
                let late = peak::Settings { scales_initial_window: false, knows_handshake: false, ..peak::PUBLISHED };
                Box::new(Peak::new(context, late))
            };
        #[cfg(test)]
        OneBurst "test-one-burst",
            "one burst, a pause, and a jump to what the burst measured",
            "in tests of the seat of a start",
            |context| Box::new(OneBurst::new(context));
    } default PeakBandwidth
}

impl StartPolicy {
    /// Whether it works with the times at which packets arrived.
    pub(super) fn uses_arrivals(self) -> bool {
        self.name().split('/').next() == Some(StartPolicy::PeakBandwidth.name())
    }
}
