//! Slow start and its variants.
//!
//! A start proposes a window on each ACK, may shape how packets leave, and says when to stop; the frame
//! ([`window`](super::window)) applies it. After persistent congestion the window opens again, up to the threshold;
//! only the first time is there anything to find out.

mod careful_resume;
mod delay_min;
mod headroom;
#[cfg(feature = "study")]
mod hystart;
mod hystart_plus_plus;
mod interface;
#[cfg(test)]
mod one_burst;
mod peak;
mod rapid;
#[cfg(feature = "study")]
mod search;
mod standard;
#[cfg(feature = "study")]
mod suss;

use crate::choice::{Share, Switch, parameters, words};
use crate::congestion::table::algorithms;
pub(crate) use careful_resume::wrap;
use hystart_plus_plus::HyStartPlusPlus;
pub(crate) use interface::{Congested, Departure, Proposal, Start};
#[cfg(test)]
pub(crate) use one_burst::BURST;
#[cfg(test)]
use one_burst::OneBurst;
pub(crate) use peak::LONG;
use peak::Peak;
use rapid::RapidStart;
use standard::Standard;

parameters! {
    #[doc = "The parameters of `start=peak-bandwidth`."]
    PeakBandwidthParameters {
        share "share": Share<100, 1_000> = Share::clamped(1_000), "",
            "the share of what the measured rate fills that the window goes to at once";
        initial_window "initial-window": InitialWindowScale = InitialWindowScale::Scaled, "",
            "whether the initial window grows with the round-trip time";
        trains "trains": Switch = Switch::On, "",
            "whether packets wait for credit for a train";
        accidents "accidents": Switch = Switch::On, "",
            "whether it goes on after losses that turn out not to be those of a full path";
        growth "growth": OpeningGrowth = OpeningGrowth::Tripling, "",
            "what becomes of the window in a round trip that shows no queue, up to what the measured rate fills";
    }
}

words! {
    #[doc = "Whether the initial window of `start=peak-bandwidth` grows with the round-trip time."]
    InitialWindowScale {
        Scaled "scaled", "One initial window for every 100 ms.";
        Plain "plain", "One initial window.";
    }
}

words! {
    #[doc = "How `start=peak-bandwidth` opens the window while no queue shows."]
    OpeningGrowth {
        Tripling "tripling", "Three times as large after each round trip, as with `start=rapid-start`.";
        Doubling "doubling", "Twice as large after each round trip (RFC 9002 section 7.3.1).";
    }
}

#[cfg(feature = "study")]
parameters! {
    #[doc = "The parameters of `start=peak-bandwidth-published`."]
    PublishedParameters {
        first_flight "first-flight": Switch = Switch::On, "",
            "whether what the handshake and the first flight tell counts (off: picoquic before that was added)";
    }
}

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
        RapidStart "rapid-start",
            "slow start that triples until the round-trip time rises, and comes to what was delivered of the flight that met loss (draft-kazuho-ccwg-rapid-start-02)",
            "paths of any length, short transfers above all",
            |context| Box::new(RapidStart::new(context));
        PeakBandwidth(PeakBandwidthParameters) "peak-bandwidth",
            "a jump to what the path carries at the rate that trains of packets have measured; ends there once a round trip has confirmed it (picoquic's rule, changed)",
            "long paths: fills the link after two round trips",
            |context, parameters| Box::new(Peak::new(context, parameters.into()));
        #[cfg(test)]
        OneBurst "test-one-burst",
            "one burst, a pause, and a jump to what the burst measured",
            "in tests of the seat of a start",
            |context| Box::new(OneBurst::new(context));
    } default PeakBandwidth(PeakBandwidthParameters)
    study {
        HyStart "hystart",
            "slow start that ends at once when a train of ACKs lasts as long as the path, or the round-trip time rises (Linux's tcp_cubic)",
            "to compare with Linux; where delay hardly varies: fewest losses at the end of the start",
            |context| Box::new(hystart::HyStart::new(context));
        DelayMin "delay-min",
            "slow start that ends when the smallest of seven round-trip samples stays a quarter above what it was (picoquic)",
            "to compare with picoquic; where delay varies by less than a quarter of the round trip",
            |_| Box::new(delay_min::DelayMin::new());
        Search "search",
            "slow start that ends when what is acknowledged falls behind what was sent a round trip before (draft-chung-ccwg-search-09)",
            "to compare with SEARCH; where delay varies for reasons other than queues, and queues hold three times the path or more",
            |_| Box::new(search::Search::new());
        Suss "suss",
            "hystart that quadruples while the time over which ACKs arrive says that it would go on doubling (SUSS, SIGCOMM 2024)",
            "to compare with SUSS; transfers of a few round trips on paths without jitter",
            |context| Box::new(suss::Suss::new(context));
        PeakBandwidthPublished(PublishedParameters) "peak-bandwidth-published",
            "a jump to half of what the path carries at the highest rate between two ACKs, and slow start until the delay rises (picoquic)",
            "to compare with picoquic",
            |context, parameters| Box::new(Peak::new(context, parameters.into()));
    }
}

impl StartPolicy {
    /// Whether it works with the times at which packets arrived.
    pub(super) fn uses_arrivals(self) -> bool {
        self.name().starts_with("peak-bandwidth")
    }
}
