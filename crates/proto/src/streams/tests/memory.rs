//! Bounds on buffered writes: by credit, per connection, and for all of an endpoint.

use super::*;

/// Writes until there is no room. Returns how many bytes were taken.
fn fill(streams: &mut Streams, id: StreamId) -> u64 {
    let mut taken = 0;
    while let Ok(n) = streams.write(id, &[0; 3_000]) {
        taken += n as u64;
    }
    taken
}

#[test]
fn a_stream_takes_little_beyond_the_credit_that_the_peer_gives() {
    let mut peer = small();
    peer.stream_receive_window = 1_000;
    let (mut a, _b) = pair(StreamsConfig::default(), peer);
    let id = a.open(Dir::Bi).unwrap();
    let taken = fill(&mut a, id);
    assert!((1_000..=10_000).contains(&taken), "{taken} bytes for 1,000 bytes of credit");
    while packet(&mut a, 1200).is_some() {}
    assert!(taken + fill(&mut a, id) <= 10_000);
    events(&mut a);
    // Credit is the signal to go on.
    a.on_max_data(10 << 20);
    a.on_max_stream_data(id, 10 << 20).unwrap();
    assert_eq!(events(&mut a), [StreamEvent::Writable { id }]);
    let backlog = StreamsConfig::default().send_backlog;
    assert!((backlog - 10_000..=backlog).contains(&fill(&mut a, id)));
}

#[test]
fn capacity_is_what_a_write_would_take_or_too_little_to_be_worth_one() {
    let peer = StreamsConfig { receive_window: 1 << 30, stream_receive_window: 1 << 30, ..StreamsConfig::default() };
    let (mut a, _b) = pair(small(), peer);
    let id = a.open(Dir::Uni).unwrap();
    assert_eq!(a.capacity(id, usize::MAX), Ok(20_000));
    assert_eq!(a.capacity(id, 300), Ok(300));
    a.write(id, &[0; 19_000]).unwrap();
    assert_eq!(a.capacity(id, 1_000), Ok(1_000));
    assert_eq!(a.capacity(id, 1_001), Err(WriteError::Blocked));
    assert_eq!(events(&mut a), []);
    while packet(&mut a, 1200).is_some() {}
    assert_eq!(events(&mut a), [StreamEvent::Writable { id }]);
    a.reset(id, 1).unwrap();
    assert_eq!(a.capacity(id, 1), Err(WriteError::ClosedStream));
}

#[test]
fn connections_share_the_send_budget_and_a_late_one_is_still_served() {
    let budget = Budget::new(1 << 20);
    let config = StreamsConfig { send_budget: Some(budget.clone()), send_backlog: 300_000, ..StreamsConfig::default() };
    let peer = StreamsConfig { max_concurrent_bidi: 100, ..StreamsConfig::default() };
    // Peers with plenty of credit that acknowledge nothing.
    let mut stalled: Vec<Streams> = (0..50).map(|_| pair(config.clone(), peer.clone()).0).collect();
    for connection in &mut stalled {
        while let Some(id) = connection.open(Dir::Bi) {
            fill(connection, id);
        }
    }
    let held: u64 = stalled.iter().map(Streams::bytes_unacked).sum();
    // Beyond the budget: what each has not counted there yet, and one small piece for one stream of each.
    let most = budget.limit() + 50 * (16 + 8) * 1024;
    assert!(held <= most, "{held} bytes are held under a budget of {}", budget.limit());
    let (mut a, mut b) = pair(config, peer);
    let id = a.open(Dir::Bi).unwrap();
    let mut sent = 0;
    for _ in 0..10_000 {
        sent += fill(&mut a, id);
        settle(&mut a, &mut b);
        b.accept(Dir::Bi);
        read_all(&mut b, id).unwrap();
        if sent > 1_000_000 {
            break;
        }
    }
    assert!(sent > 1_000_000, "{sent} bytes while others hold the budget");
    assert!(budget.used() <= most);
    drop(a);
    drop(stalled);
    assert_eq!(budget.used(), 0);
}

#[test]
fn connections_that_cannot_send_hold_little_beyond_the_send_budget() {
    for credit in [0, 1, 3_000, 1 << 20] {
        let budget = Budget::new(1 << 20);
        let config = StreamsConfig { send_budget: Some(budget.clone()), ..StreamsConfig::default() };
        let peer = StreamsConfig {
            max_concurrent_bidi: 128,
            receive_window: 1 << 30,
            stream_receive_window: credit,
            ..StreamsConfig::default()
        };
        let mut stalled: Vec<Streams> = (0..60).map(|_| pair(config.clone(), peer.clone()).0).collect();
        for connection in &mut stalled {
            while let Some(id) = connection.open(Dir::Bi) {
                fill(connection, id);
                // It leaves, and is not acknowledged.
                while packet(connection, 1200).is_some() {}
                fill(connection, id);
            }
        }
        let held: u64 = stalled.iter().map(Streams::bytes_unacked).sum();
        let most = budget.limit() + 60 * 24 * 1024;
        assert!(held <= most, "{credit} bytes of credit per stream: {held} bytes are held, at most {most} should be");
        assert!(held >= budget.limit() / 2, "{credit} bytes of credit per stream: {held}");
    }
}

#[test]
fn a_writer_without_credit_asks_for_it_under_a_spent_budget_and_goes_on_when_it_comes() {
    let config = StreamsConfig { send_budget: Some(Budget::new(0)), ..StreamsConfig::default() };
    let peer = StreamsConfig { stream_receive_window: 0, ..StreamsConfig::default() };
    let (mut a, mut b) = pair(config, peer);
    let ids = [a.open(Dir::Uni).unwrap(), a.open(Dir::Uni).unwrap()];
    for id in ids {
        assert_eq!(a.write(id, &[1; 100]), Err(WriteError::Blocked));
    }
    // The other end sees the streams, though there is not a byte of theirs.
    settle(&mut a, &mut b);
    assert_eq!([b.accept(Dir::Uni), b.accept(Dir::Uni)], ids.map(Some));
    assert_eq!(events(&mut a), []);
    // One that goes on waiting is not in the way of the other.
    a.on_max_stream_data(ids[1], 1_000).unwrap();
    assert_eq!(events(&mut a), [StreamEvent::Writable { id: ids[1] }]);
    assert_eq!(a.write(ids[1], &[1; 5_000]), Ok(1_000), "no more than can be sent");
}

#[test]
fn a_connection_leaves_as_much_of_the_budget_as_it_takes() {
    let budget = Budget::new(1 << 20);
    let config =
        StreamsConfig { send_budget: Some(budget.clone()), send_backlog: 10 << 20, ..StreamsConfig::default() };
    let (mut a, _peer) = pair(config.clone(), StreamsConfig::default());
    a.set_congestion_window(10 << 20);
    let ids: Vec<_> = (0..20).map(|_| a.open(Dir::Uni).unwrap()).collect();
    let taken: u64 = ids.iter().take(1).map(|id| fill(&mut a, *id)).sum();
    assert!((500_000..=560_000).contains(&taken), "{taken} bytes");
    // Another stream of it is not shut out.
    assert!(fill(&mut a, ids[1]) > 0);
    let (mut late, _peer) = pair(config, StreamsConfig::default());
    let id = late.open(Dir::Uni).unwrap();
    let taken = fill(&mut late, id);
    assert!((200_000..=300_000).contains(&taken), "{taken} bytes");
}

#[test]
fn all_writers_of_a_connection_come_to_their_end_under_a_spent_budget() {
    let config = StreamsConfig { send_budget: Some(Budget::new(0)), ..StreamsConfig::default() };
    let (mut a, mut b) = pair(config, StreamsConfig::default());
    let ids: Vec<_> = (0..20).map(|_| a.open(Dir::Uni).unwrap()).collect();
    let mut left: BTreeMap<StreamId, usize> = ids.iter().map(|id| (*id, 50_000)).collect();
    let mut woken = ids;
    // Each writes only when it is told to, as tasks do.
    while !woken.is_empty() {
        for id in woken.drain(..) {
            while let Some(rest) = left.get_mut(&id) {
                match a.write(id, &vec![0; *rest]) {
                    Ok(n) => *rest -= n,
                    Err(error) => {
                        assert_eq!(error, WriteError::Blocked);
                        break;
                    }
                }
                if *rest == 0 {
                    left.remove(&id);
                }
            }
        }
        settle(&mut a, &mut b);
        woken.extend(events(&mut a).iter().filter_map(|event| match event {
            StreamEvent::Writable { id } => Some(*id),
            _ => None,
        }));
    }
    assert_eq!(left, BTreeMap::new());
}

#[test]
fn a_writer_that_waits_for_credit_does_not_keep_others_from_a_spent_budget() {
    let budget = Budget::new(20_000);
    let config = StreamsConfig { send_budget: Some(budget.clone()), ..StreamsConfig::default() };
    let mut peer = small();
    peer.stream_receive_window = 1_000;
    let (mut a, mut b) = pair(config, peer);
    let (stalled, healthy) = (a.open(Dir::Uni).unwrap(), a.open(Dir::Uni).unwrap());
    // Both have written; the first has credit for a part only, and both wait for more room.
    a.write(stalled, &[0; 6_000]).unwrap();
    fill(&mut a, healthy);
    assert_eq!(a.capacity(stalled, 100_000), Err(WriteError::Blocked));
    let mut sent = 0;
    for _ in 0..100 {
        settle(&mut a, &mut b);
        while b.accept(Dir::Uni).is_some() {}
        read_all(&mut b, healthy).unwrap();
        for event in events(&mut a) {
            if event == (StreamEvent::Writable { id: healthy }) {
                sent += fill(&mut a, healthy);
            }
        }
    }
    assert!(sent > 20_000, "{sent} bytes");
}
