//! RESET_STREAM and STOP_SENDING.

use super::*;

#[test]
fn rfc9000_3_5_stop_sending_is_answered_by_a_reset_with_its_code() {
    let (mut a, mut b) = pair(small(), small());
    let id = a.open(Dir::Bi).unwrap();
    a.write(id, &bytes(id, 0, 5_000)).unwrap();
    settle(&mut a, &mut b);
    b.accept(Dir::Bi);
    b.stop(id, 42).unwrap();
    assert_eq!(b.read(id, 1), Err(ReadError::ClosedStream));
    a.write(id, b"more").unwrap();
    let (payload, _) = packet(&mut b, 1200).unwrap();
    feed(&mut a, &payload).unwrap();
    assert_eq!(events(&mut a), [StreamEvent::Stopped { id, code: 42 }]);
    assert_eq!(a.stopped(id), Some(42));
    assert_eq!(a.write(id, b"x"), Err(WriteError::Stopped(42)));
    assert_eq!(a.unfinished_sends(), 0);
    let (payload, record) = packet(&mut a, 1200).unwrap();
    assert_eq!(&record.control[..], [SentControl::ResetStream(id)]);
    let frame = FrameIter::new(&payload).next().unwrap().unwrap();
    // The final size is what was sent, not what was written.
    assert_eq!(frame, Frame::ResetStream { id, error_code: 42, final_size: 5_000 });
    feed(&mut b, &payload).unwrap();
    assert!(b.recv.is_empty());
    a.on_acked(&record);
    assert!(a.send.is_empty());
    assert_eq!(a.bytes_unacked(), 0);
}

#[test]
fn a_stopped_stream_is_remembered_until_the_application_knows() {
    let mut s = victim();
    let id = client(Dir::Bi, 0);
    s.on_stream(id, 0, true, b"").unwrap();
    s.on_stop_sending(id, 7).unwrap();
    let (_, record) = packet(&mut s, 1200).unwrap();
    s.on_acked(&record);
    // The reset is acknowledged before the application has accepted the stream.
    assert_eq!(s.accept(Dir::Bi), Some(id));
    assert_eq!(s.write(id, b"x"), Err(WriteError::Stopped(7)));
    assert!(events(&mut s).contains(&StreamEvent::Stopped { id, code: 7 }));
    assert!(s.send.is_empty());
}

#[test]
fn a_reset_makes_unread_data_unreadable_unless_all_of_it_had_come() {
    let mut s = victim();
    let (cut, whole) = (client(Dir::Uni, 0), client(Dir::Uni, 1));
    s.on_stream(cut, 0, false, b"abc").unwrap();
    s.on_reset_stream(cut, 9, 5).unwrap();
    s.on_stream(cut, 3, true, b"de").unwrap();
    s.on_stream(whole, 0, true, b"abc").unwrap();
    s.on_reset_stream(whole, 9, 3).unwrap();
    s.accept(Dir::Uni);
    s.accept(Dir::Uni);
    assert_eq!(s.received_reset(cut), Some(9));
    assert_eq!(s.read(cut, 10), Err(ReadError::Reset(9)));
    assert_eq!(s.read(cut, 10), Err(ReadError::ClosedStream));
    assert_eq!(s.received_reset(whole), None);
    assert_eq!(read_all(&mut s, whole), Ok((b"abc".to_vec(), true)));
}

#[test]
fn waiting_for_a_reset_ends_with_it_or_once_none_can_come() {
    let mut s = victim();
    let [cut, whole, stopped, read] = [0, 1, 2, 3].map(|number| client(Dir::Uni, number));
    for id in [cut, whole, stopped, read] {
        s.on_stream(id, 0, false, b"abc").unwrap();
        assert_eq!(s.accept(Dir::Uni), Some(id));
        assert_eq!(s.await_reset(id), Err(ReadError::Blocked));
    }
    events(&mut s);
    // Data wait unread, of which the application was notified: it is notified of the reset all the same.
    assert_eq!(s.await_reset(cut), Err(ReadError::Blocked));
    s.on_stream(cut, 3, false, b"d").unwrap();
    assert_eq!(events(&mut s), [], "more data are not what is waited for");
    s.on_reset_stream(cut, 9, 5).unwrap();
    assert_eq!(events(&mut s), [StreamEvent::Readable { id: cut }]);
    assert_eq!(s.await_reset(cut), Ok(Some(9)));
    assert!(!s.recv.contains_key(&cut), "forgotten, so that the peer may open another one");
    // The end may come before what is missing.
    assert_eq!(s.await_reset(whole), Err(ReadError::Blocked));
    s.on_stream(whole, 6, true, b"").unwrap();
    assert_eq!(s.await_reset(whole), Err(ReadError::Blocked));
    s.on_stream(whole, 3, false, b"def").unwrap();
    assert!(events(&mut s).contains(&StreamEvent::Readable { id: whole }));
    assert_eq!(s.await_reset(whole), Ok(None));
    assert_eq!(read_all(&mut s, whole), Ok((b"abcdef".to_vec(), true)));
    s.stop(stopped, 1).unwrap();
    assert_eq!(s.await_reset(stopped), Ok(None));
    s.on_stream(read, 3, true, b"").unwrap();
    assert_eq!(read_all(&mut s, read), Ok((b"abc".to_vec(), true)));
    assert_eq!(s.await_reset(read), Ok(None));
}

#[test]
fn resetting_and_stopping_twice_or_after_the_end_is_refused() {
    let (mut a, mut b) = pair(small(), small());
    let id = a.open(Dir::Bi).unwrap();
    a.finish(id).unwrap();
    assert_eq!(a.finish(id), Err(ClosedStream));
    assert_eq!(a.write(id, b"x"), Err(WriteError::ClosedStream));
    a.reset(id, 1).unwrap();
    assert_eq!(a.reset(id, 1), Err(ClosedStream));
    a.stop(id, 1).unwrap();
    assert_eq!(a.stop(id, 1), Err(ClosedStream));
    settle(&mut a, &mut b);
    b.accept(Dir::Bi);
    assert_eq!(b.read(id, 1), Err(ReadError::Reset(1)));
    // Its sending part was stopped, and the reset acknowledged: forgotten once the application knows.
    assert_eq!(b.write(id, b"x"), Err(WriteError::Stopped(1)));
    events(&mut b);
    assert_eq!(b.write(id, b"x"), Err(WriteError::ClosedStream));
    assert!(a.send.is_empty() && a.recv.is_empty());
    assert!(b.send.is_empty() && b.recv.is_empty());
}

#[test]
fn stopping_a_stream_whose_end_is_known_needs_no_frame() {
    let mut s = victim();
    let id = client(Dir::Uni, 0);
    s.on_stream(id, 100, true, b"end").unwrap();
    s.accept(Dir::Uni);
    s.stop(id, 3).unwrap();
    assert!(s.recv.is_empty());
    let (_, record) = packet(&mut s, 1200).unwrap();
    assert_eq!(record.control[..], [SentControl::MaxStreams(Dir::Uni, 11)]);
    assert_eq!(s.bytes_unread(), 0);
}
