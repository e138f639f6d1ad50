//! The BBR of a foreign stack, as far as the stack shows it: phases, and the bandwidth that it goes by.
//!
//! quinn-proto and noq-proto show the state of a controller in its `Debug` form, quiche the names of phases in its qlog
//! and the bandwidth in its statistics. Whatever they do not show is not measured
//! ([`Figure`](thalweg_sim::Figure)), rather than taken for zero.

use std::fmt;

use thalweg_recovery::ModelStats;
use thalweg_units::Rate;

/// A phase by the names of draft-ietf-ccwg-bbr section 5.3.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// What a look at a controller has shown.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Look {
    pub(crate) phase: Phase,
    /// The bandwidth of the path, and what is made of it for the time being.
    pub(crate) bandwidth: Rate,
    pub(crate) current: Rate,
    /// Packets or bytes declared lost so far.
    pub(crate) lost: u64,
    /// Bytes in flight, and what the path holds, if both are shown.
    pub(crate) in_flight: Option<(u64, u64)>,
    /// The controller says that the path is full, if it says so.
    pub(crate) is_full: Option<bool>,
    /// Bytes acknowledged ahead of the bandwidth.
    pub(crate) extra: u64,
    /// The bound that loss has taught.
    pub(crate) bound: Option<u64>,
}

/// Looks at a controller again and again, and counts what has happened in between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    stats: ModelStats,
    phase: Option<Phase>,
    /// What had been declared lost when the phase began.
    lost_before: u64,
    /// The path had been found full in this phase.
    was_full: bool,
}

impl Watch {
    pub(crate) fn stats(&self) -> Option<ModelStats> {
        self.phase.map(|_| self.stats)
    }

    /// Sees phases that have followed each other since the last look, and the bandwidth now; the phase of before, if
    /// there was none.
    #[cfg(feature = "quiche")]
    pub(crate) fn see_all(&mut self, phases: &[Phase], bandwidth: Rate, lost: u64) {
        let latest = self.phase.into_iter().filter(|_| phases.is_empty());
        for phase in phases.iter().copied().chain(latest) {
            let (in_flight, is_full, extra, bound) = (None, None, 0, None);
            self.see(Look { phase, bandwidth, current: bandwidth, lost, in_flight, is_full, extra, bound });
        }
    }

    pub(crate) fn see(&mut self, look: Look) {
        self.stats.bandwidth = look.bandwidth;
        if let Some(bound) = look.bound {
            self.stats.inflight_bound = bound;
        }
        let has_started = self.stats.start_bandwidth > Rate::ZERO;
        if has_started && look.current > Rate::ZERO {
            self.stats.most_extra = self.stats.most_extra.max(look.extra);
            let least = self.stats.least_bandwidth;
            self.stats.least_bandwidth = if least == Rate::ZERO { look.current } else { least.min(look.current) };
        }
        if self.phase != Some(look.phase) {
            if let Some(left) = self.phase {
                self.leave(left, &look);
            }
            self.enter(look.phase);
            (self.phase, self.lost_before, self.was_full) = (Some(look.phase), look.lost, false);
        }
        self.was_full |= look.is_full == Some(true);
    }

    fn enter(&mut self, phase: Phase) {
        let stats = &mut self.stats;
        *match phase {
            Phase::Startup => &mut stats.startups,
            Phase::Drain => &mut stats.drains,
            Phase::Down => &mut stats.downs,
            Phase::Cruise => &mut stats.cruises,
            Phase::Refill => &mut stats.refills,
            Phase::Up => &mut stats.ups,
            Phase::ProbeRtt => &mut stats.rtt_probes,
        } += 1;
    }

    /// A phase in which something was declared lost was ended by loss, unless the path had been found full in it.
    fn leave(&mut self, left: Phase, look: &Look) {
        let by_loss = look.lost > self.lost_before && !self.was_full && look.is_full != Some(true);
        let stats = &mut self.stats;
        match (left, look.phase) {
            (Phase::Startup, Phase::Drain | Phase::Down) => {
                stats.startups_ended_by_loss += u64::from(by_loss || look.bound.is_some());
                stats.start_bandwidth = look.bandwidth;
            }
            (Phase::Drain, Phase::Down | Phase::Cruise) => {
                let is_late = look.in_flight.is_some_and(|(in_flight, held)| in_flight > held);
                stats.drains_ended_by_time += u64::from(is_late);
            }
            (Phase::Down, Phase::Refill | Phase::Up) => stats.downs_ended_by_time += 1,
            (Phase::Up, Phase::Down | Phase::Cruise) if by_loss => stats.ups_ended_by_loss += 1,
            (Phase::Up, Phase::Down | Phase::Cruise) => stats.ups_ended_by_plateau += 1,
            _ => {}
        }
    }
}

/// The `Debug` form of a controller up to a field that is not wanted any more.
pub(crate) struct Shown {
    text: String,
    /// The name of the field to stop at.
    end: &'static str,
}

impl Shown {
    /// What `value` shows before the field `end`.
    pub(crate) fn of(value: &dyn fmt::Debug, end: &'static str) -> Shown {
        let mut shown = Shown { text: String::new(), end };
        // Fails where it is set to.
        let _ = fmt::write(&mut shown, format_args!("{value:?}"));
        shown
    }

    /// The value of a field, the first of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut rest = self.text.as_str();
        loop {
            let at = rest.find(name)?;
            let (before, after) = (&rest[..at], &rest[at + name.len()..]);
            if let (true, Some(value)) = (before.ends_with([' ', '{']), after.strip_prefix(": ")) {
                let end = value.find([',', '}']).unwrap_or(value.len());
                return Some(value[..end].trim());
            }
            rest = after;
        }
    }

    /// The same as a number, bytes per second say; fractions are cut off.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        // Casts of floats saturate.
        self.field(name)?.parse::<f64>().ok().map(|value| value as u64)
    }
}

impl fmt::Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text == self.end {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// A rate from bytes per second.
pub(crate) fn rate(bytes_per_second: u64) -> Rate {
    Rate::from_bps(bytes_per_second.saturating_mul(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[allow(dead_code)] // shown
    struct Controller {
        mode: Option<&'static str>,
        bw: f64,
        full_bw: f64,
        packets: Vec<u32>,
        late: u64,
    }

    #[test]
    fn fields_are_read_up_to_the_end() {
        let controller = Controller { mode: Some("Up"), bw: 1.5e6, full_bw: 7.0, packets: vec![1], late: 3 };
        let shown = Shown::of(&controller, "packets");
        assert_eq!(shown.field("mode"), Some("Some(\"Up\")"));
        assert_eq!((shown.number("bw"), shown.number("full_bw")), (Some(1_500_000), Some(7)));
        assert_eq!((shown.number("packets"), shown.number("late")), (None, None));
    }

    fn look(phase: Phase, lost: u64) -> Look {
        let bandwidth = rate(1_000);
        Look {
            phase,
            bandwidth,
            current: bandwidth,
            lost,
            in_flight: Some((10, 20)),
            is_full: Some(false),
            extra: 0,
            bound: None,
        }
    }

    #[test]
    fn phases_are_counted_when_they_begin_and_judged_when_they_end() {
        let mut watch = Watch::default();
        assert_eq!(watch.stats(), None);
        for look in [
            look(Phase::Startup, 0),
            look(Phase::Startup, 0),
            Look { in_flight: Some((30, 20)), ..look(Phase::Drain, 0) },
            Look { in_flight: Some((30, 20)), ..look(Phase::Down, 0) },
            look(Phase::Cruise, 0),
            look(Phase::Refill, 0),
            look(Phase::Up, 0),
            look(Phase::Down, 2),
            look(Phase::Refill, 2),
            Look { is_full: Some(true), ..look(Phase::Up, 2) },
            look(Phase::Down, 3),
        ] {
            watch.see(look);
        }
        let stats = watch.stats().unwrap();
        assert_eq!((stats.startups, stats.startups_ended_by_loss), (1, 0));
        assert_eq!((stats.drains, stats.drains_ended_by_time), (1, 1));
        assert_eq!((stats.downs, stats.downs_ended_by_time, stats.cruises, stats.refills), (3, 1, 1, 2));
        assert_eq!((stats.ups, stats.ups_ended_by_loss, stats.ups_ended_by_plateau), (2, 1, 1));
        assert_eq!(stats.start_bandwidth, rate(1_000));
    }
}
