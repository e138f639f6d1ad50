//! Policies of repeated packets: `handshake` and `tail`.

use thalweg_recovery::{HandshakePolicy, Policies, TailPolicy};

/// The part of a connection's policies that recovery has no use for.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct RepeatPolicy {
    pub(super) handshake: HandshakePolicy,
    pub(super) tail: TailPolicy,
}

impl RepeatPolicy {
    pub(super) fn of(policies: &Policies) -> RepeatPolicy {
        RepeatPolicy { handshake: policies.handshake, tail: policies.tail }
    }
}
