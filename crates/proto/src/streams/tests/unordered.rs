//! Credit of streams that are read in whatever order their bytes arrive.

use super::*;

/// Sends, in pieces of 1,000 bytes from `at` on, what the credit of a stream and its connection allows, up to `most`;
/// everything is read at once. Returns where the stream ends now.
fn send_and_read(v: &mut Streams, credit: &mut Credit, mut at: u64, most: u64) -> u64 {
    let id = client(Dir::Uni, 0);
    loop {
        let end = (at + 1_000).min(credit.stream).min(most);
        if end == at {
            return at;
        }
        v.on_stream(id, at, false, &vec![7; (end - at) as usize]).unwrap();
        at = end;
        take_all(v);
        credit.collect(v);
    }
}

fn take_all(v: &mut Streams) {
    v.accept(Dir::Uni);
    while let Ok(Some(_)) = v.read_unordered(client(Dir::Uni, 0), 1 << 20) {}
}

/// What was sent to the peer.
struct Credit {
    stream: u64,
    updates: u64,
}

impl Credit {
    fn collect(&mut self, v: &mut Streams) {
        while let Some((payload, record)) = packet(v, 1200) {
            v.on_acked(&record);
            for frame in FrameIter::new(&payload) {
                if let Frame::MaxStreamData { max: limit, .. } = frame.unwrap() {
                    assert!(limit > self.stream);
                    self.stream = limit;
                    self.updates += 1;
                }
            }
        }
    }
}

/// Narrow windows for the stream, wide ones for the connection.
fn reader() -> (Streams, Credit) {
    let config = StreamsConfig { receive_window: 1 << 30, max_receive_window: 1 << 30, ..small() };
    let mut v = Streams::new(Side::Server, config);
    v.set_peer_limits(&StreamLimits::default());
    (v, Credit { stream: 10_000, updates: 0 })
}

#[test]
fn a_hole_that_is_never_filled_ends_the_credit_one_window_beyond_it() {
    let (mut v, mut credit) = reader();
    let end = send_and_read(&mut v, &mut credit, 1, 2_000_000);
    // One maximal window is 20,000 bytes.
    assert!((10_000..=20_000).contains(&end), "{end} bytes past a hole at 0");
    let blocks = v.recv[&client(Dir::Uni, 0)].data.remembered();
    assert!(blocks <= 2, "{blocks} blocks are remembered");
    // Asking does not help.
    v.on_stream_data_blocked(client(Dir::Uni, 0), credit.stream).unwrap();
    credit.collect(&mut v);
    assert!(credit.stream <= 20_000, "{}", credit.stream);
}

#[test]
fn credit_goes_on_once_a_hole_is_filled() {
    let (mut v, mut credit) = reader();
    let mut at = 0;
    for _ in 0..100 {
        let hole = at;
        at = send_and_read(&mut v, &mut credit, hole + 1, hole + 1_000_000);
        assert!(at > hole + 9_000 && at <= hole + 20_000, "{at} with a hole at {hole}");
        v.on_stream(client(Dir::Uni, 0), hole, false, &[7]).unwrap();
        take_all(&mut v);
        credit.collect(&mut v);
        assert!(credit.stream >= at + 10_000, "{} after {at} were read", credit.stream);
    }
}

#[test]
fn holes_filled_one_by_one_cause_no_flood_of_credit() {
    let (mut v, mut credit) = reader();
    let id = client(Dir::Uni, 0);
    // The first of every hundred bytes is missing.
    let mut end = 0;
    while end + 100 <= credit.stream {
        v.on_stream(id, end + 1, false, &[7; 99]).unwrap();
        end += 100;
        take_all(&mut v);
        credit.collect(&mut v);
    }
    assert!((9_900..=20_000).contains(&end), "{end}");
    credit.updates = 0;
    for hole in (0..end).step_by(100) {
        v.on_stream(id, hole, false, &[7]).unwrap();
        take_all(&mut v);
        credit.collect(&mut v);
    }
    assert!((1..=16).contains(&credit.updates), "{} updates for {} holes", credit.updates, end / 100);
    assert!(credit.stream >= end + 10_000);
}
