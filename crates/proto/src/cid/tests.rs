//! Tests of issuing, using and retiring connection IDs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::error::TransportErrorCode;

fn cid(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes()).unwrap()
}

fn token(n: u64) -> ResetToken {
    ResetToken((u128::from(n) | 1 << 100).to_be_bytes())
}

fn new(sequence: u64, retire_prior_to: u64) -> NewConnectionId {
    NewConnectionId { sequence, retire_prior_to, cid: cid(1000 + sequence), reset_token: token(sequence) }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn forgotten(ids: &mut LocalCids, now: Instant) -> Vec<ConnectionId> {
    std::iter::from_fn(|| ids.poll_forgotten(now)).collect()
}

fn retired(ids: &mut RemoteCids) -> Vec<u64> {
    std::iter::from_fn(|| ids.poll_retire()).collect()
}

#[track_caller]
fn violation<T: std::fmt::Debug>(result: Result<T, TransportError>, code: TransportErrorCode) {
    assert_eq!(result.unwrap_err().code, code);
}

#[test]
fn connection_ids_have_at_most_20_bytes() {
    assert_eq!(ConnectionId::new(&[1; 20]).unwrap().len(), 20);
    assert_eq!(ConnectionId::new(&[1; 21]), None);
    assert!(ConnectionId::new(&[]).unwrap().is_empty());
    assert_eq!(ConnectionId::new(&[0xab, 1]).unwrap().to_string(), "ab01");
    assert_ne!(ConnectionId::new(&[0]), ConnectionId::new(&[0, 0]));
}

// ---- ours -----------------------------------------------------------------------------------------------------------

#[test]
fn we_issue_no_more_ids_than_the_peer_has_room_for() {
    let mut ids = LocalCids::new(cid(0));
    assert_eq!(ids.wanted(), 1);
    ids.set_peer_limit(4);
    assert_eq!(ids.wanted(), 3);
    for n in 1..=3 {
        assert_eq!(ids.issue(cid(n), token(n)), n);
    }
    assert_eq!(ids.wanted(), 0);
    ids.set_peer_limit(u64::MAX);
    assert_eq!(ids.wanted(), 4);
    assert!(ids.on_retire(1, &cid(0), at(1)).is_err(), "the peer cannot know it yet");
    while ids.poll_announce().is_some() {}
    assert_eq!(ids.on_retire(1, &cid(0), at(1)), Ok(()));
    assert_eq!(ids.wanted(), 5);
}

#[test]
fn sequence_numbers_increase_by_one_and_frames_are_announced_once() {
    let mut ids = LocalCids::new(cid(0));
    ids.set_peer_limit(8);
    assert_eq!(ids.issue(cid(1), token(1)), 1);
    assert!(ids.poll_announce().is_some());
    assert!(!ids.has_announcements());
    assert_eq!(ids.issue(cid(2), token(2)), 2);
    let frame = ids.poll_announce().unwrap();
    assert_eq!(frame, NewConnectionId { sequence: 2, retire_prior_to: 0, cid: cid(2), reset_token: token(2) });
    assert_eq!(ids.poll_announce(), None);
    ids.on_lost(2);
    ids.on_lost(2);
    assert_eq!(ids.poll_announce(), Some(frame));
    assert_eq!(ids.poll_announce(), None);
}

#[test]
fn a_lost_announcement_of_a_retired_id_is_not_repeated() {
    let mut ids = LocalCids::new(cid(0));
    ids.issue(cid(1), token(1));
    ids.poll_announce();
    ids.on_lost(1);
    ids.on_retire(1, &cid(0), at(1)).unwrap();
    assert_eq!(ids.poll_announce(), None);
    ids.on_lost(1);
    assert!(!ids.has_announcements());
}

#[test]
fn retiring_an_id_that_was_never_issued_is_a_protocol_violation() {
    let mut ids = LocalCids::new(cid(0));
    violation(ids.on_retire(1, &cid(0), at(1)), TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn retiring_the_id_of_the_packet_itself_is_a_protocol_violation() {
    let mut ids = LocalCids::new(cid(0));
    ids.issue(cid(1), token(1));
    violation(ids.on_retire(1, &cid(1), at(1)), TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn retiring_twice_is_harmless() {
    let mut ids = LocalCids::new(cid(0));
    ids.issue(cid(1), token(1));
    assert_eq!(ids.on_retire(0, &cid(1), at(1)), Ok(()));
    assert_eq!(ids.on_retire(0, &cid(1), at(9)), Ok(()));
    assert_eq!(ids.sequence_of(&cid(0)), None);
    assert_eq!(ids.iter().collect::<Vec<_>>(), [(1, cid(1))]);
    assert_eq!(forgotten(&mut ids, at(1)), [cid(0)]);
    assert_eq!(forgotten(&mut ids, at(9)), []);
}

#[test]
fn a_retired_id_is_forgotten_when_its_time_is_over_and_not_before() {
    let mut ids = LocalCids::new(cid(0));
    for n in 1..=3 {
        ids.issue(cid(n), token(n));
        ids.poll_announce();
    }
    ids.on_retire(0, &cid(3), at(100)).unwrap();
    // The path has become a shorter one meanwhile.
    ids.on_retire(1, &cid(3), at(90)).unwrap();
    ids.on_retire(2, &cid(3), at(110)).unwrap();
    assert_eq!(forgotten(&mut ids, at(99)), []);
    assert_eq!(forgotten(&mut ids, at(100)), [cid(0), cid(1)]);
    assert_eq!(forgotten(&mut ids, at(200)), [cid(2)]);
}

#[test]
fn a_peer_that_retires_faster_than_ids_are_forgotten_gets_no_more_of_them() {
    let mut ids = LocalCids::new(cid(0));
    ids.set_peer_limit(u64::MAX);
    let mut issued = 0;
    for round in 0..100 {
        while ids.wanted() > 0 {
            issued += 1;
            ids.issue(cid(issued), token(issued));
            ids.poll_announce();
        }
        let active: Vec<_> = ids.iter().collect();
        let (_, newest) = *active.last().unwrap();
        for (sequence, _) in &active[..active.len() - 1] {
            ids.on_retire(*sequence, &newest, at(100 + round)).unwrap();
        }
    }
    assert_eq!(issued + 1, MAX_ROUTED as u64);
    assert_eq!(forgotten(&mut ids, at(1000)).len(), MAX_ROUTED - 1);
    assert_eq!(ids.wanted() as u64, MAX_ISSUED - 1);
}

#[test]
fn zero_length_ids_are_neither_issued_nor_retired() {
    let mut ids = LocalCids::new(ConnectionId::EMPTY);
    ids.set_peer_limit(8);
    assert_eq!(ids.wanted(), 0);
    violation(ids.on_retire(0, &ConnectionId::EMPTY, at(1)), TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn rotation_asks_for_retirement_of_all_earlier_ids() {
    let mut ids = LocalCids::new(cid(0));
    ids.issue(cid(1), token(1));
    ids.poll_announce();
    ids.rotate();
    assert_eq!(ids.wanted(), 2);
    ids.issue(cid(2), token(2));
    assert_eq!(ids.poll_announce().map(|f| (f.sequence, f.retire_prior_to)), Some((2, 2)));
}

// ---- the peer's -----------------------------------------------------------------------------------------------------

#[test]
fn a_client_adopts_the_servers_choice_of_its_first_id() {
    let mut ids = RemoteCids::new(cid(77), 2);
    ids.set_initial(cid(1000));
    ids.set_initial_reset_token(token(0));
    assert_eq!(*ids.active(), cid(1000));
    assert!(ids.is_reset(&token(0)) && !ids.is_reset(&token(1)));
}

#[test]
fn more_active_ids_than_the_limit_are_a_connection_id_limit_error() {
    let mut ids = RemoteCids::new(cid(1000), 3);
    ids.on_new(&new(1, 0)).unwrap();
    ids.on_new(&new(2, 0)).unwrap();
    violation(ids.on_new(&new(3, 0)), TransportErrorCode::CONNECTION_ID_LIMIT_ERROR);
}

#[test]
fn retired_ids_make_room_before_the_limit_is_checked() {
    let mut ids = RemoteCids::new(cid(1000), 2);
    ids.on_new(&new(1, 0)).unwrap();
    ids.on_new(&new(2, 1)).unwrap();
    assert_eq!(retired(&mut ids), [0]);
    assert_eq!(*ids.active(), cid(1001));
}

#[test]
fn an_id_to_be_retired_must_not_be_used_any_more() {
    let mut ids = RemoteCids::new(cid(1000), 4);
    ids.on_new(&new(1, 0)).unwrap();
    let other_path = ids.take_fresh().unwrap();
    assert_eq!(other_path.sequence, 1);
    ids.on_new(&new(2, 2)).unwrap();
    assert_eq!(ids.active_sequence(), 2);
    assert_eq!(ids.get(other_path.sequence), None);
    assert_eq!(retired(&mut ids), [0, 1]);
}

#[test]
fn a_repeated_frame_is_harmless() {
    let mut ids = RemoteCids::new(cid(1000), 2);
    for _ in 0..5 {
        ids.on_new(&new(1, 0)).unwrap();
    }
    ids.on_new(&new(2, 2)).unwrap();
    for _ in 0..5 {
        ids.on_new(&new(1, 0)).unwrap();
        ids.on_new(&new(2, 2)).unwrap();
    }
    assert_eq!(retired(&mut ids), [0, 1]);
}

#[test]
fn an_id_that_arrives_after_its_retirement_was_demanded_must_be_retired_at_once() {
    let mut ids = RemoteCids::new(cid(1000), 2);
    ids.on_new(&new(3, 3)).unwrap();
    assert_eq!(retired(&mut ids), [0]);
    ids.on_new(&new(1, 0)).unwrap();
    ids.on_new(&new(2, 1)).unwrap();
    assert_eq!(retired(&mut ids), [1, 2]);
    assert_eq!(ids.active_sequence(), 3);
}

#[test]
fn contradicting_frames_are_a_protocol_violation() {
    let mut ids = RemoteCids::new(cid(1000), 4);
    ids.on_new(&new(1, 0)).unwrap();
    for bad in [
        NewConnectionId { cid: cid(5), ..new(1, 0) },
        NewConnectionId { reset_token: token(5), ..new(1, 0) },
        NewConnectionId { sequence: 2, ..new(1, 0) },
        NewConnectionId { cid: cid(1000), ..new(2, 0) },
    ] {
        violation(ids.clone().on_new(&bad), TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn a_peer_with_zero_length_ids_must_not_issue_any() {
    let mut ids = RemoteCids::new(ConnectionId::EMPTY, 4);
    violation(ids.on_new(&new(1, 0)), TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn an_endless_demand_for_retirement_is_a_connection_id_limit_error() {
    let mut ids = RemoteCids::new(cid(1000), 2);
    let error = (1..1000).find_map(|n| ids.on_new(&new(n, n)).err());
    assert_eq!(error.map(|e| e.code), Some(TransportErrorCode::CONNECTION_ID_LIMIT_ERROR));
    // A peer that waits for our retirements may go on for ever.
    let mut ids = RemoteCids::new(cid(1000), 2);
    for n in 1..1000 {
        ids.on_new(&new(n, n)).unwrap();
        for sequence in retired(&mut ids) {
            ids.on_retire_acked(sequence);
        }
    }
}

#[test]
fn retirements_are_repeated_when_lost() {
    let mut ids = RemoteCids::new(cid(1000), 2);
    ids.on_new(&new(1, 1)).unwrap();
    assert!(ids.has_retirements());
    assert_eq!(retired(&mut ids), [0]);
    ids.on_retire_lost(0);
    ids.on_retire_lost(0);
    assert_eq!(retired(&mut ids), [0]);
}

#[test]
fn each_path_takes_an_id_of_its_own() {
    let mut ids = RemoteCids::new(cid(1000), 4);
    assert_eq!(ids.take_fresh(), None);
    ids.on_new(&new(1, 0)).unwrap();
    ids.on_new(&new(2, 0)).unwrap();
    assert_eq!(ids.unused(), 2);
    let path = ids.take_fresh().unwrap();
    assert!(ids.set_active(path.sequence));
    ids.retire(path.sequence);
    assert_eq!(ids.active_sequence(), 1, "the active ID is not retired");
    ids.retire(0);
    assert_eq!(retired(&mut ids), [0]);
    assert!(!ids.set_active(0));
    assert!(ids.rotate());
    assert_eq!((ids.active_sequence(), retired(&mut ids)), (2, vec![1]));
    assert!(!ids.rotate());
}

#[test]
fn tokens_of_unused_ids_do_not_reset_the_connection() {
    // RFC 9000 section 10.3.1: tokens of IDs not used or retired MUST NOT be checked.
    let mut ids = RemoteCids::new(cid(1000), 4);
    ids.on_new(&new(1, 0)).unwrap();
    assert!(!ids.is_reset(&token(1)));
    assert!(ids.rotate());
    assert!(ids.is_reset(&token(1)));
    ids.on_new(&new(2, 2)).unwrap();
    assert!(!ids.is_reset(&token(1)));
}

proptest! {
    /// Whatever order an honest peer's frames arrive in, we end up with exactly what it considers active, and have
    /// retired exactly the rest.
    #[test]
    fn reordered_frames_lead_to_the_same_ids(
        total in 1u64..40, keep in 1u64..3, order in proptest::collection::vec(0usize..4, 0..200),
    ) {
        let limit = 4;
        let mut ids = RemoteCids::new(cid(1000), limit);
        let mut frames: Vec<_> = (1..=total).map(|n| new(n, (n + 1).saturating_sub(keep))).collect();
        let mut gone = BTreeSet::new();
        let mut order = order.into_iter().chain(std::iter::repeat(0));
        while !frames.is_empty() {
            let at = order.next().unwrap_or(0).min(frames.len() - 1);
            let frame = frames.remove(at);
            ids.on_new(&frame).unwrap();
            for sequence in retired(&mut ids) {
                prop_assert!(gone.insert(sequence), "retired once");
                ids.on_retire_acked(sequence);
            }
            prop_assert!(ids.get(ids.active_sequence()).is_some());
        }
        let floor = (total + 1).saturating_sub(keep);
        prop_assert_eq!(gone, (0..floor).collect::<BTreeSet<_>>());
        prop_assert!(ids.active_sequence() >= floor);
    }
}

// ---- generators -----------------------------------------------------------------------------------------------------

proptest! {
    #[test]
    fn the_worker_is_read_back_from_its_ids(worker: u8, workers in 1u8.., key: u64, seed: u64) {
        let worker = worker % workers;
        let mut generator = WorkerCid::new(worker, workers, key);
        let id = generator.generate(&mut ChaCha8Rng::seed_from_u64(seed));
        prop_assert_eq!(id.len(), generator.len());
        prop_assert_eq!(WorkerCid::worker_of(&id, workers, key), Some(worker));
        prop_assert_eq!(WorkerCid::worker_of(&id[..7], workers, key), None);
    }

    #[test]
    fn any_id_names_some_worker(bytes: [u8; 8], workers: u8, key: u64) {
        prop_assert!(WorkerCid::worker_of(&bytes, workers, key).is_some_and(|w| w < workers.max(1)));
    }
}

#[test]
fn ids_of_one_worker_do_not_share_their_first_byte() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut generator = WorkerCid::new(3, 8, 0x1234_5678_9abc_def0);
    let mut first_bytes = BTreeMap::new();
    for _ in 0..4096 {
        *first_bytes.entry(generator.generate(&mut rng)[0]).or_insert(0) += 1;
    }
    assert_eq!(first_bytes.len(), 256);
    assert!(first_bytes.values().all(|count| *count < 64), "{first_bytes:?}");
}

#[test]
fn random_ids_have_the_length_asked_for() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for len in [0, 1, 8, 20] {
        assert_eq!(RandomCid { len }.generate(&mut rng).len(), len);
    }
    assert_eq!(RandomCid { len: 99 }.len(), 20);
}
