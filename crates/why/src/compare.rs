//! Compares two transfers: which of their differences made one of them slower.

use serde::Serialize;
use thalweg_units::{DurationExt, Rate, human_duration};

use crate::answer::{Answer, WhyError};
use crate::cause::Cause;
use crate::world::World;

/// What two transfers can differ in.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Part {
    /// The bottleneck: its rate and its queue.
    Bottleneck,
    /// The round trip.
    RoundTrip,
    /// Packets lost by chance.
    ChanceLoss,
    /// Packets that come out of order.
    Reordering,
    /// Outages and suspensions.
    Interruption,
    /// The receiver's credit.
    ReceiveWindow,
    /// The application's pauses.
    Application,
    /// A rate that was set.
    RateLimit,
    /// The sender's rules, its first window and its largest packet.
    Rules,
    /// A policer.
    Policer,
    /// A drop of the path's MTU.
    BlackHole,
    /// How late the sender's host is.
    BusyHost,
}

/// Differences smaller than this share of the faster one's time are none.
const ALIKE: f64 = 0.05;
/// Parts with a smaller share of the difference are not told.
const LITTLE: f64 = 0.05;
/// Sizes that differ by more than this are not of the same transfer.
const SAME_SIZE: f64 = 1.1;

impl Part {
    /// Every part.
    pub const ALL: [Part; 12] = [
        Part::Bottleneck,
        Part::RoundTrip,
        Part::ChanceLoss,
        Part::Reordering,
        Part::Interruption,
        Part::ReceiveWindow,
        Part::Application,
        Part::RateLimit,
        Part::Rules,
        Part::Policer,
        Part::BlackHole,
        Part::BusyHost,
    ];

    /// The name, as the middle of a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Bottleneck => "the bottleneck",
            Part::RoundTrip => "the round trip",
            Part::ChanceLoss => Cause::ChanceLoss.name(),
            Part::Reordering => "reordering",
            Part::Interruption => Cause::Interruption.name(),
            Part::ReceiveWindow => Cause::ReceiveWindow.name(),
            Part::Application => "pauses of the application",
            Part::RateLimit => Cause::RateLimit.name(),
            Part::Rules => "the sender's rules",
            Part::Policer => Cause::Policer.name(),
            Part::BlackHole => Cause::BlackHole.name(),
            Part::BusyHost => Cause::BusyHost.name(),
        }
    }

    /// `world` with this part of `other`.
    #[must_use]
    pub fn of(self, other: &World, world: &World) -> World {
        let (mut world, other) = (world.clone(), other.clone());
        match self {
            Part::Bottleneck => {
                (world.path.rate, world.path.back, world.path.queue) =
                    (other.path.rate, other.path.back, other.path.queue);
                world.path.per_ack = other.path.per_ack;
            }
            Part::RoundTrip => world.path.round_trip = other.path.round_trip,
            Part::ChanceLoss => (world.path.loss, world.path.lost) = (other.path.loss, other.path.lost),
            Part::Reordering => (world.path.reorder, world.path.late) = (other.path.reorder, other.path.late),
            Part::Interruption => {
                (world.path.outages, world.path.suspensions) = (other.path.outages, other.path.suspensions);
            }
            Part::ReceiveWindow => world.credit = other.credit,
            Part::Application => (world.load.pieces, world.load.pause) = (other.load.pieces, other.load.pause),
            Part::RateLimit => world.sender.max_rate = other.sender.max_rate,
            Part::Rules => {
                let (max_rate, host) = (world.sender.max_rate, world.sender.host);
                world.sender = crate::world::Sender { max_rate, host, ..other.sender };
            }
            Part::Policer => world.path.policer = other.path.policer,
            Part::BlackHole => world.path.mtu = other.path.mtu,
            Part::BusyHost => world.sender.host = other.sender.host,
        }
        world
    }

    /// What it is in both, where a figure tells.
    fn figures(self, a: &World, b: &World) -> String {
        let rounded = crate::words::rounded;
        match self {
            Part::Bottleneck => format!(" ({}, not {})", rounded(b.path.rate), rounded(a.path.rate)),
            Part::RoundTrip => {
                format!(" ({}, not {})", human_duration(b.path.round_trip), human_duration(a.path.round_trip))
            }
            Part::RateLimit => {
                let rate = |rate: Option<Rate>| rate.map_or("none".to_owned(), |rate| rounded(rate).to_string());
                format!(" ({}, not {})", rate(b.sender.max_rate), rate(a.sender.max_rate))
            }
            _ => String::new(),
        }
    }
}

/// The shares of the difference between two transfers.
///
/// Each part of the one is put into the other, and the other way round: what that changes, by the mean of both, is what
/// the part makes of the difference. The shares need not add up to a whole.
///
/// # Errors
/// When a path cannot be run.
pub fn differences(a: &World, b: &World) -> Result<Vec<(Part, f64)>, WhyError> {
    let seconds =
        |world: &World| -> Result<Option<f64>, WhyError> { Ok(world.run(None)?.map(|time| time.nanos() as f64 / 1e9)) };
    let (Some(with_a), Some(with_b)) = (seconds(a)?, seconds(b)?) else { return Ok(Vec::new()) };
    let mut list = Vec::new();
    for part in Part::ALL {
        let (to_b, to_a) = (part.of(b, a), part.of(a, b));
        if to_b == *a {
            continue;
        }
        let changes = [seconds(&to_b)?.map(|time| time - with_a), seconds(&to_a)?.map(|time| with_b - time)];
        let changes: Vec<f64> = changes.into_iter().flatten().collect();
        if !changes.is_empty() {
            let mean = changes.iter().sum::<f64>() / changes.len() as f64;
            list.push((part, mean / (with_b - with_a)));
        }
    }
    list.retain(|(_, share)| share.is_finite());
    list.sort_by(|x, y| y.1.total_cmp(&x.1));
    Ok(list)
}

/// Two transfers beside each other.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// What is to be said.
    pub sentence: String,
    /// The time that the second took, as a multiple of that of the first.
    pub ratio: f64,
    /// Shares of the difference, largest first; empty where they cannot be told.
    pub parts: Vec<(Part, f64)>,
}

impl Answer {
    /// What made `other` slower, or faster, than this.
    ///
    /// # Errors
    /// When a path cannot be run.
    pub fn compare(&self, other: &Answer) -> Result<Comparison, WhyError> {
        let (a, b) = (self.completion.as_secs_f64().max(1e-9), other.completion.as_secs_f64().max(1e-9));
        let ratio = b / a;
        let times = format!("{}, not {}", human_duration(other.completion), human_duration(self.completion));
        let none = |sentence: String| Ok(Comparison { sentence, ratio, parts: Vec::new() });
        let sizes = (self.world.load.bytes as f64, other.world.load.bytes as f64);
        if sizes.0.max(sizes.1) > SAME_SIZE * sizes.0.min(sizes.1) || self.world.load.is_up != other.world.load.is_up {
            return none(
                "The two logs are not of the same transfer: other sizes or directions; they are not compared."
                    .to_owned(),
            );
        }
        if (ratio - 1.0).abs() < ALIKE {
            return none(format!("B took as long as A: {times}."));
        }
        let long = if ratio >= 1.0 { format!("{ratio:.1} × as long") } else { format!("{ratio:.2} × as long") };
        if !self.is_reproduced() || !other.is_reproduced() {
            let which = if self.is_reproduced() { "B" } else { "A" };
            return none(format!(
                "B took {long}: {times}. Cannot tell why: what can be read off {which}, run again, differs from the log."
            ));
        }
        let (with_a, with_b) = self.aligned(other);
        let parts = differences(&with_a, &with_b)?;
        let worth = parts.iter().filter(|(_, share)| *share >= LITTLE).take(3);
        let list: Vec<String> = worth
            .enumerate()
            .map(|(at, (part, share))| {
                let of = if at == 0 { " of the difference is" } else { "" };
                format!("{:.0} %{of} {}{}", share * 100.0, part.name(), part.figures(&with_a, &with_b))
            })
            .collect();
        let sentence = if list.is_empty() {
            format!("B took {long}: {times}. No single difference between the two explains it.")
        } else {
            format!("B took {long}: {}. {times}.", list.join(", "))
        };
        Ok(Comparison { sentence, ratio, parts })
    }

    /// Both worlds, where a rate that never showed is that of the other log if it may be.
    fn aligned(&self, other: &Answer) -> (World, World) {
        let (mut a, mut b) = (self.world.clone(), other.world.clone());
        let of =
            |answer: &Answer| answer.reading.unknown_rate.unwrap_or((answer.world.path.rate, answer.world.path.rate));
        let ((low_a, high_a), (low_b, high_b)) = (of(self), of(other));
        let (low, high) = (low_a.max(low_b), high_a.min(high_b));
        let is_open = self.reading.unknown_rate.is_some() || other.reading.unknown_rate.is_some();
        if is_open && low <= high {
            let rate = match (self.reading.unknown_rate, other.reading.unknown_rate) {
                (None, _) => a.path.rate,
                (_, None) => b.path.rate,
                _ => a.path.rate.max(b.path.rate).max(low).min(high),
            };
            (a, b) = (self.reading.with_rate(&a, rate), other.reading.with_rate(&b, rate));
            // A queue that never filled is as little known.
            let queue = a.path.queue.max(b.path.queue);
            (a.path.queue, b.path.queue, a.path.back, b.path.back) = (queue, queue, rate, rate);
        }
        (a, b)
    }
}
