//! Datagrams on their way, and the boxes that they travel in.

use thalweg_link::Payload;

/// The content of a packet and the addresses that it goes by. Packets carry it in a box, so that little is copied on
/// the way from queue to queue; the boxes are used again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Datagram {
    pub(crate) bytes: Vec<u8>,
    /// Zeros behind these bytes.
    pub(crate) zeros: usize,
    /// Number of the entry of its flow's routing table that it was sent by.
    pub(crate) entry: u32,
    /// From the client to the server.
    pub(crate) is_up: bool,
}

impl Datagram {
    /// Bytes, the zeros included.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.zeros
    }
}

/// The boxes of datagrams that have come to their end, to be used again.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is to be used again")]
pub(crate) struct Pool(Vec<Box<Datagram>>);

impl Pool {
    /// A box with anything in it.
    pub(crate) fn take(&mut self) -> Box<Datagram> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn put(&mut self, datagram: Box<Datagram>) {
        self.0.push(datagram);
    }
}

#[cfg(test)]
impl From<Vec<u8>> for Datagram {
    fn from(bytes: Vec<u8>) -> Datagram {
        Datagram { bytes, is_up: true, ..Datagram::default() }
    }
}

impl Payload for Box<Datagram> {
    fn corrupt(&mut self, dice: u64) {
        // The damage may hit any of them.
        self.bytes.resize(self.bytes.len() + std::mem::take(&mut self.zeros), 0);
        self.bytes.corrupt(dice);
    }
}

/// These bytes and so many zeros.
pub(crate) fn whole(bytes: &[u8], zeros: usize) -> Vec<u8> {
    let mut whole = bytes.to_vec();
    whole.resize(bytes.len() + zeros, 0);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_hits_zeros_that_are_not_stored_as_it_hits_stored_ones() {
        let bytes = vec![7, 0, 255];
        for dice in 0..200 {
            let mut padded = Box::new(Datagram { zeros: 9, ..Datagram::from(bytes.clone()) });
            let mut stored = Box::new(Datagram::from(whole(&bytes, 9)));
            padded.corrupt(dice);
            stored.corrupt(dice);
            assert_eq!((padded.bytes, padded.zeros), (stored.bytes, 0), "{dice}");
        }
    }
}
