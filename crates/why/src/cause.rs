//! Causes: what can make a transfer slow, who can change it, and what to try.

use serde::Serialize;

/// What can be taken away from a transfer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Cause {
    /// The receiver gives less credit than the path holds.
    ReceiveWindow,
    /// The sender has nothing to send.
    Application,
    /// A rate that was set.
    RateLimit,
    /// The window opens from a few packets, while the path would carry more.
    Start,
    /// Packets lost by chance, which the sender takes for congestion.
    ChanceLoss,
    /// Packets that come out of order, which the sender takes for lost.
    Reordering,
    /// Times in which nothing comes through: outages and suspensions.
    Interruption,
    /// What comes faster than a rate is dropped, and nothing waits.
    Policer,
    /// Large packets are dropped from some time on.
    BlackHole,
    /// The way back is too slow for the acknowledgments.
    WayBack,
    /// A host whose timers are late, or which reads late what has arrived.
    BusyHost,
    /// The round trip before the first request can leave.
    Handshake,
    /// The sender asks too late whether the path carries anything again.
    LateProbe,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 13] = [
        Cause::ReceiveWindow,
        Cause::Application,
        Cause::RateLimit,
        Cause::Start,
        Cause::ChanceLoss,
        Cause::Reordering,
        Cause::Interruption,
        Cause::Policer,
        Cause::BlackHole,
        Cause::WayBack,
        Cause::BusyHost,
        Cause::Handshake,
        Cause::LateProbe,
    ];

    /// The name, as the middle of a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::ReceiveWindow => "the receive window",
            Cause::Application => "pauses of the application",
            Cause::RateLimit => "a rate limit set at the sender",
            Cause::Start => "slow start",
            Cause::ChanceLoss => "random loss",
            Cause::Reordering => "reordering taken for loss",
            Cause::Interruption => "interruptions of the path",
            Cause::Policer => "a policer",
            Cause::BlackHole => "a drop of the path's MTU",
            Cause::WayBack => "a way back too thin for the acknowledgments",
            Cause::BusyHost => "a busy host",
            Cause::Handshake => "the handshake",
            Cause::LateProbe => "probes too late after a silence",
        }
    }

    /// What taking it away means, for "without …".
    pub const fn removed(self) -> &'static str {
        match self {
            Cause::ReceiveWindow | Cause::RateLimit => "this limit",
            Cause::Start => "it, with the path known from the beginning,",
            Cause::ChanceLoss | Cause::Reordering | Cause::Policer | Cause::BlackHole => "it",
            Cause::Application | Cause::Interruption => "them",
            Cause::WayBack => "it, on a way back as fast as the way there,",
            Cause::BusyHost => "it, on a host that is never late,",
            Cause::Handshake => "it, with a request in the first packet,",
            Cause::LateProbe => "it, with probe=ladder,",
        }
    }

    /// Who can change it.
    pub const fn owner(self) -> &'static str {
        match self {
            Cause::ReceiveWindow | Cause::Application | Cause::RateLimit | Cause::BusyHost => "the applications",
            Cause::Start | Cause::ChanceLoss | Cause::Reordering | Cause::LateProbe => "the sender's rules",
            Cause::Interruption | Cause::Policer | Cause::BlackHole | Cause::WayBack => "the path",
            Cause::Handshake => "both ends",
        }
    }

    /// What to try, and what it costs.
    pub const fn advice(self) -> &'static str {
        match self {
            Cause::ReceiveWindow => {
                "let the receiver give more credit: its receive window, of streams and of the connection, should be \
                 twice what the path holds (rate times round trip). It costs as much memory where data wait to be read"
            }
            Cause::Application => {
                "give the transport more to send: larger reads from what is slow, the next request before the last \
                 response has ended, several streams. It costs memory for what waits"
            }
            Cause::RateLimit => "raise the limit, or leave it out. Others on the path then have less",
            Cause::Start => {
                "use one connection for more than one transfer, or let it begin where the last one ended: \
                 --saved-paths FILE with resume=careful at both ends, if the path stays the same. A start that remembers \
                 wrongly fills queues"
            }
            Cause::ChanceLoss => {
                "a sender that does not take each loss for congestion: controller=regain (our default) or \
                 controller=bbr. The second may take more than its share from others; better still is a link that \
                 repairs its losses"
            }
            Cause::Reordering => {
                "a sender that waits longer before it repairs: reordering=rack (our default), or reordering=adaptive, and \
                 undo=episode. Real losses are then repaired a little later"
            }
            Cause::Interruption => {
                "the path itself: a radio link that is handed over or fades, a router that stalls; `thalweg probe` shows \
                 which way and how often. probe=ladder (our default) finds the end of an outage sooner than the RFC's \
                 timers, for a few packets more"
            }
            Cause::Policer => {
                "ask whoever runs the path for the rate that was agreed, or set max_rate just below the rate that the \
                 policer lets through: the same rate then comes without losses"
            }
            Cause::BlackHole => {
                "a lower limit for packets from the beginning: max_mtu at the sender, as large as what still came through; \
                 or a tunnel whose MTU does not change under the connection. Smaller packets cost a few percent more \
                 headers"
            }
            Cause::WayBack => {
                "fewer acknowledgments: ack-rate=phased (our default) asks the receiver for them, if it knows the \
                 extension; or less other traffic on the way back"
            }
            Cause::BusyHost => {
                "give the process with the socket a core, or less to do beside it: it reads and sends later than its timers \
                 say. `thalweg perf` between the same hosts shows what they can do"
            }
            Cause::Handshake => {
                "use one connection for more than one transfer, or 0-RTT for requests that may be repeated by others: the \
                 client keeps a ticket of an earlier connection"
            }
            Cause::LateProbe => {
                "probe=ladder (our default), which asks again at a steady pace: an outage costs hardly more than it lasts, \
                 for a few packets more"
            }
        }
    }
}
