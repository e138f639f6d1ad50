//! A flow of a scenario: what `[[flow]]` says, how it is read, and what the simulator makes of it.
//!
//! A key of a flow is a field of [`FlowSpec`], a line in [`flows`] and a line in [`FlowSpec::plan`].

use core::fmt;

use serde::{Serialize, Serializer};
use thalweg_link::Chain;
use thalweg_proto::{AckPolicy, TransportConfig};
use thalweg_recovery::{InitialWindow, PathMemory, Policies, PolicyError};
use thalweg_sim::{
    Accepts, AddressChange, FlowPlan, Heeds, HostModel, Move, Resumed, SettingValue, Settings, StackInfo, Traffic,
};
use thalweg_units::{Duration, Rate};

use super::group::{Group, MOST_FLOWS, Ways};
use super::read::{Field, Reader};
use super::rivals::OURS;
use super::traffic::traffic;
use super::tree::Value;

/// One flow, or one group of flows from one generator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSpec {
    /// The name in the file, or its number.
    pub name: String,
    /// Which transport.
    pub stack: String,
    /// The path it takes at first, by name.
    pub path: String,
    /// When the client's address changes, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveSpec>,
    /// When it starts.
    pub start: Duration,
    /// Whether the start moves within one round trip from seed to seed.
    pub phase: bool,
    /// What it carries.
    #[serde(serialize_with = "as_debug")]
    pub traffic: Traffic,
    /// The rules of its transport.
    #[serde(serialize_with = "as_text")]
    pub policies: Policies,
    /// Settings of its transport.
    pub transport: TransportSpec,
    /// What was learned about the path by an earlier connection.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_debug")]
    pub memory: Option<PathMemory>,
    /// Whether requests leave with the first flight.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub early_data: bool,
    /// Settings that no other transport has.
    #[serde(skip_serializing_if = "Settings::is_empty", serialize_with = "as_debug")]
    pub settings: Settings,
    /// How its hosts behave.
    #[serde(serialize_with = "as_debug")]
    pub host: HostModel,
}

/// The client's address changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoveSpec {
    /// When, in virtual time from the start of the run.
    pub at: Duration,
    /// The path from then on, by name; none if a NAT on the way forgets the client.
    pub to: Option<String>,
    /// Whether the client's transport is told.
    pub notice: bool,
}

/// Settings of a transport that are not policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransportSpec {
    /// Idle timeout.
    pub idle_timeout: Option<Duration>,
    /// Round-trip time assumed before the first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_rtt: Option<Duration>,
    /// The window of a path about which nothing is known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_debug")]
    pub initial_window: Option<InitialWindow>,
    /// Bytes by which each handshake flight is longer than it has to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_padding: Option<u64>,
    /// After how long a silence the client sends something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<Duration>,
    /// How long ACKs may be delayed.
    pub max_ack_delay: Option<Duration>,
    /// The least ACK delay that may be asked for; `Some(None)`: nothing may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ack_delay: Option<Option<Duration>>,
    /// How many timestamps an ACK may carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_timestamps: Option<u16>,
    /// How densely packets are acknowledged without a request.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_name")]
    pub ack: Option<AckPolicy>,
    /// Largest UDP payload that is tried, bytes.
    pub max_datagram: Option<u64>,
    /// UDP payload to begin with, bytes.
    pub initial_datagram: Option<u64>,
    /// Whether larger datagrams are looked for.
    pub mtu_discovery: Option<bool>,
    /// Whether packets are marked ECT.
    pub ecn: Option<bool>,
    /// Receive window of a connection, bytes.
    pub receive_window: Option<u64>,
    /// Bytes written but not yet acknowledged that a connection holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_window: Option<u64>,
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn as_name<S: Serializer>(value: &Option<AckPolicy>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.map_or("", AckPolicy::name))
}

/// For the simulator's own types, whose text is as good a name for a result as any.
fn as_debug<S: Serializer>(value: &impl fmt::Debug, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:?}"))
}

impl FlowSpec {
    /// Whether it takes a path at any time.
    pub fn takes(&self, path: &str) -> bool {
        self.paths().any(|taken| taken == path)
    }

    /// The paths that it takes, by name: the first, and those that it moves to.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        core::iter::once(self.path.as_str()).chain(self.moves.iter().filter_map(|change| change.to.as_deref()))
    }

    /// The first move that leads to where the flow is already, if there is one; `chains` are those of its world.
    pub(crate) fn idle_move(&self, chains: &[Chain]) -> Option<&MoveSpec> {
        let hops = |name: &str| match chains.iter().find(|chain| chain.name == name) {
            Some(chain) => chain.hops.clone(),
            None => vec![name.to_owned()],
        };
        let mut here = hops(&self.path);
        self.moves.iter().find(|change| {
            let Some(there) = change.to.as_deref().map(hops) else { return false };
            there == std::mem::replace(&mut here, there.clone())
        })
    }

    /// The flow as the simulator wants it; `route` finds the numbers of the paths that a path of the scenario stands
    /// for.
    pub(crate) fn plan(&self, route: impl Fn(&str) -> Result<Vec<usize>, String>) -> Result<FlowPlan, String> {
        let mut plan = FlowPlan::new(&self.name, self.traffic.clone()).policies(self.policies.clone());
        self.stack.clone_into(&mut plan.stack);
        plan.route = route(&self.path)?;
        for change in &self.moves {
            let what = match &change.to {
                None => AddressChange::Rebind,
                Some(to) => AddressChange::Move { route: route(to)?, notice: change.notice },
            };
            plan.moves.push(Move { at: change.at, what });
        }
        plan.start = self.start;
        plan.client.keep_alive = self.transport.keep_alive.or(plan.client.keep_alive);
        self.transport.apply(&mut plan.client);
        self.transport.apply(&mut plan.server);
        plan.resumed = self.memory.map_or_else(Resumed::default, Resumed::remembering).with_early_data(self.early_data);
        plan.settings = self.settings.clone();
        (plan.client_host, plan.server_host) = (self.host, self.host);
        Ok(plan)
    }
}

impl TransportSpec {
    fn apply(&self, config: &mut TransportConfig) {
        let bytes = |size: u64| u16::try_from(size).unwrap_or(u16::MAX);
        if let Some(timeout) = self.idle_timeout {
            config.max_idle_timeout = Some(timeout);
        }
        if let Some(rtt) = self.initial_rtt {
            config.initial_rtt = rtt;
        }
        config.initial_window = self.initial_window.unwrap_or(config.initial_window);
        if let Some(size) = self.handshake_padding {
            config.handshake_padding = bytes(size);
        }
        if let Some(delay) = self.max_ack_delay {
            config.max_ack_delay = delay;
        }
        config.min_ack_delay = self.min_ack_delay.unwrap_or(config.min_ack_delay);
        config.receive_timestamps = self.receive_timestamps.unwrap_or(config.receive_timestamps);
        config.acks = self.ack.unwrap_or(config.acks);
        if let Some(size) = self.initial_datagram {
            config.initial_mtu = bytes(size);
            config.max_mtu = config.max_mtu.max(bytes(size));
        }
        if let Some(size) = self.max_datagram {
            config.max_mtu = bytes(size);
            config.initial_mtu = config.initial_mtu.min(bytes(size));
        }
        if self.mtu_discovery == Some(false) {
            config.max_mtu = config.initial_mtu;
        }
        if let Some(ecn) = self.ecn {
            config.ecn = ecn;
        }
        if let Some(window) = self.receive_window {
            let streams = &mut config.streams;
            (streams.receive_window, streams.max_receive_window) = (window, window);
            // One stream may use all of it.
            (streams.stream_receive_window, streams.max_stream_receive_window) = (window, window);
        }
        if let Some(window) = self.send_window {
            config.streams.send_window = window;
        }
    }
}

/// Reads a flow, or the flows of a group. `paths` are the names of the paths, `ways` those that could be read, and
/// `stacks` the transports.
pub(crate) fn flows(
    index: usize,
    reader: Reader<'_>,
    paths: &[String],
    ways: Ways<'_>,
    stacks: &[StackInfo],
) -> Option<Vec<FlowSpec>> {
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
    let names: Vec<String> = stacks.iter().map(|stack| stack.name.clone()).collect();
    let name_of_stack = named("stack", &names, Some(OURS));
    let stack = stacks.iter().find(|known| Some(&known.name) == name_of_stack.as_ref());
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
    let moves = moves(&reader, paths, stack);
    let group = Group::read(&reader, MOST_FLOWS);
    let mut group = group.unwrap_or_default();
    let traffic = traffic(&reader, stack, (path.as_deref(), ways), &mut group);
    let transport = reader.get("transport").map_or(Some(TransportSpec::default()), |field| transport(&field));
    let memory = match resuming(&reader, "memory", stack) {
        Some(field) => memory(&field).map(Some),
        None => Some(None),
    };
    let early_data = resuming(&reader, "early_data", stack).map_or(Some(false), |field| field.boolean());
    let settings = settings(&reader, stack, stacks);
    let named = |text: &str| match stack {
        Some(stack) => (stack.policies)(&settings, text),
        None => text.parse(),
    };
    let policies = match reader.get("policies") {
        Some(field) => policies(&field, stack, named),
        None => named("").ok(),
    };
    let host = reader.get("host").map_or(Some(HostModel::IDEAL), |field| host(&field));
    let flow = (|| {
        Some(FlowSpec {
            name: name?,
            stack: name_of_stack?,
            path: path?,
            moves: moves?,
            start: start?,
            phase: phase?,
            traffic: traffic?,
            policies: policies?,
            transport: transport?,
            memory: memory?,
            early_data: early_data?,
            settings,
            host: host?,
        })
    })();
    let flows = flow.map(|flow| group.flows(flow));
    if flows == Some(None) {
        reader.complain("shares so few bytes that some of its flows have nothing to transfer; write a larger size");
    }
    reader.finish();
    flows.flatten()
}

/// A key that only connections with a past have.
fn resuming<'a>(reader: &Reader<'a>, key: &'static str, stack: Option<&StackInfo>) -> Option<Field<'a>> {
    let field = reader.get(key)?;
    if let Some(stack) = stack.filter(|stack| !stack.resumes) {
        field.complain(format!(
            "needs a stack that resumes connections, which \"{}\" does not; leave it out",
            stack.name
        ));
    }
    Some(field)
}

/// What an earlier connection has learned, or would have if the path had been another one then.
fn memory(field: &Field<'_>) -> Option<PathMemory> {
    let table = field.table("a table such as { window = \"18.75 MB\", rtt = \"600 ms\", rate = \"250 Mbps\" }")?;
    let window = table.need("window", "\"18.75 MB\"").and_then(|field| field.size());
    let min_rtt = table.need("rtt", "\"600 ms\"").and_then(|field| field.span());
    let rate = table.get("rate").map_or(Some(None), |field| field.rate().map(Some));
    let age = table.get("age").map_or(Some(Duration::ZERO), |field| field.duration());
    table.finish();
    Some(PathMemory { window: window?, min_rtt: min_rtt?, rate: rate?, age: age? })
}

/// Reads `move` and `rebind`: when the client's address changes.
fn moves(reader: &Reader<'_>, paths: &[String], stack: Option<&StackInfo>) -> Option<Vec<MoveSpec>> {
    const EXAMPLE: &str = "{ at = \"2 s\", to = \"lte\", notice = true }";
    let fields = |key| reader.get(key).map_or_else(Vec::new, |field| field.items());
    let mut moves = Vec::new();
    let mut is_fine = true;
    for item in fields("move") {
        let table = item.table(EXAMPLE)?;
        let at = table.need("at", "\"2 s\"").and_then(|field| field.duration());
        let choices: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), path.as_str())).collect();
        let to = table.need("to", "\"lte\"").and_then(|field| field.choice(&choices));
        let notice = table.need("notice", "true").and_then(|field| {
            let notice = field.boolean()?;
            if let Some(stack) = stack.filter(|stack| notice && !stack.hears_of_moves) {
                field.complain(format!(
                    "needs a stack whose connections can be told of a new address, which \"{}\" is not; write notice = false",
                    stack.name
                ));
            }
            Some(notice)
        });
        table.finish();
        let (Some(at), Some(to), Some(notice)) = (at, to, notice) else {
            is_fine = false;
            continue;
        };
        moves.push(MoveSpec { at, to: Some(to.to_owned()), notice });
    }
    for item in fields("rebind") {
        let Some(at) = item.duration() else {
            is_fine = false;
            continue;
        };
        moves.push(MoveSpec { at, to: None, notice: false });
    }
    if moves.len() > MOST_MOVES {
        reader.complain(format!("has {} changes of address; at most {MOST_MOVES} are accepted", moves.len()));
        return None;
    }
    moves.sort_by_key(|change| change.at);
    is_fine.then_some(moves)
}

/// The most changes of a client's address.
const MOST_MOVES: usize = 10_000;

/// Reads the settings that only the flow's stack has, by the stack's own schema; complains about those of other stacks.
fn settings(reader: &Reader<'_>, stack: Option<&StackInfo>, stacks: &[StackInfo]) -> Settings {
    let mut settings = Settings::default();
    let mut seen: Vec<&str> = Vec::new();
    for (known, schema) in stacks.iter().filter_map(|known| Some((known, known.schema?))) {
        if seen.contains(&schema.table) {
            continue;
        }
        seen.push(schema.table);
        let Some(field) = reader.get(schema.table) else { continue };
        if stack.is_some_and(|stack| stack.schema.is_none_or(|own| own.table != schema.table)) {
            field.complain(format!("has the settings of the stack \"{}\", which this flow does not run", known.name));
        }
        let Some(table) = field.table(&format!("a table such as {}", schema.example)) else { continue };
        for setting in schema.settings {
            if let Some(value) = table.get(setting.name).and_then(|field| setting_value(&field, setting.accepts)) {
                settings.set(setting.name, value);
            }
        }
        table.finish();
    }
    settings
}

/// A value of one of these kinds: of the first that it looks like, or of the first.
fn setting_value(field: &Field<'_>, accepts: &[Accepts]) -> Option<SettingValue> {
    let is_quantity = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let looks_like = |kind: &&Accepts| match (kind, &field.node.value) {
        (Accepts::Boolean, Value::Boolean(_)) | (Accepts::Count(_), Value::Integer(_)) => true,
        (Accepts::Word(_), Value::Text(text)) => !is_quantity(text),
        (Accepts::Bytes(_) | Accepts::Duration | Accepts::Span, Value::Text(text)) => is_quantity(text),
        _ => false,
    };
    match accepts.iter().find(looks_like).or_else(|| accepts.first())? {
        Accepts::Boolean => field.boolean().map(SettingValue::Boolean),
        Accepts::Word(words) => {
            let choices: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
            field.choice(&choices).map(SettingValue::Word)
        }
        Accepts::Count(range) => field.count(range.clone()).map(SettingValue::Number),
        Accepts::Bytes(range) => field.bytes_in(range.clone()).map(SettingValue::Number),
        Accepts::Duration => field.duration().map(SettingValue::Duration),
        Accepts::Span => field.span().map(SettingValue::Duration),
        _ => None,
    }
}

/// A profile by name, or a table of delays.
fn host(field: &Field<'_>) -> Option<HostModel> {
    if !field.is_table() {
        let profiles =
            [("ideal", HostModel::IDEAL), ("linux", HostModel::LINUX), ("linux-coarse", HostModel::LINUX_COARSE)];
        return field.choice(&profiles);
    }
    let reader = field.table("\"ideal\", \"linux\", \"linux-coarse\" or { timer = \"1 ms\", wake = \"50 us\" }")?;
    let span = |key| reader.get(key).map_or(Some(Duration::ZERO), |field| field.duration());
    let nic: Option<Option<Rate>> = reader.get("nic").map_or(Some(None), |field| field.rate().map(Some));
    let batch = reader.get("batch").map_or(Some(10), |field| field.count(1..=1_000));
    let (timer, wake, receive) = (span("timer"), span("wake"), span("receive"));
    reader.finish();
    Some(HostModel {
        timer_granularity: timer?,
        wake_delay: wake?,
        receive_delay: receive?,
        nic: nic?,
        batch: usize::try_from(batch?).unwrap_or(usize::MAX),
    })
}

/// Refuses a policy that would change nothing.
fn refuse_ignored(field: &Field<'_>, stack: &StackInfo, policy: &str) {
    if stack.heeds(policy) {
        return;
    }
    let heard = Policies::catalogue().iter().map(|known| known.name).filter(|name| stack.heeds(name));
    let heard: Vec<&str> = heard.collect();
    let instead = match stack.heeds {
        Heeds::AllBut { instead, .. } => instead,
        _ => "its recovery is its own",
    };
    field.complain(format!(
        "sets {policy}, which the stack \"{}\" does not have: {instead}; leave it out, or write one of {}",
        stack.name,
        heard.join(", ")
    ));
}

/// A string as on the command line, or a table of the same fields; `named` makes the whole of it.
fn policies(
    field: &Field<'_>,
    stack: Option<&StackInfo>,
    named: impl Fn(&str) -> Result<Policies, PolicyError>,
) -> Option<Policies> {
    let refuse = |field: &Field<'_>, policy: &str| {
        if let Some(stack) = stack {
            refuse_ignored(field, stack, policy);
        }
    };
    if let Some(stack) = stack.filter(|stack| stack.heeds == Heeds::Only { policies: &[] }) {
        field.complain(format!(
            "sets policies of recovery, which the stack \"{}\" does not have; leave it out",
            stack.name
        ));
        return None;
    }
    if let Value::Text(text) = &field.node.value {
        for (policy, _) in text.split(',').filter_map(|item| item.split_once('=')) {
            refuse(field, policy.trim());
        }
        return named(text).map_err(|error| field.complain(error)).ok();
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
        refuse(&value, key);
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
    named(&items.join(", ")).map_err(|error| field.complain(error)).ok()
}

/// The largest initial window that can be asked for, in datagrams: that of the stack "tcp".
const MOST_DATAGRAMS: u64 = 10_000;

/// The name of a rule, or a number of datagrams.
fn initial_window(field: &Field<'_>) -> Option<InitialWindow> {
    if !matches!(field.node.value, Value::Text(_)) {
        let count = field.count(1..=MOST_DATAGRAMS)?;
        return u16::try_from(count).ok().map(InitialWindow::Datagrams);
    }
    field.choice(&[
        ("rfc9002", InitialWindow::Rfc9002),
        ("rfc6928", InitialWindow::Rfc6928),
        ("rfc3390", InitialWindow::Rfc3390),
    ])
}

fn transport(field: &Field<'_>) -> Option<TransportSpec> {
    let reader = field.table("a table such as { idle_timeout = \"30 s\" }")?;
    let spec = TransportSpec {
        idle_timeout: reader.get("idle_timeout").and_then(|field| field.span()),
        initial_rtt: reader.get("initial_rtt").and_then(|field| field.span()),
        initial_window: reader.get("initial_window").and_then(|field| initial_window(&field)),
        handshake_padding: reader.get("handshake_padding").and_then(|field| field.bytes_in(0..=8_000)),
        keep_alive: reader.get("keep_alive").and_then(|field| field.span()),
        max_ack_delay: reader.get("max_ack_delay").and_then(|field| field.duration()),
        min_ack_delay: reader.get("min_ack_delay").and_then(|field| match field.value() {
            thalweg_link::read::Value::Text("off") => Some(None),
            _ => field.duration().map(Some),
        }),
        receive_timestamps: reader
            .get("receive_timestamps")
            .and_then(|field| field.count(0..=128))
            .and_then(|count| u16::try_from(count).ok()),
        ack: reader.get("ack").and_then(|field| field.choice(&AckPolicy::ALL.map(|policy| (policy.name(), policy)))),
        max_datagram: reader.get("max_datagram").and_then(|field| field.bytes_in(1_200..=65_527)),
        initial_datagram: reader.get("initial_datagram").and_then(|field| field.bytes_in(1_200..=65_527)),
        mtu_discovery: reader.get("mtu_discovery").and_then(|field| field.boolean()),
        ecn: reader.get("ecn").and_then(|field| field.boolean()),
        receive_window: reader.get("receive_window").and_then(|field| field.size()),
        send_window: reader.get("send_window").and_then(|field| field.size()),
    };
    reader.finish();
    Some(spec)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thalweg_sim::Registry;

    use super::*;
    use crate::scenario::{Scenario, ScenarioError};

    /// A download over Wi-Fi beside an LTE path, with these lines in its flow.
    fn parse(lines: &str) -> Result<Scenario, ScenarioError> {
        let link = "{ rate = \"20 Mbps\", delay = \"10 ms\" }";
        let text = format!(
            "title = \"t\"\nquestion = \"q\"\ntime_limit = \"20 s\"\n[path.wifi]\nup = {link}\ndown = {link}\n[path.lte]\nup = {link}\n\
             down = {link}\n[[flow]]\npath = \"wifi\"\ntransfer = {{ download = \"10 MB\" }}\n{lines}\n"
        );
        let stacks: Vec<StackInfo> = Registry::default().stacks().cloned().collect();
        Scenario::parse("t.toml", &text, Path::new(""), &stacks)
    }

    fn complaint(lines: &str, key: &str, needle: &str) {
        let error = parse(lines).expect_err(lines);
        let found = error.diagnostics.iter().find(|found| found.key == key);
        let found = found.unwrap_or_else(|| panic!("nothing about {key}: {error}"));
        assert!(found.message.contains(needle), "{found}");
    }

    #[test]
    fn moves_and_rebindings_are_in_the_order_of_time() {
        let text = "rebind = [\"3 s\", \"500 ms\"]\nmove = [{ at = \"2 s\", to = \"wifi\", notice = true }, { at = \"1 s\", to = \"lte\", notice = false }]";
        let scenario = parse(text).unwrap_or_else(|error| panic!("{error}"));
        let flow = &scenario.points[0].world.flows[0];
        let moves: Vec<_> =
            flow.moves.iter().map(|change| (change.at.as_millis(), change.to.as_deref(), change.notice)).collect();
        let expected =
            [(500, None, false), (1000, Some("lte"), false), (2000, Some("wifi"), true), (3000, None, false)];
        assert_eq!(moves, expected);
        assert!(flow.takes("lte") && flow.takes("wifi") && !flow.takes("cable"));
        let plan = flow.plan(|name| Ok(vec![usize::from(name == "lte")])).unwrap();
        assert_eq!((plan.route.clone(), plan.moves.len()), (vec![0], 4));
        assert_eq!(plan.moves[2].what, AddressChange::Move { route: vec![0], notice: true });
        // A single one needs no list, and tables in brackets are a list.
        for text in [
            "move = { at = \"2 s\", to = \"lte\", notice = false }\nrebind = \"1 s\"",
            "rebind = \"1 s\"\n[[flow.move]]\nat = \"2 s\"\nto = \"lte\"\nnotice = false",
        ] {
            assert_eq!(parse(text).unwrap().points[0].world.flows[0].moves.len(), 2, "{text}");
        }
        assert_ne!(parse("rebind = \"1 s\"").unwrap().points[0].digest, parse("").unwrap().points[0].digest);
    }

    #[test]
    fn the_initial_window_of_quic_is_a_rule_or_a_number_of_datagrams() {
        let window = |text: &str| {
            let scenario = parse(text).unwrap_or_else(|error| panic!("{error}"));
            let plan = scenario.points[0].world.flows[0].plan(|_| Ok(vec![0])).unwrap();
            assert_eq!(plan.client.initial_window, plan.server.initial_window);
            plan.server.initial_window
        };
        assert_eq!(window(""), InitialWindow::Rfc9002);
        assert_eq!(window("transport = { initial_window = 3 }"), InitialWindow::Datagrams(3));
        assert_eq!(window("transport = { initial_window = \"rfc3390\" }"), InitialWindow::Rfc3390);
        for wrong in ["0", "10001", "\"large\"", "1.5"] {
            complaint(&format!("transport = {{ initial_window = {wrong} }}"), "flow.0.transport.initial_window", "");
        }
    }

    #[test]
    fn a_flow_knows_its_path_from_an_earlier_connection() {
        let text =
            "early_data = true\nmemory = { window = \"2 MB\", rtt = \"100 ms\", rate = \"50 Mbps\", age = \"10 min\" }";
        let scenario = parse(text).unwrap_or_else(|error| panic!("{error}"));
        let plan = scenario.points[0].world.flows[0].plan(|_| Ok(vec![0])).unwrap();
        let memory = plan.resumed.memory.unwrap();
        assert_eq!((memory.window, memory.min_rtt.as_millis(), memory.age.as_secs()), (2_000_000, 100, 600));
        assert_eq!(memory.rate, Some(Rate::from_bps(50_000_000)));
        assert!(plan.resumed.early_data);
        let plain = parse("").unwrap();
        assert_eq!(plain.points[0].world.flows[0].plan(|_| Ok(vec![0])).unwrap().resumed, Resumed::default());
        assert_ne!(scenario.points[0].digest, plain.points[0].digest);
        complaint("memory = { rtt = \"100 ms\" }", "flow.0.memory", "needs window");
        complaint("memory = { window = \"2 MB\", rtt = \"0 s\" }", "flow.0.memory.rtt", "longer than zero");
        complaint("memory = \"learned\"", "flow.0.memory", "a table such as");
        complaint("stack = \"tcp\"\nearly_data = true", "flow.0.early_data", "\"tcp\" does not; leave it out");
        complaint("early_data = 1", "flow.0.early_data", "");
    }

    #[test]
    fn a_move_that_cannot_be_says_where_and_why() {
        complaint("move = { at = \"2 s\", to = \"lte\" }", "flow.0.move", "needs notice");
        complaint("move = { at = \"2 s\", to = \"5g\", notice = true }", "flow.0.move.to", "wifi, lte");
        complaint("move = { at = 2, to = \"lte\", notice = true }", "flow.0.move.at", "no unit");
        complaint("move = { at = \"20 s\", to = \"lte\", notice = true }", "flow.0", "at 20 s, when the run is over");
        let idle = "leads at 2 s to the path that the flow is on already";
        complaint("move = { at = \"2 s\", to = \"wifi\", notice = true }", "flow.0.move", idle);
        let twice = "rebind = \"1500 ms\"\nmove = [{ at = \"2 s\", to = \"lte\", notice = true }, { at = \"1 s\", to = \"lte\", notice = true }]";
        complaint(twice, "flow.0.move", idle);
        complaint("rebind = \"yes\"", "flow.0.rebind", "");
        let told = "stack = \"tcp\"\nmove = { at = \"2 s\", to = \"lte\", notice = true }";
        complaint(told, "flow.0.move.notice", "\"tcp\" is not; write notice = false");
        assert!(parse(&told.replace("true", "false")).is_ok());
    }

    #[test]
    fn datagrams_are_refused_where_the_stack_carries_none() {
        let media = "stack = \"tcp\"\nmedia = { rate = \"1 Mbps\", deadline = \"100 ms\", duration = \"9 s\" }";
        complaint(media, "flow.0.media", "the stack \"tcp\" does not carry");
    }
}
