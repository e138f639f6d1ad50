//! Two [`Streams`] back to back, and one against a peer that breaks the rules.

mod flow_control;
mod memory;
mod opening;
mod reset;
mod unordered;

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::error::{TransportError, TransportErrorCode as Code};
use crate::frame::{Frame, FrameIter};

/// A small generator for tests: same seed, same numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// The byte that test streams have at an offset.
fn byte(id: StreamId, offset: u64) -> u8 {
    ((offset + id.as_u64() * 77).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes(id: StreamId, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|o| byte(id, o)).collect()
}

fn feed(streams: &mut Streams, payload: &[u8]) -> Result<(), TransportError> {
    for frame in FrameIter::new(payload) {
        match frame? {
            Frame::Stream { id, offset, fin, data } => streams.on_stream(id, offset, fin, data)?,
            Frame::ResetStream { id, error_code, final_size } => streams.on_reset_stream(id, error_code, final_size)?,
            Frame::StopSending { id, error_code } => streams.on_stop_sending(id, error_code)?,
            Frame::MaxData(limit) => streams.on_max_data(limit),
            Frame::MaxStreamData { id, max } => streams.on_max_stream_data(id, max)?,
            Frame::MaxStreams { dir, max } => streams.on_max_streams(dir, max)?,
            Frame::DataBlocked(limit) => streams.on_data_blocked(limit),
            Frame::StreamDataBlocked { id, limit } => streams.on_stream_data_blocked(id, limit)?,
            Frame::StreamsBlocked { dir, limit } => streams.on_streams_blocked(dir, limit)?,
            other => panic!("{other:?} is not about streams"),
        }
    }
    Ok(())
}

fn small() -> StreamsConfig {
    StreamsConfig {
        max_concurrent_bidi: 10,
        max_concurrent_uni: 10,
        stream_receive_window: 10_000,
        receive_window: 25_000,
        max_stream_receive_window: 20_000,
        max_receive_window: 50_000,
        send_window: 100_000,
        send_backlog: 20_000,
        budget: None,
        send_budget: None,
    }
}

/// A client and a server that know each other's limits.
fn pair(client: StreamsConfig, server: StreamsConfig) -> (Streams, Streams) {
    let mut a = Streams::new(Side::Client, client);
    let mut b = Streams::new(Side::Server, server);
    a.set_peer_limits(&b.initial_limits());
    b.set_peer_limits(&a.initial_limits());
    (a, b)
}

/// One packet of at most `size` bytes; `None` if there is nothing to send.
fn packet(streams: &mut Streams, size: usize) -> Option<(Vec<u8>, SentStreams)> {
    let (mut buf, mut record) = (Vec::new(), SentStreams::default());
    streams.write_control(&mut buf, size, &mut record);
    streams.write_data(&mut buf, size, &mut record);
    assert!(buf.len() <= size);
    assert_eq!(buf.is_empty(), record.is_empty());
    (!buf.is_empty()).then_some((buf, record))
}

/// Carries packets both ways, without loss, until nobody has anything to send.
fn settle(a: &mut Streams, b: &mut Streams) {
    loop {
        let mut idle = true;
        while let Some((payload, record)) = packet(a, 1200) {
            feed(b, &payload).unwrap();
            a.on_acked(&record);
            idle = false;
        }
        while let Some((payload, record)) = packet(b, 1200) {
            feed(a, &payload).unwrap();
            b.on_acked(&record);
            idle = false;
        }
        if idle {
            return;
        }
    }
}

fn events(streams: &mut Streams) -> Vec<StreamEvent> {
    std::iter::from_fn(|| streams.poll_event()).collect()
}

fn client(dir: Dir, index: u64) -> StreamId {
    StreamId::new(Side::Client, dir, index)
}

fn server(dir: Dir, index: u64) -> StreamId {
    StreamId::new(Side::Server, dir, index)
}

/// A server with small windows, and no peer but the test.
fn victim() -> Streams {
    pair(small(), small()).1
}

fn code(result: Result<(), TransportError>) -> Code {
    result.unwrap_err().code
}

fn read_all(streams: &mut Streams, id: StreamId) -> Result<(Vec<u8>, bool), ReadError> {
    let mut all = Vec::new();
    loop {
        match streams.read(id, usize::MAX) {
            Ok(Some(bytes)) => all.extend_from_slice(&bytes),
            Ok(None) => return Ok((all, true)),
            Err(ReadError::Blocked) => return Ok((all, false)),
            Err(error) => return Err(error),
        }
    }
}

// ---- loss

#[test]
fn rfc9000_13_3_lost_control_frames_are_repeated_only_while_current() {
    let (mut a, mut b) = pair(small(), small());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, &bytes(id, 0, 10_000)).unwrap();
    settle(&mut a, &mut b);
    b.accept(Dir::Uni);
    while b.read(id, usize::MAX).is_ok() {}
    let (_, first) = packet(&mut b, 1200).unwrap();
    // Half of the stream's window, and of the connection's, which follows the stream's, was read.
    assert_eq!(first.control[..], [SentControl::MaxData(60_000), SentControl::MaxStreamData(id, 30_000)]);
    b.on_lost(&first);
    let (payload, again) = packet(&mut b, 1200).unwrap();
    assert_eq!(first, again);
    feed(&mut a, &payload).unwrap();
    a.write(id, &bytes(id, 10_000, 10_000)).unwrap();
    while let Some((payload, _)) = packet(&mut a, 1200) {
        feed(&mut b, &payload).unwrap();
    }
    while b.read(id, usize::MAX).is_ok() {}
    let (_, newer) = packet(&mut b, 1200).unwrap();
    assert_ne!(newer, again);
    b.on_lost(&again);
    let (_, repeated) = packet(&mut b, 1200).unwrap();
    // The stream's limit is superseded, the connection's is not, and is repeated with what is new.
    assert_eq!(repeated.control[..], [SentControl::MaxData(70_000)]);
    b.on_lost(&newer);
    let (_, repeated) = packet(&mut b, 1200).unwrap();
    assert_eq!(repeated, newer);
    b.on_lost(&newer);
    // Once the end is known, no more credit for the stream is of use.
    b.on_stream(id, 20_000, true, b"").unwrap();
    let lost = packet(&mut b, 1200);
    assert!(
        lost.is_none_or(|(_, record)| { !record.control.iter().any(|c| matches!(c, SentControl::MaxStreamData(..))) })
    );
}

#[test]
fn a_lost_end_is_sent_again_alone() {
    let (mut a, mut b) = pair(small(), small());
    let id = a.open(Dir::Uni).unwrap();
    a.write(id, b"abc").unwrap();
    settle(&mut a, &mut b);
    a.finish(id).unwrap();
    let (payload, record) = packet(&mut a, 1200).unwrap();
    assert_eq!(payload.len(), 4);
    a.on_lost(&record);
    let (payload, record) = packet(&mut a, 1200).unwrap();
    feed(&mut b, &payload).unwrap();
    a.on_acked(&record);
    assert_eq!(events(&mut a), [StreamEvent::Finished { id }]);
    b.accept(Dir::Uni);
    assert_eq!(read_all(&mut b, id), Ok((b"abc".to_vec(), true)));
}

#[test]
fn a_rejected_0rtt_sends_everything_again_within_the_new_limits() {
    let mut a = Streams::new(Side::Client, small());
    a.set_peer_limits(&StreamLimits {
        max_data: 1 << 20,
        stream_data_bidi_remote: 1 << 20,
        stream_data_bidi_local: 0,
        stream_data_uni: 1 << 20,
        streams_bidi: 20,
        streams_uni: 20,
    });
    let ids: Vec<_> = (0..12).map(|_| a.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        assert_eq!(a.write(*id, &bytes(*id, 0, 3_000)), Ok(3_000));
        a.finish(*id).unwrap();
    }
    a.reset(ids[3], 1).unwrap();
    a.reset(ids[11], 1).unwrap(); // beyond the limit to come
    let mut sent = Vec::new();
    while let Some((_, record)) = packet(&mut a, 1200) {
        sent.push(record);
    }
    for record in &sent {
        a.on_lost(record);
    }
    a.zero_rtt_rejected();
    assert!(!a.can_send_data());
    let mut b = Streams::new(Side::Server, small());
    a.set_peer_limits(&b.initial_limits());
    b.set_peer_limits(&a.initial_limits());
    for id in &ids {
        settle(&mut a, &mut b);
        assert_eq!(b.accept(Dir::Uni), Some(*id));
        assert!(!a.can_send() && !b.can_send());
        if *id == ids[3] || *id == ids[11] {
            assert_eq!(read_all(&mut b, *id), Err(ReadError::Reset(1)));
        } else {
            assert_eq!(read_all(&mut b, *id), Ok((bytes(*id, 0, 3_000), true)), "{id}");
        }
    }
    settle(&mut a, &mut b);
    assert!(a.send.is_empty() && b.recv.is_empty());
}

// ---- sharing

#[test]
fn a_small_stream_written_later_leaves_within_a_few_packets_of_a_large_one() {
    let config = StreamsConfig {
        send_window: 1 << 30,
        send_backlog: 1 << 30,
        stream_receive_window: 1 << 30,
        receive_window: 1 << 30,
        ..StreamsConfig::default()
    };
    let (mut a, _b) = pair(config.clone(), config);
    let large = a.open(Dir::Uni).unwrap();
    let mut data = Bytes::from(vec![0; 100_000_000]);
    assert_eq!(a.write_chunk(large, &mut data), Ok(100_000_000));
    for _ in 0..1000 {
        packet(&mut a, 1200).unwrap();
    }
    let small = a.open(Dir::Uni).unwrap();
    a.write(small, &[1; 10_000]).unwrap();
    a.finish(small).unwrap();
    let mut packets = 0;
    loop {
        packets += 1;
        let (_, record) = packet(&mut a, 1200).unwrap();
        if record.chunks.iter().any(|c| c.id == small && c.fin) {
            break;
        }
    }
    assert!(packets <= 14, "{packets} packets");
}

#[test]
fn higher_priority_goes_first_and_the_rest_follows() {
    let (mut a, _b) = pair(small(), StreamsConfig::default());
    let ids: Vec<_> = (0..3).map(|_| a.open(Dir::Uni).unwrap()).collect();
    for (id, priority) in ids.iter().zip([0, 5, -5]) {
        a.set_priority(*id, priority).unwrap();
        a.write(*id, &[0; 5_000]).unwrap();
    }
    assert_eq!(a.priority(ids[1]), Some(5));
    let mut order = Vec::new();
    while let Some((_, record)) = packet(&mut a, 1200) {
        for chunk in record.chunks {
            if order.last() != Some(&chunk.id) {
                order.push(chunk.id);
            }
        }
    }
    assert_eq!(order, [ids[1], ids[0], ids[2]]);
}

#[test]
fn a_blocked_writer_is_woken_when_there_is_room() {
    let (mut a, mut b) = pair(small(), StreamsConfig::default());
    let ids: Vec<_> = (0..8).map(|_| a.open(Dir::Uni).unwrap()).collect();
    let mut sent = Vec::new();
    // Fill the backlog of each, then what is in flight, until the send window is full.
    for id in &ids {
        for _ in 0..10 {
            while a.write(*id, &[0; 3_000]).is_ok() {}
            while let Some((payload, record)) = packet(&mut a, 1200) {
                feed(&mut b, &payload).unwrap();
                sent.push(record);
            }
        }
    }
    // Every stream may hold 64 KiB whatever the others do.
    assert!(a.bytes_unacked() >= 8 * 65_536);
    for id in &ids {
        assert_eq!(a.write(*id, b"x"), Err(WriteError::Blocked));
    }
    events(&mut a);
    for record in &sent {
        a.on_acked(record);
    }
    let mut woken = events(&mut a);
    woken.sort_by_key(|e| format!("{e:?}"));
    let expected: Vec<_> = ids.iter().map(|id| StreamEvent::Writable { id: *id }).collect();
    assert_eq!(woken, expected);
}

// ---- everything at once

proptest! {
    /// Whatever is acknowledged or lost in whatever order: every byte is sent until it is acknowledged, and never
    /// after.
    #[test]
    fn every_byte_is_sent_until_acknowledged_and_never_after(seed in 1u64.., len in 1usize..60_000, size in 80usize..2000) {
        let mut dice = Dice(seed);
        let (mut a, _b) = pair(StreamsConfig::default(), StreamsConfig::default());
        let id = a.open(Dir::Uni).unwrap();
        let data = bytes(id, 0, len);
        let mut written = 0;
        let mut acked = crate::range_set::RangeSet::new();
        let mut flying: Vec<SentStreams> = Vec::new();
        let mut fin_acked = false;
        for _round in 0..100_000 {
            match dice.roll(4) {
                0 if written < len => {
                    let n = (dice.roll(5000) as usize).min(len - written);
                    let piece = &data[written..written + n];
                    if dice.roll(2) == 0 {
                        a.write(id, piece).unwrap();
                    } else {
                        a.write_chunk(id, &mut Bytes::copy_from_slice(piece)).unwrap();
                    }
                    written += n;
                    if written == len {
                        a.finish(id).unwrap();
                    }
                }
                0 | 1 => if let Some((payload, record)) = packet(&mut a, size) {
                    for frame in FrameIter::new(&payload) {
                        let Ok(Frame::Stream { offset, data: got, fin, .. }) = frame else { panic!() };
                        let end = offset + got.len() as u64;
                        prop_assert_eq!(got, &data[offset as usize..end as usize]);
                        prop_assert_eq!(acked.gaps(offset..end).map(|g| g.end - g.start).sum::<u64>(), end - offset);
                        prop_assert_eq!(fin, written == len && end == len as u64);
                        prop_assert!(!got.is_empty() || !fin_acked);
                    }
                    flying.push(record);
                },
                _ if !flying.is_empty() => {
                    let i = dice.roll(flying.len() as u64) as usize;
                    match dice.roll(3) {
                        0 => a.on_lost(&flying[i]), // stays: may be acknowledged after all
                        1 => { let r = flying.swap_remove(i); a.on_lost(&r); }
                        _ => {
                            let r = flying.swap_remove(i);
                            a.on_acked(&r);
                            for c in &r.chunks {
                                acked.insert(c.offset..c.offset + u64::from(c.len));
                                fin_acked |= c.fin;
                            }
                        }
                    }
                }
                _ => {}
            }
            if a.send.is_empty() {
                break;
            }
        }
        prop_assert!(a.send.is_empty(), "finished");
        prop_assert_eq!(acked.total(), len as u64);
        prop_assert_eq!(a.bytes_unacked(), 0);
        prop_assert!(!a.can_send());
        prop_assert_eq!(events(&mut a).pop(), Some(StreamEvent::Finished { id }));
    }

    /// Two ends, small windows, loss, reordering, spurious losses, readers that dawdle: everything always arrives.
    #[test]
    fn two_ends_over_a_bad_path_always_finish(
        seed in 1u64..,
        loss in 0u64..60,
        streams in 1usize..25,
        window in 1u64..20_000,
        size in 80usize..1500,
        limited in any::<bool>(),
    ) {
        let config = StreamsConfig {
            max_concurrent_bidi: 3,
            max_concurrent_uni: 2,
            stream_receive_window: window,
            receive_window: window * 2,
            max_stream_receive_window: window * 4,
            max_receive_window: window * 8,
            send_window: 1 + window * 2,
            send_backlog: 1 + window / 2,
            budget: limited.then(|| Budget::new(1)),
            send_budget: limited.then(|| Budget::new(0)),
        };
        let mut dice = Dice(seed);
        let (a, b) = pair(config.clone(), config);
        let mut ends = [a, b];
        // What each end still has to open, and how far it is with each stream: (written, length).
        let mut to_open = [streams, streams];
        let mut writing: [BTreeMap<StreamId, (usize, usize)>; 2] = Default::default();
        let mut reading: [BTreeMap<StreamId, Vec<u8>>; 2] = Default::default();
        let mut lengths = BTreeMap::new();
        let mut complete = 0;
        let mut expected = 0;
        let mut flying: Vec<(usize, Vec<u8>, SentStreams)> = Vec::new();
        let mut now = 0;
        let mut round = 0;
        loop {
            round += 1;
            prop_assert!(round < 400_000, "stuck: {complete} of {expected}\n{:#?}", ends);
            for i in 0..2 {
                now += dice.roll(20_000_000);
                ends[i].set_clock(Instant::from_nanos(now), Duration::from_millis(50));
                if to_open[i] > 0 {
                    let dir = if dice.roll(2) == 0 { Dir::Bi } else { Dir::Uni };
                    if let Some(id) = ends[i].open(dir) {
                        to_open[i] -= 1;
                        let len = dice.roll(30_000) as usize;
                        if dice.roll(4) == 0 {
                            ends[i].set_priority(id, dice.roll(5) as i32 - 2).unwrap();
                        }
                        writing[i].insert(id, (0, len));
                        lengths.insert((id, i), len);
                        expected += 1;
                        if dir == Dir::Bi {
                            reading[i].insert(id, Vec::new());
                        }
                    }
                }
                for dir in Dir::ALL {
                    if let Some(id) = ends[i].accept(dir) {
                        reading[i].insert(id, Vec::new());
                        if dir == Dir::Bi {
                            let len = dice.roll(30_000) as usize;
                            writing[i].insert(id, (0, len));
                            lengths.insert((id, i), len);
                            expected += 1;
                        }
                    }
                }
                let end = &mut ends[i];
                writing[i].retain(|id, (written, len)| {
                    if *written == *len {
                        end.finish(*id).unwrap();
                        return false;
                    }
                    let n = (1 + dice.roll(8_000) as usize).min(*len - *written);
                    let mut chunk = Bytes::from(bytes(*id, *written as u64, n));
                    match end.write_chunk(*id, &mut chunk) {
                        Ok(n) => *written += n,
                        Err(WriteError::Blocked) => {}
                        Err(error) => panic!("{error}"),
                    }
                    true
                });
                reading[i].retain(|id, read| {
                    if dice.roll(3) > 0 {
                        return true;
                    }
                    match end.read(*id, 1 + dice.roll(9_000) as usize) {
                        Ok(Some(data)) => read.extend_from_slice(&data),
                        Ok(None) => {
                            assert_eq!(read, &bytes(*id, 0, lengths[&(*id, 1 - i)]));
                            complete += 1;
                            return false;
                        }
                        Err(ReadError::Blocked) => {}
                        Err(error) => panic!("{error}"),
                    }
                    true
                });
                if flying.len() < 50 {
                    if let Some((payload, record)) = packet(&mut ends[i], size) {
                        flying.push((i, payload, record));
                    } else {
                        prop_assert!(!ends[i].can_send_data());
                    }
                }
            }
            for _ in 0..dice.roll(4) {
                if flying.is_empty() {
                    break;
                }
                let at = dice.roll(flying.len() as u64) as usize;
                let from = flying[at].0;
                if dice.roll(100) < loss {
                    ends[from].on_lost(&flying[at].2);
                    if dice.roll(2) == 0 {
                        flying.swap_remove(at); // truly lost; otherwise it still arrives
                    }
                } else {
                    let (from, payload, record) = flying.swap_remove(at);
                    feed(&mut ends[1 - from], &payload).unwrap();
                    ends[from].on_acked(&record);
                }
            }
            if to_open == [0, 0] && complete == expected && flying.is_empty()
                && ends.iter().all(|e| e.send.is_empty() && e.recv.is_empty() && !e.can_send()) {
                break;
            }
        }
        for end in &ends {
            prop_assert_eq!(end.bytes_unacked(), 0);
            prop_assert_eq!(end.unfinished_sends(), 0);
            prop_assert_eq!(end.bytes_unread(), 0);
            prop_assert_eq!(end.outgoing.counts(), [0; 4]);
        }
    }

    /// Whatever a peer sends, there is an answer and never a panic; and what is held stays within the windows.
    #[test]
    fn nonsense_gets_an_error_or_nothing(seed in 1u64.., frames in 1usize..400) {
        let mut dice = Dice(seed);
        let mut s = victim();
        s.open(Dir::Bi);
        s.open(Dir::Uni);
        for _ in 0..frames {
            let id = StreamId::from_u64(dice.roll(44));
            let number = match dice.roll(3) { 0 => dice.roll(20), 1 => dice.roll(12_000), _ => dice.roll(1 << 62) };
            let before = s.incoming.received;
            let result = match dice.roll(12) {
                0..3 => s.on_stream(id, dice.roll(10_000), dice.roll(9) == 0, &[0; 700][..dice.roll(700) as usize]),
                3 => s.on_stream(id, number, false, &[0; 10]),
                4 => s.on_reset_stream(id, 0, number),
                5 => s.on_stop_sending(id, number),
                6 => s.on_max_stream_data(id, number),
                7 => s.on_stream_data_blocked(id, number),
                8 => s.on_max_streams(Dir::Bi, number),
                9 => s.on_streams_blocked(Dir::Uni, number),
                10 => { s.on_max_data(number); s.on_data_blocked(number); Ok(()) }
                _ => {
                    let id = s.accept(Dir::ALL[dice.roll(2) as usize]).unwrap_or(id);
                    match dice.roll(5) {
                        0 => { let _ = s.stop(id, 0); }
                        1 => { let _ = s.reset(id, 0); }
                        2 => { let _ = s.write(id, &[0; 3000]); }
                        3 => { if let Some((_, record)) = packet(&mut s, 1200) { s.on_acked(&record); } }
                        _ => { let _ = s.read(id, 1 << 20); }
                    }
                    Ok(())
                }
            };
            if result.is_err() {
                prop_assert_eq!(s.incoming.received, before);
            }
            prop_assert!(s.incoming.received <= s.incoming.window.granted());
            prop_assert!(s.bytes_unread() <= 50_000);
            prop_assert!(s.recv.len() <= 21 && s.send.len() <= 12);
        }
    }
}
