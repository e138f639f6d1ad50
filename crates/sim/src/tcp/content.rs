//! The content of a connection's bytes: the applications' writes, beside the link.
//!
//! Packets carry zeros. What was written is kept here in the order of the stream, shared by both ends, and becomes
//! readable when TCP has delivered so much in order; there is nothing to reassemble, and nothing that could be read too
//! early. Streams of the application follow each other in one byte stream as they were written, as requests of HTTP/1.1
//! do; a stream that ends empty takes a byte.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// A run of bytes of one stream.
#[derive(Clone, Debug)]
struct Piece {
    id: u64,
    /// Bytes of the application; empty for the end of a stream.
    data: Bytes,
    /// Bytes of sequence space.
    length: u64,
    is_end: bool,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Channel {
    pieces: VecDeque<Piece>,
    written: u64,
    read: u64,
}

/// A piece that has arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) id: u64,
    pub(super) data: Bytes,
    pub(super) is_end: bool,
}

/// The two directions of one connection: what the client wrote, what the server wrote.
#[derive(Debug, Default)]
struct Channels([Channel; 2]);

/// The connections of a flow, shared by its two hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents(Arc<Mutex<Vec<Option<Box<Channels>>>>>);

impl Contents {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Box<Channels>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for another connection.
    pub(super) fn open(&self, connection: u32) {
        let mut all = self.lock();
        let index = connection as usize;
        if all.len() <= index {
            all.resize_with(index + 1, || None);
        }
        all[index].get_or_insert_with(Box::default);
    }

    /// Forgets a connection.
    pub(super) fn close(&self, connection: u32) {
        if let Some(channels) = self.lock().get_mut(connection as usize) {
            *channels = None;
        }
    }

    fn with<R>(&self, connection: u32, by_client: bool, f: impl FnOnce(&mut Channel) -> R) -> Option<R> {
        let mut all = self.lock();
        let channels = all.get_mut(connection as usize)?.as_mut()?;
        Some(f(&mut channels.0[usize::from(!by_client)]))
    }

    /// Appends to a stream; returns how much is written in this direction by now.
    pub(super) fn write(&self, connection: u32, by_client: bool, id: u64, data: Bytes) -> u64 {
        let written = self.with(connection, by_client, |channel| {
            channel.written += data.len() as u64;
            channel.pieces.push_back(Piece { id, length: data.len() as u64, data, is_end: false });
            channel.written
        });
        written.unwrap_or(0)
    }

    /// Ends a stream that `is_empty` or not.
    pub(super) fn finish(&self, connection: u32, by_client: bool, id: u64, is_empty: bool) -> u64 {
        let written = self.with(connection, by_client, |channel| {
            let length = u64::from(is_empty);
            channel.written += length;
            channel.pieces.push_back(Piece { id, data: Bytes::new(), length, is_end: true });
            channel.written
        });
        written.unwrap_or(0)
    }

    /// Takes out what lies below `delivered`, in order.
    pub(super) fn read(&self, connection: u32, by_client: bool, delivered: u64, mut take: impl FnMut(Arrived)) {
        let _ = self.with(connection, by_client, |channel| {
            while let Some(piece) = channel.pieces.front_mut() {
                let there = delivered - channel.read;
                if piece.length <= there {
                    channel.read += piece.length;
                    take(Arrived { id: piece.id, data: piece.data.clone(), is_end: piece.is_end });
                    channel.pieces.pop_front();
                    continue;
                }
                if there > 0 && !piece.is_end {
                    channel.read += there;
                    piece.length -= there;
                    let data = piece.data.split_to(usize::try_from(there).unwrap_or(usize::MAX));
                    take(Arrived { id: piece.id, data, is_end: false });
                }
                break;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_can_be_read_as_far_as_it_was_delivered() {
        let contents = Contents::default();
        contents.open(3);
        assert_eq!(contents.write(3, true, 0, Bytes::from_static(b"hello")), 5);
        assert_eq!(contents.finish(3, true, 0, false), 5);
        assert_eq!(contents.finish(3, true, 4, true), 6);
        let mut seen = Vec::new();
        for delivered in [0, 2, 4, 5, 6] {
            contents.read(3, true, delivered, |piece| {
                seen.push((delivered, piece.id, String::from_utf8_lossy(&piece.data).into_owned(), piece.is_end));
            });
        }
        let text = |text: &str| text.to_owned();
        assert_eq!(
            seen,
            [
                (2, 0, text("he"), false),
                (4, 0, text("ll"), false),
                (5, 0, text("o"), false),
                (5, 0, text(""), true),
                (6, 4, text(""), true)
            ]
        );
        contents.read(3, false, 0, |_| panic!("the other direction is empty"));
        contents.close(3);
        assert_eq!(contents.write(3, true, 0, Bytes::from_static(b"x")), 0);
    }
}
