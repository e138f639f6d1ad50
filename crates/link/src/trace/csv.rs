//! A trace as a table: rate, delay and loss over time.

use thalweg_units::{Duration, Rate, parse_duration};

use super::error::TraceError;
use crate::{ConfigError, DelayModel, DirectionConfig, LossModel, Probability, RateModel, Schedule};

const EXPECTED: &str = "\"t_ms,rate_bps,delay_ms,loss\": time in ms, bits per second, one-way delay in ms, loss as a share from 0 to 1; \
                        the last two may be left out, the delay also by an empty field";

/// What a link is like from a time on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TracePoint {
    /// Time after the start of the trace.
    pub at: Duration,
    /// Rate of the link.
    pub rate: Rate,
    /// One-way delay; without one the direction keeps its own.
    pub delay: Option<Duration>,
    /// Share of packets lost.
    pub loss: Probability,
}

/// A link whose properties change at given times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvTrace {
    /// In order of time; the first at zero.
    pub points: Vec<TracePoint>,
    /// When it starts again; `None`: the last point holds for ever.
    pub period: Option<Duration>,
}

impl CsvTrace {
    /// Reads a table: `t_ms,rate_bps[,delay_ms[,loss]]` per line, numbers with decimals where the unit allows them. A
    /// header, empty lines and lines that start with `#` are skipped. With `repeat`, the last line only says when the
    /// trace starts again.
    ///
    /// # Errors
    /// When a line has another form, times do not increase from zero, or nothing (with `repeat`: only one line) is
    /// there.
    pub fn parse(text: &str, repeat: bool) -> Result<Self, TraceError> {
        let mut points: Vec<TracePoint> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            let is_header = text.starts_with("t_ms") && points.is_empty();
            if text.is_empty() || text.starts_with('#') || is_header {
                continue;
            }
            let refuse = || TraceError::Line { line, text: text.to_owned(), expected: EXPECTED };
            let point = read(text).ok_or_else(refuse)?;
            match points.last() {
                None if point.at != Duration::ZERO => {
                    return Err(TraceError::Line {
                        line,
                        text: text.to_owned(),
                        expected: "a first line with time 0: what the link is like at the start",
                    });
                }
                Some(previous) if previous.at >= point.at => {
                    let ms = |at: Duration| (at.as_nanos() as f64 / 1e6).to_string();
                    return Err(TraceError::Backwards { line, time: ms(point.at), previous: ms(previous.at) });
                }
                _ => points.push(point),
            }
        }
        let period = if repeat { points.pop().map(|last| last.at) } else { None };
        match (points.is_empty(), repeat) {
            (true, true) => {
                Err(TraceError::Empty("a trace that repeats needs at least two, the last of which ends it"))
            }
            (true, false) => Err(TraceError::Empty(EXPECTED)),
            (false, _) => Ok(CsvTrace { points, period }),
        }
    }

    /// The trace as text that [`parse`](Self::parse) reads.
    pub fn to_text(&self) -> String {
        let ms = |span: Duration| span.as_nanos() as f64 / 1e6;
        let row = |at, point: &TracePoint| {
            let delay = point.delay.map_or_else(String::new, |delay| ms(delay).to_string());
            format!("{},{},{delay},{}\n", ms(at), point.rate.bps(), point.loss)
        };
        let mut text = String::from("t_ms,rate_bps,delay_ms,loss\n");
        for point in &self.points {
            text += &row(point.at, point);
        }
        if let (Some(period), Some(last)) = (self.period, self.points.last()) {
            text += &row(period, last);
        }
        text
    }

    /// Puts the trace's rate, delay and loss in the place of a direction's.
    ///
    /// # Errors
    /// When the points are not in order.
    pub fn apply(&self, config: &mut DirectionConfig) -> Result<(), ConfigError> {
        config.rate = RateModel::Schedule(self.schedule(|point| point.rate)?);
        if self.points.iter().any(|point| point.delay.is_some()) {
            let given = config.delay.nominal();
            config.delay = DelayModel::Schedule(self.schedule(|point| point.delay.unwrap_or(given))?);
        }
        if self.points.iter().any(|point| point.loss > Probability::NEVER) {
            config.loss.push(LossModel::Schedule(self.schedule(|point| point.loss)?));
        }
        Ok(())
    }

    /// One column, without the steps at which it does not change.
    fn schedule<T: Copy + PartialEq>(&self, column: impl Fn(&TracePoint) -> T) -> Result<Schedule<T>, ConfigError> {
        let mut steps: Vec<(Duration, T)> = self.points.iter().map(|point| (point.at, column(point))).collect();
        steps.dedup_by(|later, earlier| later.1 == earlier.1);
        Schedule::new(steps, self.period)
    }
}

/// Decimals in a unit that [`parse_duration`] knows, exactly.
fn millis(text: &str) -> Option<Duration> {
    parse_duration(&format!("{text} ms")).ok()
}

fn read(line: &str) -> Option<TracePoint> {
    let mut fields = line.split(',').map(str::trim);
    let at = millis(fields.next()?)?;
    let rate = format!("{} bps", fields.next()?).parse().ok()?;
    let delay = match fields.next() {
        None | Some("") => None,
        Some(text) => Some(millis(text)?),
    };
    let loss = fields.next().map_or(Ok(Probability::NEVER), |text| {
        text.parse::<f64>().map_err(|_| ConfigError::Probability(text.to_owned())).and_then(Probability::new)
    });
    if fields.next().is_some() {
        return None;
    }
    Some(TracePoint { at, rate, delay, loss: loss.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_table_becomes_schedules() {
        let text =
            "t_ms,rate_bps,delay_ms,loss\n# comment\n0,1000000,20,0\n1500.5,2000000,20.25,0.01\n3000,0,20.25,0\n";
        let trace = CsvTrace::parse(text, false).unwrap();
        assert_eq!(trace.points[1].at, Duration::from_micros(1_500_500));
        assert_eq!(trace.points[1].delay, Some(Duration::from_micros(20_250)));
        let mut config = DirectionConfig::default();
        trace.apply(&mut config).unwrap();
        let RateModel::Schedule(rate) = &config.rate else { panic!("{config:?}") };
        assert_eq!(rate.at(1600 * MS).0, Rate::from_bps(2_000_000));
        let DelayModel::Schedule(delay) = &config.delay else { panic!("{config:?}") };
        assert_eq!(delay.values().count(), 2, "steps without a change are left out");
        assert!(matches!(&config.loss[..], [LossModel::Schedule(_)]));
        assert_eq!(CsvTrace::parse(&trace.to_text(), false).unwrap(), trace);
    }

    #[test]
    fn without_a_column_of_delays_the_direction_keeps_its_own() {
        let trace = CsvTrace::parse("0,1000000\n1000,2000000\n", false).unwrap();
        let mut config = DirectionConfig { delay: DelayModel::Constant(10 * MS), ..DirectionConfig::default() };
        trace.apply(&mut config).unwrap();
        assert_eq!(config.delay.nominal(), 10 * MS);
        let partly = CsvTrace::parse("0,1000000,,0\n1000,2000000,30,0\n", false).unwrap();
        partly.apply(&mut config).unwrap();
        assert_eq!((config.delay.nominal(), config.delay.shortest()), (10 * MS, 10 * MS));
        assert_eq!(CsvTrace::parse(&partly.to_text(), false).unwrap(), partly);
    }

    #[test]
    fn a_repeating_table_ends_with_its_last_line() {
        let trace = CsvTrace::parse("0,1000\n1000,2000\n5000,9\n", true).unwrap();
        assert_eq!((trace.points.len(), trace.period), (2, Some(5000 * MS)));
        assert_eq!(CsvTrace::parse(&trace.to_text(), true).unwrap(), trace);
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, needles) in [
            ("0,1000\n10\n", vec!["line 2", "rate_bps"]),
            ("0,fast\n", vec!["line 1"]),
            ("0,1000,20,1.5\n", vec!["line 1", "from 0 to 1"]),
            ("0,1000,20,0,7\n", vec!["line 1"]),
            ("5,1000\n", vec!["line 1", "time 0"]),
            ("0,1000\n7,1000\n7,1000\n", vec!["line 3", "7 ms"]),
            ("t_ms,rate_bps\n", vec!["no lines"]),
        ] {
            let message = CsvTrace::parse(text, false).unwrap_err().to_string();
            for needle in needles {
                assert!(message.contains(needle), "{text:?}: {message}");
            }
        }
        assert!(CsvTrace::parse("0,1000\n", true).is_err());
    }
}
