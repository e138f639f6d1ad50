//! Settings of a transport that are not policies: their keys, their documentation, and what they set.

use thalweg_proto::{AckPath, AckPolicy, MultipathConfig, RttSamples, SchedulerPolicy, TransportConfig};
use thalweg_recovery::InitialWindow;
use thalweg_sim::FlowPlan;
use thalweg_units::Duration;

use crate::scenario::read::Field;
use crate::scenario::told::Told;
use crate::scenario::tree::Value;

/// A key of `transport`.
pub struct TransportKey {
    /// The key.
    pub name: &'static str,
    /// A value; a test reads it.
    pub example: &'static str,
    /// What it sets, with units and default, for `thalweg lab list --keys`.
    pub doc: &'static str,
    /// Whether its absence is part of what names a result. New keys say no, so that results stay where they are.
    is_always_told: bool,
    /// Reads a value and sets it at both ends; what is wrong is complained about.
    read: fn(&mut Draft, &Field<'_>) -> Option<Told>,
}

/// A transport that is being read.
struct Draft {
    /// Both ends.
    config: TransportConfig,
    /// Of the client.
    keep_alive: Option<Duration>,
    client_id_length: Option<u8>,
    /// What the sizes of datagrams come to is decided when all of them are known.
    largest: Option<u16>,
    initial: Option<u16>,
    discovers: bool,
}

/// Every key of `transport`, in the order in which they name results.
pub const TRANSPORT_KEYS: &[TransportKey] = &[
    TransportKey {
        name: "idle_timeout",
        example: r#""30 s""#,
        doc: "silence after which a connection is given up",
        is_always_told: true,
        read: |draft, field| {
            let timeout = field.span()?;
            draft.config.max_idle_timeout = Some(timeout);
            Some(Told::Time(timeout))
        },
    },
    TransportKey {
        name: "initial_rtt",
        example: r#""100 ms""#,
        doc: "round-trip time assumed until the first is measured",
        is_always_told: false,
        read: |draft, field| {
            let rtt = field.span()?;
            draft.config.initial_rtt = rtt;
            Some(Told::Time(rtt))
        },
    },
    TransportKey {
        name: "initial_window",
        example: r#""rfc6928""#,
        doc: r#"window of a path about which nothing is known: "rfc9002" (default), "rfc6928", "rfc3390", or a number of
              datagrams"#,
        is_always_told: false,
        read: |draft, field| {
            let window = initial_window(field)?;
            draft.config.initial_window = window;
            Some(Told::debug(&Some(window)))
        },
    },
    TransportKey {
        name: "handshake_padding",
        example: r#""3 kB""#,
        doc: "bytes by which the ClientHello and the server's first flight are longer, at most 8 kB",
        is_always_told: false,
        read: |draft, field| {
            let bytes = field.bytes_in(0..=8_000)?;
            draft.config.handshake_padding = size(bytes);
            Some(Told::Number(bytes))
        },
    },
    TransportKey {
        name: "keep_alive",
        example: r#""10 s""#,
        doc: "silence after which the client sends something; default never",
        is_always_told: false,
        read: |draft, field| {
            let silence = field.span()?;
            draft.keep_alive = Some(silence);
            Some(Told::Time(silence))
        },
    },
    TransportKey {
        name: "max_ack_delay",
        example: r#""25 ms""#,
        doc: "how long an acknowledgment may be delayed",
        is_always_told: true,
        read: |draft, field| {
            let delay = field.duration()?;
            draft.config.max_ack_delay = delay;
            Some(Told::Time(delay))
        },
    },
    TransportKey {
        name: "min_ack_delay",
        example: r#""off""#,
        doc: r#"the least delay that the peer may ask for (default "1 ms"), or "off": it may not ask"#,
        is_always_told: false,
        read: |draft, field| {
            let delay = if field.is("off") { None } else { Some(field.duration()?) };
            draft.config.min_ack_delay = delay;
            Some(delay.map_or(Told::Nothing, Told::Time))
        },
    },
    TransportKey {
        name: "receive_timestamps",
        example: "32",
        doc: "how many timestamps an acknowledgment may carry, at most 128 (default); asked for where the start uses \
              them",
        is_always_told: false,
        read: |draft, field| {
            let count = field.count(0..=128)?;
            draft.config.receive_timestamps = size(count);
            Some(Told::Number(count))
        },
    },
    TransportKey {
        name: "ack",
        example: r#""every-second""#,
        doc: r#"how densely packets are acknowledged without a request: "until-loss" (default), "every-second", "thinned", "sparse""#,
        is_always_told: false,
        read: |draft, field| {
            let policy = field.choice(&AckPolicy::ALL.map(|policy| (policy.name(), policy)))?;
            draft.config.acks = policy;
            Some(Told::text(&policy.name()))
        },
    },
    TransportKey {
        name: "max_datagram",
        example: r#""1452 B""#,
        doc: r#"largest UDP payload that is tried, "1200 B" to "65527 B""#,
        is_always_told: true,
        read: |draft, field| {
            let bytes = field.bytes_in(DATAGRAMS)?;
            draft.largest = Some(size(bytes));
            Some(Told::Number(bytes))
        },
    },
    TransportKey {
        name: "initial_datagram",
        example: r#""1200 B""#,
        doc: r#"UDP payload to begin with, "1200 B" to "65527 B""#,
        is_always_told: true,
        read: |draft, field| {
            let bytes = field.bytes_in(DATAGRAMS)?;
            draft.initial = Some(size(bytes));
            Some(Told::Number(bytes))
        },
    },
    TransportKey {
        name: "mtu_discovery",
        example: "false",
        doc: "whether larger datagrams are looked for; default true",
        is_always_told: true,
        read: |draft, field| {
            draft.discovers = field.boolean()?;
            Some(Told::Flag(draft.discovers))
        },
    },
    TransportKey {
        name: "ecn",
        example: "false",
        doc: "whether packets are marked ECN-capable",
        is_always_told: true,
        read: |draft, field| {
            draft.config.ecn = field.boolean()?;
            Some(Told::Flag(draft.config.ecn))
        },
    },
    TransportKey {
        name: "receive_window",
        example: r#""64 MB""#,
        doc: "receive window of a connection, all of which one stream may use; it does not grow then",
        is_always_told: true,
        read: |draft, field| {
            let window = field.size()?;
            let streams = &mut draft.config.streams;
            (streams.receive_window, streams.max_receive_window) = (window, window);
            // One stream may use all of it.
            (streams.stream_receive_window, streams.max_stream_receive_window) = (window, window);
            Some(Told::Number(window))
        },
    },
    TransportKey {
        name: "client_connection_id",
        example: "0",
        doc: "bytes of the client's connection IDs, 0 to 20; default 8. `thalweg get` has none",
        is_always_told: false,
        read: |draft, field| {
            let length = field.count(0..=20)?;
            draft.client_id_length = u8::try_from(length).ok();
            Some(Told::Number(length))
        },
    },
    TransportKey {
        name: "multipath",
        example: "true",
        doc: "whether several paths are negotiated, which a flow with paths does anyway; default false",
        is_always_told: false,
        read: |draft, field| {
            let wanted = field.boolean()?;
            draft.config.multipath = wanted.then(MultipathConfig::default);
            Some(Told::Flag(wanted))
        },
    },
    TransportKey {
        name: "scheduler",
        example: r#""lowest-rtt""#,
        doc: r#"which of several paths carries what: "lowest-rtt" (default), "earliest", "round-robin", "weighted",
              "redundant", "backup""#,
        is_always_told: false,
        read: |draft, field| {
            let names = SchedulerPolicy::NAMED.map(|policy| policy.name());
            let name = field.choice(&names.map(|name| (name, name)))?;
            let scheduler = name.parse().ok()?;
            draft.config.multipath.get_or_insert_default().scheduler = scheduler;
            Some(Told::text(&name))
        },
    },
    TransportKey {
        name: "ack_path",
        example: r#""same""#,
        doc: r#"which of several paths acknowledgments take: the "shortest" (default), or that of the packets, "same""#,
        is_always_told: false,
        read: |draft, field| {
            let acks = field.choice(&AckPath::ALL.map(|path| (path.name(), path)))?;
            draft.config.multipath.get_or_insert_default().acks = acks;
            Some(Told::text(&acks.name()))
        },
    },
    TransportKey {
        name: "rtt_samples",
        example: r#""same""#,
        doc: r#"how RTT samples count whose acknowledgments return by another path: "any" as measured, "same" not at
              all, "minimum" only by the path of the smallest, "adjusted" (default) to the own return path"#,
        is_always_told: false,
        read: |draft, field| {
            let samples = field.choice(&RttSamples::ALL.map(|rule| (rule.name(), rule)))?;
            draft.config.multipath.get_or_insert_default().samples = samples;
            Some(Told::text(&samples.name()))
        },
    },
    TransportKey {
        name: "send_window",
        example: r#""16 MB""#,
        doc: "bytes written and not yet acknowledged that a connection holds; default 256 MiB",
        is_always_told: false,
        read: |draft, field| {
            let window = field.size()?;
            draft.config.streams.send_window = window;
            Some(Told::Number(window))
        },
    },
];

/// UDP payloads that QUIC can have.
const DATAGRAMS: core::ops::RangeInclusive<u64> = 1_200..=65_527;

/// Sets what stands there at both ends of a flow. Gives what was said, in the form that names results.
pub(super) fn transport(field: Option<&Field<'_>>, flow: &mut FlowPlan) -> Option<Vec<(&'static str, Told)>> {
    let table = match field {
        Some(field) => Some(field.table("a table such as { idle_timeout = \"30 s\" }")?),
        None => None,
    };
    let config = flow.server.clone();
    let mut draft =
        Draft { config, keep_alive: None, client_id_length: None, largest: None, initial: None, discovers: true };
    let mut said = Vec::new();
    for key in TRANSPORT_KEYS {
        let field = table.as_ref().and_then(|table| table.get(key.name));
        let absent = key.is_always_told.then_some(Told::Nothing);
        let told = field.and_then(|field| (key.read)(&mut draft, &field)).or(absent);
        said.extend(told.map(|told| (key.name, told)));
    }
    if let Some(table) = table {
        table.finish();
    }
    draft.size_datagrams();
    flow.client = TransportConfig { keep_alive: draft.keep_alive.or(flow.client.keep_alive), ..draft.config.clone() };
    flow.client_id_length = draft.client_id_length.unwrap_or(flow.client_id_length);
    flow.server = draft.config;
    Some(said)
}

impl Draft {
    /// The largest datagram counts if one to begin with is larger.
    fn size_datagrams(&mut self) {
        let config = &mut self.config;
        if let Some(initial) = self.initial {
            config.initial_mtu = initial;
            config.max_mtu = config.max_mtu.max(initial);
        }
        if let Some(largest) = self.largest {
            config.max_mtu = largest;
            config.initial_mtu = config.initial_mtu.min(largest);
        }
        if !self.discovers {
            config.max_mtu = config.initial_mtu;
        }
    }
}

/// What has been read within narrower bounds.
fn size(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
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
