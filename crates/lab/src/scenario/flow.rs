//! Reading `[[flow]]`: stack, traffic, policies and settings.

use thalweg_recovery::{Policies, PolicyError};
use thalweg_sim::TcpConfig;
use thalweg_units::Duration;

use super::read::{Field, Reader};
use super::tcp;
use super::tree::Value;
use super::world::{Arrivals, FlowSpec, HostModel, PageObject, Traffic, TransportSpec};

/// The kinds of traffic, of which a flow has one, and how each is written.
pub(crate) const TRAFFIC: [(&str, &str); 7] = [
    ("transfer", "{ download = \"10 MB\" }"),
    ("requests", "{ request = \"500 B\", response = \"20 kB\", count = 50 }"),
    ("on_off", "{ burst = \"1 MB\", pause = \"500 ms\", count = 10 }"),
    ("short_flows", "{ every = \"100 ms\", count = 100, size = \"30 kB\" }"),
    ("page", "{ objects = [{ size = \"30 kB\" }, { size = \"100 kB\", after = [0] }] }"),
    ("media", "{ rate = \"1 Mbps\", deadline = \"100 ms\", duration = \"30 s\" }"),
    ("datagrams", "{ rate = \"1 Mbps\", size = \"1200 B\", duration = \"30 s\" }"),
];

/// A flow. `paths` are the names of the paths, `stacks` those of the transports.
pub(crate) fn flow(index: usize, reader: Reader<'_>, paths: &[String], stacks: &[String]) -> Option<FlowSpec> {
    let name = match reader.get("name") {
        Some(field) => match field.text("a name in quotes") {
            Some("" | "*") => {
                field.complain("is no name; write a word");
                None
            }
            name => name.map(str::to_owned),
        },
        None => Some(format!("flow {index}")),
    };
    let named = |key, known: &[String], fallback: Option<&str>| match reader.get(key) {
        Some(field) => {
            let choices: Vec<(&str, usize)> = known.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
            field.choice(&choices).and_then(|at| known.get(at).cloned())
        }
        None => fallback.map(str::to_owned),
    };
    let stack = named("stack", stacks, Some("thalweg"));
    let path = match (reader.has("path"), paths) {
        (false, [only]) => {
            reader.note("path");
            Some(only.clone())
        }
        (false, _) => {
            reader.need("path", &format!("\"{}\"", paths.first().map_or("NAME", String::as_str)));
            None
        }
        (true, _) => named("path", paths, None),
    };
    let start = reader.get("start").map_or(Some(Duration::ZERO), |field| field.duration());
    let phase = reader.get("phase").map_or(Some(true), |field| field.boolean());
    if stack.as_deref() == Some("raw") {
        refuse_on_raw(&reader);
    }
    let traffic = traffic(&reader);
    let policies = reader.get("policies").map_or(Some(Policies::default()), |field| policies(&field, stack.as_deref()));
    let transport = reader.get("transport").map_or(Some(TransportSpec::default()), |field| transport(&field));
    let tcp = reader.get("tcp").map(|field| {
        if stack.as_deref().is_some_and(|stack| stack != "tcp") {
            field.complain("has the settings of the stack \"tcp\", which this flow does not run");
        }
        tcp::tcp(&field)
    });
    let host = reader.get("host").map_or(Some(HostModel::Ideal), |field| host(&field));
    reader.finish();
    Some(FlowSpec {
        name: name?,
        stack: stack?,
        path: path?,
        start: start?,
        phase: phase?,
        traffic: traffic?,
        policies: policies?,
        transport: transport?,
        tcp: tcp.flatten(),
        host: host?,
    })
}

/// Refuses what plain datagrams cannot do: streams of bytes, and policies of a recovery that they do not have.
fn refuse_on_raw(reader: &Reader<'_>) {
    for (key, _) in TRAFFIC.into_iter().filter(|(key, _)| !["media", "datagrams"].contains(key)) {
        if let Some(field) = reader.get(key) {
            field.complain("needs a transport, which the stack \"raw\" is not; write media or datagrams");
        }
    }
    if let Some(field) = reader.get("policies") {
        field.complain("sets policies of recovery, which the stack \"raw\" does not have; leave it out");
    }
}

/// A profile by name, or a table of delays.
fn host(field: &Field<'_>) -> Option<HostModel> {
    if !field.is_table() {
        let profiles =
            [("ideal", HostModel::Ideal), ("linux", HostModel::Linux), ("linux-coarse", HostModel::LinuxCoarse)];
        return field.choice(&profiles);
    }
    let reader = field.table("\"ideal\", \"linux\", \"linux-coarse\" or { timer = \"1 ms\", wake = \"50 us\" }")?;
    let span = |key| reader.get(key).map_or(Some(Duration::ZERO), |field| field.duration());
    let nic = reader.get("nic").map_or(Some(None), |field| field.rate().map(|rate| Some(rate.bps())));
    let batch = reader.get("batch").map_or(Some(10), |field| field.count(1..=1_000));
    let (timer, wake, receive) = (span("timer"), span("wake"), span("receive"));
    reader.finish();
    Some(HostModel::Custom { timer: timer?, wake: wake?, receive: receive?, nic: nic?, batch: batch? })
}

/// How times are distributed, under this key.
fn arrivals(table: &Reader<'_>, key: &'static str, fallback: Arrivals) -> Option<Arrivals> {
    table.get(key).map_or(Some(fallback), |field| {
        field.choice(&[("poisson", Arrivals::Poisson), ("uniform", Arrivals::Uniform), ("regular", Arrivals::Regular)])
    })
}

/// Whether flows of a stack have no use for a policy.
pub(crate) fn ignores(stack: Option<&str>, policy: &str) -> bool {
    stack == Some("tcp") && TcpConfig::IGNORED_POLICIES.contains(&policy)
}

/// Refuses a policy that would change nothing.
fn refuse_ignored(field: &Field<'_>, stack: Option<&str>, policy: &str) {
    if ignores(stack, policy) {
        let heard = Policies::catalogue().iter().map(|known| known.name).filter(|name| !ignores(stack, name));
        let heard: Vec<&str> = heard.collect();
        field.complain(format!(
            "sets {policy}, which the stack \"tcp\" does not have: its timers are set by tcp = {{ min_rto, tail_loss_probe }}; leave \
             it out, or write one of {}",
            heard.join(", ")
        ));
    }
}

/// A string as on the command line, or a table of the same fields.
fn policies(field: &Field<'_>, stack: Option<&str>) -> Option<Policies> {
    if let Value::Text(text) = &field.node.value {
        for (policy, _) in text.split(',').filter_map(|item| item.split_once('=')) {
            refuse_ignored(field, stack, policy.trim());
        }
        return text.parse().map_err(|error: PolicyError| field.complain(error)).ok();
    }
    let reader =
        field.table("\"controller=cubic, start=hystart++\" or { controller = \"cubic\", start = \"hystart++\" }")?;
    let mut items = Vec::new();
    let mut fine = true;
    for (key, _, value) in reader.all() {
        let Some(text) = value.text("a name in quotes") else {
            fine = false;
            continue;
        };
        refuse_ignored(&value, stack, key);
        if let Err(error) = Policies::default().set(key, text) {
            value.complain(error);
            fine = false;
        }
        items.push(format!("{key}={text}"));
    }
    if !fine {
        return None;
    }
    // Only the whole tells whether the parts go together.
    items.join(", ").parse().map_err(|error: PolicyError| field.complain(error)).ok()
}

fn transport(field: &Field<'_>) -> Option<TransportSpec> {
    let reader = field.table("a table such as { idle_timeout = \"30 s\" }")?;
    let spec = TransportSpec {
        idle_timeout: reader.get("idle_timeout").and_then(|field| field.span()),
        max_ack_delay: reader.get("max_ack_delay").and_then(|field| field.duration()),
        ack_every_second: reader
            .get("ack")
            .and_then(|field| field.choice(&[("thinned", false), ("every-second", true)]))
            .unwrap_or(false),
        max_datagram: reader.get("max_datagram").and_then(|field| field.bytes_in(1_200..=65_527)),
        initial_datagram: reader.get("initial_datagram").and_then(|field| field.bytes_in(1_200..=65_527)),
        mtu_discovery: reader.get("mtu_discovery").and_then(|field| field.boolean()),
        ecn: reader.get("ecn").and_then(|field| field.boolean()),
        receive_window: reader.get("receive_window").and_then(|field| field.size()),
    };
    reader.finish();
    Some(spec)
}

fn traffic(reader: &Reader<'_>) -> Option<Traffic> {
    for (key, _) in TRAFFIC {
        reader.note(key);
    }
    let present: Vec<&str> = TRAFFIC.iter().map(|(key, _)| *key).filter(|key| reader.has(key)).collect();
    let [key] = present.as_slice() else {
        let all: Vec<String> = TRAFFIC.iter().map(|(key, example)| format!("{key} = {example}")).collect();
        let found =
            if present.is_empty() { "none is there".to_owned() } else { format!("found {}", present.join(", ")) };
        reader.complain(format!("needs exactly one kind of traffic ({found}); write one of: {}", all.join("; ")));
        return None;
    };
    let (key, example) = *TRAFFIC.iter().find(|(name, _)| name == key)?;
    let table = reader.get(key)?.table(example)?;
    let read = match key {
        "transfer" => {
            let size = |field: Field<'_>| {
                if matches!(&field.node.value, Value::Text(text) if text == "endless") {
                    Some(None)
                } else {
                    field.size().map(Some)
                }
            };
            match (table.get("download"), table.get("upload")) {
                (Some(download), None) => size(download).map(Traffic::Download),
                (None, Some(upload)) => size(upload).map(Traffic::Upload),
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
            (|| Some(Traffic::Requests { request: request?, response: response?, count: count?, think: think? }))()
        }
        "on_off" => {
            let burst = table.need("burst", "\"1 MB\"").and_then(|field| field.size());
            let pause = table.need("pause", "\"500 ms\"").and_then(|field| field.duration());
            let count = table.need("count", "10").and_then(|field| field.count(1..=1_000_000));
            let pauses = arrivals(&table, "pauses", Arrivals::Regular);
            (|| Some(Traffic::OnOff { burst: burst?, pause: pause?, pauses: pauses?, count: count? }))()
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
            let arrivals = arrivals(&table, "arrivals", Arrivals::Poisson);
            let one_connection = table.get("one_connection").map_or(Some(false), |field| field.boolean());
            (|| {
                Some(Traffic::ShortFlows {
                    every: every?,
                    arrivals: arrivals?,
                    count: count?,
                    size: size?,
                    spread: spread?,
                    pareto: pareto?,
                    one_connection: one_connection?,
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
                let (rate, frame) = (rate?.bps(), frame?);
                Some(Traffic::Media { rate, frame, deadline: deadline?, duration: duration?, up: up? })
            })()
        }
        _ => {
            let rate = table.need("rate", "\"1 Mbps\"").and_then(|field| field.rate());
            let size = table.get("size").map_or(Some(1_200), |field| field.bytes_in(1..=65_000));
            let duration = table.need("duration", "\"30 s\"").and_then(|field| field.span());
            let up = direction(&table);
            (|| Some(Traffic::Datagrams { rate: rate?.bps(), size: size?, duration: duration?, up: up? }))()
        }
    };
    table.finish();
    read
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
    for (index, item) in field.items().iter().enumerate() {
        let Some(table) = item.table("{ size = \"100 kB\", after = [0] }") else { continue };
        let size = table.need("size", "\"30 kB\"").and_then(|field| field.size());
        let mut after = Vec::new();
        for item in table.get("after").map_or_else(Vec::new, |field| field.items()) {
            match item.count(0..=100_000) {
                Some(at) if at < index as u64 => after.push(at),
                Some(at) => item.complain(format!(
                    "object {index} cannot wait for object {at}; only objects before it, counted from 0, can be named"
                )),
                None => {}
            }
        }
        let delay = table.get("delay").map_or(Some(Duration::ZERO), |field| field.duration());
        table.finish();
        objects.push(PageObject { size: size.unwrap_or(1), after, delay: delay.unwrap_or_default() });
    }
    if objects.is_empty() {
        field.complain("is empty; a page needs at least one object, { size = \"30 kB\" }");
    }
    Some(Traffic::Page { objects })
}
