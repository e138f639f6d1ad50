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
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 7] = [
        Cause::ReceiveWindow,
        Cause::Application,
        Cause::RateLimit,
        Cause::Start,
        Cause::ChanceLoss,
        Cause::Reordering,
        Cause::Interruption,
    ];

    /// The name, as the middle of a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::ReceiveWindow => "the receive window",
            Cause::Application => "an application that had nothing to send",
            Cause::RateLimit => "the rate limit that was set",
            Cause::Start => "the start",
            Cause::ChanceLoss => "random loss",
            Cause::Reordering => "reordering taken for loss",
            Cause::Interruption => "interruptions",
        }
    }

    /// What taking it away means, for "without …".
    pub const fn removed(self) -> &'static str {
        match self {
            Cause::ReceiveWindow | Cause::RateLimit => "this limit",
            Cause::Application => "these pauses",
            Cause::Start => "it, on a path that is known from the beginning,",
            Cause::ChanceLoss | Cause::Reordering => "it",
            Cause::Interruption => "them",
        }
    }

    /// Who can change it.
    pub const fn owner(self) -> &'static str {
        match self {
            Cause::ReceiveWindow | Cause::Application | Cause::RateLimit => "the applications",
            Cause::Start | Cause::ChanceLoss | Cause::Reordering => "the sender's rules",
            Cause::Interruption => "the path",
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
        }
    }
}
