//! A link in its stride allocates nothing: the buffers that it needs are there after the first round trip.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_link::{
    Direction, DirectionConfig, Discipline, Jitter, LossModel, Packet, Probability, QueueLimit, Reorder, Sink, Spread,
    Streams,
};
use thalweg_units::{Duration, Ecn, Instant};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands every call to the system's allocator unchanged; the counter is atomic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Discard;

impl Sink<u64> for Discard {
    fn deliver(&mut self, _: Instant, _: Packet<u64>) {}
}

#[test]
fn packets_cross_without_an_allocation() {
    for discipline in Discipline::every() {
        cross(&discipline);
    }
}

fn cross(discipline: &Discipline) {
    let config = DirectionConfig {
        discipline: discipline.clone(),
        delay: Duration::from_millis(10).into(),
        queue: QueueLimit::Bytes(100_000),
        jitter: Some(Jitter { spread: Spread::Exponential(Duration::from_millis(1)), reorder: false }),
        loss: vec![LossModel::Random(Probability::ratio(1, 100))],
        reorder: vec![Reorder { share: Probability::ratio(1, 10), by: Duration::from_millis(5) }],
        ..DirectionConfig::default()
    };
    let Ok(mut link) = Direction::new(&config, Instant::ZERO, &Streams::new(1)) else { panic!("a good description") };
    let mut now = Instant::ZERO;
    let mut push = |packets: u64| {
        for payload in 0..packets {
            // Above the link's rate of 100 Mbps, so that the queue overflows too.
            now += Duration::from_micros(115);
            while let Some(at) = link.next_event().filter(|at| *at <= now) {
                link.advance(at, &mut Discard);
            }
            link.send(
                now,
                Packet {
                    payload,
                    size: 1500,
                    flow: payload as u32 % 8,
                    connection: 0,
                    ecn: Ecn::Ect0,
                    sent: now,
                    tail: false,
                },
                &mut Discard,
            );
        }
    };
    // Beyond the times that are kept one by one, of each flow too.
    push(300_000);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    push(50_000);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // Buffers may still double for a rare peak; that is not a matter of packets.
    assert!(allocations <= 2, "{discipline:?}: {allocations} allocations for 50,000 packets");
}
