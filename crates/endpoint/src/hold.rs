//! Holding back what follows a handshake until the application has had its first say.

use std::time::Duration;

use thalweg_units::Instant;

/// Whether a connection holds back what it has to send.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    #[default]
    None,
    /// From the end of the handshake on, for this long.
    AfterHandshake(Duration),
    /// Until this time, or for no longer if it has passed.
    Until(Instant),
}

impl Hold {
    /// The handshake is complete.
    pub(crate) fn begin(&mut self, now: Instant) {
        if let Self::AfterHandshake(longest) = *self {
            *self = Self::Until(now + longest);
        }
    }

    /// When what is held may leave, if that is later than `now`.
    pub(crate) fn until(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Until(until) if until > now => Some(until),
            Self::None | Self::AfterHandshake(_) | Self::Until(_) => None,
        }
    }
}
