//! Reading `[path.NAME]`: the keys of a direction.

use thalweg_units::{Duration, parse_bytes, parse_duration};

use super::files::Traces;
use super::presets;
use super::read::{Field, Reader};
use super::tree::Node;
use super::world::{
    Aqm, Change, DirectionSpec, EcnSpec, HeldWhere, Interruption, JitterShape, JitterSpec, LossSpec, PathSpec,
    PolicerSpec, QueueSpec, ReorderSpec, Suspension, TraceSpec,
};

/// Replaces `preset = "NAME"` in a path, or in one of its directions, by what the preset says, under what the file says.
pub(crate) fn expand_presets(path: &mut Node) {
    if let Some(preset) = presets::of(path) {
        let whole = std::mem::replace(path, Node { value: super::tree::Value::Boolean(false), span: 0..0 });
        *path = whole.over(preset);
    }
    let super::tree::Value::Table(entries) = &mut path.value else { return };
    for entry in entries.iter_mut().filter(|entry| entry.key == "up" || entry.key == "down") {
        if let Some(preset) = presets::of(&entry.node)
            && let Some(direction) = preset.get(&entry.key)
        {
            entry.node = entry.node.clone().over(direction.node.clone());
        }
    }
}

/// A path; its presets are expanded already.
pub(crate) fn path(name: &str, reader: Reader<'_>, traces: &Traces<'_>) -> Option<PathSpec> {
    if let Some(preset) = reader.get("preset") {
        presets::check(&preset);
    }
    let mut directions = [None, None];
    for (slot, (key, example)) in directions.iter_mut().zip([
        ("up", "{ rate = \"3 Mbps\", delay = \"50 ms\", queue = \"1 BDP\" }"),
        ("down", "{ rate = \"25 Mbps\", delay = \"50 ms\", queue = \"1 BDP\" }"),
    ]) {
        *slot = reader
            .need(key, example)
            .and_then(|field| field.table("a table such as { rate = \"25 Mbps\", delay = \"50 ms\" }"))
            .and_then(|table| direction(table, traces));
    }
    let list = |key| reader.get(key).map_or_else(Vec::new, |field| field.items());
    let outages = list("outage").iter().filter_map(outage).collect();
    let suspensions = list("suspend").iter().filter_map(suspension).collect();
    let wifi = reader.get("wifi").map_or(Some(false), |field| field.boolean());
    if let [Some(up), Some(down)] = &directions
        && up.delay + down.delay == Duration::ZERO
        && [up, down].iter().any(|direction| matches!(direction.queue, QueueSpec::MilliBdp(_)))
        && wifi != Some(true)
    {
        reader
            .complain("has no delay in either direction, so a queue in BDP is empty; write queue in bytes or packets");
    }
    reader.finish();
    let [up, down] = directions;
    Some(PathSpec { name: name.to_owned(), up: up?, down: down?, outages, suspensions, wifi: wifi? })
}

fn direction(reader: Reader<'_>, traces: &Traces<'_>) -> Option<DirectionSpec> {
    if let Some(preset) = reader.get("preset") {
        presets::check(&preset);
    }
    let endless = reader.get("rate").is_some_and(|field| unlimited(&field));
    let rate = reader.get("rate").filter(|_| !endless).and_then(|field| field.rate()).map(|rate| rate.bps());
    let trace = reader.get("trace").and_then(|field| trace(&field, traces));
    if !reader.has("rate") && !reader.has("trace") {
        reader.complain("needs rate, for example rate = \"25 Mbps\", or \"unlimited\", or trace = \"FILE\"");
    } else if reader.has("rate") && reader.has("trace") {
        reader.complain("has both rate and trace; the trace is the rate, so leave one out");
    }
    let delay = reader.need("delay", "\"50 ms\"").and_then(|field| field.duration());
    let queue = match reader.get("queue") {
        Some(field) => queue(&field),
        None if endless => Some(QueueSpec::Unlimited),
        None => Some(QueueSpec::MilliBdp(1000)),
    };
    let aqm = match reader.get("aqm") {
        Some(field) => field.choice(&[("tail-drop", Aqm::TailDrop), ("head-drop", Aqm::HeadDrop)]),
        None => Some(Aqm::TailDrop),
    };
    let share = |key| reader.get(key).map_or(Some(0.0), |field| field.share());
    let list = |key| reader.get(key).map_or_else(Vec::new, |field| field.items());
    let spec = DirectionSpec {
        rate,
        trace,
        delay: delay.unwrap_or_default(),
        queue: queue.unwrap_or(QueueSpec::Unlimited),
        aqm: aqm.unwrap_or_default(),
        jitter: reader.get("jitter").and_then(|field| jitter(&field)),
        loss: list("loss").iter().filter_map(loss).collect(),
        duplicate: share("duplicate").unwrap_or_default(),
        corrupt: share("corrupt").unwrap_or_default(),
        reorder: list("reorder").iter().filter_map(reorder).collect(),
        outages: list("outage").iter().filter_map(outage).collect(),
        suspensions: list("suspend").iter().filter_map(suspension).collect(),
        changes: changes(&list("changes")),
        repeat: reader.get("repeat").and_then(|field| field.span()),
        policer: reader.get("policer").and_then(|field| policer(&field)),
        mtu: reader.get("mtu").and_then(|field| mtu(&field)),
        ecn: reader
            .get("ecn")
            .and_then(|field| {
                field.choice(&[
                    ("keep", EcnSpec::Keep),
                    ("bleach", EcnSpec::Bleach),
                    ("mark-all", EcnSpec::MarkAll),
                    ("ect1-to-ect0", EcnSpec::Ect1ToEct0),
                ])
            })
            .unwrap_or_default(),
    };
    if spec.repeat.is_some_and(|repeat| spec.changes.iter().any(|change| change.at >= repeat)) {
        reader.complain("has a change at or after repeat, which would never happen");
    }
    if endless && matches!(spec.queue, QueueSpec::MilliBdp(_) | QueueSpec::Time(_)) && reader.has("queue") {
        reader.complain("has an unlimited rate, so its queue cannot be measured in BDP or time; write \"unlimited\"");
    }
    reader.finish();
    Some(spec)
}

fn unlimited(field: &Field<'_>) -> bool {
    matches!(&field.node.value, super::tree::Value::Text(text) if text == "unlimited")
}

/// "1 BDP", "600 ms", "125 kB", "60 packets", "unlimited".
fn queue(field: &Field<'_>) -> Option<QueueSpec> {
    const EXPECTED: &str = "a size such as \"1 BDP\", \"600 ms\", \"125 kB\", \"60 packets\" or \"unlimited\"";
    let text = field.text(EXPECTED)?.trim();
    if text == "unlimited" || text == "infinite" {
        return Some(QueueSpec::Unlimited);
    }
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let read = match unit.to_ascii_lowercase().as_str() {
        "bdp" => number
            .parse::<f64>()
            .ok()
            .filter(|bdp| *bdp > 0.0 && *bdp <= 1e6)
            .map(|bdp| QueueSpec::MilliBdp(((bdp * 1000.0).round() as u64).max(1))),
        "packet" | "packets" | "pkt" | "pkts" => {
            number.parse().ok().filter(|packets: &u64| *packets > 0).map(QueueSpec::Packets)
        }
        "" => None,
        _ => match (parse_duration(text), parse_bytes(text)) {
            (Ok(span), _) if !span.is_zero() => Some(QueueSpec::Time(span)),
            (_, Ok(bytes)) if bytes > 0 => Some(QueueSpec::Bytes(bytes)),
            _ => None,
        },
    };
    if read.is_none() {
        let why = if unit.is_empty() { "has no unit" } else { "is not a queue size above zero" };
        field.complain(format!("\"{text}\" {why}; write {EXPECTED}"));
    }
    read
}

fn jitter(field: &Field<'_>) -> Option<JitterSpec> {
    if !field.is_table() {
        let mean = field.duration()?;
        return Some(JitterSpec { shape: JitterShape::Uniform, mean, deviation: mean / 2, reorders: false });
    }
    let reader = field.table("a duration such as \"2 ms\", or a table")?;
    let shape = reader.get("shape").map_or(Some(JitterShape::Uniform), |field| {
        field.choice(&[
            ("uniform", JitterShape::Uniform),
            ("normal", JitterShape::Normal),
            ("exponential", JitterShape::Exponential),
            ("lognormal", JitterShape::Lognormal),
        ])
    });
    let mean = reader.need("mean", "\"2 ms\"").and_then(|field| field.duration());
    let deviation = reader.get("deviation").map_or_else(|| mean.map(|mean| mean / 2), |field| field.duration());
    let reorders = reader.get("reorders").map_or(Some(false), |field| field.boolean());
    reader.finish();
    Some(JitterSpec { shape: shape?, mean: mean?, deviation: deviation?, reorders: reorders? })
}

fn loss(field: &Field<'_>) -> Option<LossSpec> {
    const EXPECTED: &str = "a share such as \"0.1 %\", or { random = \"0.1 %\" }, { burst = { enter = 0.001, leave = 0.2 } }, \
                            { every = 100 }, { packets = [7, 8] }, or \"tail\" for the last packet of every message";
    if matches!(&field.node.value, super::tree::Value::Text(text) if text == "tail") {
        return Some(LossSpec::Tail);
    }
    if !field.is_table() {
        return field.share().map(LossSpec::Random);
    }
    let reader = field.table(EXPECTED)?;
    let mut found = Vec::new();
    if let Some(field) = reader.get("random") {
        found.push(field.share().map(LossSpec::Random));
    }
    if let Some(burst) = reader.get("burst") {
        found.push(burst.table("{ enter = 0.001, leave = 0.2 }").and_then(|reader| {
            let enter = reader.need("enter", "0.001").and_then(|field| field.share());
            let leave = reader.need("leave", "0.2").and_then(|field| field.share());
            let bad = reader.get("bad").map_or(Some(1.0), |field| field.share());
            let good = reader.get("good").map_or(Some(0.0), |field| field.share());
            if leave == Some(0.0) {
                reader.complain("leave = 0 means that the bad state never ends; write a share above 0");
            }
            reader.finish();
            Some(LossSpec::Burst { enter: enter?, leave: leave?, bad: bad?, good: good? })
        }));
    }
    if let Some(field) = reader.get("every") {
        found.push(field.count(2..=1_000_000_000).map(LossSpec::Every));
    }
    if let Some(list) = reader.get("packets") {
        let packets: Option<Vec<u64>> = list.items().iter().map(|field| field.count(1..=1_000_000_000)).collect();
        found.push(packets.map(|mut packets| {
            packets.sort_unstable();
            packets.dedup();
            LossSpec::Packets(packets)
        }));
    }
    if found.len() != 1 {
        reader.complain(format!("needs exactly one kind of loss: {EXPECTED}; for several kinds write a list of them"));
    }
    reader.finish();
    found.into_iter().next()?
}

fn reorder(field: &Field<'_>) -> Option<ReorderSpec> {
    let reader = field.table("{ share = \"1 %\", by = \"5 ms\" }")?;
    let share = reader.need("share", "\"1 %\"").and_then(|field| field.share());
    let by = reader.need("by", "\"5 ms\"").and_then(|field| field.span());
    reader.finish();
    Some(ReorderSpec { share: share?, by: by? })
}

fn interruption(reader: &Reader<'_>) -> Option<Interruption> {
    let lasts = reader.need("for", "\"2 s\", or \"1 s..24 s\" to draw it").and_then(|field| {
        let range = field.duration_range()?;
        if range.start().is_zero() {
            field.complain("an interruption must last longer than zero");
        }
        Some((*range.start(), *range.end()))
    });
    let every = reader.get("every").and_then(|field| field.span());
    let times = reader.get("times").map_or(Some(0), |field| field.count(1..=1_000_000));
    let random = reader.get("random").map_or(Some(false), |field| field.boolean());
    // Without a first begin, the first comes after one distance.
    let fallback = if random == Some(true) { Duration::ZERO } else { every.unwrap_or_default() };
    let at = reader
        .get("at")
        .map_or(Some((fallback, fallback)), |field| field.duration_range().map(|range| (*range.start(), *range.end())));
    if !reader.has("at") && !reader.has("every") {
        reader.complain("needs at (\"1 s\") or every (\"2 s\")");
    }
    if (reader.has("times") || reader.has("random")) && !reader.has("every") {
        reader.complain("times and random belong to every; write every = \"2 s\"");
    }
    if let (Some(every), Some((_, longest)), Some(false)) = (every, lasts, random)
        && longest >= every
    {
        reader.complain("lasts as long as the distance to the next, so nothing would ever pass");
    }
    Some(Interruption { at: at?, lasts: lasts?, every, times: times?, random: random? })
}

fn outage(field: &Field<'_>) -> Option<Interruption> {
    let reader = field.table("{ at = \"1 s\", for = \"2 s\" } or { every = \"10 s\", for = \"1 s..2 s\" }")?;
    let interruption = interruption(&reader);
    reader.finish();
    interruption
}

fn suspension(field: &Field<'_>) -> Option<Suspension> {
    let reader = field.table("{ at = \"1 s\", for = \"250 ms\", held = \"before\" }")?;
    let when = interruption(&reader);
    let held = reader.get("held").map_or(Some(HeldWhere::After), |field| {
        field.choice(&[("before", HeldWhere::Before), ("after", HeldWhere::After)])
    });
    reader.finish();
    Some(Suspension { when: when?, held: held? })
}

fn changes(fields: &[Field<'_>]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for field in fields {
        let Some(reader) = field.table("{ at = \"2 s\", rate = \"5 Mbps\" }") else { continue };
        let at = reader.need("at", "\"2 s\"").and_then(|field| field.duration());
        let change = Change {
            at: at.unwrap_or_default(),
            rate: reader.get("rate").and_then(|field| field.rate()).map(|rate| rate.bps()),
            delay: reader.get("delay").and_then(|field| field.duration()),
            mtu: reader.get("mtu").and_then(|field| mtu(&field)),
        };
        if !["rate", "delay", "mtu"].iter().any(|key| reader.has(key)) {
            reader.complain("changes nothing; write rate, delay or mtu");
        }
        reader.finish();
        if changes.last().is_some_and(|last| last.at >= change.at) {
            field
                .complain("is not later than the change before it; write changes in the order of time, one per moment");
        }
        changes.push(change);
    }
    changes
}

fn policer(field: &Field<'_>) -> Option<PolicerSpec> {
    let reader = field.table("{ rate = \"10 Mbps\", burst = \"100 kB\" }")?;
    let rate = reader.need("rate", "\"10 Mbps\"").and_then(|field| field.rate());
    let burst = reader.need("burst", "\"100 kB\"").and_then(|field| field.bytes_in(1_500..=1 << 40));
    reader.finish();
    Some(PolicerSpec { rate: rate?.bps(), burst: burst? })
}

/// An IP packet must hold QUIC's smallest datagram (1200 bytes, RFC 9000 section 14) with its UDP and IP headers.
fn mtu(field: &Field<'_>) -> Option<u64> {
    field.bytes_in(1_228..=65_535)
}

/// Traces come from a built-in name or from a file beside the scenario.
fn trace(field: &Field<'_>, traces: &Traces<'_>) -> Option<TraceSpec> {
    let name = field.text("the name of a trace file")?;
    traces.get(name).map_err(|message| field.complain(message)).ok()
}
