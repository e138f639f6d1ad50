//! Types between a connection and its sending half: segments that leave, reasons why none does, ACKs.

use thalweg_units::Instant;

/// What leaves next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Transmit {
    pub(super) start: u64,
    pub(super) length: u32,
    pub(super) is_new: bool,
    /// The last of a burst of two or more (PSH).
    pub(super) ends_burst: bool,
    /// Reports to the receiver that its marks have been answered (CWR).
    pub(super) has_slowed: bool,
}

/// Why nothing leaves.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    NoData,
    Window,
    Pacing(Instant),
    FlowControl,
}

/// What an ACK says about marks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    None,
    /// A mark arrived (ECE, RFC 3168).
    Mark,
    /// The count of marks is in these flags (RFC 9768).
    Count(u16),
}

/// What an ACK says.
#[derive(Copy, Clone, Debug)]
pub(super) struct Ack<'a> {
    pub(super) una: u64,
    pub(super) blocks: &'a [(u64, u64)],
    pub(super) echo: Echo,
    /// The segment carries data, too.
    pub(super) has_data: bool,
    /// When what it answers left, by its timestamp (RFC 7323 section 4.1).
    pub(super) stamped: Option<Instant>,
}

/// Something that happened to a segment, for plots.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    Lost(u64, u32),
    Spurious(u64, u32),
}
