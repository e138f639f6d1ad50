//! A flow of a scenario: its keys, their documentation, how they are read, and what the simulator makes of them.
//!
//! [`FLOW_KEYS`] lists every key. What one says is a field of [`FlowPlan`], or of [`FlowSpec`] where the scenario has
//! names for what the plan counts. [`TRANSPORT_KEYS`] are those of the table `transport`.

mod moves;
mod recovery;
mod transport;

use serde::{Serialize, Serializer};
use thalweg_link::Chain;
use thalweg_recovery::{Policies, SavedPath};
use thalweg_sim::traffic::{ReadContext, Traffic};
use thalweg_sim::{AddressChange, FlowPlan, HostModel, Move, StackInfo};
use thalweg_units::{Duration, Rate};

use super::group::MOST_FLOWS;
use super::group::{self, Ways};
use super::read::{Field, Reader};
use super::rivals::OURS;
use super::told::Told;
use super::traffic::traffic;
pub use moves::MoveSpec;
pub use transport::{TRANSPORT_KEYS, TransportKey};

/// One flow of a scenario. It has the fields of its plan.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// What the simulator is to do, without a route: paths have names here.
    base: FlowPlan,
    /// The path it takes at first, by name.
    pub path: String,
    /// The paths that it uses at the same time, by name.
    pub beside: Vec<String>,
    /// When the client's address changes, in the order of time.
    pub moves: Vec<MoveSpec>,
    /// Whether the start moves within one round trip from seed to seed.
    pub phase: bool,
    /// What was said of its transport.
    transport: Vec<(&'static str, Told)>,
}

impl core::ops::Deref for FlowSpec {
    type Target = FlowPlan;

    fn deref(&self) -> &FlowPlan {
        &self.base
    }
}

impl core::ops::DerefMut for FlowSpec {
    fn deref_mut(&mut self) -> &mut FlowPlan {
        &mut self.base
    }
}

/// A key of a flow.
pub struct FlowKey {
    /// The key. In capitals: stands for several, which others define.
    pub name: &'static str,
    /// A value; a test reads it.
    pub example: &'static str,
    /// What it means, with units and default, for `thalweg lab list --keys`.
    pub doc: &'static str,
    /// Reads it, or takes note that it is not there. What is wrong is complained about.
    read: fn(&mut Draft<'_, '_>, Option<Field<'_>>),
    /// What it adds to what names a result, under a name of its own; none if it says the same as if it were not there.
    /// A new key adds nothing then, so that results stay where they are.
    tell: fn(&FlowSpec) -> Option<(&'static str, Told)>,
}

/// Every key of a flow, in the order in which they name results. Each is read after those above it.
pub const FLOW_KEYS: &[FlowKey] = &[
    FlowKey {
        name: "name",
        example: r#""main""#,
        doc: "name of the flow; default its place in the file",
        read: |draft, field| {
            let name = match field {
                None => Some(format!("flow {}", draft.index)),
                Some(field) => name(&field),
            };
            draft.put(name, |flow, name| flow.base.name = name);
        },
        tell: |flow| Some(("name", Told::text(&flow.name))),
    },
    FlowKey {
        name: "stack",
        example: r#""tcp""#,
        doc: r#""thalweg" (default), "tcp", "raw", or a rival"#,
        read: |draft, field| {
            let stack = match field {
                None => Some(OURS),
                Some(field) => one_of(&field, draft.stacks.iter().map(|known| known.name.as_str())),
            };
            draft.stack = stack.and_then(|name| draft.stacks.iter().find(|known| known.name == name));
            let stack = stack.map(str::to_owned);
            draft.put(stack, |flow, stack| flow.base.stack = stack);
            draft.flow.base.settings = recovery::settings(draft.reader, draft.stack, draft.stacks);
        },
        tell: |flow| Some(("stack", Told::text(&flow.stack))),
    },
    FlowKey {
        name: "path",
        example: r#""home""#,
        doc: "the path that it takes at first; the only one unless said",
        read: |draft, field| {
            let several = draft.reader.get("paths").and_then(|field| several(&field, draft.paths));
            let path = match (field, draft.paths) {
                (None, _) if several.is_some() => several.and_then(|all| all.first().copied()),
                (None, [only]) => Some(only.as_str()),
                (None, paths) => {
                    let example = format!("\"{}\"", paths.first().map_or("NAME", String::as_str));
                    draft.reader.need("path", &example).and(None)
                }
                (Some(field), paths) => one_of(&field, paths.iter().map(String::as_str)),
            };
            draft.path = path;
            draft.put(path.map(str::to_owned), |flow, path| flow.path = path);
        },
        tell: |flow| Some(("path", Told::text(&flow.path))),
    },
    FlowKey {
        name: "paths",
        example: r#"["wifi", "lte"]"#,
        doc: "the paths that it uses at once, that of the handshake first; path can be left out then",
        read: |draft, field| {
            let Some(field) = field else { return };
            if let Some(stack) = draft.stack.filter(|stack| !stack.uses_several_paths) {
                field.complain(format!("needs a stack that uses several paths, which \"{}\" does not", stack.name));
            }
            let all = several(&field, draft.paths);
            if let (Some(path), Some(first)) = (draft.path, all.as_ref().and_then(|all| all.first()))
                && path != *first
            {
                field.complain("begins with another path than path; leave path out");
            }
            let beside = all.map(|all| all.iter().skip(1).map(|name| (*name).to_owned()).collect());
            draft.put(beside, |flow, beside: Vec<String>| {
                flow.beside = beside;
                let multipath = Some(thalweg_proto::MultipathConfig::default());
                (flow.base.client.multipath, flow.base.server.multipath) = (multipath.clone(), multipath);
            });
        },
        tell: |flow| (!flow.beside.is_empty()).then(|| ("beside", Told::Texts(flow.beside.clone()))),
    },
    FlowKey {
        name: "move",
        example: r#"{ at = "2 s", to = "home", notice = true }"#,
        doc: "the client takes another path, one table or a list; notice = true notifies its transport",
        read: |draft, _| {
            let moves = moves::moves(draft.reader, draft.paths, draft.stack);
            draft.put(moves, |flow, moves| flow.moves = moves);
        },
        tell: |flow| (!flow.moves.is_empty()).then(|| ("moves", Told::Moves(flow.moves.clone()))),
    },
    FlowKey {
        name: "rebind",
        example: r#""1 s""#,
        doc: "a NAT on the path forgets the client at this time, or at each of a list of times",
        // Read and named together with `move`: both are changes of its address, in the order of time.
        read: |_, _| {},
        tell: |_| None,
    },
    FlowKey {
        name: "start",
        example: r#""2 s""#,
        doc: "when it starts; default at once",
        read: |draft, field| {
            let start = field.map_or(Some(Duration::ZERO), |field| field.duration());
            draft.put(start, |flow, start| flow.base.start = start);
        },
        tell: |flow| Some(("start", Told::Time(flow.start))),
    },
    FlowKey {
        name: "phase",
        example: "false",
        doc: "false starts the flow exactly at start, without a random offset of up to one round trip (default true)",
        read: |draft, field| {
            let phase = field.map_or(Some(true), |field| field.boolean());
            draft.put(phase, |flow, phase| flow.phase = phase);
        },
        tell: |flow| Some(("phase", Told::Flag(flow.phase))),
    },
    FlowKey {
        name: "count",
        example: "4",
        doc: "so many flows that are alike, 1 to 10,000 in all: NAME-1, NAME-2, …; without it the flow keeps its name",
        // A count that cannot be is complained about, and the flow is read as if it were alone.
        read: |draft, field| draft.count = field.and_then(|field| field.count(1..=MOST_FLOWS as u64)),
        tell: |_| None,
    },
    FlowKey {
        name: "KIND",
        example: r#"{ … }"#,
        doc: "one kind of traffic: see below",
        read: |draft, _| {
            draft.traffic = draft.read_traffic();
            let first = draft.traffic.as_ref().and_then(|all| all.first().cloned());
            draft.put(first, |flow, traffic| flow.base.traffic = traffic);
        },
        tell: |flow| Some(("traffic", Told::Text(flow.traffic.text()))),
    },
    FlowKey {
        name: "policies",
        example: r#"{ controller = "new-reno" }"#,
        doc: r#"recovery policies by slot, or all of them in a string; what they leave out is as shipped, with stack =
              "tcp" as its profile has it"#,
        read: |draft, field| {
            let named = |text: &str| match draft.stack {
                Some(stack) => (stack.policies)(&draft.flow.base.settings, text),
                None => text.parse(),
            };
            let policies = match field {
                Some(field) => recovery::policies(&field, draft.stack, named),
                None => named("").ok(),
            };
            draft.put(policies, FlowSpec::set_policies);
        },
        tell: |flow| Some(("policies", Told::text(flow.policies()))),
    },
    FlowKey {
        name: "transport",
        example: r#"{ idle_timeout = "30 s" }"#,
        doc: "settings of the transport that are not policies: see below",
        read: |draft, field| {
            let said = transport::transport(field.as_ref(), &mut draft.flow.base);
            draft.put(said, |flow, said| flow.transport = said);
        },
        tell: |flow| Some(("transport", Told::Table(flow.transport.clone()))),
    },
    FlowKey {
        name: "saved",
        example: r#"{ window = "24 MB", rtt = "600 ms", rate = "244 Mbps", age = "10 min" }"#,
        doc: "what an earlier connection saved of the path, right or wrong; the client brings it to the server in \
              a token; rate and age can be left out; the policy resume decides what is made of it",
        read: |draft, field| {
            let former = draft.reader.former("memory", "saved");
            if let Some(field) = field.or(former) {
                needs_resumption(&field, draft.stack);
                draft.put(saved_path(&field), |flow, path| flow.base.saved.path = Some(path));
            }
        },
        tell: |flow| flow.saved.path.as_ref().map(|path| ("memory", told_path(path))),
    },
    FlowKey {
        name: "early_data",
        example: "true",
        doc: "the TLS session is resumed, and requests leave with the first flight (0-RTT); then there is no \
              completion_over_cold_floor",
        read: |draft, field| {
            if let Some(field) = field {
                needs_resumption(&field, draft.stack);
                draft.put(field.boolean(), |flow, early_data| flow.base.saved.early_data = early_data);
            }
        },
        tell: |flow| flow.saved.early_data.then_some(("early_data", Told::Flag(true))),
    },
    FlowKey {
        name: "STACK",
        example: r#"{ … }"#,
        doc: r#"settings that no other stack has, under the name that their stack gives them, such as tcp = { profile =
              "linux" }"#,
        // Read with the stack: the policies depend on them.
        read: |_, _| {},
        tell: |flow| (!flow.settings.is_empty()).then(|| ("settings", Told::debug(&flow.settings))),
    },
    FlowKey {
        name: "host",
        example: r#""linux""#,
        doc: r#""ideal" (default), "linux" (a virtual machine: programs run up to 0.1 ms late, QUIC handshakes
              cost 0.4 ms at each end, and there are pauses), "linux-coarse" (timers at whole milliseconds as well),
              "kernel" (a transport in the kernel: packets reach the network after 34 to 98 µs, after 5 ms of silence
              70 to 180 µs, and there are short pauses), or { timer, wake, receive, nic, batch }"#,
        read: |draft, field| {
            let host = field.map_or(Some(HostModel::IDEAL), |field| host(&field));
            draft.put(host, |flow, host| (flow.base.client_host, flow.base.server_host) = (host, host));
        },
        tell: |flow| Some(("host", told_host(&flow.client_host))),
    },
];

/// Where a flow stands that is read.
#[derive(Copy, Clone)]
pub(crate) struct Place<'a> {
    /// Its number.
    pub(crate) index: usize,
    /// The names of the paths.
    pub(crate) paths: &'a [String],
    /// Those that could be read.
    pub(crate) ways: Ways<'a>,
    /// The transports.
    pub(crate) stacks: &'a [StackInfo],
}

/// A flow that is being read.
struct Draft<'r, 'a> {
    reader: &'r Reader<'a>,
    place: Place<'r>,
    stack: Option<&'r StackInfo>,
    path: Option<&'r str>,
    count: Option<u64>,
    /// Of the flow, or of each of a group.
    traffic: Option<Vec<Traffic>>,
    flow: FlowSpec,
    /// Everything that it needs could be read.
    is_whole: bool,
}

impl<'r> core::ops::Deref for Draft<'r, '_> {
    type Target = Place<'r>;

    fn deref(&self) -> &Place<'r> {
        &self.place
    }
}

impl Draft<'_, '_> {
    /// Sets what could be read.
    fn put<T>(&mut self, value: Option<T>, set: impl FnOnce(&mut FlowSpec, T)) {
        match value {
            Some(value) => set(&mut self.flow, value),
            None => self.is_whole = false,
        }
    }

    fn read_traffic(&self) -> Option<Vec<Traffic>> {
        let bdp = |field: &dyn thalweg_link::read::Field, up, thousandths| {
            self.ways.bdp(self.path?, up, thousandths).map_err(|why| field.complain(&why)).ok()
        };
        let all = traffic(self.reader, self.stack, &ReadContext { count: self.count, bdp: &bdp })?;
        let carries_nothing = |traffic: &Traffic| traffic.bulk().is_some_and(|bulk| bulk.bytes == Some(0));
        if all.iter().any(carries_nothing) {
            self.reader
                .complain("shares so few bytes that some of its flows have nothing to transfer; write a larger size");
            return None;
        }
        Some(all)
    }
}

/// Reads a flow, or the flows of a group.
pub(crate) fn flows(reader: Reader<'_>, place: Place<'_>) -> Option<Vec<FlowSpec>> {
    let flow = FlowSpec {
        base: FlowPlan::new("", Traffic::download(None)),
        path: String::new(),
        beside: Vec::new(),
        moves: Vec::new(),
        phase: true,
        transport: Vec::new(),
    };
    let mut draft =
        Draft { reader: &reader, place, stack: None, path: None, count: None, traffic: None, flow, is_whole: true };
    for key in FLOW_KEYS {
        let is_key = key.name.starts_with(char::is_lowercase);
        let field = if is_key { reader.get(key.name) } else { None };
        (key.read)(&mut draft, field);
    }
    let Draft { count, traffic, flow, is_whole, .. } = draft;
    reader.finish();
    let traffic = traffic?;
    is_whole.then(|| group::flows(flow, count, &traffic))
}

impl FlowSpec {
    /// Whether it takes a path at any time.
    pub fn takes(&self, path: &str) -> bool {
        self.paths().any(|taken| taken == path)
    }

    /// The paths that it takes, by name: the first, those that it moves to, and those that it uses at the same time.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let moves = self.moves.iter().filter_map(|change| change.to.as_deref());
        core::iter::once(self.path.as_str()).chain(moves).chain(self.beside.iter().map(String::as_str))
    }

    /// The rules of its transport.
    pub fn policies(&self) -> &Policies {
        &self.base.client.policies
    }

    /// Gives both its ends these rules.
    pub(crate) fn set_policies(&mut self, policies: Policies) {
        self.base.client.policies = policies.clone();
        self.base.server.policies = policies;
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
        let mut plan = self.base.clone();
        plan.route = route(&self.path)?;
        plan.beside = self.beside.iter().map(|name| route(name)).collect::<Result<_, _>>()?;
        for change in &self.moves {
            let what = match &change.to {
                None => AddressChange::Rebind,
                Some(to) => AddressChange::Move { route: route(to)?, notice: change.notice },
            };
            plan.moves.push(Move { at: change.at, what });
        }
        Ok(plan)
    }

    /// What names its results.
    fn told(&self) -> Told {
        Told::Table(FLOW_KEYS.iter().filter_map(|key| (key.tell)(self)).collect())
    }
}

impl PartialEq for FlowSpec {
    fn eq(&self, other: &Self) -> bool {
        self.told() == other.told()
    }
}

impl Serialize for FlowSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.told().serialize(serializer)
    }
}

/// The name of a flow.
fn name(field: &Field<'_>) -> Option<String> {
    match field.text("a name in quotes") {
        Some("" | "*") => {
            field.complain("is no name; write a word");
            None
        }
        name => name.map(str::to_owned),
    }
}

/// One of these names.
fn one_of<'n>(field: &Field<'_>, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    field.choice(&names.map(|name| (name, name)).collect::<Vec<_>>())
}

/// A list of paths, each at most once.
fn several<'n>(field: &Field<'_>, paths: &'n [String]) -> Option<Vec<&'n str>> {
    let named: Vec<_> =
        field.items().iter().filter_map(|item| one_of(item, paths.iter().map(String::as_str))).collect();
    if named.len() != field.items().len() {
        return None;
    }
    let is_twice = named.iter().enumerate().any(|(at, name)| named[..at].contains(name));
    if is_twice || named.is_empty() {
        field.complain("names a path twice, or none; write each once");
        return None;
    }
    Some(named)
}

/// Complains about a key that only connections with a past have.
fn needs_resumption(field: &Field<'_>, stack: Option<&StackInfo>) {
    if let Some(stack) = stack.filter(|stack| !stack.resumes) {
        field.complain(format!(
            "needs a stack that resumes connections, which \"{}\" does not; leave it out",
            stack.name
        ));
    }
}

/// What an earlier connection has saved, or would have if the path had been another one then.
fn saved_path(field: &Field<'_>) -> Option<SavedPath> {
    let table = field.table("a table such as { window = \"18.75 MB\", rtt = \"600 ms\", rate = \"250 Mbps\" }")?;
    let window = table.need("window", "\"18.75 MB\"").and_then(|field| field.size());
    let min_rtt = table.need("rtt", "\"600 ms\"").and_then(|field| field.span());
    let rate = table.get("rate").map_or(Some(None), |field| field.rate().map(Some));
    let age = table.get("age").map_or(Some(Duration::ZERO), |field| field.duration());
    table.finish();
    Some(SavedPath { window: window?, min_rtt: min_rtt?, rate: rate?, age: age? })
}

/// What is saved of a path as it names results: in the words that type and key had when results were first stored.
fn told_path(path: &SavedPath) -> Told {
    let SavedPath { window, min_rtt, rate, age } = path;
    Told::Text(format!("Some(PathMemory {{ window: {window}, min_rtt: {min_rtt:?}, rate: {rate:?}, age: {age:?} }})"))
}

/// A host as it names results: in the words that the type had when results were first stored, where they say it all.
fn told_host(model: &HostModel) -> Told {
    let HostModel { timer_granularity, wake_delay, receive_delay, nic, batch, .. } = model;
    if (HostModel { spread: Duration::ZERO, handshake: Duration::ZERO, pauses: None, handover: None, ..*model })
        != *model
    {
        return Told::Text(format!("{model:?}").replace("handover: None, ", ""));
    }
    Told::Text(format!(
        "HostModel {{ timer_granularity: {timer_granularity:?}, wake_delay: {wake_delay:?}, receive_delay: \
         {receive_delay:?}, nic: {nic:?}, batch: {batch} }}"
    ))
}

/// A profile by name, or a table of delays.
fn host(field: &Field<'_>) -> Option<HostModel> {
    if !field.is_table() {
        let profiles = [
            ("ideal", HostModel::IDEAL),
            ("linux", HostModel::LINUX),
            ("linux-coarse", HostModel::LINUX_COARSE),
            ("kernel", HostModel::KERNEL),
        ];
        return field.choice(&profiles);
    }
    let reader =
        field.table("\"ideal\", \"linux\", \"linux-coarse\", \"kernel\" or { timer = \"1 ms\", wake = \"50 us\" }")?;
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
        ..HostModel::IDEAL
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use thalweg_recovery::InitialWindow;
    use thalweg_sim::{Registry, SavedState};

    use super::*;
    use crate::scenario::{Scenario, ScenarioError};

    /// A flow beside the paths wifi, lte and home.
    fn read(flow: &str) -> Result<Scenario, ScenarioError> {
        let path = |name| {
            let link = "{ rate = \"20 Mbps\", delay = \"10 ms\" }";
            format!("[path.{name}]\nup = {link}\ndown = {link}\n")
        };
        let paths = ["wifi", "lte", "home"].map(path).concat();
        let text = format!("title = \"t\"\nquestion = \"q\"\ntime_limit = \"20 s\"\n{paths}[[flow]]\n{flow}\n");
        let stacks: Vec<StackInfo> = Registry::default().stacks().cloned().collect();
        Scenario::parse("t.toml", &text, Path::new(""), &stacks)
    }

    /// A download over Wi-Fi with these lines in its flow.
    fn parse(lines: &str) -> Result<Scenario, ScenarioError> {
        read(&format!("path = \"wifi\"\ntransfer = {{ download = \"10 MB\" }}\n{lines}"))
    }

    fn complaint(lines: &str, key: &str, needle: &str) {
        let error = parse(lines).expect_err(lines);
        let found = error.diagnostics.iter().find(|found| found.key == key);
        let found = found.unwrap_or_else(|| panic!("nothing about {key}: {error}"));
        assert!(found.message.contains(needle), "{found}");
    }

    #[test]
    fn the_example_of_every_key_can_be_read_and_names_other_results() {
        const PATH: &str = "path = \"wifi\"";
        const TRANSFER: &str = "transfer = { download = \"1 MB\" }";
        // What stands in capitals is not a key, and the keys of `transport` come one by one.
        let keys = FLOW_KEYS.iter().filter(|key| key.name.starts_with(char::is_lowercase) && key.name != "transport");
        let of_flows = keys.map(|key| {
            let path = if key.name == "path" { "" } else { PATH };
            format!("{path}\n{TRANSFER}\n{} = {}", key.name, key.example)
        });
        let kinds = Traffic::keys().map(|kind| format!("{PATH}\n{} = {}", kind.name, kind.example));
        let of_transport = TRANSPORT_KEYS
            .iter()
            .map(|key| format!("{PATH}\n{TRANSFER}\ntransport = {{ {} = {} }}", key.name, key.example));
        let mut seen = BTreeSet::new();
        let plain = format!("{PATH}\n{TRANSFER}");
        for flow in core::iter::once(plain).chain(of_flows).chain(kinds).chain(of_transport) {
            let scenario = read(&flow).unwrap_or_else(|error| panic!("{flow}: {error}"));
            assert!(seen.insert(scenario.points[0].digest.as_str().to_owned()), "{flow}");
        }
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
    fn an_earlier_connection_has_saved_something_for_a_flow() {
        let text =
            "early_data = true\nsaved = { window = \"2 MB\", rtt = \"100 ms\", rate = \"50 Mbps\", age = \"10 min\" }";
        let scenario = parse(text).unwrap_or_else(|error| panic!("{error}"));
        let plan = scenario.points[0].world.flows[0].plan(|_| Ok(vec![0])).unwrap();
        let path = plan.saved.path.unwrap();
        assert_eq!((path.window, path.min_rtt.as_millis(), path.age.as_secs()), (2_000_000, 100, 600));
        assert_eq!(path.rate, Some(Rate::from_bps(50_000_000)));
        assert!(plan.saved.early_data);
        let plain = parse("").unwrap();
        assert_eq!(plain.points[0].world.flows[0].plan(|_| Ok(vec![0])).unwrap().saved, SavedState::default());
        assert_ne!(scenario.points[0].digest, plain.points[0].digest);
        complaint("saved = { rtt = \"100 ms\" }", "flow.0.saved", "needs window");
        complaint("saved = { window = \"2 MB\", rtt = \"0 s\" }", "flow.0.saved.rtt", "longer than zero");
        complaint("saved = \"learned\"", "flow.0.saved", "a table such as");
        complaint("stack = \"tcp\"\nearly_data = true", "flow.0.early_data", "\"tcp\" does not; leave it out");
        complaint("early_data = 1", "flow.0.early_data", "");
    }

    #[test]
    fn the_former_name_of_saved_is_read_and_noted_and_names_the_same_results() {
        let value = "{ window = \"2 MB\", rtt = \"100 ms\", rate = \"50 Mbps\", age = \"10 min\" }";
        let now = parse(&format!("saved = {value}")).unwrap();
        let before = parse(&format!("memory = {value}")).unwrap();
        assert_eq!(now.points[0].digest, before.points[0].digest);
        assert_eq!(now.remarks.renamed, []);
        let said: Vec<String> = before.remarks.renamed.iter().map(ToString::to_string).collect();
        assert!(matches!(&said[..], [one] if one.contains(": the key memory is now called saved;")), "{said:?}");
        complaint(&format!("memory = {value}\nsaved = {value}"), "flow.0.memory", "write saved alone");
        let key = FLOW_KEYS.iter().find(|key| key.name == "saved").unwrap();
        let told =
            Told::text(&"Some(PathMemory { window: 2000000, min_rtt: 100ms, rate: Some(Rate(50000000)), age: 600s })");
        assert_eq!((key.tell)(&now.points[0].world.flows[0]), Some(("memory", told)));
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
