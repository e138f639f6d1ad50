//! The frames of a packet's payload: what is read is written again to the same meaning.

use thalweg_proto::frame::{Frame, FrameIter};

/// Whether all of it is accepted.
pub fn run(payload: &[u8]) -> bool {
    for frame in FrameIter::new(payload) {
        let Ok(frame) = frame else { return false };
        if let Frame::Ack(ack) | Frame::PathAck { ack, .. } = &frame {
            assert_eq!(ack.ranges().count() as u64, ack.range_count());
            let times: Vec<_> = ack.timestamps().collect();
            assert_eq!(times.len() as u64, ack.times.map_or(0, |times| times.count()));
            assert!(times.windows(2).all(|pair| pair[0].units >= pair[1].units));
            assert!(times.iter().all(|time| time.number <= ack.largest));
        }
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        assert_eq!(bytes.len(), frame.encoded_len());
        // A frame is no longer than what it was read from, except for a length that it did not have.
        assert!(bytes.len() <= payload.len() + 4);
        assert_eq!(FrameIter::new(&bytes).next(), Some(Ok(frame)));
    }
    true
}
