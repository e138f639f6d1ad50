//! Tests of frame parsing and writing.

use proptest::collection::vec;
use proptest::prelude::*;

use std::ops::Range;

use super::*;
use crate::error::TransportErrorCode;

fn parse(payload: &[u8]) -> Result<Vec<Frame<'_>>, TransportError> {
    FrameIter::new(payload).collect()
}

fn code(payload: &[u8]) -> TransportErrorCode {
    parse(payload).unwrap_err().code
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    out
}

fn id(id: u64) -> StreamId {
    StreamId::from_u64(id)
}

/// A frame type, then variable-length integers.
fn fields(ty: u64, values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::encode(ty, &mut out);
    values.iter().for_each(|value| varint::encode(*value, &mut out));
    out
}

// ---- round trips ----------------------------------------------------------------------------------------------------

/// Any 62-bit integer, with all encoded lengths likely.
fn integer() -> impl Strategy<Value = u64> {
    (0..=varint::MAX, 0u32..62).prop_map(|(value, shift)| value >> shift)
}

fn dir() -> impl Strategy<Value = Dir> {
    prop_oneof![Just(Dir::Bi), Just(Dir::Uni)]
}

/// A frame that owns its parts, so that a strategy can make it.
#[derive(Clone, Debug)]
enum Owned {
    /// One that borrows nothing.
    Plain(Frame<'static>),
    Crypto(u64, Vec<u8>),
    Stream(u64, u64, bool, Vec<u8>),
    NewToken(Vec<u8>),
    Close(u64, Option<u64>, Vec<u8>),
    Datagram(Vec<u8>),
}

impl Owned {
    fn frame(&self) -> Frame<'_> {
        match self {
            Owned::Plain(frame) => frame.clone(),
            Owned::Crypto(offset, data) => Frame::Crypto { offset: *offset, data },
            Owned::Stream(id, offset, fin, data) => {
                Frame::Stream { id: StreamId::from_u64(*id), offset: *offset, fin: *fin, data }
            }
            Owned::NewToken(token) => Frame::NewToken(token),
            Owned::Close(error_code, Some(frame_type), reason) => {
                Frame::ConnectionClose { error_code: *error_code, frame_type: *frame_type, reason }
            }
            Owned::Close(error_code, None, reason) => Frame::ApplicationClose { error_code: *error_code, reason },
            Owned::Datagram(data) => Frame::Datagram(data),
        }
    }
}

fn new_connection_id() -> impl Strategy<Value = NewConnectionId> {
    (integer(), 0f64..=1.0, vec(any::<u8>(), 1..=20), any::<[u8; 16]>()).prop_map(|(sequence, part, cid, token)| {
        NewConnectionId {
            sequence,
            retire_prior_to: ((sequence as f64 * part) as u64).min(sequence),
            cid: ConnectionId::new(&cid).unwrap(),
            reset_token: ResetToken(token),
        }
    })
}

fn path_frame() -> impl Strategy<Value = PathFrame> {
    prop_oneof![
        (integer(), integer()).prop_map(|(path, error_code)| PathFrame::Abandon { path, error_code }),
        (integer(), integer(), any::<bool>()).prop_map(|(path, sequence, is_backup)| PathFrame::Status {
            path,
            sequence,
            is_backup
        }),
        (integer(), new_connection_id()).prop_map(|(path, new)| PathFrame::NewConnectionId { path, new }),
        (integer(), integer()).prop_map(|(path, sequence)| PathFrame::RetireConnectionId { path, sequence }),
        integer().prop_map(PathFrame::MaxPathId),
        integer().prop_map(PathFrame::PathsBlocked),
        (integer(), integer()).prop_map(|(path, next_sequence)| PathFrame::CidsBlocked { path, next_sequence }),
    ]
}

fn any_frame() -> impl Strategy<Value = Owned> {
    let data = || vec(any::<u8>(), 0..1500);
    let offset = || integer().prop_map(|offset| offset.min(varint::MAX - 1500));
    let new_cid = new_connection_id().prop_map(Frame::NewConnectionId);
    let plain = prop_oneof![
        (1usize..200).prop_map(Frame::Padding),
        Just(Frame::Ping),
        (integer(), integer(), integer())
            .prop_map(|(i, error_code, final_size)| { Frame::ResetStream { id: id(i), error_code, final_size } }),
        (integer(), integer()).prop_map(|(i, error_code)| Frame::StopSending { id: id(i), error_code }),
        integer().prop_map(Frame::MaxData),
        (integer(), integer()).prop_map(|(i, max)| Frame::MaxStreamData { id: id(i), max }),
        (dir(), 0u64..=1 << 60).prop_map(|(dir, max)| Frame::MaxStreams { dir, max }),
        integer().prop_map(Frame::DataBlocked),
        (integer(), integer()).prop_map(|(i, limit)| Frame::StreamDataBlocked { id: id(i), limit }),
        (dir(), 0u64..=1 << 60).prop_map(|(dir, limit)| Frame::StreamsBlocked { dir, limit }),
        new_cid,
        integer().prop_map(Frame::RetireConnectionId),
        any::<[u8; 8]>().prop_map(Frame::PathChallenge),
        any::<[u8; 8]>().prop_map(Frame::PathResponse),
        Just(Frame::HandshakeDone),
        (integer(), integer(), integer(), integer()).prop_map(|(a, b, c, d)| Frame::AckFrequency(AckFrequency {
            sequence: a,
            threshold: b,
            max_ack_delay: c,
            reordering_threshold: d,
        })),
        Just(Frame::ImmediateAck),
    ];
    prop_oneof![
        8 => path_frame().prop_map(|frame| Owned::Plain(Frame::Path(frame))),
        17 => plain.prop_map(Owned::Plain),
        1 => (offset(), data()).prop_map(|(offset, data)| Owned::Crypto(offset, data)),
        2 => (integer(), offset(), any::<bool>(), data())
            .prop_map(|(id, offset, fin, data)| Owned::Stream(id, offset, fin, data)),
        1 => vec(any::<u8>(), 1..300).prop_map(Owned::NewToken),
        1 => (integer(), proptest::option::of(integer()), data())
            .prop_map(|(code, ty, reason)| Owned::Close(code, ty, reason)),
        1 => data().prop_map(Owned::Datagram),
    ]
}

proptest! {
    #[test]
    fn every_frame_survives_the_round_trip(frames in vec(any_frame(), 1..12)) {
        let mut payload = Vec::new();
        let mut expected: Vec<Frame<'_>> = Vec::new();
        for frame in &frames {
            let before = payload.len();
            frame.frame().encode(&mut payload);
            prop_assert_eq!(payload.len() - before, frame.frame().encoded_len());
            // Neighbouring runs of PADDING are one run.
            match (expected.last_mut(), frame.frame()) {
                (Some(Frame::Padding(run)), Frame::Padding(more)) => *run += more,
                (_, frame) => expected.push(frame),
            }
        }
        prop_assert_eq!(parse(&payload).unwrap(), expected);
    }

    #[test]
    fn every_truncated_frame_is_a_frame_encoding_error(frame in any_frame(), cut: prop::sample::Index) {
        let whole = encoded(&frame.frame());
        let cut = cut.index(whole.len());
        if cut > 0 && !matches!(frame, Owned::Plain(Frame::Padding(_))) {
            let error = FrameIter::new(&whole[..cut]).find_map(Result::err);
            prop_assert_eq!(error.map(|e| e.code), Some(TransportErrorCode::FRAME_ENCODING_ERROR));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300), ty in 0u8..0x40) {
        let extension = |ty: u64| [fields(ty, &[]), bytes.clone()].concat();
        for payload in [
            extension(ty::ACK_FREQUENCY),
            extension(ty::ACK_RECEIVE_TIMESTAMPS),
            extension(ty::ACK_RECEIVE_TIMESTAMPS_ECN),
            extension(ty::PATH_ACK),
            extension(ty::PATH_ACK_RECEIVE_TIMESTAMPS_ECN),
            extension(ty::PATH_NEW_CONNECTION_ID),
            extension(ty::PATH_CIDS_BLOCKED),
            bytes.clone(),
            [vec![ty], bytes].concat(),
        ] {
            let mut errors = 0;
            for frame in FrameIter::new(&payload) {
                match frame {
                    Ok(Frame::Ack(ack) | Frame::PathAck { ack, .. }) => {
                        let mut above = None;
                        prop_assert_eq!(ack.ranges().count() as u64, ack.range_count());
                        for range in ack.ranges() {
                            prop_assert!(range.start() <= range.end());
                            prop_assert!(above.is_none_or(|above| *range.end() + 1 < above));
                            above = Some(*range.start());
                        }
                        ack.delay(20);
                    }
                    Ok(frame) => {
                        let again = encoded(&frame);
                        prop_assert_eq!(parse(&again).unwrap(), vec![frame]);
                    }
                    Err(_) => errors += 1,
                }
            }
            prop_assert!(errors <= 1);
        }
    }
}

// ---- ACK ------------------------------------------------------------------------------------------------------------

/// Disjoint, non-adjacent half-open ranges, descending, from lengths and gaps.
fn descending(largest: u64, parts: &[(u64, u64)]) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let mut end = largest + 1;
    for (len, gap) in parts {
        let Some(start) = end.checked_sub(*len) else { break };
        ranges.push(start..end);
        let Some(next) = start.checked_sub(*gap).filter(|next| *next > 0) else { break };
        end = next;
    }
    ranges
}

fn ecn() -> impl Strategy<Value = Option<EcnCounts>> {
    proptest::option::of((integer(), integer(), integer()))
        .prop_map(|counts| counts.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce }))
}

proptest! {
    #[test]
    fn ack_frames_survive_the_round_trip(
        path in proptest::option::of(any::<u32>()), largest in integer(), delay in integer(), ecn in ecn(),
        parts in vec((1u64..5000, 1u64..5000), 1..100), limit in 0usize..400,
    ) {
        let ranges = descending(largest, &parts);
        let ranges = if ranges.is_empty() { std::iter::once(largest..largest + 1).collect() } else { ranges };
        let mut out = vec![0xee; 7];
        let written = match path {
            Some(path) => encode_path_ack(path, &mut out, limit, delay, ranges.iter().cloned(), ecn),
            None => encode_ack(&mut out, limit, delay, ranges.iter().cloned(), ecn),
        };
        prop_assert!(out.len() - 7 <= limit);
        let Some(written) = written else {
            prop_assert_eq!(out.len(), 7);
            return Ok(());
        };
        let parsed = parse(&out[7..]).unwrap();
        let (named, ack) = match &parsed[..] {
            [Frame::Ack(ack)] => (None, ack),
            [Frame::PathAck { path, ack }] => (Some(*path), ack),
            _ => panic!("{parsed:?}"),
        };
        prop_assert_eq!(named, path.map(u64::from));
        prop_assert_eq!((ack.largest, ack.raw_delay, ack.ecn), (largest, delay, ecn));
        prop_assert_eq!(ack.range_count(), written as u64);
        let expected: Vec<_> = ranges[..written].iter().map(|r| r.start..=r.end - 1).collect();
        prop_assert_eq!(ack.ranges().collect::<Vec<_>>(), expected);
        prop_assert_eq!(&encoded(&parsed[0]), &out[7..]);
        prop_assert_eq!(parsed[0].encoded_len(), out.len() - 7);
        // No range was left out without need.
        if written < ranges.len() {
            let mut more = Vec::new();
            encode_ack(&mut more, usize::MAX, delay, ranges[..=written].iter().cloned(), ecn);
            prop_assert!(more.len() + path.map_or(0, |path| varint::len(path.into())) > limit);
        }
    }
}

#[test]
fn thousands_of_ack_ranges_are_read_in_order() {
    let ranges: Vec<_> = (0..5000u64).rev().map(|n| 3 * n..3 * n + 1).collect();
    let mut out = Vec::new();
    assert_eq!(encode_ack(&mut out, 1 << 20, 0, ranges.iter().cloned(), None), Some(5000));
    let parsed = parse(&out).unwrap();
    let [Frame::Ack(ack)] = &parsed[..] else { panic!() };
    assert!(ack.ranges().eq((0..5000u64).rev().map(|n| 3 * n..=3 * n)));
}

#[test]
fn ack_ranges_below_zero_are_a_frame_encoding_error() {
    // Largest 5, first range 6; first range 5, then a gap; a gap to below zero; a range to below zero.
    for values in [
        &[5, 0, 0, 6][..],
        &[5, 0, 1, 5, 0, 0],
        &[5, 0, 1, 2, 2, 0],
        &[5, 0, 1, 2, 0, 2],
        &[5, 0, 1, 2, varint::MAX, 0],
    ] {
        assert_eq!(code(&fields(ty::ACK, values)), TransportErrorCode::FRAME_ENCODING_ERROR, "{values:?}");
    }
    assert!(parse(&fields(ty::ACK, &[5, 0, 1, 2, 0, 1])).is_ok());
}

#[test]
fn an_ack_that_promises_more_ranges_than_it_has_is_a_frame_encoding_error() {
    assert_eq!(code(&fields(ty::ACK, &[1000, 0, varint::MAX, 0, 0, 0])), TransportErrorCode::FRAME_ENCODING_ERROR);
}

#[test]
fn the_ack_delay_is_scaled_by_the_exponent_and_saturates() {
    let payload = fields(ty::ACK, &[5, 100, 0, 0]);
    let Frame::Ack(ack) = &parse(&payload).unwrap()[0] else { panic!() };
    assert_eq!(ack.delay(3), Duration::from_micros(800));
    let payload = fields(ty::ACK, &[5, varint::MAX, 0, 0]);
    let Frame::Ack(ack) = &parse(&payload).unwrap()[0] else { panic!() };
    assert_eq!(ack.delay(20), Duration::from_micros(u64::MAX));
}

// ---- what does not fit the format -----------------------------------------------------------------------------------

#[test]
fn a_packet_without_frames_is_a_protocol_violation() {
    assert_eq!(code(&[]), TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn an_unknown_frame_type_is_a_frame_encoding_error_that_names_it() {
    for ty in [0x20, 0x2f, 0x32, 0xac, 0x4242, varint::MAX] {
        let error = parse(&fields(ty, &[0])).unwrap_err();
        assert_eq!((error.code, error.frame), (TransportErrorCode::FRAME_ENCODING_ERROR, Some(ty)));
    }
}

#[test]
fn a_frame_type_not_in_its_shortest_form_is_a_protocol_violation() {
    for payload in [&[0x40, 0x01][..], &[0x80, 0, 0, 0x01], &[0xc0, 0, 0, 0, 0, 0, 0, 0x01], &[0x80, 0, 0, 0xaf]] {
        assert_eq!(code(payload), TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn an_empty_new_token_is_a_frame_encoding_error() {
    assert_eq!(code(&[0x07, 0x00]), TransportErrorCode::FRAME_ENCODING_ERROR);
}

#[test]
fn draft_multipath_4_4_a_path_connection_id_obeys_the_rules_of_new_connection_id() {
    for (len, retire_prior_to, is_valid) in [(0, 0, false), (21, 0, false), (8, 2, false), (20, 1, true)] {
        let mut payload = fields(ty::PATH_NEW_CONNECTION_ID, &[3, 1, retire_prior_to]);
        payload.push(len as u8);
        payload.resize(payload.len() + len + 16, 1);
        let code = parse(&payload).err().map(|error| error.code);
        assert_eq!(code, (!is_valid).then_some(TransportErrorCode::FRAME_ENCODING_ERROR), "{len}");
    }
}

#[test]
fn draft_multipath_7_frames_have_the_types_that_are_registered() {
    let abandon = PathFrame::Abandon { path: 2, error_code: 0x3e76 };
    assert_eq!(encoded(&Frame::Path(abandon)), [0x7e, 0x75, 2, 0x7e, 0x76]);
    let mut ack = Vec::new();
    encode_path_ack(2, &mut ack, 100, 5, std::iter::once(7..10), None).unwrap();
    assert_eq!(ack, [0x3e, 2, 9, 5, 0, 2]);
    for (ty, is_backup) in [(0x3e76, true), (0x3e77, false)] {
        let status = PathFrame::Status { path: 1, sequence: 4, is_backup };
        assert_eq!(encoded(&Frame::Path(status)), fields(ty, &[1, 4]));
    }
    for (ty, frame) in [
        (0x3e79, PathFrame::RetireConnectionId { path: 9, sequence: 9 }),
        (0x3e7c, PathFrame::CidsBlocked { path: 9, next_sequence: 9 }),
    ] {
        assert_eq!(encoded(&Frame::Path(frame)), fields(ty, &[9, 9]));
    }
    assert_eq!(encoded(&Frame::Path(PathFrame::MaxPathId(9))), fields(0x3e7a, &[9]));
    assert_eq!(encoded(&Frame::Path(PathFrame::PathsBlocked(9))), fields(0x3e7b, &[9]));
}

#[test]
fn more_than_2_to_60_streams_are_a_frame_encoding_error() {
    for ty in [ty::MAX_STREAMS_BIDI, ty::MAX_STREAMS_UNI, ty::STREAMS_BLOCKED_BIDI, ty::STREAMS_BLOCKED_UNI] {
        assert!(parse(&fields(ty, &[1 << 60])).is_ok());
        assert_eq!(code(&fields(ty, &[(1 << 60) + 1])), TransportErrorCode::FRAME_ENCODING_ERROR);
    }
}

#[test]
fn data_past_the_largest_offset_is_a_frame_encoding_error() {
    for mut payload in
        [fields(ty::CRYPTO, &[varint::MAX - 1, 2]), fields(ty::STREAM | OFF | LEN, &[0, varint::MAX - 1, 2])]
    {
        payload.extend_from_slice(&[0; 2]);
        assert_eq!(code(&payload), TransportErrorCode::FRAME_ENCODING_ERROR);
    }
    let mut payload = fields(ty::STREAM | OFF | LEN, &[0, varint::MAX - 2, 2]);
    payload.extend_from_slice(&[0; 2]);
    assert!(parse(&payload).is_ok());
}

#[test]
fn a_new_connection_id_of_length_0_or_above_20_is_a_frame_encoding_error() {
    for len in [0usize, 21, 255] {
        let mut payload = fields(ty::NEW_CONNECTION_ID, &[1, 0]);
        payload.push(len as u8);
        payload.resize(payload.len() + len + 16, 1);
        assert_eq!(code(&payload), TransportErrorCode::FRAME_ENCODING_ERROR, "{len}");
    }
}

#[test]
fn a_new_connection_id_that_retires_itself_is_a_frame_encoding_error() {
    let mut payload = fields(ty::NEW_CONNECTION_ID, &[1, 2]);
    payload.push(8);
    payload.resize(payload.len() + 8 + 16, 1);
    assert_eq!(code(&payload), TransportErrorCode::FRAME_ENCODING_ERROR);
}

#[test]
fn frames_without_length_take_the_rest_of_the_packet() {
    assert_eq!(
        parse(&[0x08, 4, 1, 2, 3]).unwrap(),
        [Frame::Stream { id: id(4), offset: 0, fin: false, data: &[1, 2, 3] }]
    );
    assert_eq!(parse(&[0x0d, 4, 9, 1, 2]).unwrap(), [Frame::Stream { id: id(4), offset: 9, fin: true, data: &[1, 2] }]);
    assert_eq!(parse(&[0x01, 0x30, 1, 2]).unwrap(), [Frame::Ping, Frame::Datagram(&[1, 2])]);
}

#[test]
fn frames_before_the_error_are_yielded_and_none_after_it() {
    let frames: Vec<_> = FrameIter::new(&[0x01, 0x20, 0x01]).collect();
    assert_eq!(frames.len(), 2);
    assert!(frames[0].is_ok() && frames[1].is_err());
}

// ---- rules ----------------------------------------------------------------------------------------------------------

/// One frame of each type, with where RFC 9000 tables 3 and section 12.5 allow it, in the letters of the table; then
/// "A" if ack-eliciting, "P" if probing.
fn catalogue() -> Vec<(Frame<'static>, &'static str, bool, bool)> {
    const BARE_ACK: Ack<'static> = Ack { largest: 0, raw_delay: 0, ecn: None, times: None, further: 0, fields: &[0] };
    let new_cid = NewConnectionId {
        sequence: 1,
        retire_prior_to: 0,
        cid: ConnectionId::new(&[1; 8]).unwrap(),
        reset_token: ResetToken([0; 16]),
    };
    let frequency = AckFrequency { sequence: 0, threshold: 1, max_ack_delay: 25_000, reordering_threshold: 1 };
    vec![
        (Frame::Padding(1), "IH01", false, true),
        (Frame::Ping, "IH01", true, false),
        (Frame::Ack(BARE_ACK), "IH_1", false, false),
        (Frame::ResetStream { id: id(0), error_code: 0, final_size: 0 }, "__01", true, false),
        (Frame::StopSending { id: id(0), error_code: 0 }, "__01", true, false),
        (Frame::Crypto { offset: 0, data: &[] }, "IH_1", true, false),
        (Frame::NewToken(&[1]), "___1", true, false),
        (Frame::Stream { id: id(0), offset: 0, fin: false, data: &[] }, "__01", true, false),
        (Frame::MaxData(0), "__01", true, false),
        (Frame::MaxStreamData { id: id(0), max: 0 }, "__01", true, false),
        (Frame::MaxStreams { dir: Dir::Bi, max: 0 }, "__01", true, false),
        (Frame::DataBlocked(0), "__01", true, false),
        (Frame::StreamDataBlocked { id: id(0), limit: 0 }, "__01", true, false),
        (Frame::StreamsBlocked { dir: Dir::Uni, limit: 0 }, "__01", true, false),
        (Frame::NewConnectionId(new_cid), "__01", true, true),
        (Frame::RetireConnectionId(0), "___1", true, false),
        (Frame::PathChallenge([0; 8]), "__01", true, true),
        (Frame::PathResponse([0; 8]), "___1", true, true),
        (Frame::ConnectionClose { error_code: 0, frame_type: 0, reason: &[] }, "IH01", false, false),
        (Frame::ApplicationClose { error_code: 0, reason: &[] }, "__01", false, false),
        (Frame::HandshakeDone, "___1", true, false),
        (Frame::Datagram(&[]), "__01", true, false),
        (Frame::AckFrequency(frequency), "___1", true, false),
        (Frame::ImmediateAck, "___1", true, false),
        (Frame::PathAck { path: 1, ack: BARE_ACK }, "___1", false, false),
        (Frame::Path(PathFrame::Abandon { path: 1, error_code: 0 }), "___1", true, false),
        (Frame::Path(PathFrame::Status { path: 1, sequence: 0, is_backup: true }), "___1", true, false),
        (Frame::Path(PathFrame::Status { path: 1, sequence: 0, is_backup: false }), "___1", true, false),
        (Frame::Path(PathFrame::NewConnectionId { path: 1, new: new_cid }), "___1", true, false),
        (Frame::Path(PathFrame::RetireConnectionId { path: 1, sequence: 0 }), "___1", true, false),
        (Frame::Path(PathFrame::MaxPathId(1)), "___1", true, false),
        (Frame::Path(PathFrame::PathsBlocked(1)), "___1", true, false),
        (Frame::Path(PathFrame::CidsBlocked { path: 1, next_sequence: 0 }), "___1", true, false),
    ]
}

#[test]
fn a_frame_in_a_packet_type_that_forbids_it_is_a_protocol_violation() {
    let levels = [Level::Initial, Level::Handshake, Level::EarlyData, Level::OneRtt];
    for (frame, allowed, _, _) in catalogue() {
        for (level, letter) in levels.into_iter().zip(allowed.chars()) {
            let result = frame.check_allowed(level, Side::Client);
            assert_eq!(result.is_ok(), letter != '_', "{frame:?} at {level:?}");
            if let Err(error) = result {
                assert_eq!((error.code, error.frame), (TransportErrorCode::PROTOCOL_VIOLATION, Some(frame.ty())));
            }
        }
    }
}

#[test]
fn ack_eliciting_and_probing_frames_are_those_of_the_rfcs() {
    for (frame, _, eliciting, probing) in catalogue() {
        assert_eq!((frame.is_ack_eliciting(), frame.is_probing()), (eliciting, probing), "{frame:?}");
        assert_eq!(frame.is_in_flight(), eliciting || matches!(frame, Frame::Padding(_)));
    }
}

#[test]
fn a_client_must_not_send_new_token_or_handshake_done() {
    for (frame, _, _, _) in catalogue() {
        let forbidden = matches!(frame, Frame::NewToken(_) | Frame::HandshakeDone);
        let result = frame.check_allowed(Level::OneRtt, Side::Server);
        assert_eq!(result.is_err(), forbidden, "{frame:?}");
    }
}

#[test]
fn every_type_number_is_the_one_that_is_written() {
    for (frame, _, _, _) in catalogue() {
        assert_eq!(varint::decode(&mut &encoded(&frame)[..]), Some(frame.ty()));
        assert_eq!(parse(&encoded(&frame)).unwrap(), [frame]);
    }
}

// ---- bulk data ------------------------------------------------------------------------------------------------------

proptest! {
    #[test]
    fn stream_frames_fill_the_space_they_are_given(
        space in 0usize..20_000, stream in integer(), offset in integer(), available in 0usize..40_000, fin: bool,
    ) {
        let offset = offset.min(varint::MAX - 40_000);
        let header = |len| stream_header_len(id(stream), offset, len);
        match stream_fit(space, id(stream), offset, available) {
            None => prop_assert!(header(0) > space),
            Some(len) => {
                prop_assert!(len <= available && header(len) + len <= space);
                // One more byte would not fit, or would not be there.
                prop_assert!(len == available || header(len + 1) + len + 1 > space);
                let data = vec![7; len];
                let mut out = Vec::new();
                encode_stream_header(&mut out, id(stream), offset, fin, len);
                prop_assert_eq!(out.len(), header(len));
                out.extend_from_slice(&data);
                prop_assert_eq!(&out, &encoded(&Frame::Stream { id: id(stream), offset, fin, data: &data }));
            }
        }
    }

    #[test]
    fn crypto_frames_fill_the_space_they_are_given(space in 0usize..20_000, offset in 0u64..1 << 40, available in 0usize..40_000) {
        let whole = |len: usize| Frame::Crypto { offset, data: &vec![0; len] }.encoded_len();
        match crypto_fit(space, offset, available) {
            None => prop_assert!(whole(0) > space),
            Some(len) => {
                prop_assert!(len <= available && whole(len) <= space);
                prop_assert!(len == available || whole(len + 1) > space);
                let mut out = Vec::new();
                encode_crypto_header(&mut out, offset, len);
                prop_assert_eq!(out.len() + len, whole(len));
            }
        }
    }

    #[test]
    fn the_length_of_a_datagram_frame_is_known_before(data in vec(any::<u8>(), 0..2000)) {
        let mut out = Vec::new();
        encode_datagram(&mut out, &data);
        prop_assert_eq!(out.len(), datagram_len(data.len()));
    }
}

// ---- timestamps -----------------------------------------------------------------------------------------------------

/// ACK_RECEIVE_TIMESTAMPS for packets 87 to 100, with these numbers behind it.
fn with_times(values: &[u64]) -> Vec<u8> {
    fields(ty::ACK_RECEIVE_TIMESTAMPS, &[&[100, 0, 0, 13], values].concat())
}

fn times(payload: &[u8]) -> Vec<(u64, u64)> {
    let parsed = parse(payload).unwrap();
    let [Frame::Ack(ack)] = &parsed[..] else { panic!("{parsed:?}") };
    assert_eq!(encoded(&parsed[0]), payload);
    ack.timestamps().map(|time| (time.number, time.units)).collect()
}

fn write_times(max_len: usize, times: &[(u64, u64)], most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let times = times.iter().map(|&(number, units)| Timestamp { number, units });
    encode_ack_with_times(&mut out, max_len, 0, std::iter::once(87..101), None, times, most).unwrap();
    out
}

/// The examples of draft-ietf-quic-receive-ts section 8.
#[test]
fn draft_receive_ts_8_the_examples_of_the_draft() {
    let in_order =
        [(100, 380), (99, 370), (98, 360), (97, 355), (96, 350), (91, 330), (90, 320), (89, 310), (88, 305), (87, 300)];
    let first = with_times(&[2, 0, 5, 380, 10, 10, 5, 5, 9, 5, 20, 10, 10, 5, 5]);
    assert_eq!(times(&first), in_order);
    assert_eq!(write_times(1000, &in_order, 64), first);
    let late = [(95, 395), (94, 394), (93, 392), (92, 390)];
    let second = with_times(&[3, 5, 4, 395, 1, 2, 2, 0, 5, 10, 10, 10, 5, 5, 9, 5, 20, 10, 10, 5, 5]);
    let both = [&late[..], &in_order].concat();
    assert_eq!(times(&second), both);
    assert_eq!(write_times(1000, &both, 64), second);
    assert_eq!(write_times(1000, &both, 4), with_times(&[1, 5, 4, 395, 1, 2, 2]), "no more than the peer takes");
}

#[test]
fn timestamps_that_cannot_be_are_frame_encoding_errors() {
    for values in [
        &[] as &[u64],
        &[1],
        &[1, 0],
        &[1, 0, 1],
        &[1, 0, 2, 5],
        &[1, 101, 1, 5],
        &[1, 0, 2, 5, 6],
        &[2, 0, 1, 5, 1, 1, 6],
        &[1 << 60],
        &[1, 0, 1 << 60, 5, 0, 0],
        &[1, 100, 2, 5, 0],
    ] {
        assert_eq!(code(&with_times(values)), TransportErrorCode::FRAME_ENCODING_ERROR, "{values:?}");
    }
    // The last of these begins at packet 0; one more would be below it.
    assert_eq!(times(&with_times(&[1, 100, 1, 5])), [(0, 5)]);
    assert_eq!(times(&with_times(&[0])), []);
    assert_eq!(times(&with_times(&[2, 0, 0, 3, 1, 9])), [(97, 9)], "an empty range says nothing");
    assert_eq!(times(&with_times(&[2, 0, 1, 9, 0, 1, 1])), [(100, 9), (100, 8)], "twice the same packet");
}

#[test]
fn timestamps_come_in_1_rtt_packets_only() {
    let payload = with_times(&[1, 0, 1, 5]);
    let frame = &parse(&payload).unwrap()[0];
    assert!(!frame.is_ack_eliciting() && !frame.is_probing());
    for level in [Level::Initial, Level::Handshake, Level::EarlyData] {
        assert!(!frame.is_allowed_at(level));
    }
    assert!(frame.is_allowed_at(Level::OneRtt));
}

proptest! {
    #[test]
    fn timestamps_survive_the_round_trip_and_none_is_left_out_without_need(
        first in integer(), steps in vec((0u64..100, any::<bool>(), 0u64..1 << 20), 0..80), limit in 0usize..300,
        most in 0usize..100, ecn in ecn(),
    ) {
        // Newest first: mostly consecutive numbers, now and then a jump.
        let largest = 1 << 20;
        let (mut number, mut units) = (largest, first.max(1 << 30));
        let times: Vec<Timestamp> = steps.iter().map(|&(jump, jumps, delta)| {
            number = if jumps { (largest - jump).min(largest) } else { number.saturating_sub(1) };
            units -= delta.min(units);
            Timestamp { number, units }
        }).collect();
        let mut out = vec![0xee; 3];
        let range = || std::iter::once(0..largest + 1);
        let written = encode_ack_with_times(&mut out, limit, 5, range(), ecn, times.iter().copied(), most);
        prop_assert!(out.len() - 3 <= limit);
        let Some(ranges) = written else {
            prop_assert_eq!(out.len(), 3);
            prop_assert!(limit < 60, "an ACK with an empty list fits into so much");
            return Ok(());
        };
        prop_assert_eq!(ranges, 1);
        let parsed = parse(&out[3..]).unwrap();
        let [Frame::Ack(ack)] = &parsed[..] else { panic!("{parsed:?}") };
        prop_assert_eq!((ack.largest, ack.ecn), (largest, ecn));
        let read: Vec<Timestamp> = ack.timestamps().collect();
        prop_assert_eq!(ack.times.unwrap().count(), read.len() as u64);
        prop_assert_eq!(&read[..], &times[..read.len()]);
        prop_assert!(read.len() <= most);
        prop_assert_eq!(&encoded(&parsed[0]), &out[3..]);
        prop_assert_eq!(parsed[0].encoded_len(), out.len() - 3);
        let ranges = read.windows(2).filter(|pair| pair[0].number.checked_sub(1) != Some(pair[1].number)).count() + 1;
        if read.len() < times.len().min(most) && ranges < 16 {
            let mut more = Vec::new();
            encode_ack_with_times(&mut more, 1 << 20, 5, range(), ecn, times.iter().copied(), read.len() + 1);
            prop_assert!(more.len() > limit, "{} of {} in {limit} bytes", read.len(), times.len());
        }
    }

    #[test]
    fn random_timestamps_never_panic_and_what_is_read_is_in_order(bytes in vec(any::<u8>(), 0..60), with_ecn: bool) {
        let ty = if with_ecn { ty::ACK_RECEIVE_TIMESTAMPS_ECN } else { ty::ACK_RECEIVE_TIMESTAMPS };
        let mut payload = fields(ty, &[1000, 0, 0, 1000]);
        if with_ecn {
            payload.extend([1, 2, 3]);
        }
        payload.extend(bytes);
        for frame in FrameIter::new(&payload) {
            let Ok(Frame::Ack(ack)) = frame else { continue };
            let read: Vec<Timestamp> = ack.timestamps().collect();
            prop_assert!(read.windows(2).all(|pair| pair[0].units >= pair[1].units));
            prop_assert!(read.iter().all(|time| time.number <= ack.largest));
        }
    }
}
