//! The frames of a packet's payload: what is read is written again to the same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_proto::frame::{Frame, FrameIter};

fuzz_target!(|payload: &[u8]| {
    for frame in FrameIter::new(payload) {
        let Ok(frame) = frame else { break };
        if let Frame::Ack(ack) = &frame {
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
});
