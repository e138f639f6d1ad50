//! The values of the policies that are a rule or a number rather than an algorithm with a file of its own.

use crate::choice::{Number, Share, choices, parameters, words};

choices! {
    #[doc = "How much reordering to tolerate before declaring a packet lost."]
    ReorderingPolicy, "reordering" {
        Fixed "fixed",
            "three packets, or 9/8 of the round-trip time (RFC 9002 section 6.1)",
            "networks that do not reorder; to follow the RFC to the letter";
        TimeOnly "time-only",
            "9/8 of the round-trip time, without a packet threshold",
            "networks known to reorder within an eighth of a round trip";
        Adaptive "adaptive",
            "fixed until a packet is wrongly declared lost; from then on time only, with a reordering window that grows and shrinks (RACK, RFC 8985)",
            "networks that may reorder: learns from the first packet that is wrongly declared lost";
        Rack "rack",
            "time only, with the reordering window of adaptive from the first reordering seen on (RACK, RFC 8985)",
            "networks that may reorder: learns before any packet is wrongly declared lost";
    } default Rack
    study {
        HalfInFlight "half-in-flight",
            "half of the packets in flight but at least three, or 9/8 of the round-trip time (nginx)",
            "to compare with nginx; tolerant with large windows, strict with small ones";
        Counting "counting",
            "fixed until a packet is wrongly declared lost; from then on 5/4 of the round-trip time, or as many packets as that one was late by, at most 20 (quiche)",
            "to compare with quiche; packets that are late by more than a quarter of a round trip are declared lost each time";
    }
}

parameters! {
    #[doc = "The parameters of `rtt=per-round`."]
    PerRoundParameters {
        base "base": PerRoundBase = PerRoundBase::Smoothed, "",
            "what the variation is added to: the smoothed RTT, or the largest sample ever, where needless probes cost more than late ones";
        variations "variations": Number<1, 8> = Number::clamped(4), "× variation",
            "how many times the variation is added: with fewer, probes leave earlier, and more of them are needless";
    }
}

words! {
    #[doc = "What the probe timer of `rtt=per-round` adds the variation to."]
    PerRoundBase {
        Smoothed "smoothed", "The smoothed round-trip time.";
        Largest "largest", "The largest sample ever.";
    }
}

choices! {
    #[doc = "How the probe timer's round-trip estimate is computed from the samples."]
    RttPolicy, "rtt" {
        Classic "classic",
            "exponential averages over samples (RFC 9002 section 5.3 in the order of appendix A.7)",
            "to follow the RFC to the letter; adapts quickly";
        PerRound(PerRoundParameters) "per-round",
            "one update per round trip from the mean and the extremes of its samples; smoothed RTT + 4 × variation",
            "paths on which the samples of a round trip belong together, such as Wi-Fi with aggregation";
        Windowed "windowed",
            "updates as per-round; largest sample within one cycle of the controller (counted in round trips) + variation",
            "as per-round(base=largest, variations=1), on paths whose delay changes permanently";
    } default Classic
}

choices! {
    #[doc = "The round-trip estimate over which pacing spreads a window."]
    PacingRttPolicy, "pacing-rtt" {
        Bounded "bounded",
            "the smoothed estimate of the rtt policy, at most twice the newest sample",
            "unless there is a reason to pace by another estimate: an interruption does not slow down what follows it";
        Smoothed "smoothed",
            "the smoothed estimate of the rtt policy",
            "to follow the formula of RFC 9002 section 7.7";
        Classic "classic",
            "an exponential average over samples",
            "with a per-round rtt policy, to pace as with rtt=classic";
        PerRound "per-round",
            "an average that is updated once per round trip",
            "where acknowledgments arrive in clumps";
        Short "short",
            "the smallest of the last eight samples that are at least a millisecond apart",
            "to send faster while a queue builds up";
    } default Bounded
}

choices! {
    #[doc = "The round-trip estimate by which a start detects that a queue builds up."]
    ExitRttPolicy, "exit-rtt" {
        Sample "sample",
            "the newest sample minus the ACK delay that the peer reports",
            "to follow RFC 9406";
        Classic "classic",
            "an exponential average over samples",
            "where single samples are outliers";
        PerRound "per-round",
            "an average that is updated once per round trip",
            "where samples vary within a round trip";
        Short "short",
            "the smallest of the last eight samples that are at least a millisecond apart",
            "where jitter would end the start too early";
    } default Sample
}

parameters! {
    #[doc = "The parameters of `probe=capped`."]
    CappedParameters {
        divisor "divisor": Number<2, 128> = Number::clamped(16), "",
            "the longest wait is the idle timeout divided by this";
    }
}

choices! {
    #[doc = "When the sender probes after silence, and how the timeout backs off."]
    ProbePolicy, "probe" {
        Rfc "rfc",
            "smoothed RTT + 4 × variation + the peer's ACK delay, doubled at each expiry (RFC 9002 section 6.2)",
            "to follow the RFC to the letter; a crowd of flows sends the fewest probes into a dead link";
        Capped(CappedParameters) "capped",
            "as rfc, but at most a sixteenth of the idle timeout",
            "outages of seconds; fewer probes with a smaller divisor, shorter silence after the repair with a larger one";
        Ladder "ladder",
            "doubles at first, then grows by a quarter of the silence, up to a thirty-second of the idle timeout (a tenth on a crowded path); single probes after the second expiry",
            "outages from a second to the idle timeout: short silence after an outage, few probes during it";
    } default Ladder
}

choices! {
    #[doc = "Whether the probe timer adds the peer's acknowledgment delay."]
    AckAllowancePolicy, "ack-allowance" {
        Always "always",
            "adds the peer's maximum ACK delay in every case (RFC 9002 section 6.2.1)",
            "to follow the RFC to the letter; peers that delay acknowledgments by more than they report";
        Lone "lone",
            "adds the peer's maximum ACK delay while a single ack-eliciting packet is in flight; with several in flight, adds the delay that the peer recently reported for acknowledgments of several packets, as every second packet is acknowledged at once (RFC 9000 section 13.2.2)",
            "short paths with small windows, on which 25 ms are many round trips";
    } default Lone
}

parameters! {
    #[doc = "The parameters of `ack-rate=phased`."]
    PhasedParameters {
        opening "opening": Number<1, 64> = Number::clamped(16), "ACKs per window",
            "how many to ask for while the window opens";
        later "later": Number<1, 64> = Number::clamped(8), "ACKs per window",
            "how many to ask for afterwards";
    }
}

choices! {
    #[doc = "How many acknowledgments to ask the peer for, if it takes requests (ACK_FREQUENCY)."]
    AckRatePolicy, "ack-rate" {
        Off "off",
            "asks for nothing: the peer acknowledges as it sees fit",
            "to leave the density of acknowledgments to the peer";
        Phased(PhasedParameters) "phased",
            "sixteen per window and round trip while the window opens, eight afterwards (for every second to every 64th packet, draft-ietf-quic-ack-frequency-12); fewer while it opens where they wait for each other on the return path",
            "thin uplinks: dense while it is measured what the path carries, thin in the long run; opening=4, later=2 on uplinks that carry hardly anything else";
    } default Phased(PhasedParameters)
}

choices! {
    #[doc = "Whether a reduction is undone when its losses prove to have been reordering."]
    UndoPolicy, "undo" {
        Episode "episode",
            "undone when every packet of the loss episode has been acknowledged after all (RFC 9438 section 4.9)",
            "always, except to study the effect of this rule";
        Off "off",
            "never undone",
            "to measure the cost of packets wrongly declared lost";
    } default Episode
    study {
        Few "few",
            "undone once a packet sent since is acknowledged, if fewer than two packets or a fifth of the reduced window were lost by then, or when any packet declared lost is acknowledged; a reduction that ends slow start stays (quiche's CUBIC)",
            "to compare with quiche: random loss reduces no window for long once slow start has ended";
    }
}

choices! {
    #[doc = "Whether packets are spread over the round trip (pacing)."]
    PacingPolicy, "pacing" {
        On "on",
            "a token bucket filled at a multiple of one window per round trip (RFC 9002 section 7.7)",
            "always, except to study the effect of this rule";
        Off "off",
            "everything that the window allows leaves at once",
            "to measure the effect of bursts on queues";
    } default On
    study {
        Bursts "bursts",
            "a token bucket of 2 ms, ten to 256 datagrams, filled at 5/4 of a window per round trip in slow start as well (quinn)",
            "to compare with quinn: slow start takes longer";
        ShortBursts "short-bursts",
            "as bursts, but of at most 10 ms unless a datagram takes longer (noq)",
            "to compare with noq: on slow paths each datagram waits for its own credit";
    }
}

choices! {
    #[doc = "How far an application that leaves the window unused can open it."]
    GrowthLimitPolicy, "growth-limit" {
        Unused "unused",
            "packets open the window only if it was full after they were sent, or nothing kept it from being (RFC 9002 section 7.8)",
            "always: a window that was never used never grows";
        Flight "flight",
            "every packet opens the window, up to twice the largest flight since the last reduction, or one datagram more in congestion avoidance (draft-ietf-ccwg-ratelimited-increase-10)",
            "applications whose rate varies: a flight that almost fills the window still opens it";
    } default Unused
    study {
        Backlog "backlog",
            "packets open the window if something is left to send when they are acknowledged (quinn, noq)",
            "to compare with quinn and noq: what leaves last before a pause opens nothing";
    }
}

choices! {
    #[doc = "What becomes of the window while nothing is sent."]
    RestartPolicy, "restart" {
        Keep "keep",
            "the window stays, and packets are paced over the round trip (RFC 9002 section 7.7)",
            "paths whose rate does not change within seconds";
        Decay "decay",
            "the window halves with every probe timeout without anything in flight, down to the initial window, and slow start leads back to three quarters of it (RFC 2861)",
            "paths that others fill in the meantime";
        Initial "initial",
            "after a probe timeout without anything in flight the window is the initial one, and slow start leads back to three quarters of the old one (RFC 5681 section 4.1)",
            "to compare with TCP as specified";
    } default Keep
}

parameters! {
    #[doc = "The parameters of `handshake=twice`."]
    TwiceParameters {
        from "from": TwiceFrom = TwiceFrom::Start, "",
            "when flights begin to leave twice: at the start, or once a loss was seen on the connection, which costs nothing where none is lost";
    }
}

words! {
    #[doc = "When flights begin to leave twice under `handshake=twice`."]
    TwiceFrom {
        Start "start", "At the start of the connection.";
        Loss "loss", "Once a loss was seen on it.";
    }
}

choices! {
    #[doc = "Whether the datagrams of the handshake and of the first request and reply leave twice."]
    HandshakePolicy, "handshake" {
        Plain "plain",
            "once; what is lost is repeated after a probe timeout, or when the peer repeats (RFC 9002 section 6.2)",
            "paths that lose little";
        Twice(TwiceParameters) "twice",
            "a flight of up to five datagrams leaves twice until the handshake is confirmed, within the limits of window and amplification",
            "paths known to lose several packets of a hundred, where the first reply matters most; from=loss where they may";
    } default Plain
}

choices! {
    #[doc = "Whether the last data of a transfer leave twice."]
    TailPolicy, "tail" {
        Once "once",
            "once; what is lost is repaired when that is known (RFC 9002 section 6)",
            "paths that lose little, and short ones";
        Repeat "repeat",
            "once streams have ended and all has left, what is not acknowledged leaves again, the newest first, within the window and up to what the path holds, if the connection has lost a packet (of this project)",
            "long paths that lose packets by chance";
    } default Once
}

parameters! {
    #[doc = "The parameters of `resume=handshake`."]
    HandshakeParameters {
        share "share": Share<100, 1_000> = Share::clamped(500), "",
            "the share of what the earlier connection filled that the window jumps to";
    }
}

choices! {
    #[doc = "How a connection uses what an earlier one has saved of the path; the start is wrapped by it."]
    ResumePolicy, "resume" {
        Off "off",
            "not at all",
            "unless the same paths are used again and again";
        Careful "careful",
            "a jump to half of the saved window once a first flight has been acknowledged, and a retreat if that was too much (RFC 9959)",
            "long or fast paths that are used again: saves most round trips of a start";
        Handshake(HandshakeParameters) "handshake",
            "as careful, but the round-trip time of the handshake confirms the path, and the jump comes with the first flight",
            "as careful, where one more round trip matters; share=1 on links that nobody else uses and whose rate does not change";
    } default Off
}
