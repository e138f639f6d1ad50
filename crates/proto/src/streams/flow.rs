//! Receive-side flow control (RFC 9000 section 4): how much credit to grant, when, and what an endpoint can afford.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thalweg_units::Instant;

use crate::varint;

/// Credit that is granted even when the endpoint's [`Budget`] is spent, so that a connection whose application reads
/// always moves on: 64 KiB. Without it, one connection that nobody reads could stop all others for good.
pub const CREDIT_FLOOR: u64 = 64 * 1024;

/// What a connection takes by being there, TLS included, bytes: rounded up from what thousands of idle ones take.
pub const CONNECTION_STATE: u64 = 48 * 1024;

/// What the sending part of a stream takes by being there, bytes: its state, twice because tables grow by doubling, and
/// its place in the application's.
pub const SEND_STATE: u64 = 1024;

/// What the receiving part of a stream takes by being there, bytes: see [`SEND_STATE`].
pub const RECEIVE_STATE: u64 = 512;

/// How many bytes the connections of an endpoint may hold together: received and not read
/// ([`StreamsConfig::budget`](super::StreamsConfig::budget)), or written and not acknowledged
/// ([`StreamsConfig::send_budget`](super::StreamsConfig::send_budget)). One budget counts one of them.
///
/// Being over budget never ends a connection. Receivers withhold new credit, down to [`CREDIT_FLOOR`]; credit that is
/// out already cannot be taken back, so the limit can be overrun by what peers still have in hand. Writers wait.
///
/// [`Budget::of_everything`] makes one for an application that bounds all of its memory by one number.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    counts_state: bool,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicU64::new(0), counts_state: false })
    }

    /// A budget of `limit` bytes that may be [`budget`](super::StreamsConfig::budget) and
    /// [`send_budget`](super::StreamsConfig::send_budget) at once, and counts besides what connections and streams
    /// take by being there: [`CONNECTION_STATE`], [`SEND_STATE`], [`RECEIVE_STATE`]. State is counted, never refused:
    /// it takes from what is left for data.
    pub fn of_everything(limit: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicU64::new(0), counts_state: true })
    }

    /// The bytes allowed.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Counts bytes that the application itself holds for its connections.
    pub fn add(&self, bytes: u64) {
        self.change(0, bytes);
    }

    /// Counts bytes no longer that were counted by [`add`](Self::add).
    pub fn sub(&self, bytes: u64) {
        self.change(bytes, 0);
    }

    /// The bytes held now, to within 64 KiB per connection (16 KiB for what is sent).
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The largest window to grant now when `window` would be right for the path.
    ///
    /// At most half of what is left, so that several hungry connections share the rest instead of racing for it.
    pub fn affordable(&self, window: u64) -> u64 {
        window.min((self.left() / 2).max(CREDIT_FLOOR))
    }

    /// What is left, bytes.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used())
    }

    fn change(&self, from: u64, to: u64) {
        if to >= from {
            self.used.fetch_add(to - from, Ordering::Relaxed);
        } else {
            self.used.fetch_sub(from - to, Ordering::Relaxed);
        }
    }
}

/// One connection's part of the [`Budget`], published in steps so that workers do not fight over one counter.
#[derive(Debug)]
pub(super) struct Share {
    budget: Option<Arc<Budget>>,
    held: u64,
    /// What being there takes, as far as the budget counts it, bytes.
    state: u64,
    published: u64,
    /// How far the two may differ, bytes.
    step: u64,
}

/// The step in which a connection publishes what it holds for its application, bytes.
pub(super) const RECEIVE_STEP: u64 = 64 * 1024;

/// The step in which a connection publishes what it holds for its peer, bytes. Smaller than for receiving, where few
/// connections hold anything: as many as there are may have answers to send.
pub(super) const SEND_STEP: u64 = 8 * 1024;

impl Share {
    pub(super) fn new(budget: Option<Arc<Budget>>, step: u64) -> Share {
        Share { budget, held: 0, state: 0, published: 0, step }
    }

    /// Counts state, if the budget does.
    pub(super) fn add_state(&mut self, bytes: u64) {
        if self.budget.as_ref().is_some_and(|budget| budget.counts_state) {
            self.state += bytes;
            self.publish();
        }
    }

    /// State is gone.
    pub(super) fn sub_state(&mut self, bytes: u64) {
        self.state = self.state.saturating_sub(bytes);
        self.publish();
    }

    /// Bytes held and counted state.
    pub(super) fn counted(&self) -> u64 {
        self.held + self.state
    }

    /// The budget, if there is one.
    #[inline]
    pub(super) fn budget(&self) -> Option<&Budget> {
        self.budget.as_deref()
    }

    /// Bytes held by this connection.
    #[inline]
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.held += bytes;
        self.publish();
    }

    pub(super) fn sub(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
        self.publish();
    }

    fn publish(&mut self) {
        let counted = self.counted();
        if let Some(budget) = &self.budget
            && counted.abs_diff(self.published) >= self.step
        {
            budget.change(self.published, counted);
            self.published = counted;
        }
    }

    pub(super) fn affordable(&self, window: u64) -> u64 {
        match &self.budget {
            Some(budget) => budget.affordable(window),
            None => window,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.change(self.published, 0);
        }
    }
}

/// The clock as the credit rules need it; set by the connection when something arrives or before it asks for frames.
#[derive(Copy, Clone, Debug)]
pub(super) struct Clock {
    pub(super) now: Instant,
    pub(super) rtt: Duration,
}

/// The receive window of a stream or a connection: what was granted, what was consumed, and how much to grant next.
///
/// Credit is renewed when half of the window is consumed. If that took less than two round trips, the window, not
/// the path, may be what limits the sender, and it doubles, up to `max`; so it settles above four times what the
/// path holds.
///
/// Where bytes are missing for long, as behind a slower path, the sender uses up credit that far less consumed data has
/// not renewed yet. Once half of it is used up, it is renewed in steps of an eighth, whenever data are consumed.
#[derive(Debug)]
pub(super) struct Window {
    /// Bytes from consumed to granted when credit is renewed.
    size: u64,
    /// `size` never grows above this.
    max: u64,
    /// Bytes that the application took, or that were thrown away.
    consumed: u64,
    /// The limit sent, or about to be sent, to the peer; never shrinks.
    granted: u64,
    /// The limit is not raised above this: one maximal window beyond what [`hold_back`](Self::hold_back) said.
    reach: u64,
    /// When credit was last renewed; `None` before the first time.
    renewed: Option<Instant>,
    /// Bytes granted in steps since then; `None` before the first.
    stepped: Option<u64>,
}

impl Window {
    pub(super) fn new(size: u64, max: u64) -> Window {
        let size = size.min(varint::MAX);
        Window {
            size,
            max: max.max(size),
            consumed: 0,
            granted: size,
            reach: varint::MAX,
            renewed: None,
            stepped: None,
        }
    }

    /// The limit last granted.
    #[inline]
    pub(super) fn granted(&self) -> u64 {
        self.granted
    }

    /// The width aimed at.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Makes the window at least `size` wide from the next renewal on, as far as its own limit allows.
    pub(super) fn widen(&mut self, size: u64) {
        self.size = self.size.max(size.min(self.max));
    }

    /// Bytes are taken out of order, and `lowest` is the first that is missing: no credit beyond one maximal window
    /// from there, which bounds what has to be remembered of bytes taken.
    pub(super) fn hold_back(&mut self, lowest: u64) {
        self.reach = lowest.saturating_add(self.max).min(varint::MAX);
    }

    /// Makes the window `size` wide for good. Credit granted before stays granted.
    pub(super) fn fix(&mut self, size: u64) {
        self.size = size.min(varint::MAX);
        self.max = self.size;
    }

    /// `bytes` were taken or thrown away, and the sender has used up `used` of what was granted: grants what is due.
    /// Returns whether the limit rose and should be sent to the peer.
    #[inline]
    pub(super) fn consume(&mut self, bytes: u64, used: u64, clock: Clock, share: &Share) -> bool {
        self.consumed = self.consumed.saturating_add(bytes);
        let left = self.granted.saturating_sub(self.consumed);
        let unstepped = left.saturating_sub(self.stepped.unwrap_or_default());
        // Over budget the target shrinks, and the steps of renewal with it: no flood of small updates.
        let is_half_consumed = unstepped <= self.size / 2 && unstepped <= share.affordable(self.size) / 2;
        let is_used_up = || {
            self.granted.saturating_sub(used) <= self.size / 2
                && share.affordable(self.size).saturating_sub(left) >= self.size / 8
        };
        if !is_half_consumed && !is_used_up() {
            return false;
        }
        // Held back, it waits for room that is worth an update.
        if self.reach.saturating_sub(self.granted) < self.size / 8 {
            return false;
        }
        if !is_half_consumed {
            self.stepped.get_or_insert_default();
            return self.top_up(share);
        }
        if self.renewed.is_none_or(|last| clock.now - last < clock.rtt * 2) {
            self.size = self.size.saturating_mul(2).min(self.max);
        }
        (self.renewed, self.stepped) = (Some(clock.now), None);
        self.top_up(share)
    }

    /// Grants as much as the window and the budget allow now. Returns whether the limit rose.
    pub(super) fn top_up(&mut self, share: &Share) -> bool {
        let limit = self.consumed.saturating_add(share.affordable(self.size)).min(self.reach);
        let rise = limit.saturating_sub(self.granted);
        self.granted += rise;
        if let Some(stepped) = &mut self.stepped {
            *stepped += rise;
        }
        rise > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Clock {
        Clock { now: Instant::from_nanos(ms * 1_000_000), rtt: Duration::from_millis(100) }
    }

    #[test]
    fn credit_is_renewed_when_half_is_consumed() {
        let share = Share::new(None, RECEIVE_STEP);
        let mut w = Window::new(1000, 1000);
        assert!(!w.consume(499, 0, at(0), &share));
        assert!(w.consume(1, 0, at(0), &share));
        assert_eq!(w.granted(), 1500);
        assert!(!w.consume(499, 0, at(0), &share));
        assert!(w.consume(1, 0, at(0), &share));
        assert_eq!(w.granted(), 2000);
    }

    #[test]
    fn a_window_consumed_within_two_round_trips_doubles_up_to_its_limit() {
        let share = Share::new(None, RECEIVE_STEP);
        let mut w = Window::new(1000, 5000);
        assert!(w.consume(500, 0, at(1000), &share));
        assert_eq!(w.size(), 2000);
        assert!(w.consume(1500, 0, at(1199), &share));
        assert_eq!(w.size(), 4000);
        assert!(w.consume(2000, 0, at(1398), &share));
        assert_eq!(w.size(), 5000);
        let mut slow = Window::new(1000, 5000);
        slow.consume(500, 0, at(1000), &share);
        assert!(slow.consume(1500, 0, at(1200), &share));
        assert_eq!(slow.size(), 2000);
    }

    #[test]
    fn credit_that_was_used_up_beyond_missing_bytes_is_renewed_in_steps_of_an_eighth() {
        let share = Share::new(None, RECEIVE_STEP);
        let mut w = Window::new(1000, 1000);
        assert!(!w.consume(200, 499, at(0), &share), "half of it is left");
        assert!(w.consume(0, 500, at(0), &share));
        assert_eq!(w.granted(), 1200);
        assert!(!w.consume(124, 1000, at(0), &share), "less than an eighth was consumed");
        assert!(w.consume(1, 1000, at(0), &share));
        assert_eq!(w.granted(), 1325);
        // The window still grows once half of it is consumed, whatever a frame that leaves later adds to a step.
        let mut w = Window::new(1000, 2000);
        assert!(w.consume(150, 900, at(0), &share));
        assert!(!w.consume(50, 900, at(0), &share));
        assert!(w.top_up(&share));
        assert!(!w.consume(100, 900, at(0), &share));
        assert_eq!((w.granted(), w.size()), (1200, 1000));
        assert!(w.consume(200, 900, at(0), &share));
        assert_eq!((w.granted(), w.size()), (2500, 2000));
    }

    #[test]
    fn an_exhausted_budget_allows_no_steps() {
        let budget = Budget::new(10 << 20);
        let mut hog = Share::new(Some(budget.clone()), RECEIVE_STEP);
        hog.add(10 << 20);
        let share = Share::new(Some(budget), RECEIVE_STEP);
        let mut w = Window::new(1 << 20, 8 << 20);
        for _ in 0..100 {
            assert!(!w.consume(1_000, 1 << 20, at(0), &share));
        }
    }

    #[test]
    fn an_exhausted_budget_withholds_credit_down_to_a_floor_and_never_takes_any_back() {
        let budget = Budget::new(10 << 20);
        let mut hog = Share::new(Some(budget.clone()), RECEIVE_STEP);
        hog.add(10 << 20);
        assert_eq!(budget.used(), 10 << 20);
        let share = Share::new(Some(budget.clone()), RECEIVE_STEP);
        let mut w = Window::new(1 << 20, 8 << 20);
        // Consumed, but not renewed: more than the floor is left.
        assert!(!w.consume((1 << 20) - CREDIT_FLOOR, 0, at(0), &share));
        assert_eq!(w.granted(), 1 << 20);
        assert!(w.consume(CREDIT_FLOOR, 0, at(0), &share));
        assert_eq!(w.granted(), (1 << 20) + CREDIT_FLOOR);
        drop(hog);
        assert_eq!(budget.used(), 0);
        assert!(w.consume(CREDIT_FLOOR, 0, at(0), &share));
        assert!(w.granted() > 3 << 20);
    }

    #[test]
    fn only_a_budget_of_everything_counts_state() {
        for (budget, counted) in [(Budget::new(1 << 20), 0), (Budget::of_everything(1 << 20), CONNECTION_STATE)] {
            let mut share = Share::new(Some(budget.clone()), SEND_STEP);
            share.add_state(CONNECTION_STATE);
            assert_eq!((budget.used(), share.held()), (counted, 0));
            share.add(SEND_STEP);
            assert_eq!(budget.used(), counted + SEND_STEP);
            drop(share);
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn limits_stay_within_a_varint() {
        let share = Share::new(None, RECEIVE_STEP);
        let mut w = Window::new(u64::MAX, u64::MAX);
        assert_eq!(w.granted(), varint::MAX);
        w.consume(varint::MAX, 0, at(0), &share);
        assert_eq!(w.granted(), varint::MAX);
    }
}
