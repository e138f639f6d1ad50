//! Requests one after the other on one connection, with pauses or as bursts.

use thalweg_link::read::{Field, Table};
use thalweg_link::{Dice, Spread, Streams};
use thalweg_units::{Duration, Instant};

use super::kind::{Clients, Described, Needs, ReadContext, TrafficKey, TrafficKind, one};
use super::size::Size;
use crate::app::{Client, Job, Jobs};

/// One request after the other on one connection; with random sizes and pauses this is on-off traffic.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Requests {
    /// How many.
    pub count: u64,
    /// Bytes of a request.
    pub request: Size,
    /// Bytes of a response.
    pub response: Size,
    /// Time from the end of a response to the next request.
    pub think: Spread,
}

impl TrafficKind for Requests {
    fn check(&self) -> Result<(), &'static str> {
        if self.count == 0 { Err("needs a count above zero") } else { Ok(()) }
    }

    fn responses(&self) -> u64 {
        self.count
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.count.saturating_mul(self.request.typical().saturating_add(self.response.typical())))
    }

    fn metrics(&self) -> &'static [&'static str] {
        RESPONSE
    }

    fn main_metric(&self) -> &'static str {
        "response"
    }

    fn clients(&self, streams: &Streams) -> Clients {
        let (plan, streams) = (*self, streams.clone());
        one(move || {
            let dice = ["request sizes", "response sizes", "think times"].map(|name| streams.dice(name));
            Client::new(Sequence { plan, left: plan.count, next: Some(Instant::ZERO), dice })
        })
    }
}

/// The metrics of traffic that is answered by responses.
pub(super) const RESPONSE: &[&str] = &["response"];

impl Described for Requests {
    const NEEDS: Needs = Needs::Streams;
    const KEYS: &'static [TrafficKey<Self>] = &[
        TrafficKey {
            name: "requests",
            example: r#"{ request = "500 B", response = "20 kB", count = 50 }"#,
            doc: r#"one request after the other on one connection, count of them: request (default "500 B") and response
                  are their bytes, think (default none) the time from a response to the next request"#,
            metrics: RESPONSE,
            read,
        },
        TrafficKey {
            name: "on_off",
            example: r#"{ burst = "1 MB", pause = "500 ms", count = 10 }"#,
            doc: r#"count responses of burst bytes, and a pause after each; pauses are "regular" (default), "poisson" or
                  "uniform""#,
            metrics: RESPONSE,
            read: read_on_off,
        },
    ];
}

fn read(table: &dyn Table, _: &ReadContext<'_>) -> Option<Vec<Requests>> {
    let request = table.get("request").map_or(Some(500), |field| field.size());
    let response = table.need("response", "\"20 kB\"").and_then(|field| field.size());
    let count = table.need("count", "50").and_then(|field| field.count(1..=10_000_000));
    let think = table.get("think").map_or(Some(Duration::ZERO), |field| field.duration());
    let (request, response) = (Size::Fixed(request?), Size::Fixed(response?));
    Some(vec![Requests { count: count?, request, response, think: Spread::Fixed(think?) }])
}

/// Bytes of the requests of on-off traffic.
const BURST_REQUEST: u64 = 100;

fn read_on_off(table: &dyn Table, _: &ReadContext<'_>) -> Option<Vec<Requests>> {
    let burst = table.need("burst", "\"1 MB\"").and_then(|field| field.size());
    let pause = table.need("pause", "\"500 ms\"").and_then(|field| field.duration());
    let count = table.need("count", "10").and_then(|field| field.count(1..=1_000_000));
    let pauses = table.get("pauses").map_or(Some(Spread::Fixed as Distances), |field| distances(&*field));
    let (request, response) = (Size::Fixed(BURST_REQUEST), Size::Fixed(burst?));
    Some(vec![Requests { count: count?, request, response, think: pauses?(pause?) }])
}

/// Makes a distribution of times from their mean.
pub(super) type Distances = fn(Duration) -> Spread;

/// How times are distributed.
pub(super) fn distances(field: &dyn Field) -> Option<Distances> {
    let uniform: Distances = |mean| Spread::Uniform(Duration::ZERO, mean * 2);
    field.choice(&[("poisson", Spread::Exponential as Distances), ("uniform", uniform), ("regular", Spread::Fixed)])
}

/// Each request follows the end of the response before it.
struct Sequence {
    plan: Requests,
    left: u64,
    next: Option<Instant>,
    dice: [Dice; 3],
}

impl Jobs for Sequence {
    fn take(&mut self, now: Instant) -> Option<Job> {
        self.next.filter(|at| *at <= now)?;
        // The next one follows the end of this one.
        self.next = None;
        self.left -= 1;
        let (request, response) =
            (self.plan.request.draw(&mut self.dice[0]), self.plan.response.draw(&mut self.dice[1]));
        Some(Job { number: 0, request, response })
    }

    fn done(&mut self, now: Instant, _: Job) {
        if self.left > 0 {
            self.next = Some(now + self.plan.think.draw(&mut self.dice[2]));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.next
    }

    fn is_empty(&self) -> bool {
        self.next.is_none()
    }
}
