//! Traffic of a flow: its kinds, and how they are read.

mod call;

use thalweg_link::Spread;
use thalweg_sim::{Carries, PageObject, Size, StackInfo, Traffic};
use thalweg_units::{Duration, DurationExt, math};

use super::group::{self, Group, Ways};
use super::read::{Field, Reader};
use super::rivals::OURS;
use super::tree::Value;

/// The kinds of traffic, an example of each, and whether it is streams of bytes rather than datagrams.
pub(crate) const KINDS: [(&str, &str, bool); 8] = [
    ("transfer", "{ download = \"10 MB\" }", true),
    ("requests", "{ request = \"500 B\", response = \"20 kB\", count = 50 }", true),
    ("on_off", "{ burst = \"1 MB\", pause = \"500 ms\", count = 10 }", true),
    ("short_flows", "{ every = \"100 ms\", count = 100, size = \"30 kB\" }", true),
    ("page", "{ objects = [{ size = \"30 kB\" }, { size = \"100 kB\", after = [0] }] }", true),
    ("media", "{ rate = \"1 Mbps\", deadline = \"100 ms\", duration = \"30 s\" }", false),
    (CALL, call::EXAMPLE, true),
    ("datagrams", "{ rate = \"1 Mbps\", size = \"1200 B\", duration = \"30 s\" }", false),
];

/// The kind that needs streams with priorities, which not every transport has.
const CALL: &str = "call";

/// Bytes of the requests of on-off traffic.
const BURST_REQUEST: u64 = 100;

/// The traffic of a flow that runs `stack` and takes `path`. A transfer says whether its `group` shares it.
pub(super) fn traffic(
    reader: &Reader<'_>,
    stack: Option<&StackInfo>,
    (path, ways): (Option<&str>, Ways<'_>),
    group: &mut Group,
) -> Option<Traffic> {
    for (key, ..) in KINDS {
        reader.note(key);
    }
    let present: Vec<_> = KINDS.into_iter().filter(|(key, ..)| reader.has(key)).collect();
    for (key, _, is_streams) in &present {
        let (Some(stack), Some(field)) = (stack, reader.get(key)) else { continue };
        match stack.carries {
            Carries::Datagrams if *is_streams => field.complain(format!(
                "needs a transport, which the stack \"{}\" is not; write media or datagrams",
                stack.name
            )),
            Carries::Streams if !is_streams => {
                field.complain(format!("is datagrams, which the stack \"{}\" does not carry", stack.name));
            }
            _ if *key == CALL && !stack.has_stream_priorities => field.complain(format!(
                "needs streams with priorities that their receiver can cancel, which the stack \"{}\" does not offer the \
                 lab; write stack = \"{OURS}\", or media",
                stack.name
            )),
            _ => {}
        }
    }
    let [(key, example, _)] = present.as_slice() else {
        let all: Vec<String> = KINDS.iter().map(|(key, example, _)| format!("{key} = {example}")).collect();
        let found = match present.as_slice() {
            [] => "none is there".to_owned(),
            some => format!("found {}", some.iter().map(|(key, ..)| *key).collect::<Vec<_>>().join(", ")),
        };
        reader.complain(format!("needs exactly one kind of traffic ({found}); write one of: {}", all.join("; ")));
        return None;
    };
    let table = reader.get(key)?.table(example)?;
    let read = match *key {
        "transfer" => {
            group.share(&table);
            let size = |field: Field<'_>, up: bool| {
                if matches!(&field.node.value, Value::Text(text) if text == "endless") {
                    if group.is_shared()
                        && let Some(field) = table.get("shared")
                    {
                        field.complain("shares a transfer without end; leave it out");
                    }
                    Some(None)
                } else {
                    group::size(&field, path, up, ways).map(Some)
                }
            };
            match (table.get("download"), table.get("upload")) {
                (Some(download), None) => size(download, false).map(Traffic::Download),
                (None, Some(upload)) => size(upload, true).map(Traffic::Upload),
                (None, None) => {
                    table.complain("needs download or upload, for example download = \"10 MB\", or \"endless\"");
                    None
                }
                (Some(_), Some(_)) => {
                    table.complain("has both download and upload; write one [[flow]] for each");
                    None
                }
            }
        }
        "requests" => {
            let request = table.get("request").map_or(Some(500), |field| field.size());
            let response = table.need("response", "\"20 kB\"").and_then(|field| field.size());
            let count = table.need("count", "50").and_then(|field| field.count(1..=10_000_000));
            let think = table.get("think").map_or(Some(Duration::ZERO), |field| field.duration());
            (|| {
                let (request, response) = (Size::Fixed(request?), Size::Fixed(response?));
                Some(Traffic::Requests { count: count?, request, response, think: Spread::Fixed(think?) })
            })()
        }
        "on_off" => {
            let burst = table.need("burst", "\"1 MB\"").and_then(|field| field.size());
            let pause = table.need("pause", "\"500 ms\"").and_then(|field| field.duration());
            let count = table.need("count", "10").and_then(|field| field.count(1..=1_000_000));
            let pauses = distances(&table, "pauses", Spread::Fixed);
            (|| {
                let (request, response) = (Size::Fixed(BURST_REQUEST), Size::Fixed(burst?));
                Some(Traffic::Requests { count: count?, request, response, think: pauses?(pause?) })
            })()
        }
        "short_flows" => {
            let every = table.need("every", "\"100 ms\"").and_then(|field| field.span());
            let count = table.need("count", "100").and_then(|field| field.count(1..=100_000));
            let size = table.need("size", "\"30 kB\", or \"endless\"").and_then(|field| match &field.node.value {
                Value::Text(text) if text == "endless" => Some(u64::MAX),
                _ => field.size(),
            });
            let spread = table.get("spread").map_or(Some(1.0), |field| {
                let spread = field.number("a number from 1 (all alike) to 100")?;
                if !(1.0..=100.0).contains(&spread) {
                    field.complain("is out of range; write a number from 1 (all alike) to 100");
                }
                Some(spread)
            });
            let pareto = table.get("pareto").map_or(Some(None), |field| {
                let shape = field.number("a tail exponent from 1.01 to 10")?;
                if !(1.01..=10.0).contains(&shape) {
                    field.complain("is out of range; write a tail exponent from 1.01 (heavy) to 10");
                }
                Some(Some(shape))
            });
            if size == Some(u64::MAX) && (table.has("spread") || table.has("pareto")) {
                table.complain("has sizes without end, which have no distribution; leave spread and pareto out");
            }
            if table.has("spread") && table.has("pareto") {
                table.complain("has two distributions of its sizes; write spread (lognormal) or pareto");
            }
            let arrivals = distances(&table, "arrivals", Spread::Exponential);
            let one_connection = table.get("one_connection").map_or(Some(false), |field| field.boolean());
            (|| {
                Some(Traffic::Flows {
                    count: count?,
                    arrivals: arrivals?(every?),
                    size: sizes(size?, spread?, pareto?),
                    new_connections: !one_connection?,
                })
            })()
        }
        "page" => table.need("objects", "[{ size = \"30 kB\" }]").and_then(|field| page(&field)),
        "media" => {
            let rate = table.need("rate", "\"1 Mbps\"").and_then(|field| field.rate());
            let frame = table.get("frame").map_or(Some(Duration::from_millis(20)), |field| field.span());
            let deadline = table.need("deadline", "\"100 ms\"").and_then(|field| field.span());
            let duration = table.need("duration", "\"30 s\"").and_then(|field| field.span());
            let up = direction(&table);
            (|| {
                let interval = frame?;
                let frame = rate?.bytes_in(interval).max(1);
                Some(constant_rate(up?, interval, frame, Some(deadline?), duration?))
            })()
        }
        CALL => call::call(&table, direction(&table)).map(Traffic::Call),
        _ => {
            let rate = table.need("rate", "\"1 Mbps\"").and_then(|field| field.rate());
            let size = table.get("size").map_or(Some(1_200), |field| field.bytes_in(1..=65_000));
            let duration = table.need("duration", "\"30 s\"").and_then(|field| field.span());
            let up = direction(&table);
            (|| {
                let size = size?;
                let interval = rate?.time_for(size).max(Duration::from_nanos(1));
                // Nothing waits for them: none is late.
                Some(constant_rate(up?, interval, size, None, duration?))
            })()
        }
    };
    table.finish();
    read
}

/// Frames of so many bytes at this distance for a while, which can be late or not.
fn constant_rate(up: bool, interval: Duration, frame: u64, deadline: Option<Duration>, lasts: Duration) -> Traffic {
    let frames = Some((lasts.nanos() / interval.nanos().max(1)).max(1));
    Traffic::Media { up, interval, frame, deadline, frames }
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

/// Makes a distribution of times from their mean.
type Distances = fn(Duration) -> Spread;

/// How times are distributed, under this key.
fn distances(table: &Reader<'_>, key: &'static str, fallback: Distances) -> Option<Distances> {
    let uniform: Distances = |mean| Spread::Uniform(Duration::ZERO, mean * 2);
    table.get(key).map_or(Some(fallback), |field| {
        field.choice(&[("poisson", Spread::Exponential as Distances), ("uniform", uniform), ("regular", Spread::Fixed)])
    })
}

fn direction(table: &Reader<'_>) -> Option<bool> {
    table.get("direction").map_or(Some(false), |field| field.choice(&[("down", false), ("up", true)]))
}

fn page(field: &Field<'_>) -> Option<Traffic> {
    if !field.is_list() {
        field.complain("is no list; write [{ size = \"30 kB\" }, { size = \"100 kB\", after = [0] }]");
        return None;
    }
    let mut objects = Vec::new();
    for item in field.items() {
        let index = objects.len();
        let Some(table) = item.table("{ size = \"100 kB\", after = [0] }") else { continue };
        let size = table.need("size", "\"30 kB\"").and_then(|field| field.size());
        let mut after = Vec::new();
        for item in table.get("after").map_or_else(Vec::new, |field| field.items()) {
            match item.count(0..=100_000) {
                Some(at) if at < index as u64 => after.push(usize::try_from(at).unwrap_or(usize::MAX)),
                Some(at) => item.complain(format!(
                    "object {index} cannot wait for object {at}; only objects before it, counted from 0, can be named"
                )),
                None => {}
            }
        }
        let delay = table.get("delay").map_or(Some(Duration::ZERO), |field| field.duration()).unwrap_or_default();
        let times = table.get("times").map_or(Some(1), |field| field.count(1..=10_000)).unwrap_or(1);
        table.finish();
        let mut object = PageObject { size: size.unwrap_or(1), after, delay };
        for _ in 0..times {
            objects.push(object.clone());
            object.delay += delay;
        }
    }
    if objects.is_empty() {
        field.complain("is empty; a page needs at least one object, { size = \"30 kB\" }");
    }
    Some(Traffic::Page(objects))
}
