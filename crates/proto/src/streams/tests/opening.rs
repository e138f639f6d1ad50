//! Opening and closing streams, and limits on their number.

use super::*;

#[test]
fn a_request_and_its_answer() {
    let (mut a, mut b) = pair(small(), small());
    let id = a.open(Dir::Bi).unwrap();
    assert!(!a.has_all_ends(), "nothing waits");
    assert_eq!(a.write(id, b"hello"), Ok(5));
    assert!(!a.has_all_ends(), "more may be written");
    a.finish(id).unwrap();
    assert_eq!((a.unfinished_sends(), a.has_all_ends()), (1, true));
    settle(&mut a, &mut b);
    assert_eq!((a.unfinished_sends(), a.has_all_ends()), (0, false));
    assert_eq!(events(&mut a), [StreamEvent::Finished { id }]);
    assert_eq!(events(&mut b), [StreamEvent::Opened { dir: Dir::Bi }]);
    assert_eq!(b.accept(Dir::Bi), Some(id));
    assert_eq!(b.accept(Dir::Bi), None);
    assert_eq!(events(&mut b), [StreamEvent::Readable { id }]);
    assert_eq!(b.read(id, 3).unwrap().unwrap(), "hel");
    assert_eq!(b.read(id, 3).unwrap().unwrap(), "lo");
    assert_eq!(b.read(id, 3), Ok(None));
    assert_eq!(b.read(id, 3), Err(ReadError::ClosedStream));
    b.write(id, b"world").unwrap();
    b.finish(id).unwrap();
    assert_eq!(a.read(id, 10), Err(ReadError::Blocked));
    settle(&mut a, &mut b);
    assert_eq!(events(&mut a), [StreamEvent::Readable { id }]);
    let mut out = [0; 10];
    assert_eq!(a.read_into(id, &mut out), Ok(Some(5)));
    assert_eq!(&out[..5], b"world");
    assert_eq!(a.read_into(id, &mut out), Ok(None));
    assert!(a.send.is_empty() && a.recv.is_empty());
    assert!(b.send.is_empty() && b.recv.is_empty());
}

#[test]
fn rfc9000_3_2_using_a_stream_opens_all_of_its_kind_with_lower_numbers() {
    let mut s = victim();
    s.on_stream(client(Dir::Bi, 3), 0, false, b"x").unwrap();
    assert_eq!(events(&mut s), [StreamEvent::Opened { dir: Dir::Bi }]);
    for n in 0..4 {
        assert_eq!(s.accept(Dir::Bi), Some(client(Dir::Bi, n)));
    }
    assert_eq!(s.accept(Dir::Bi), None);
    assert_eq!(s.accept(Dir::Uni), None);
    assert_eq!(s.read(client(Dir::Bi, 0), 9), Err(ReadError::Blocked));
    // Frames that are not STREAM open streams too.
    s.on_max_stream_data(client(Dir::Bi, 4), 7).unwrap();
    assert_eq!(s.accept(Dir::Bi), Some(client(Dir::Bi, 4)));
    s.on_stream_data_blocked(client(Dir::Uni, 0), 7).unwrap();
    assert_eq!(s.accept(Dir::Uni), Some(client(Dir::Uni, 0)));
}

#[test]
fn rfc9000_4_6_a_stream_beyond_the_limit_is_a_stream_limit_error() {
    let mut s = victim();
    for dir in Dir::ALL {
        s.on_stream(client(dir, 9), 0, false, b"").unwrap();
        let id = client(dir, 10);
        assert_eq!(code(s.on_stream(id, 0, false, b"")), Code::STREAM_LIMIT_ERROR);
        assert_eq!(code(s.on_reset_stream(id, 0, 0)), Code::STREAM_LIMIT_ERROR);
        assert_eq!(code(s.on_stream_data_blocked(id, 0)), Code::STREAM_LIMIT_ERROR);
    }
    let id = client(Dir::Bi, (1 << 60) - 1);
    assert_eq!(code(s.on_stop_sending(id, 0)), Code::STREAM_LIMIT_ERROR);
    assert_eq!(code(s.on_max_stream_data(id, 0)), Code::STREAM_LIMIT_ERROR);
}

#[test]
fn rfc9000_19_frames_for_streams_of_the_wrong_kind_are_stream_state_errors() {
    let mut s = victim();
    let ours = s.open(Dir::Uni).unwrap();
    let theirs = client(Dir::Uni, 0);
    // 19.4, 19.8, 19.13: what a sender says, about a stream that only we send on.
    assert_eq!(code(s.on_stream(ours, 0, false, b"")), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_reset_stream(ours, 0, 0)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_stream_data_blocked(ours, 0)), Code::STREAM_STATE_ERROR);
    // 19.5, 19.10: what a receiver says, about a stream that only the peer sends on.
    assert_eq!(code(s.on_stop_sending(theirs, 0)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_max_stream_data(theirs, 0)), Code::STREAM_STATE_ERROR);
    // Streams of ours that we have not opened.
    let unopened = server(Dir::Bi, 0);
    assert_eq!(code(s.on_stream(unopened, 0, false, b"")), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_reset_stream(unopened, 0, 0)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_stop_sending(unopened, 0)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_max_stream_data(unopened, 0)), Code::STREAM_STATE_ERROR);
    assert_eq!(code(s.on_max_stream_data(server(Dir::Uni, 1), 0)), Code::STREAM_STATE_ERROR);
}

#[test]
fn rfc9000_19_11_stream_counts_beyond_2_60_are_frame_encoding_errors() {
    let mut s = victim();
    for dir in Dir::ALL {
        assert_eq!(s.on_max_streams(dir, 1 << 60), Ok(()));
        assert_eq!(code(s.on_max_streams(dir, (1 << 60) + 1)), Code::FRAME_ENCODING_ERROR);
        assert_eq!(s.on_streams_blocked(dir, 1 << 60), Ok(()));
        assert_eq!(code(s.on_streams_blocked(dir, (1 << 60) + 1)), Code::FRAME_ENCODING_ERROR);
    }
    let huge = Streams::new(
        Side::Server,
        StreamsConfig {
            max_concurrent_bidi: u64::MAX,
            receive_window: u64::MAX,
            stream_receive_window: u64::MAX,
            ..small()
        },
    )
    .initial_limits();
    assert_eq!(huge.streams_bidi, 1 << 60);
    assert_eq!(huge.max_data, crate::varint::MAX);
    assert_eq!(huge.stream_data_uni, crate::varint::MAX);
}

#[test]
fn rfc9000_4_6_opening_stops_at_the_peers_limit_and_goes_on_when_streams_close() {
    let (mut a, mut b) = pair(small(), small());
    let ids: Vec<_> = std::iter::from_fn(|| a.open(Dir::Uni)).collect();
    assert_eq!(ids.len(), 10);
    assert!(a.can_send_control(), "STREAMS_BLOCKED");
    for id in &ids {
        a.finish(*id).unwrap();
    }
    settle(&mut a, &mut b);
    assert_eq!(a.open(Dir::Uni), None);
    assert!(!a.can_send_control(), "STREAMS_BLOCKED once for every limit");
    events(&mut a);
    let id = b.accept(Dir::Uni).unwrap();
    assert_eq!(b.read(id, 1), Ok(None));
    settle(&mut a, &mut b);
    assert_eq!(events(&mut a), [StreamEvent::Available { dir: Dir::Uni }]);
    assert_eq!(a.open(Dir::Uni), Some(client(Dir::Uni, 10)));
    assert_eq!(a.open(Dir::Uni), None);
}

#[test]
fn any_number_of_streams_one_after_the_other_leaves_no_state() {
    let (mut a, mut b) = pair(StreamsConfig::default(), StreamsConfig::default());
    let mut out = [0; 64];
    for n in 0..30_000u64 {
        let id = a.open(Dir::Bi).unwrap();
        assert_eq!(id.index(), n);
        a.write(id, b"question").unwrap();
        a.finish(id).unwrap();
        settle(&mut a, &mut b);
        assert_eq!(b.accept(Dir::Bi), Some(id));
        assert_eq!(b.read_into(id, &mut out), Ok(Some(8)));
        assert_eq!(b.read_into(id, &mut out), Ok(None));
        b.write(id, b"answer").unwrap();
        b.finish(id).unwrap();
        settle(&mut a, &mut b);
        assert_eq!(a.read_into(id, &mut out), Ok(Some(6)));
        assert_eq!(a.read_into(id, &mut out), Ok(None));
        if n % 1000 == 0 {
            events(&mut a);
            events(&mut b);
        }
    }
    for s in [&a, &b] {
        assert!(s.send.is_empty() && s.recv.is_empty());
        assert!(s.send.capacity() < 256 && s.recv.capacity() < 256);
        assert_eq!(s.outgoing.held(), 0);
        assert_eq!(s.incoming.share.held(), 0);
        assert_eq!(s.outgoing.unfinished, 0);
    }
}

#[test]
fn late_frames_for_a_forgotten_stream_are_ignored() {
    let mut s = victim();
    let id = client(Dir::Bi, 0);
    s.on_stream(id, 0, true, b"abc").unwrap();
    s.accept(Dir::Bi).unwrap();
    assert_eq!(read_all(&mut s, id), Ok((b"abc".to_vec(), true)));
    s.reset(id, 1).unwrap();
    let (_, record) = packet(&mut s, 1200).unwrap();
    s.on_acked(&record);
    assert!(s.send.is_empty() && s.recv.is_empty());
    s.on_stream(id, 0, false, b"ab").unwrap();
    s.on_stream(id, 0, true, b"abc").unwrap();
    s.on_reset_stream(id, 5, 3).unwrap();
    s.on_stop_sending(id, 5).unwrap();
    s.on_max_stream_data(id, 1 << 40).unwrap();
    s.on_stream_data_blocked(id, 3).unwrap();
    s.on_acked(&record);
    s.on_lost(&record);
    assert!(s.send.is_empty() && s.recv.is_empty());
    assert_eq!(s.write(id, b"x"), Err(WriteError::ClosedStream));
    assert_eq!(s.finish(id), Err(ClosedStream));
    assert_eq!(s.stop(id, 0), Err(ClosedStream));
}
