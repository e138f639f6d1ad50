//! Short flows: downloads that do not wait for each other.

use thalweg_link::read::{Table, Value};
use thalweg_link::{Dice, Spread, Streams};
use thalweg_units::{Instant, math};

use super::kind::{Clients, Described, Needs, ReadContext, TrafficKey, TrafficKind, one};
use super::requests::{Distances, distances};
use super::size::Size;
use crate::app::{App, Client, Job, Jobs, Once};

/// Many downloads that do not wait for each other.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Flows {
    /// How many.
    pub count: u64,
    /// Time from one start to the next (exponential for Poisson arrivals).
    pub arrivals: Spread,
    /// Bytes of a download; `u64::MAX` for one without end.
    pub size: Size,
    /// Each on a connection of its own, rather than all as streams of one.
    pub new_connections: bool,
}

impl TrafficKind for Flows {
    fn check(&self) -> Result<(), &'static str> {
        if self.count == 0 { Err("needs a count above zero") } else { Ok(()) }
    }

    fn is_endless(&self) -> bool {
        self.size == Size::Fixed(u64::MAX)
    }

    fn responses(&self) -> u64 {
        if self.is_endless() { 0 } else { self.count }
    }

    fn bytes(&self) -> Option<u64> {
        (!self.is_endless()).then(|| self.count.saturating_mul(self.size.typical()))
    }

    fn metrics(&self) -> &'static [&'static str] {
        METRICS
    }

    fn main_metric(&self) -> &'static str {
        "flow_completion"
    }

    fn clients(&self, streams: &Streams) -> Clients {
        let (plan, streams) = (*self, streams.clone());
        let dice = move || ["arrivals", "sizes"].map(|name| streams.dice(name));
        if !self.new_connections {
            let first = Some(Instant::ZERO);
            return one(move || Client::new(Arrivals { plan, left: plan.count, next: first, dice: dice() }));
        }
        let [mut arrivals, mut sizes] = dice();
        let mut left = plan.count;
        Box::new(move |now| {
            left = left.saturating_sub(1);
            let next = (left > 0).then(|| now + plan.arrivals.draw(&mut arrivals));
            let app: Box<dyn App> = Box::new(Client::new(Once::new(0, plan.size.draw(&mut sizes))));
            (app, next)
        })
    }
}

const METRICS: &[&str] = &["flow_completion"];

impl Described for Flows {
    const NEEDS: Needs = Needs::Streams;
    const KEYS: &'static [TrafficKey<Self>] = &[TrafficKey {
        name: "short_flows",
        example: r#"{ every = "100 ms", count = 100, size = "30 kB" }"#,
        doc: r#"count downloads that do not wait for each other: every is the mean time between their starts, arrivals
              are "poisson" (default), "uniform" or "regular"; size is bytes or "endless", with spread (lognormal, 1 to 100)
              or pareto (tail exponent, 1.01 to 10; size stays the median); one_connection = true: all on one
              connection; without that each download has a connection of its own, and with it a queue of its own where queues keep
              flows apart"#,
        metrics: METRICS,
        read,
    }];
}

fn read(table: &dyn Table, _: &ReadContext<'_>) -> Option<Vec<Flows>> {
    let every = table.need("every", "\"100 ms\"").and_then(|field| field.span());
    let count = table.need("count", "100").and_then(|field| field.count(1..=100_000));
    let size = table.need("size", "\"30 kB\", or \"endless\"").and_then(|field| match field.value() {
        Value::Text("endless") => Some(u64::MAX),
        _ => field.size(),
    });
    let spread = table.get("spread").map_or(Some(1.0), |field| {
        let spread = field.number("a number from 1 (all alike) to 100")?;
        if !(1.0..=100.0).contains(&spread) {
            field.complain(&"is out of range; write a number from 1 (all alike) to 100");
        }
        Some(spread)
    });
    let pareto = table.get("pareto").map_or(Some(None), |field| {
        let shape = field.number("a tail exponent from 1.01 to 10")?;
        if !(1.01..=10.0).contains(&shape) {
            field.complain(&"is out of range; write a tail exponent from 1.01 (heavy) to 10");
        }
        Some(Some(shape))
    });
    if size == Some(u64::MAX) && (table.has("spread") || table.has("pareto")) {
        table.complain(&"has sizes without end, which have no distribution; leave spread and pareto out");
    }
    if table.has("spread") && table.has("pareto") {
        table.complain(&"has two distributions of its sizes; write spread (lognormal) or pareto");
    }
    let arrivals = table.get("arrivals").map_or(Some(Spread::Exponential as Distances), |field| distances(&*field));
    let one_connection = table.get("one_connection").map_or(Some(false), |field| field.boolean());
    Some(vec![Flows {
        count: count?,
        arrivals: arrivals?(every?),
        size: sizes(size?, spread?, pareto?),
        new_connections: !one_connection?,
    }])
}

/// Sizes with this median: spread lognormally, with a tail of Pareto's, or all alike.
fn sizes(median: u64, spread: f64, pareto: Option<f64>) -> Size {
    match pareto {
        // Half of the sizes are below scale × (2^(1/shape) - 1).
        Some(shape) => Size::Pareto { scale: (median as f64 / (math::pow(2.0, 1.0 / shape) - 1.0)) as u64, shape },
        // The 84th percentile lies one deviation of the logarithm above the median.
        None if spread > 1.0 => Size::LogNormal { median, sigma: math::ln(spread) },
        None => Size::Fixed(median),
    }
}

/// Downloads on one connection.
struct Arrivals {
    plan: Flows,
    left: u64,
    next: Option<Instant>,
    dice: [Dice; 2],
}

impl Jobs for Arrivals {
    fn take(&mut self, now: Instant) -> Option<Job> {
        let at = self.next.filter(|at| *at <= now)?;
        self.left -= 1;
        self.next = (self.left > 0).then(|| at.max(now) + self.plan.arrivals.draw(&mut self.dice[0]));
        Some(Job { number: 0, request: 0, response: self.plan.size.draw(&mut self.dice[1]) })
    }

    fn next(&self) -> Option<Instant> {
        self.next
    }

    fn is_empty(&self) -> bool {
        self.next.is_none()
    }
}

#[cfg(test)]
mod tests {
    use thalweg_units::Duration;

    use super::super::Launcher;
    use super::*;

    #[test]
    fn flows_arrive_as_often_as_planned() {
        let arrivals = Spread::Exponential(Duration::from_millis(10));
        let traffic = Flows { count: 10_000, arrivals, size: Size::Fixed(1), new_connections: true };
        let mut launcher = Launcher::new(&traffic, &Streams::new(1), Instant::ZERO);
        let mut started = 0;
        let mut last = Instant::ZERO;
        while let Some(at) = launcher.next() {
            launcher.start(at);
            started += 1;
            last = at;
        }
        assert_eq!(started, 10_000);
        let mean = last.as_nanos() as f64 / 1e6 / 10_000.0;
        assert!((mean - 10.0).abs() < 0.4, "{mean} ms");
    }
}
