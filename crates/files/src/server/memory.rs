//! One bound for the memory of all connections of a server, over QUIC and over TCP.
//!
//! What connections hold is counted in one [`Budget`]: data that clients have not taken, received data not read, file
//! blocks, and an estimate of what each connection, stream and request takes by being there. Data wait when their
//! part is used up. State cannot wait for long: connections are dropped to make room for it, first those that hold most
//! and take least.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use thalweg::Budget;
use thalweg::proto::streams::CONNECTION_STATE;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::idle_memory::Bound;
use crate::account::{Account, Why};

/// What the process takes without connections, bytes: the program, its threads, blocks kept for use again.
const PROGRAM: u64 = 32 << 20;

/// Of what is left beside the program, the part that is not counted but lost between what is counted: a quarter.
const SLACK: u64 = 4;

/// The least memory a server can be told to use, bytes: what is left is enough for a hundred readers.
pub(crate) const LEAST: u64 = 2 * PROGRAM;

/// What a connection over TCP takes by being there, bytes: TLS, the buffers of HTTP/1.1 or HTTP/2.
pub(super) const TCP_CONNECTION: u64 = 96 * 1024;

/// What a request takes while it is under way, bytes: its task, the open file, the log entry. Its header fields and the
/// streams of QUIC are counted by themselves.
pub(super) const REQUEST: u64 = 12 * 1024;

/// Seconds of taking that count: what a client took counts a quarter less with each second.
const FORGET: u64 = 4;

/// A client is expected to take within a minute what it holds: so many times what counts as taken lately.
const HORIZON: u64 = 60 / FORGET;

/// A client that takes nothing for so long has stopped, as far as can be told while memory is scarce: what it took
/// before does not count. Longer than any round trip in which a window is on its way.
const STOPPED: Duration = Duration::from_secs(1);

/// What a new connection counts as having taken, bytes: it must have the time to begin.
const WELCOME: u64 = 64 * 1024;

/// The time between two looks at all connections.
const LOOK: Duration = Duration::from_millis(250);

/// The time between two looks once half is used, and while somebody waits for room.
const SCARCE_LOOK: Duration = Duration::from_millis(50);
const FULL_LOOK: Duration = Duration::from_millis(5);

/// The time between two looks at what the process takes, once half is used: requests that arrive together take a
/// hundred megabytes within 50 ms.
const KEEP_LOOK: Duration = Duration::from_millis(10);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Memory {
    /// What the process may take, bytes.
    bytes: u64,
    /// Counted bytes beyond which nothing new begins.
    limit: u64,
    budget: Arc<Budget>,
    /// How long a client may take nothing.
    idle: Duration,
    members: Mutex<Members>,
    /// Somebody waits for room.
    wanted: Notify,
    /// There is room again.
    freed: Notify,
}

#[derive(Debug)]
struct Members {
    all: BTreeMap<u64, Meter>,
    next: u64,
    /// The last time that what they took was forgotten a little.
    faded: Instant,
    /// When all connections were last looked at.
    looked: Instant,
}

/// What is known of a connection.
#[derive(Debug)]
struct Meter {
    connection: Arc<Connection>,
    /// What it took in all when it was last looked at.
    seen: u64,
    /// What it took lately, in bytes that count.
    lately: u64,
    /// When it last took anything.
    took: Instant,
    /// The same, or when it was last this server's turn.
    since: Instant,
}

/// A connection of the server.
#[derive(Debug)]
struct Connection {
    account: Arc<Account>,
    quic: OnceLock<(thalweg::Connection, thalweg_h3::Connection)>,
    dropped: Notify,
}

impl Connection {
    /// Bytes counted for it, and bytes it took so far.
    fn figures(&self) -> (u64, u64) {
        let (held, taken) = (self.account.held(), self.account.taken());
        let Some((quic, http)) = self.quic.get() else {
            return (held, taken);
        };
        let stats = quic.stats();
        (held + http.bytes_collected() + stats.bytes_counted, taken + stats.stream_bytes_acked)
    }
}

/// A connection's place among those of the server, until it is dropped.
#[derive(Debug)]
pub(super) struct Member {
    memory: Arc<Memory>,
    number: u64,
    connection: Arc<Connection>,
}

impl Member {
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.connection.account
    }

    /// QUIC and HTTP/3 know what they hold.
    pub(super) fn over_quic(&self, quic: &thalweg::Connection) -> thalweg_h3::Connection {
        let http = thalweg_h3::Connection::new(quic.clone()).counted_in(Arc::clone(&self.memory.budget));
        let _ = self.connection.quic.set((quic.clone(), http.clone()));
        http
    }

    /// Waits until the server drops this connection.
    pub(super) async fn dropped(&self) -> Why {
        loop {
            // A permit is kept if nobody waits yet.
            if let Some(why) = self.connection.account.why() {
                return why;
            }
            self.connection.dropped.notified().await;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.memory.members().all.remove(&self.number);
    }
}

impl Memory {
    /// The memory of a server whose process is to stay below `bytes`.
    pub(super) fn new(bytes: u64, idle: Duration) -> Arc<Self> {
        let bytes = bytes.max(LEAST);
        let counted = bytes - PROGRAM;
        let limit = counted - counted / SLACK;
        let now = Instant::now();
        Arc::new(Self {
            bytes,
            limit,
            // Data leave an eighth to state.
            budget: Budget::of_everything(limit / 8 * 7),
            idle,
            members: Mutex::new(Members { all: BTreeMap::new(), next: 0, faded: now, looked: now }),
            wanted: Notify::new(),
            freed: Notify::new(),
        })
    }

    /// What data are counted in.
    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// QUIC handshakes under way at most: a quarter of the memory.
    pub(super) fn handshakes(&self) -> usize {
        usize::try_from(self.limit / 4 / CONNECTION_STATE).unwrap_or(usize::MAX)
    }

    /// A new connection.
    pub(super) fn join(self: &Arc<Self>) -> Member {
        let connection = Connection {
            account: Account::new(Arc::clone(&self.budget)),
            quic: OnceLock::new(),
            dropped: Notify::new(),
        };
        let mut members = self.members();
        let number = members.next;
        members.next += 1;
        let (connection, now) = (Arc::new(connection), Instant::now());
        let meter = Meter { connection: Arc::clone(&connection), seen: 0, lately: WELCOME, took: now, since: now };
        members.all.insert(number, meter);
        Member { memory: Arc::clone(self), number, connection }
    }

    /// Whether something new may begin.
    pub(super) fn has_room(&self) -> bool {
        self.budget.used() <= self.limit
    }

    /// Waits until something new may begin; [`watch`](Self::watch) makes room for it.
    pub(super) async fn room(&self) {
        while !self.has_room() {
            let mut freed = std::pin::pin!(self.freed.notified());
            // From here on nothing is missed.
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            self.wanted.notify_one();
            freed.await;
        }
    }

    /// Drops who takes nothing, and who holds too much, from time to time, wakes those who wait for room, and releases
    /// what is free.
    pub(super) async fn watch(self: Arc<Self>) {
        // By itself: releasing takes longer than those who wait for room should have to.
        tokio::join!(self.watch_members(), self.release());
    }

    /// Drops who takes nothing, and who holds too much, from time to time, and wakes those who wait for room.
    async fn watch_members(&self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.pause(SCARCE_LOOK)) => {}
                () = self.wanted.notified() => {}
            }
            self.look(Instant::now());
            while !self.has_room() {
                tokio::time::sleep(FULL_LOOK).await;
                self.look(Instant::now());
            }
            self.freed.notify_waiters();
        }
    }

    /// Releases what is free whenever the process comes close to what it may take.
    async fn release(&self) {
        let mut bound = Bound::new(self.bytes);
        loop {
            tokio::time::sleep(self.pause(KEEP_LOOK)).await;
            bound.keep().await;
        }
    }

    /// The time until the next look: `scarce` once half is used. A server that rests is not woken for nothing.
    fn pause(&self, scarce: Duration) -> Duration {
        if self.budget.used() > self.limit / 2 { scarce } else { LOOK }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at all connections.
    fn look(&self, now: Instant) {
        let mut members = self.members();
        // A server that did not run, because its machine was suspended or busy, sent nothing that could be taken.
        let stood_still = (now - members.looked).saturating_sub(2 * LOOK);
        members.looked = now;
        let fades = (now - members.faded).as_secs();
        members.faded += Duration::from_secs(fades);
        let mut weighed = Vec::with_capacity(members.all.len());
        for (number, meter) in &mut members.all {
            let (held, taken) = meter.connection.figures();
            meter.took += stood_still;
            meter.since += stood_still;
            for _ in 0..fades.min(64) {
                meter.lately -= meter.lately.div_ceil(FORGET);
            }
            if taken > meter.seen {
                meter.took = now;
            }
            if taken > meter.seen || !meter.connection.account.waits_for_client() {
                meter.since = now;
            }
            meter.lately += taken.saturating_sub(meter.seen);
            meter.seen = taken;
            if meter.connection.account.why().is_some() {
                continue;
            }
            if now - meter.since >= self.idle {
                meter.drop_for(Why::Idle(self.idle));
                continue;
            }
            let has_stopped = now - meter.took >= STOPPED;
            weighed.push(Weighed { held, lately: meter.lately, has_stopped, number: *number });
        }
        // What is being dropped is counted until it is gone.
        let staying: u64 = weighed.iter().map(|weighed| weighed.held).sum();
        let used = self.budget.used().min(staying);
        for number in choose(weighed, used, self.limit) {
            if let Some(meter) = members.all.get(&number) {
                meter.drop_for(Why::Memory);
            }
        }
    }
}

impl Meter {
    fn drop_for(&self, why: Why) {
        self.connection.account.drop_for(why);
        self.connection.dropped.notify_one();
    }
}

/// Whether so little is left that those who take could be hindered: 3/4 are used.
fn is_scarce(used: u64, limit: u64) -> bool {
    used > limit / 4 * 3
}

/// A connection as it is compared with others.
#[derive(Debug, Clone, Copy)]
struct Weighed {
    held: u64,
    /// Bytes that it took lately.
    lately: u64,
    has_stopped: bool,
    number: u64,
}

impl Weighed {
    /// Bytes that it holds and is not expected to take soon; negative if it takes more than it holds.
    fn dead(&self, is_scarce: bool) -> i64 {
        let expected = match (is_scarce, self.has_stopped) {
            (true, true) => 0,
            (true, false) => self.lately,
            (false, _) => self.lately.saturating_mul(HORIZON),
        };
        i64::try_from(self.held).unwrap_or(i64::MAX).saturating_sub_unsigned(expected)
    }
}

/// Which connections to drop when all together hold `used` of `limit` bytes.
///
/// What a connection holds beyond what it is expected to take soon is dead: in a minute while there is plenty, in four
/// seconds while memory is scarce, when nothing is expected of a client that has [stopped](STOPPED). Connections with
/// dead memory may hold 5/8 of the limit, once it is scarce together with all others, but always 1/8: the rest is for
/// those who take. At the limit connections are dropped in any case, but none that holds less than the mean: it has
/// hardly begun.
fn choose(mut all: Vec<Weighed>, used: u64, limit: u64) -> Vec<u64> {
    let allowed = limit / 8 * 5;
    let is_scarce = is_scarce(used, limit);
    let dead = |one: &Weighed| one.dead(is_scarce);
    let all_dead: u64 = all.iter().filter(|one| dead(one) > 0).map(|one| one.held).sum();
    let mut excess = if is_scarce {
        // What is in use by those who take is no reason to drop a few who rest.
        used.saturating_sub(allowed).min(all_dead.saturating_sub(limit / 8))
    } else {
        all_dead.saturating_sub(allowed)
    };
    // Room for more than one.
    let mut full = if used > limit - limit / 64 { used - (limit - limit / 16) } else { 0 };
    if excess == 0 && full == 0 {
        return Vec::new();
    }
    let mean = all.iter().map(|one| one.held).sum::<u64>() / (all.len() as u64).max(1);
    // The oldest of equals first.
    all.sort_by_key(|one| (std::cmp::Reverse(dead(one)), one.number));
    let mut chosen = Vec::new();
    for one in all {
        if (dead(&one) > 0 && excess > 0) || (full > 0 && one.held >= mean) {
            chosen.push(one.number);
            full = full.saturating_sub(one.held);
            excess = excess.saturating_sub(one.held);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Context;

    use super::*;

    const LIMIT: u64 = 64_000;

    fn chosen(figures: &[(u64, u64)], used: u64) -> Vec<u64> {
        choose(weighed(figures), used, LIMIT)
    }

    fn weighed(figures: &[(u64, u64)]) -> Vec<Weighed> {
        let weigh = |(number, &(held, lately)): (usize, &(u64, u64))| Weighed {
            held,
            lately,
            has_stopped: false,
            number: number as u64,
        };
        figures.iter().enumerate().map(weigh).collect()
    }

    #[test]
    fn what_was_taken_before_a_client_stopped_counts_while_there_is_plenty() {
        let mut all = weighed(&[(20_000, 90_000), (20_000, 80_000), (9_000, 70_000)]);
        all[0].has_stopped = true;
        assert_eq!(choose(all.clone(), 47_000, LIMIT), [0; 0]);
        assert_eq!(choose(all, 49_000, LIMIT), [0]);
    }

    #[test]
    fn nobody_is_dropped_while_there_is_plenty() {
        assert_eq!(chosen(&[], 0), [0; 0]);
        assert_eq!(chosen(&[(20_000, 0), (19_000, 0)], 39_000), [0; 0]);
        // All of it is taken soon, however much it is.
        assert_eq!(chosen(&[(30_000, 30_000), (25_000, 25_000)], 55_000), [0; 0]);
    }

    #[test]
    fn who_holds_most_and_takes_least_goes_first() {
        // Not scarce, but more than 5/8 are dead.
        assert_eq!(chosen(&[(10_000, 100), (15_000, 10), (20_000, 10)], 45_000), [2]);
        // Scarce: what is taken within seconds counts, and the reader stays whatever it holds.
        assert_eq!(chosen(&[(20_000, 20_000), (15_000, 1000), (14_000, 0), (2000, 0)], 51_000), [1]);
        // Of equals the oldest.
        assert_eq!(chosen(&[(1000, 0); 50], 50_000), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn at_the_limit_somebody_goes_who_has_begun() {
        assert_eq!(chosen(&[(30_000, 90_000), (33_500, 80_000), (500, 0)], 64_000), [1]);
        assert_eq!(chosen(&[(30_000, 90_000), (33_500, 80_000), (500, 600)], 64_000), [1]);
    }

    const IDLE: Duration = Duration::from_secs(30);

    /// Watches without releasing. That is done on a thread of its own, and a clock that stands still does not wait for
    /// it: seconds pass while the thread wakes the task.
    fn watch(memory: &Arc<Memory>) -> tokio::task::JoinHandle<()> {
        let memory = Arc::clone(memory);
        tokio::spawn(async move { memory.watch_members().await })
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_the_idle_timeout_is_dropped() {
        let memory = Memory::new(LEAST, IDLE);
        let watch = watch(&memory);
        let began = Instant::now();
        let [idle, slow, busy, quiet] = std::array::from_fn(|_| memory.join());
        let _requests = [&idle, &slow, &busy].map(|member| member.account().request(REQUEST));
        let _busy = busy.account().busy();
        let taking = async {
            for _ in 0..10 {
                tokio::time::sleep(IDLE / 2).await;
                slow.account().take(1);
            }
        };
        let (why, ()) = tokio::join!(async { (idle.dropped().await, began.elapsed()) }, taking);
        assert_eq!(why.0, Why::Idle(IDLE));
        assert!(why.1 >= IDLE && why.1 <= IDLE + 2 * LOOK, "{:?}", why.1);
        for member in [&slow, &busy, &quiet] {
            assert_eq!(member.account().why(), None);
        }
        watch.abort();
    }

    /// Time in which the server did not run is no time in which its clients took nothing.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_stood_still_blames_no_client() {
        let memory = Memory::new(LEAST, IDLE);
        let [reader, silent] = std::array::from_fn(|_| memory.join());
        let _requests = [&reader, &silent].map(|member| member.account().request(REQUEST));
        let began = Instant::now();
        memory.look(began + LOOK);
        let after = began + 2 * IDLE;
        memory.look(after);
        assert_eq!((reader.account().why(), silent.account().why()), (None, None));
        let mut now = after;
        while now < after + IDLE {
            now += LOOK;
            reader.account().take(1);
            memory.look(now);
        }
        assert_eq!((reader.account().why(), silent.account().why()), (None, Some(Why::Idle(IDLE))));
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_made_by_dropping_and_had_when_what_is_dropped_is_gone() {
        let memory = Memory::new(LEAST, IDLE);
        let watch = watch(&memory);
        let hog = memory.join();
        let reader = memory.join();
        let held = hog.account().charge(memory.limit / 8 * 7);
        let _read = reader.account().charge(memory.limit / 7);
        reader.account().take(usize::MAX >> 8);
        assert!(!memory.has_room());
        let (mut room, mut dropped) = (std::pin::pin!(memory.room()), std::pin::pin!(hog.dropped()));
        tokio::select! {
            () = &mut room => panic!("what is dropped is not gone yet"),
            why = &mut dropped => assert_eq!(why, Why::Memory),
        }
        drop(held);
        room.await;
        assert_eq!(reader.account().why(), None);
        watch.abort();
    }

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_room_is_woken_when_there_is_some_and_not_before() {
        let memory = Memory::new(LEAST, IDLE);
        let watch = watch(&memory);
        let member = memory.join();
        let held = member.account().charge(memory.limit + 1);
        let wakes: Arc<Wakes> = Arc::default();
        let waker = std::task::Waker::from(Arc::clone(&wakes));
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(memory.room())).collect();
        let mut poll = |ready: bool| {
            for room in &mut waiting {
                assert_eq!(room.as_mut().poll(&mut Context::from_waker(&waker)).is_ready(), ready);
            }
        };
        poll(false);
        tokio::time::sleep(IDLE / 2).await;
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        drop(held);
        tokio::time::sleep(2 * FULL_LOOK).await;
        assert_eq!(wakes.0.load(Ordering::Relaxed), 100);
        poll(true);
        watch.abort();
    }
}
