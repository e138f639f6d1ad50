//! What a receive window shows in a log without frames: a sender stops although its congestion window has room, and
//! goes on once as much as each time before is left on its way.
//!
//! Credit ends within a packet, so that the last one is short. The receiver renews it when some part of it has been
//! read: what is on its way then is the rest. An application that has no more data goes on with nothing on its way, or
//! with what happens to be.

/// Stalls that are kept.
const KEPT: usize = 1 << 12;
/// At least so many stalls with as much on their way tell a window.
const LEAST: usize = 2;
/// Stalls are alike if what is left differs from the middle by at most a tenth of it, and by at most a packet and a
/// fiftieth: which packets had come is known to a packet only.
const PART: u64 = 10;
const PACKET: u64 = 1500;
const SMALLER: u64 = 50;
/// Credit grows by no more than this times what is left of it then; what was sent between two stalls beyond that is
/// more than one step. A ratio.
const MOST: (u64, u64) = (8, 5);
/// A window leaves at least so many bytes on their way.
const FEWEST: u64 = 2400;

/// A time in which the sender could not go on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stall {
    /// Milliseconds.
    from: f64,
    to: f64,
    /// Bytes of data that had been sent.
    sent: u64,
    /// Bytes of data on their way at its end.
    left: u64,
}

/// A packet with data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Last {
    /// Milliseconds.
    pub(super) time: f64,
    /// Bytes of data with it.
    pub(super) sent: u64,
    /// Whether it was short, with nothing that is sent again, and the congestion window had room for another.
    pub(super) is_short: bool,
}

/// A receive window, and by how much it is renewed, if that shows; bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) window: u64,
    pub(super) step: Option<u64>,
    /// Times in which credit was missing, milliseconds.
    pub(super) spans: Vec<(f64, f64)>,
}

/// Stalls so far.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    last: Option<Last>,
    has_arrived: bool,
    list: Vec<Stall>,
    /// Times at which data followed when nothing was on its way.
    pauses: u64,
}

impl Stalls {
    /// Something was received.
    pub(super) fn arrived(&mut self) {
        self.has_arrived = true;
    }

    /// A packet with data was sent; `left` says how many bytes of data were on their way before it.
    pub(super) fn sent(&mut self, packet: Last, left: impl Fn() -> u64) {
        let has_arrived = core::mem::take(&mut self.has_arrived);
        let Some(last) = self.last.replace(packet) else { return };
        if !last.is_short || !has_arrived || packet.time <= last.time {
            return;
        }
        let left = left();
        if left < FEWEST {
            self.pauses += 1;
        } else if self.list.len() < KEPT {
            self.list.push(Stall { from: last.time, to: packet.time, sent: last.sent, left });
        }
    }

    /// What is left on its way in most stalls, and those in which it is.
    fn alike(&self) -> Option<(u64, Vec<Stall>)> {
        let mut left: Vec<u64> = self.list.iter().map(|stall| stall.left).collect();
        left.sort_unstable();
        let middle = *left.get(left.len().saturating_sub(1) / 2)?;
        let near = (middle / PART).min(PACKET + middle / SMALLER);
        let is_alike = |stall: &&Stall| stall.left.abs_diff(middle) <= near;
        let alike: Vec<Stall> = self.list.iter().filter(is_alike).copied().collect();
        let is_window = alike.len() >= LEAST && 2 * alike.len() >= left.len() && alike.len() as u64 > self.pauses;
        is_window.then_some((middle, alike))
    }

    /// The receive window, if the stalls show one.
    pub(super) fn window(&self) -> Option<Shown> {
        let (left, alike) = self.alike()?;
        let mut steps: Vec<u64> = alike.windows(2).map(|pair| pair[1].sent.saturating_sub(pair[0].sent)).collect();
        steps.retain(|step| *step > 0 && *step <= left * MOST.0 / MOST.1);
        steps.sort_unstable();
        let step = steps.get(steps.len() / 2).copied();
        let spans = alike.iter().map(|stall| (stall.from, stall.to)).collect();
        // Most receivers renew it when half of it is read.
        Some(Shown { window: left + step.unwrap_or(left), step, spans })
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each with the data sent before it and left at its end.
    fn of(stalls: &[(u64, u64)]) -> Stalls {
        let mut seen = Stalls::default();
        for ((sent, left), at) in stalls.iter().zip(0..) {
            let time = f64::from(at) * 100.0;
            seen.sent(Last { time, sent: *sent, is_short: true }, || 0);
            seen.arrived();
            seen.sent(Last { time: time + 50.0, sent: sent + 1200, is_short: false }, || *left);
        }
        seen
    }

    #[test]
    fn as_much_left_on_its_way_tells_a_window() {
        let shown = |stalls: &[(u64, u64)]| of(stalls).window().map(|shown| (shown.window, shown.step));
        let half = [(40_000, 20_000), (60_000, 20_500), (80_000, 19_800)];
        assert_eq!(shown(&half), Some((40_000, Some(20_000))));
        assert_eq!(shown(&[(40_000, 20_000), (80_000, 20_000)]), Some((40_000, None)));
        // A receiver that renews an eighth.
        let eighth = [(40_000, 35_000), (45_000, 35_000), (50_000, 35_000)];
        assert_eq!(shown(&eighth), Some((40_000, Some(5_000))));
        assert_eq!(of(&half).window().unwrap().spans, [(0.0, 50.0), (100.0, 150.0), (200.0, 250.0)]);
    }

    #[test]
    fn an_application_leaves_nothing_or_anything_on_its_way() {
        assert_eq!(of(&[(40_000, 20_000)]).window(), None, "once is no rule");
        assert!(of(&[(400_000, 171_000), (700_000, 168_000)]).window().is_some());
        assert_eq!(of(&[(400_000, 171_000), (700_000, 163_000)]).window(), None, "several packets apart");
        assert_eq!(of(&[(40_000, 20_000), (60_000, 9000), (80_000, 33_000), (99_000, 14_000)]).window(), None);
        assert_eq!(of(&[(40_000, 20_000), (60_000, 20_000), (80_000, 36), (99_000, 0)]).window(), None);
        assert_eq!(of(&[]).window(), None);
    }

    #[test]
    fn only_a_short_packet_after_which_something_arrives_ends_what_may_be_sent() {
        let mut stalls = Stalls::default();
        for (at, (is_short, arrives)) in [(false, true), (true, false), (true, true), (false, false)].iter().enumerate()
        {
            stalls.sent(Last { time: at as f64, sent: at as u64, is_short: *is_short }, || 5000);
            if *arrives {
                stalls.arrived();
            }
        }
        assert_eq!(stalls.kept(), 1);
        (0..KEPT as u64 + 9).for_each(|at| {
            stalls.arrived();
            stalls.sent(Last { time: at as f64 + 9.0, sent: at, is_short: true }, || 5000);
        });
        assert_eq!(stalls.kept(), KEPT);
    }
}
