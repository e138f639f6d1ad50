//! Axes: from values to positions, linear or logarithmic, with round ticks that fit.

use std::collections::BTreeSet;

use thalweg_units::math;

use super::ink::{Anchor, Ink, text_width};
use crate::metric::{Unit, format_to};

/// How a value reads on an axis.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// With its unit.
    Unit(Unit),
    /// As a multiple of a reference: "1.5 ×".
    Times,
}

impl Reading {
    pub fn say(self, value: f64) -> String {
        self.say_with(value, 0)
    }

    /// With so many more digits than usual.
    fn say_with(self, value: f64, more: usize) -> String {
        match self {
            Reading::Unit(unit) => format_to(value, unit, 4 + more),
            Reading::Times => format!("{} ×", format_to(rounded(value, 3 + more), Unit::Ratio, 4 + more)),
        }
    }

    /// Values of one axis, with as many digits as tell those that differ apart.
    pub(super) fn say_all(self, values: &[f64]) -> Vec<String> {
        /// More would be noise of the arithmetic.
        const MOST: usize = 8;
        let mut values_apart = values.to_vec();
        values_apart.sort_unstable_by(f64::total_cmp);
        values_apart.dedup();
        let say = |more: usize| values.iter().map(|value| self.say_with(*value, more)).collect::<Vec<_>>();
        let is_clear = |texts: &[String]| texts.iter().collect::<BTreeSet<_>>().len() == values_apart.len();
        (0..MOST).map(say).find(|texts| is_clear(texts)).unwrap_or_else(|| say(MOST))
    }
}

/// So many significant digits: three tell ratios apart at a glance.
fn rounded(value: f64, digits: usize) -> f64 {
    let size = value.abs();
    if !(1e-6..1e6).contains(&size) {
        return value;
    }
    let whole = (1..digits).fold(1.0, |power, _| power * 10.0);
    let mut unit = 1.0;
    while unit * whole > size {
        unit /= 10.0;
    }
    while unit * whole * 10.0 <= size {
        unit *= 10.0;
    }
    // Divided rather than multiplied below 1, so that 0.93 is 0.93.
    if unit < 1.0 { (value / unit).round() / (1.0 / unit).round() } else { (value / unit).round() * unit }
}

/// Maps values to positions.
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Position of `low` and of `high`.
    pub(super) span: (f64, f64),
    pub(super) log: bool,
    pub(super) ticks: Vec<f64>,
    pub(super) reading: Reading,
}

/// Values that span more than this factor are drawn on a logarithmic axis.
const LOGARITHMIC: f64 = 12.0;

impl Scale {
    /// An axis over all finite values; none if there are none. `must` are values that it has to show.
    pub(super) fn new(
        values: impl Iterator<Item = f64>,
        must: &[f64],
        span: (f64, f64),
        reading: Reading,
    ) -> Option<Scale> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut any = false;
        let mut smallest = f64::INFINITY;
        for value in values.filter(|value| value.is_finite()) {
            (low, high, any) = (low.min(value), high.max(value), true);
            if value > 0.0 {
                smallest = smallest.min(value);
            }
        }
        if !any {
            return None;
        }
        for value in must {
            (low, high) = (low.min(*value), high.max(*value));
        }
        // Of ratios half and double are as far from 1.
        let wide = if reading == Reading::Times { 1.2 } else { LOGARITHMIC };
        if low > 0.0 && high / low > wide {
            return Some(Scale::logarithmic(low.min(smallest), high, span, reading));
        }
        // From zero, unless that would press everything into the last part of the picture.
        if low > 0.0 && low < high * 0.5 && reading != Reading::Times {
            low = 0.0;
        }
        if high - low <= high.abs() * 1e-9 {
            let around = if high == 0.0 { 1.0 } else { high.abs() * 0.1 };
            (low, high) = (low - around, high + around);
        }
        let room = ((span.1 - span.0).abs() / if span.0 > span.1 { 34.0 } else { 84.0 }).clamp(2.0, 8.0);
        let step = round_step((high - low) / room);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let ticks = (0..=(last - first) as usize).map(|at| (first + at as f64) * step).collect();
        Some(Scale { low: first * step, high: last * step, span, log: false, ticks, reading })
    }

    fn logarithmic(low: f64, high: f64, span: (f64, f64), reading: Reading) -> Scale {
        let decades = math::ln(high / low) / core::f64::consts::LN_10;
        let steps: &[f64] = match decades {
            decades if decades > 5.0 => &[1.0],
            decades if decades > 2.5 => &[1.0, 3.0],
            decades if decades > 0.8 => &[1.0, 2.0, 5.0],
            decades if decades > 0.3 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            _ => &[
                1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.2, 2.5, 3.0, 4.0, 5.0, 6.0,
                7.0, 8.0, 8.5, 9.0, 9.5,
            ],
        };
        let mut power = 1.0;
        while power > low {
            power /= 10.0;
        }
        while power * 10.0 <= low {
            power *= 10.0;
        }
        let mut all = Vec::new();
        // The second decade beyond is there so that the end is found.
        while power <= high * 10.0 && all.len() < 1_000 {
            all.extend(steps.iter().map(|step| step * power));
            power *= 10.0;
        }
        let first = all.iter().rposition(|tick| *tick <= low * 1.000_001).unwrap_or(0);
        let last = all.iter().position(|tick| *tick >= high * 0.999_999).unwrap_or(all.len() - 1);
        let ticks = all[first..=last].to_vec();
        // As close as the ticks allow, without a large empty stretch before the first value.
        let (low, high) = ((low / 1.12).max(ticks[0]), (high * 1.12).min(ticks[ticks.len() - 1]));
        let ticks = ticks.into_iter().filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001).collect();
        Scale { low, high, span, log: true, ticks, reading }
    }

    /// The position of a value, within the span.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.log {
            math::ln(value / self.low) / math::ln(self.high / self.low)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.span.0 + share * (self.span.1 - self.span.0)
    }

    /// Draws the ticks of a horizontal axis, as many as fit, with lines from `top` to `bottom`, and its title.
    pub(super) fn draw_below(&self, ink: &mut Ink, (top, bottom): (f64, f64), title: &str) {
        let (left, right) = self.span;
        let mut free = f64::NEG_INFINITY;
        for (tick, text) in self.ticks.iter().zip(self.reading.say_all(&self.ticks)) {
            let x = self.at(*tick);
            ink.line("grid", (x, top), (x, bottom));
            let half = text_width(&text) / 2.0;
            if x - half > free {
                ink.text("tick", (x, bottom + 16.0), Anchor::Middle, &text);
                free = x + half + 8.0;
            }
        }
        if !title.is_empty() {
            ink.text("axis", ((left + right) / 2.0, bottom + 35.0), Anchor::Middle, title);
        }
    }

    /// Draws the ticks of a vertical axis, with lines from `left` to `right`.
    pub(super) fn draw_left(&self, ink: &mut Ink, (left, right): (f64, f64)) {
        let mut free = f64::INFINITY;
        for (tick, text) in self.ticks.iter().zip(self.reading.say_all(&self.ticks)) {
            let y = self.at(*tick);
            ink.line("grid", (left, y), (right, y));
            if y < free {
                ink.text("tick", (left - 7.0, y + 4.0), Anchor::End, &text);
                free = y - 15.0;
            }
        }
    }

    /// How wide the texts of the ticks are.
    pub(super) fn widest(&self) -> f64 {
        self.reading.say_all(&self.ticks).iter().map(|text| text_width(text)).fold(0.0, f64::max)
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `raw`.
fn round_step(raw: f64) -> f64 {
    let mut power = 1.0;
    while power > raw {
        power /= 10.0;
    }
    while power * 10.0 <= raw {
        power *= 10.0;
    }
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw).unwrap_or(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(values: &[f64]) -> Scale {
        Scale::new(values.iter().copied(), &[], (100.0, 800.0), Reading::Unit(Unit::Ratio)).unwrap()
    }

    #[test]
    fn steps_are_round() {
        for (raw, step) in [(0.7, 1.0), (1.0, 1.0), (1.1, 2.0), (3.0, 5.0), (6.0, 10.0), (0.03, 0.05), (1200.0, 2000.0)]
        {
            assert!((round_step(raw) - step).abs() < step * 1e-9, "{raw}: {}", round_step(raw));
        }
    }

    #[test]
    fn every_value_lies_within_the_axis_and_in_order() {
        for values in [
            &[1.0, 2.0, 3.0][..],
            &[0.001, 5.0, 1e6],
            &[0.0, 0.0],
            &[-3.0, 4.0],
            &[5.0],
            &[0.9, 1.2, 3.1, 20.0],
            &[1e-9, 1e12],
        ] {
            let scale = scale(values);
            let mut at: Vec<f64> = values.iter().map(|value| scale.at(*value)).collect();
            assert!(at.iter().all(|x| (100.0..=800.0).contains(x)), "{values:?}: {at:?}");
            assert!(at.is_sorted());
            at.dedup();
            let mut different = values.to_vec();
            different.dedup();
            assert_eq!(at.len(), different.len(), "{values:?}: {at:?}");
            assert!((2..=24).contains(&scale.ticks.len()), "{values:?}: {:?}", scale.ticks);
        }
    }

    #[test]
    fn no_two_ticks_read_alike() {
        let ranges =
            [(14.2801, 14.2809), (0.0, 3e-9), (1.0, 1.0001), (99_990.5, 99_991.0), (14.28, 14.28), (1e9, 1e9 + 9.0)];
        for (low, high) in ranges {
            for unit in [Unit::Seconds, Unit::Bytes, Unit::BitsPerSecond, Unit::Share, Unit::Ratio, Unit::Count] {
                for reading in [Reading::Unit(unit), Reading::Times] {
                    let scale = Scale::new([low, high].into_iter(), &[], (0.0, 800.0), reading).unwrap();
                    let mut texts = reading.say_all(&scale.ticks);
                    let count = texts.len();
                    texts.sort();
                    texts.dedup();
                    assert_eq!(texts.len(), count, "{reading:?} {low} {high}: {texts:?}");
                }
            }
        }
        assert_eq!(Reading::Unit(Unit::Seconds).say_all(&[14.28, 14.281]), ["14.28 s", "14.281 s"]);
        assert_eq!(Reading::Times.say_all(&[0.93, 1.0, 1.5]), ["0.93 ×", "1 ×", "1.5 ×"]);
    }

    #[test]
    fn what_spans_decades_is_logarithmic() {
        assert!(!scale(&[1.0, 10.0]).log && scale(&[1.0, 13.0]).log && !scale(&[0.0, 1000.0]).log);
    }

    #[test]
    fn nothing_finite_has_no_axis() {
        assert!(Scale::new([f64::INFINITY, f64::NAN].into_iter(), &[], (0.0, 1.0), Reading::Times).is_none());
    }
}
