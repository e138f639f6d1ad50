//! Final sizes and flow control.

use super::*;

#[test]
fn rfc9000_4_5_the_final_size_cannot_change_or_be_passed() {
    for (first, second) in [
        // (offset, length, fin), a length of usize::MAX standing for a reset with `offset` as the final size
        ((0, 10, true), (0, 11, false)),
        ((0, 10, true), (10, 1, false)),
        ((0, 10, true), (0, 9, true)),
        ((0, 10, true), (5, 6, true)),
        ((0, 10, false), (0, 9, true)),
        ((5, 5, false), (9, 0, true)),
        ((0, 10, true), (9, usize::MAX, true)),
        ((0, 10, true), (11, usize::MAX, true)),
        ((0, 10, false), (9, usize::MAX, true)),
        ((10, usize::MAX, true), (0, 11, false)),
        ((10, usize::MAX, true), (0, 9, true)),
        ((10, usize::MAX, true), (11, usize::MAX, true)),
    ] {
        let mut s = victim();
        let id = client(Dir::Uni, 0);
        let mut apply = |(offset, len, fin): (u64, usize, bool)| {
            if len == usize::MAX {
                s.on_reset_stream(id, 0, offset)
            } else {
                s.on_stream(id, offset, fin, &vec![0; len])
            }
        };
        apply(first).unwrap();
        assert_eq!(code(apply(second)), Code::FINAL_SIZE_ERROR, "{first:?} {second:?}");
    }
}

#[test]
fn the_same_final_size_may_be_told_again() {
    let mut s = victim();
    let id = client(Dir::Uni, 0);
    s.on_stream(id, 5, true, b"fghij").unwrap();
    s.on_stream(id, 10, true, b"").unwrap();
    s.on_stream(id, 0, false, b"abcdefghij").unwrap();
    s.accept(Dir::Uni);
    assert_eq!(read_all(&mut s, id), Ok((b"abcdefghij".to_vec(), true)));
}

#[test]
fn rfc9000_4_1_data_beyond_the_streams_limit_is_a_flow_control_error() {
    let mut s = victim();
    let id = client(Dir::Uni, 0);
    s.on_stream(id, 9_990, false, &[0; 10]).unwrap();
    assert_eq!(code(s.on_stream(id, 9_991, false, &[0; 10])), Code::FLOW_CONTROL_ERROR);
    assert_eq!(code(s.on_stream(client(Dir::Uni, 1), 10_001, true, b"")), Code::FLOW_CONTROL_ERROR);
    assert_eq!(code(s.on_reset_stream(client(Dir::Uni, 2), 0, 10_001)), Code::FLOW_CONTROL_ERROR);
    assert_eq!(code(s.on_stream(id, crate::varint::MAX, false, &[0; 10])), Code::FRAME_ENCODING_ERROR);
}

#[test]
fn rfc9000_4_1_data_beyond_the_connections_limit_is_a_flow_control_error() {
    let mut s = victim();
    for n in 0..2 {
        s.on_stream(client(Dir::Uni, n), 9_999, false, &[0]).unwrap();
    }
    s.on_stream(client(Dir::Uni, 2), 4_999, false, &[0]).unwrap();
    assert_eq!(code(s.on_stream(client(Dir::Uni, 2), 5_000, false, &[0])), Code::FLOW_CONTROL_ERROR);
    let mut s = victim();
    for n in 0..2 {
        s.on_reset_stream(client(Dir::Uni, n), 0, 10_000).unwrap();
    }
    // Those were thrown away and credited at once.
    assert_eq!(s.incoming.received, 20_000);
    assert!(s.incoming.window.granted() >= 45_000);
}

#[test]
fn the_connection_counts_highest_offsets_not_bytes_however_often_they_come() {
    let mut s = victim();
    let id = client(Dir::Uni, 0);
    for _ in 0..50 {
        s.on_stream(id, 0, false, &[0; 1000]).unwrap();
        s.on_stream(id, 500, false, &[0; 1000]).unwrap();
        s.on_stream(id, 4_000, false, &[0; 1000]).unwrap();
    }
    assert_eq!(s.incoming.received, 5_000);
    s.on_stream(id, 1_500, false, &[0; 2_500]).unwrap();
    assert_eq!(s.incoming.received, 5_000);
    s.accept(Dir::Uni);
    assert_eq!(read_all(&mut s, id).unwrap().0.len(), 5_000);
    assert_eq!(s.bytes_unread(), 0);
}

#[test]
fn credit_comes_back_for_what_is_read_reset_or_stopped() {
    let (mut a, mut b) = pair(small(), small());
    for n in 0..200 {
        let id = a.open(Dir::Uni).unwrap();
        let data = bytes(id, 0, 9_000);
        assert_eq!(a.write(id, &data), Ok(9_000));
        let (payload, record) = packet(&mut a, 1200).unwrap();
        feed(&mut b, &payload).unwrap();
        a.on_acked(&record);
        match n % 4 {
            0 => a.finish(id).unwrap(),
            1 => a.reset(id, 7).unwrap(),
            _ => {}
        }
        settle(&mut a, &mut b);
        assert_eq!(b.accept(Dir::Uni), Some(id));
        match n % 4 {
            0 => assert_eq!(read_all(&mut b, id), Ok((data, true))),
            1 => assert_eq!(read_all(&mut b, id), Err(ReadError::Reset(7))),
            2 => b.stop(id, 9).unwrap(),
            _ => {
                b.read(id, 100).unwrap();
                a.finish(id).unwrap();
                settle(&mut a, &mut b);
                b.stop(id, 9).unwrap();
            }
        }
        settle(&mut a, &mut b);
        // Takes the event that the peer stopped a stream; until then it would be remembered.
        events(&mut a);
    }
    assert!(a.send.is_empty() && b.recv.is_empty());
    assert_eq!(b.bytes_unread(), 0);
    assert_eq!(a.bytes_unacked(), 0);
}

#[test]
fn a_sender_stops_at_the_streams_limit_says_so_once_and_goes_on_with_credit() {
    let (mut a, mut b) = pair(small(), small());
    let id = a.open(Dir::Uni).unwrap();
    assert_eq!(a.write(id, &bytes(id, 0, 15_000)), Ok(15_000));
    let mut frames = Vec::new();
    while let Some((payload, record)) = packet(&mut a, 1200) {
        feed(&mut b, &payload).unwrap();
        frames.extend(record.control.iter().copied());
    }
    assert_eq!(frames, [SentControl::StreamDataBlocked(id, 10_000)]);
    assert!(a.is_flow_blocked() && !a.can_send());
    b.accept(Dir::Uni);
    assert_eq!(read_all(&mut b, id).unwrap().0.len(), 10_000);
    settle(&mut a, &mut b);
    assert!(!a.is_flow_blocked());
    assert_eq!(read_all(&mut b, id).unwrap().0, bytes(id, 10_000, 5_000));
}

#[test]
fn a_sender_stops_at_the_connections_limit_but_resends_what_was_lost() {
    let (mut a, mut b) = pair(small(), small());
    let ids: Vec<_> = (0..3).map(|_| a.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        assert_eq!(a.write(*id, &bytes(*id, 0, 10_000)), Ok(10_000));
    }
    let mut sent = Vec::new();
    while let Some((_, record)) = packet(&mut a, 1200) {
        sent.push(record);
    }
    assert_eq!(a.outgoing.data_sent(), 25_000);
    assert!(a.is_flow_blocked() && !a.can_send());
    assert!(sent.iter().any(|r| r.control.contains(&SentControl::DataBlocked(25_000))));
    for record in &sent {
        a.on_lost(record);
    }
    assert!(a.can_send());
    settle(&mut a, &mut b);
    let mut total = 0;
    for id in &ids {
        assert_eq!(b.accept(Dir::Uni), Some(*id));
        total += read_all(&mut b, *id).unwrap().0.len();
    }
    assert_eq!(total, 25_000);
    settle(&mut a, &mut b);
    for id in &ids {
        total += read_all(&mut b, *id).unwrap().0.len();
    }
    assert_eq!(total, 30_000);
}

#[test]
fn a_spent_budget_slows_streams_and_ends_none() {
    let budget = Budget::new(1);
    let mut config = small();
    config.budget = Some(budget.clone());
    config.receive_window = 200_000;
    config.stream_receive_window = 100_000;
    config.max_stream_receive_window = 1 << 20;
    config.max_receive_window = 1 << 20;
    let (mut a, mut b) = pair(small(), config);
    let id = a.open(Dir::Uni).unwrap();
    let mut read = 0;
    let mut accepted = false;
    for _ in 0..1000 {
        while a.write(id, &[7; 5_000]).is_ok() {}
        settle(&mut a, &mut b);
        accepted = accepted || b.accept(Dir::Uni).is_some();
        read += read_all(&mut b, id).unwrap().0.len() as u64;
        assert!(b.recv[&id].window.granted() <= 100_000.max(read + CREDIT_FLOOR));
    }
    assert!(read > 5_000_000);
    drop(b);
    assert_eq!(budget.used(), 0);
}
