//! In steady state, moving stream data allocates nothing: counted by an allocator that counts.
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use thalweg_proto::Side;
use thalweg_proto::datagrams::{Datagrams, DatagramsConfig};
use thalweg_proto::frame::{Frame, FrameIter};
use thalweg_proto::streams::{Dir, SentStreams, StreamId, Streams, StreamsConfig, WriteError};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call to the system's allocator unchanged; the counter is a thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Pipe {
    a: Streams,
    b: Streams,
    id: StreamId,
    buf: Vec<u8>,
    record: SentStreams,
    received: u64,
    packets: u64,
}

fn pipe() -> Pipe {
    let mut a = Streams::new(Side::Client, StreamsConfig::default());
    let mut b = Streams::new(Side::Server, StreamsConfig::default());
    a.set_peer_limits(&b.initial_limits());
    b.set_peer_limits(&a.initial_limits());
    let id = a.open(Dir::Uni).unwrap();
    Pipe { a, b, id, buf: Vec::with_capacity(2000), record: SentStreams::default(), received: 0, packets: 0 }
}

fn deliver(to: &mut Streams, payload: &[u8]) {
    for frame in FrameIter::new(payload) {
        match frame.unwrap() {
            Frame::Stream { id, offset, fin, data } => to.on_stream(id, offset, fin, data).unwrap(),
            Frame::MaxData(limit) => to.on_max_data(limit),
            Frame::MaxStreamData { id, max } => to.on_max_stream_data(id, max).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

impl Pipe {
    /// Sends packets until there is nothing to send; the reader takes all there is after each.
    fn run(&mut self, read: fn(&mut Streams, StreamId) -> u64) {
        loop {
            self.buf.clear();
            self.record.clear();
            self.a.write_data(&mut self.buf, 1200, &mut self.record);
            if self.buf.is_empty() {
                break;
            }
            self.packets += 1;
            deliver(&mut self.b, &self.buf);
            self.a.on_acked(&self.record);
            while self.b.poll_event().is_some() {}
            self.b.accept(Dir::Uni);
            self.received += read(&mut self.b, self.id);
            self.buf.clear();
            self.record.clear();
            self.b.write_control(&mut self.buf, 1200, &mut self.record);
            if !self.buf.is_empty() {
                deliver(&mut self.a, &self.buf);
            }
            while self.a.poll_event().is_some() {}
        }
    }
}

fn read_chunks(streams: &mut Streams, id: StreamId) -> u64 {
    let mut n = 0;
    while let Ok(Some(bytes)) = streams.read(id, usize::MAX) {
        n += bytes.len() as u64;
    }
    n
}

fn read_copies(streams: &mut Streams, id: StreamId) -> u64 {
    let mut out = [0; 4096];
    let mut total = 0;
    while let Ok(Some(n)) = streams.read_into(id, &mut out) {
        total += n as u64;
    }
    total
}

fn count(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

#[test]
fn large_chunks_sent_in_sequence_and_read_in_order_allocate_nothing() {
    for read in [read_chunks, read_copies] {
        let mut pipe = pipe();
        let chunk = Bytes::from(vec![7; 1 << 20]);
        let keep = chunk.clone();
        let mib = |pipe: &mut Pipe| {
            let mut chunk = chunk.clone();
            pipe.a.write_chunk(pipe.id, &mut chunk).unwrap();
            assert!(chunk.is_empty());
            pipe.run(read);
        };
        for _ in 0..40 {
            mib(&mut pipe);
        }
        let before = pipe.packets;
        let allocations = count(|| {
            for _ in 0..40 {
                mib(&mut pipe);
            }
        });
        let packets = pipe.packets - before;
        assert!(packets > 34_000);
        assert_eq!(pipe.received, 80 << 20);
        assert_eq!(allocations, 0, "in {packets} packets");
        drop(keep);
    }
}

#[test]
fn many_small_writes_allocate_nothing() {
    let mut pipe = pipe();
    let some = |pipe: &mut Pipe| {
        for _ in 0..1000 {
            match pipe.a.write(pipe.id, &[1; 100]) {
                Ok(100) => {}
                Ok(_) | Err(WriteError::Blocked) => break,
                Err(error) => panic!("{error}"),
            }
        }
        pipe.run(read_chunks);
    };
    for _ in 0..200 {
        some(&mut pipe);
    }
    let allocations = count(|| {
        for _ in 0..50 {
            some(&mut pipe);
        }
    });
    assert_eq!(pipe.received, 25_000_000);
    assert_eq!(allocations, 0);
}

#[test]
fn loss_and_reordering_allocate_next_to_nothing() {
    let mut pipe = pipe();
    let chunk = Bytes::from(vec![7; 1 << 20]);
    let _keep = chunk.clone();
    let mut flying: Vec<(Vec<u8>, SentStreams)> = Vec::with_capacity(64);
    let mut spare: Vec<Vec<u8>> = (0..64).map(|_| Vec::with_capacity(1300)).collect();
    let mut round = |pipe: &mut Pipe| {
        let mut chunk = chunk.clone();
        pipe.a.write_chunk(pipe.id, &mut chunk).unwrap();
        loop {
            // Fifty packets in flight arrive in reverse; every seventh is lost.
            while flying.len() < 50 {
                let mut buf = spare.pop().unwrap();
                let mut record = SentStreams::default();
                pipe.a.write_data(&mut buf, 1200, &mut record);
                if buf.is_empty() {
                    spare.push(buf);
                    break;
                }
                pipe.packets += 1;
                flying.push((buf, record));
            }
            if flying.is_empty() {
                break;
            }
            let mut n = 0;
            while let Some((mut buf, record)) = flying.pop() {
                n += 1;
                if n % 7 == 0 {
                    pipe.a.on_lost(&record);
                } else {
                    deliver(&mut pipe.b, &buf);
                    pipe.a.on_acked(&record);
                }
                buf.clear();
                spare.push(buf);
            }
            pipe.b.accept(Dir::Uni);
            pipe.received += read_chunks(&mut pipe.b, pipe.id);
            while pipe.b.poll_event().is_some() {}
            pipe.buf.clear();
            pipe.record.clear();
            pipe.b.write_control(&mut pipe.buf, 1200, &mut pipe.record);
            if !pipe.buf.is_empty() {
                deliver(&mut pipe.a, &pipe.buf);
            }
        }
    };
    for _ in 0..10 {
        round(&mut pipe);
    }
    let before = pipe.packets;
    let allocations = count(|| {
        for _ in 0..10 {
            round(&mut pipe);
        }
    });
    let packets = pipe.packets - before;
    assert_eq!(pipe.received, 20 << 20);
    assert!(allocations * 100 < packets, "{allocations} in {packets} packets");
}

#[test]
fn datagrams_allocate_once_for_many() {
    let mut a = Datagrams::new(DatagramsConfig::default());
    let mut b = Datagrams::new(DatagramsConfig::default());
    a.set_peer_max_frame_size(Some(b.max_frame_size()));
    let data = Bytes::from_static(&[7; 1000]);
    let mut buf = Vec::with_capacity(2000);
    let mut some = || {
        for _ in 0..1000 {
            a.send(data.clone(), 1200).unwrap();
            buf.clear();
            a.write(&mut buf, 1200, 1200);
            for frame in FrameIter::new(&buf) {
                let Frame::Datagram(data) = frame.unwrap() else {
                    panic!();
                };
                b.on_datagram(data, buf.len()).unwrap();
            }
            assert_eq!(b.recv().unwrap().len(), 1000);
        }
    };
    some();
    assert_eq!(count(some), 0);
}
