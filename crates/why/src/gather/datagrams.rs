//! Which packets share a datagram: what a path loses is datagrams.

/// Datagrams are no larger than this, bytes, until a larger packet has left: what would not fit has one of its own.
const MOST: u64 = 1200;

/// The datagrams of a sender.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    /// The largest packet, bytes.
    pub(crate) largest: u64,
    /// The datagram that another packet may be part of: when it left, milliseconds, and its bytes so far.
    open: Option<(f64, u64)>,
}

impl Datagrams {
    /// A packet left; whether it begins a datagram. After one with a long header, another may follow in the same.
    pub(super) fn begins(&mut self, now: f64, size: u64, has_long_header: bool) -> bool {
        self.largest = self.largest.max(size);
        let most = self.largest.max(MOST);
        let before = self.open.filter(|(at, bytes)| *at == now && bytes.saturating_add(size) <= most);
        let bytes = before.map_or(0, |(_, bytes)| bytes);
        self.open = has_long_header.then_some((now, bytes.saturating_add(size)));
        before.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_handshake_share_a_datagram() {
        let mut datagrams = Datagrams::default();
        let sent = [(0.0, 145, true), (0.0, 1055, true), (0.0, 900, true), (0.0, 300, false), (0.0, 40, false)];
        let begins = sent.map(|(now, size, is_long)| datagrams.begins(now, size, is_long));
        assert_eq!(begins, [true, false, true, false, true]);
        datagrams.begins(1.0, 100, true);
        assert!(datagrams.begins(2.0, 100, true), "it left later");
        assert_eq!(datagrams.largest, 1055);
    }
}
