//! Paths of two directions, and chains of paths that packets cross one after the other.

use serde::Serialize;
use thalweg_units::{Duration, Rate, exact_duration};

use crate::config::{outages, suspensions};
use crate::read::{Field, Table};
use crate::{ConfigError, Context, DirectionConfig, QueueLimit, Streams, WifiProfile, Windows};

/// A path: two directions, each with a queue of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathConfig {
    /// Its name.
    pub name: String,
    /// From client to server.
    pub up: DirectionConfig,
    /// From server to client.
    pub down: DirectionConfig,
    /// When both directions drop everything, at the same times.
    pub outages: Vec<Windows>,
    /// When both directions are held before serialization, at the same times.
    pub suspend_before: Vec<Windows>,
    /// When both directions are held after propagation, at the same times.
    pub suspend_after: Vec<Windows>,
    /// Makes it a Wi-Fi hop: adds loss and suspensions as measured on one, and replaces jitter and queue. The jitter
    /// comes on top of the delay.
    pub wifi: Option<WifiProfile>,
}

/// Name, example and documentation of the keys of a path in a scenario.
pub const PATH_KEYS: &[(&str, &str, &str)] = &[
    ("up", "{ rate = \"3 Mbps\", delay = \"50 ms\", queue = \"1 BDP\" }", "the direction from client to server"),
    ("down", "{ rate = \"25 Mbps\", delay = \"50 ms\", queue = \"1 BDP\" }", "the direction from server to client"),
    (
        "outage",
        "{ at = \"1 s\", for = \"2 s\" }",
        "outage of both directions at the same times; the keys are those of a direction's outage",
    ),
    (
        "suspend",
        "{ every = \"2 s\", for = \"200 ms\" }",
        "suspension of both directions at the same times; the keys are those of a direction's suspend",
    ),
    (
        "wifi",
        "true",
        "a Wi-Fi hop as measured: adds a little loss and suspensions, and replaces what is set as jitter (on top of the \
         delay) and as queue (270 ms)",
    ),
    (
        "hops",
        "[\"home\", \"access\"]",
        "paths that packets cross, from client to server, instead of all other keys; other flows may share the paths",
    ),
];

impl PathConfig {
    /// A path of two directions.
    pub fn new(name: &str, up: DirectionConfig, down: DirectionConfig) -> Self {
        PathConfig {
            name: name.to_owned(),
            up,
            down,
            outages: Vec::new(),
            suspend_before: Vec::new(),
            suspend_after: Vec::new(),
            wifi: None,
        }
    }

    /// Reads a path; none if something that is needed is missing or wrong, which has been complained about. Whether its
    /// queues hold anything depends on the flows: see [`queue_complaint`](Self::queue_complaint).
    pub fn read(name: &str, table: Box<dyn Table + '_>, context: &Context<'_>) -> Option<PathConfig> {
        for key in context.also {
            table.get(key);
        }
        // For what is accepted here.
        table.get("hops");
        let [up, down] = ["up", "down"].map(|key| {
            let example = PATH_KEYS.iter().find(|(name, ..)| *name == key).map_or("", |(_, example, _)| example);
            let field = table.need(key, example)?;
            let direction = field.table("a table such as { rate = \"25 Mbps\", delay = \"50 ms\" }")?;
            Some(DirectionConfig::read(direction, context))
        });
        let outages = table.get("outage").map_or_else(Vec::new, |field| outages(&*field));
        let suspensions = table.get("suspend").map_or_else(Vec::new, |field| suspensions(&*field));
        let wifi = table.get("wifi").map_or(Some(false), |field| field.boolean());
        table.finish();
        let mut path = PathConfig::new(name, up?, down?);
        path.outages = outages;
        path.wifi = wifi?.then(WifiProfile::default);
        for (held, windows) in suspensions {
            match held {
                crate::HeldWhere::Before => path.suspend_before.push(windows),
                crate::HeldWhere::After => path.suspend_after.push(windows),
            }
        }
        Some(path)
    }

    /// What is wrong with a queue in BDP where this is the longest round trip over the path; none if nothing is.
    pub fn queue_complaint(&self, round_trip: Duration) -> Option<&'static str> {
        let is_empty = |direction: &DirectionConfig| matches!(direction.queue, QueueLimit::Bdp(_));
        let is_wrong = round_trip.is_zero() && self.wifi.is_none() && [&self.up, &self.down].into_iter().any(is_empty);
        is_wrong
            .then_some("has no delay in either direction, so a queue in BDP is empty; write queue in bytes or packets")
    }

    /// Queues too short for their disciplines, as "up" or "down" and a sentence, where this is the longest round trip
    /// over the path: such a queue may overflow before its discipline acts, and then the limit is what is measured.
    pub fn queue_warnings(&self, round_trip: Duration) -> Vec<(&'static str, String)> {
        // A Wi-Fi hop has a queue of its own, and the rate of a trace is not known before it is drawn.
        let directions = [("up", &self.up), ("down", &self.down)].into_iter().filter(|_| self.wifi.is_none());
        // What is asked for is printed in whole milliseconds.
        let time = |rate: Rate, bytes| {
            let millis = rate.time_for(bytes).as_micros().div_ceil(1000);
            exact_duration(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
        };
        let warning = |config: &DirectionConfig| {
            let (rate, discipline) = (config.rate.nominal(), &config.discipline);
            let is_known = config.trace.is_none() && rate > Rate::ZERO && rate < Rate::MAX;
            let needs = discipline.needs(rate).filter(|_| is_known)?;
            let bytes = config.queue.bytes(rate, round_trip).filter(|bytes| *bytes < needs.bytes)?;
            let (name, needed, own) = (discipline.name(), time(rate, needs.bytes), discipline.limit(Some(rate)));
            let advice = match own == config.queue {
                true => format!("that is the default of {name}, made for slower links; write \"{needed}\" or more"),
                false => format!("leave queue out for the default of {name}, \"{own}\", or write \"{needed}\" or more"),
            };
            Some(format!(
                "queue = \"{limit}\" holds {holds} at {rate}, and {name} needs room for {what}, {needed}: the queue may \
                 overflow before {name} acts; {advice}",
                limit = config.queue,
                holds = time(rate, bytes),
                what = needs.what,
            ))
        };
        directions.filter_map(|(name, config)| Some((name, warning(config)?))).collect()
    }

    /// The sum of the fixed delays of both directions.
    pub fn round_trip(&self) -> Duration {
        self.up.delay.nominal() + self.down.delay.nominal()
    }

    /// The same as two directions that [`Direction`](crate::Direction)s can run: with everything drawn that a seed
    /// decides ahead, up to `horizon` after the start, and with what concerns both directions in each of them. A
    /// direction draws from streams scoped by its name, "up" or "down". A BDP is that of this path where a direction
    /// has no round trip yet.
    ///
    /// # Errors
    /// When an interruption has too many windows, or a Wi-Fi hop cannot be built.
    pub fn resolve(&self, streams: &Streams, horizon: Duration) -> Result<PathConfig, ConfigError> {
        let round_trip = self.round_trip();
        let mut path = PathConfig {
            up: self.up.resolve(&streams.scope("up"), horizon)?,
            down: self.down.resolve(&streams.scope("down"), horizon)?,
            ..PathConfig::new(&self.name, DirectionConfig::default(), DirectionConfig::default())
        };
        let drawn = |windows: &[Windows]| -> Result<Vec<Windows>, ConfigError> {
            windows.iter().map(|windows| windows.resolve(streams, horizon)).collect()
        };
        let both = [drawn(&self.outages)?, drawn(&self.suspend_before)?, drawn(&self.suspend_after)?];
        for config in [&mut path.up, &mut path.down] {
            let lists = [&mut config.outages, &mut config.suspend_before, &mut config.suspend_after];
            for (list, both) in lists.into_iter().zip(&both) {
                list.extend_from_slice(both);
            }
            if config.round_trip.is_zero() {
                config.round_trip = round_trip;
            }
        }
        if let Some(wifi) = &self.wifi {
            wifi.apply(&mut path.up, &mut path.down, streams, horizon)?;
        }
        Ok(path)
    }

    /// Begin and end of what is listed of the outages and suspensions of both directions, in the order of their ends.
    pub fn interruptions(&self) -> Vec<(Duration, Duration)> {
        let lists = [&self.up, &self.down]
            .into_iter()
            .flat_map(|config| config.outages.iter().chain(&config.suspend_before).chain(&config.suspend_after));
        let mut spans: Vec<_> = lists
            .flat_map(|windows| match windows {
                Windows::List(list) => list.as_slice(),
                _ => &[],
            })
            .map(|window| (window.start, window.end))
            .collect();
        spans.sort_unstable_by_key(|(start, end)| (*end, *start));
        spans.dedup();
        spans
    }
}

/// Several paths that packets cross one after the other. Chains may share paths, such as a bottleneck behind different
/// access links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Names of the paths, from client to server.
    pub hops: Vec<String>,
}

impl Chain {
    /// The most hops.
    pub const MOST_HOPS: usize = 32;

    /// Reads `hops`; `known` are the names of the paths that are no chains.
    pub fn read(name: &str, table: Box<dyn Table + '_>, known: &[&str]) -> Option<Chain> {
        let field = table.need("hops", "[\"home\", \"access\"]");
        let hops = field.and_then(|field| hops(&*field, known));
        table.finish();
        Some(Chain { name: name.to_owned(), hops: hops? })
    }

    /// The chain as indices into these paths; none if one is missing.
    pub fn route(&self, paths: &[PathConfig]) -> Option<Vec<usize>> {
        self.hops.iter().map(|hop| paths.iter().position(|path| path.name == *hop)).collect()
    }
}

fn hops(field: &dyn Field, known: &[&str]) -> Option<Vec<String>> {
    const EXPECTED: &str = "a list of paths such as [\"home\", \"access\"]";
    if !field.is_list() {
        field.wrong_kind(EXPECTED);
        return None;
    }
    let items = field.items();
    if !(1..=Chain::MOST_HOPS).contains(&items.len()) {
        field.complain(&format_args!("has {} hops; write 1 to {}", items.len(), Chain::MOST_HOPS));
        return None;
    }
    let choices: Vec<(&str, &str)> = known.iter().map(|name| (*name, *name)).collect();
    let mut hops: Vec<String> = Vec::new();
    for item in &items {
        let name = item.choice(&choices)?.to_owned();
        if hops.contains(&name) {
            item.complain(&format_args!("\"{name}\" is there twice; a packet crosses each path at most once"));
            return None;
        }
        hops.push(name);
    }
    Some(hops)
}

#[cfg(test)]
mod tests {
    use thalweg_units::Instant;

    use super::*;
    use crate::{Direction, Interruption, Jitter};

    const S: Duration = Duration::from_secs(1);

    fn drawn(stream: &str) -> Windows {
        let stream = stream.to_owned();
        Windows::Drawn(Interruption { stream, at: (S, 2 * S), lasts: (S, 9 * S), every: None, times: 0, random: false })
    }

    fn path() -> PathConfig {
        let direction = |delay: Duration| DirectionConfig { delay: delay.into(), ..DirectionConfig::default() };
        PathConfig::new("p", direction(S), direction(2 * S))
    }

    #[test]
    fn what_concerns_both_directions_is_drawn_once_and_their_own_apart() {
        let mut both = path();
        both.outages.push(drawn("outage 0"));
        both.suspend_before.push(drawn("suspension 0"));
        let drawn_both = both.resolve(&Streams::new(1), 60 * S).unwrap();
        assert_eq!(drawn_both.up.outages, drawn_both.down.outages);
        assert_eq!(drawn_both.up.suspend_before, drawn_both.down.suspend_before);
        assert_ne!(drawn_both.up.outages, drawn_both.up.suspend_before);
        assert_eq!(drawn_both.interruptions().len(), 2);
        assert_ne!(drawn_both, both.resolve(&Streams::new(2), 60 * S).unwrap());
        let mut own = path();
        (own.up.outages, own.down.outages) = (vec![drawn("outage 0")], vec![drawn("outage 0")]);
        let drawn_own = own.resolve(&Streams::new(1), 60 * S).unwrap();
        assert_ne!(drawn_own.up.outages, drawn_own.down.outages);
        assert_eq!(drawn_own.up.round_trip, 3 * S);
        // Nothing is left to draw.
        assert_eq!(drawn_own.resolve(&Streams::new(9), 60 * S).unwrap(), drawn_own);
    }

    /// The advice is never to do what was done.
    #[test]
    fn a_discipline_whose_own_default_is_too_short_says_so() {
        let down = |rate: &str| DirectionConfig {
            rate: crate::RateModel::Constant(rate.parse().unwrap()),
            discipline: crate::queue::Discipline::from(crate::queue::CoDel::default()),
            queue: crate::QueueLimit::Packets(1000),
            ..DirectionConfig::default()
        };
        let warnings = |rate| PathConfig { down: down(rate), ..path() }.queue_warnings(20 * S / 1000);
        assert_eq!(warnings("20 Mbps"), []);
        for rate in ["1 Gbps", "10 Gbps"] {
            let [(_, warning)] = &warnings(rate)[..] else { panic!("one warning at {rate}") };
            assert!(
                warning.contains("that is the default of codel") && !warning.contains("leave queue out"),
                "{warning}"
            );
        }
    }

    #[test]
    fn a_wifi_hop_is_complete_once_resolved() {
        let wifi = PathConfig { wifi: Some(WifiProfile::default()), ..path() };
        let drawn = wifi.resolve(&Streams::new(1), 3600 * S).unwrap();
        assert_eq!(drawn.wifi, None);
        for direction in [&drawn.up, &drawn.down] {
            assert!(matches!(direction.jitter, Some(Jitter { reorder: false, .. })));
            assert!(matches!(&direction.suspend_before[..], [Windows::List(list)] if !list.is_empty()));
        }
    }

    #[test]
    fn what_is_not_drawn_yet_does_not_run() {
        let (lte, out) = (Some(crate::trace::Trace::Lte), vec![drawn("outage 0")]);
        for config in [
            DirectionConfig { trace: lte, ..DirectionConfig::default() },
            DirectionConfig { outages: out, ..DirectionConfig::default() },
        ] {
            let build = |config| Direction::<u64>::new(config, Instant::ZERO, &Streams::new(1)).map(|_| ());
            assert_eq!(build(&config), Err(ConfigError::Unresolved));
            assert_eq!(build(&config.resolve(&Streams::new(1), 20 * S).unwrap()), Ok(()));
        }
    }

    #[test]
    fn a_chain_is_a_route_through_paths() {
        let paths = ["a", "b", "c"].map(|name| PathConfig { name: name.to_owned(), ..path() });
        let chain = |hops: &[&str]| Chain {
            name: "chain".to_owned(),
            hops: hops.iter().map(|hop| (*hop).to_owned()).collect(),
        };
        assert_eq!(chain(&["c", "a"]).route(&paths), Some(vec![2, 0]));
        assert_eq!(chain(&["c", "d"]).route(&paths), None);
    }
}
