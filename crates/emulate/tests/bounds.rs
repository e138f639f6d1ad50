//! What an engine holds is bounded, and in its stride it allocates nothing per packet.
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use thalweg_emulate::{Arrival, Departure, Engine, Port, Room, Toward};
use thalweg_link::trace::Synthetic;
use thalweg_link::{DirectionConfig, PathConfig, Paths, RateModel};
use thalweg_units::{Duration, Ecn, Instant, Rate};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call to the system's allocator unchanged; the counter is the thread's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const START: Instant = Instant::from_nanos(1_000_000_000);

struct Late(Duration);

impl Port for Late {
    fn hand_over(&mut self, departure: Departure<'_>) -> Option<Instant> {
        Some(departure.due + self.0)
    }
}

struct Deaf;

impl Port for Deaf {
    fn hand_over(&mut self, _: Departure<'_>) -> Option<Instant> {
        None
    }
}

fn arrival(at: Instant, toward: Toward) -> Arrival {
    Arrival { toward, at, waited: Duration::ZERO, flow: 0, ecn: Ecn::Ect0, size: 1500, damage_from: 0 }
}

fn delay(millis: u64) -> Vec<PathConfig> {
    let direction = DirectionConfig {
        rate: RateModel::Constant(Rate::MAX),
        delay: Duration::from_millis(millis).into(),
        ..DirectionConfig::default()
    };
    vec![PathConfig::new("p", direction.clone(), direction)]
}

#[test]
fn a_long_run_allocates_no_more_than_a_short_one() {
    let text = "[path.p]\nup = { rate = \"100 Mbps\", delay = \"20 ms\", loss = \"1 %\", jitter = \"1 ms\" }\n\
                down = { rate = \"100 Mbps\", delay = \"20 ms\", aqm = \"fq-codel\" }";
    let hops = Paths::parse("p.toml", text, &Synthetic).unwrap().hops("p").unwrap();
    let mut engine = Engine::new(&hops, 1, START).unwrap();
    let (bytes, mut now) = ([7; 1500], START);
    let mut send = |engine: &mut Engine, packets: u32| {
        for number in 0..packets {
            now += Duration::from_micros(100);
            // More than it carries, so that queues overflow too.
            let count = if number % 10 == 0 { 4 } else { 1 };
            for _ in 0..count {
                engine.arrive(arrival(now, Toward::BOTH[number as usize % 2]), &bytes);
            }
            engine.run(now, &mut Late(Duration::from_micros(u64::from(number % 50))));
        }
    };
    // Past the 32,768 times that statistics keep one by one.
    send(&mut engine, 150_000);
    let before = ALLOCATIONS.get();
    send(&mut engine, 100_000);
    let made = ALLOCATIONS.get() - before;
    assert!(made < 100, "{made} allocations for 130,000 packets");
    let totals = engine.totals(Toward::Server);
    assert!(totals.dropped_total() > 0 && totals.handed_over > 100_000, "{totals:?}");
}

#[test]
fn what_finds_no_room_is_refused_and_counted() {
    let mut engine = Engine::new(&delay(50), 1, START).unwrap();
    engine.set_room(Room { packets: 10, bytes: 12_000 });
    let taken = (0..20).filter(|_| engine.arrive(arrival(START, Toward::Server), &[0; 1000])).count();
    assert_eq!((taken, engine.held()), (10, 10));
    engine.run(START + Duration::from_millis(60), &mut Late(Duration::ZERO));
    assert_eq!(engine.held(), 0);
    let taken = (0..20).filter(|_| engine.arrive(arrival(engine.now(), Toward::Client), &[0; 1500])).count();
    assert_eq!(taken, 8);
    assert_eq!([Toward::Server, Toward::Client].map(|toward| engine.totals(toward).refused), [10, 12]);
}

#[test]
fn lateness_is_that_of_the_hand_over_and_of_the_wait_before() {
    let mut engine = Engine::new(&delay(10), 1, START).unwrap();
    engine.arrive(
        Arrival { waited: Duration::from_micros(30), ..arrival(START, Toward::Server) },
        b"the wait before it was read",
    );
    engine.run(START + Duration::from_millis(5), &mut Late(Duration::ZERO));
    // Came a millisecond before the time up to which the engine has worked.
    engine.arrive(arrival(START + Duration::from_millis(4), Toward::Client), b"read late");
    engine.run(START + Duration::from_millis(20), &mut Late(Duration::from_micros(200)));
    let max = |toward| engine.totals(toward).lateness.summary().max;
    assert_eq!(max(Toward::Server), Duration::from_micros(230));
    assert_eq!(max(Toward::Client), Duration::from_micros(1200));
}

#[test]
fn what_its_receiver_cannot_take_is_counted() {
    let mut engine = Engine::new(&delay(1), 1, START).unwrap();
    engine.arrive(arrival(START, Toward::Server), b"x");
    engine.run(START + Duration::from_millis(2), &mut Deaf);
    let totals = engine.totals(Toward::Server);
    assert_eq!((totals.arrived, totals.handed_over, totals.stuck, engine.held()), (1, 0, 1, 0));
}

#[test]
fn damage_spares_the_headers() {
    let text = "[path.p]\nup = { rate = \"unlimited\", delay = \"1 ms\", corrupt = \"100 %\" }\n\
                down = { rate = \"unlimited\", delay = \"1 ms\" }";
    let hops = Paths::parse("p.toml", text, &Synthetic).unwrap().hops("p").unwrap();
    struct Damaged(u32);
    impl Port for Damaged {
        fn hand_over(&mut self, departure: Departure<'_>) -> Option<Instant> {
            assert_eq!(departure.bytes[..20], [0; 20]);
            self.0 += departure.bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
            Some(departure.due)
        }
    }
    let mut engine = Engine::new(&hops, 1, START).unwrap();
    for _ in 0..200 {
        engine.arrive(Arrival { damage_from: 20, ..arrival(START, Toward::Server) }, &[0; 24]);
    }
    let mut port = Damaged(0);
    engine.run(START + Duration::from_millis(50), &mut port);
    assert_eq!((port.0, engine.totals(Toward::Server).damaged), (200, 200));
}
