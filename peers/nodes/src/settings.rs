//! Settings of a foreign stack: read from the plan, refused where the stack has no such thing, printed with the
//! results.

use std::fmt;

use thalweg_recovery::Policies;
use thalweg_sim::{Accepts, FlowPlan, PlanError, Schema, Setting, SettingValue, StackInfo, SupportedPolicies};
use thalweg_units::{Duration, human_bytes};

/// Which of its ways a stack is run in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The plan's transport settings, and flow-control windows as large as ours may grow: what the stack's recovery can
    /// do.
    Tuned,
    /// Everything as the crate ships it: what its users get.
    Shipped,
    /// As tuned, with the stack's BBR.
    Bbr,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Variant; 3] = [Variant::Tuned, Variant::Shipped, Variant::Bbr];

    /// What follows the stack's name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Variant::Tuned => "",
            Variant::Shipped => "-shipped",
            Variant::Bbr => "-bbr",
        }
    }
}

/// A congestion controller of a foreign stack.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// CUBIC.
    Cubic,
    /// NewReno.
    NewReno,
    /// BBR, in the version that the stack has.
    Bbr,
}

/// What one end is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Shipped: nothing below applies except the controller.
    pub variant: Variant,
    /// The congestion controller.
    pub controller: Controller,
    /// Flow-control credit per stream, bytes.
    pub stream_window: u64,
    /// Flow-control credit per connection, bytes.
    pub connection_window: u64,
    /// Bytes a connection may hold that are not acknowledged.
    pub send_window: u64,
    /// Streams the peer may have open.
    pub streams: u64,
    /// RTT before there is a sample.
    pub initial_rtt: Duration,
    /// Time without any packet after which the connection is over.
    pub idle_timeout: Option<Duration>,
    /// Time without any packet after which one is sent.
    pub keep_alive: Option<Duration>,
    /// UDP payload to begin with, bytes.
    pub initial_mtu: u16,
    /// UDP payload to search for, bytes.
    pub max_mtu: u16,
    /// Whether packets are marked ECT(0).
    pub ecn: bool,
    /// Bytes of DATAGRAM frames that may wait.
    pub datagrams: usize,
    /// The first congestion window, bytes; none: the stack's own.
    pub initial_window: Option<u64>,
}

/// The settings that only these stacks have.
const INITIAL_WINDOW: &str = "initial_window";
static SCHEMA: Schema = Schema {
    table: "rival",
    example: "{ initial_window = \"100 kB\" }",
    settings: &[Setting { name: INITIAL_WINDOW, accepts: &[Accepts::Bytes(2_400..=1 << 30)] }],
};

impl Settings {
    /// The settings of the flow's client and server.
    ///
    /// # Errors
    /// When the flow asks for something that foreign stacks do not have; the message names `stack`.
    pub fn of(stack: &str, variant: Variant, flow: &FlowPlan) -> Result<[Settings; 2], PlanError> {
        let refuse = |what: String| PlanError::Setup {
            flow: flow.name.clone(),
            reason: format!("stack {stack} cannot do {what}"),
        };
        let side = |config: &thalweg_proto::TransportConfig| {
            let asked = &config.policies;
            // What is shipped here asks nothing of others: they keep the controller that they ship, which is CUBIC.
            let is_shipped = *asked == Policies::default();
            let name = if is_shipped { "cubic" } else { asked.congestion.controller_name() };
            let mut own = Policies::default();
            if !is_shipped && (own.set("controller", name).is_err() || *asked != own) {
                return Err(refuse(format!("{asked}: its recovery is its own; only controller=… may be chosen")));
            }
            let controller = match (name, variant) {
                ("cubic", Variant::Bbr) => Controller::Bbr,
                ("cubic", _) => Controller::Cubic,
                ("new-reno", Variant::Tuned) => Controller::NewReno,
                (other, _) => {
                    let way = "its plain form accepts cubic and new-reno, its other forms come with one";
                    return Err(refuse(format!("controller={other}: {way}")));
                }
            };
            let streams = &config.streams;
            Ok(Settings {
                variant,
                controller,
                stream_window: streams.max_stream_receive_window,
                connection_window: streams.max_receive_window,
                send_window: streams.send_window,
                streams: streams.max_concurrent_bidi,
                initial_rtt: config.initial_rtt,
                idle_timeout: config.max_idle_timeout,
                keep_alive: config.keep_alive,
                initial_mtu: config.initial_mtu,
                max_mtu: config.max_mtu,
                ecn: config.ecn,
                // Room for what may wait before it is late, as our own hosts have it.
                datagrams: flow.traffic.datagrams().map_or(1 << 20, |datagrams| datagrams.buffer()),
                initial_window: match flow.settings.get(INITIAL_WINDOW) {
                    Some(SettingValue::Number(bytes)) => Some(bytes),
                    _ => None,
                },
            })
        };
        Ok([side(&flow.client)?, side(&flow.server)?])
    }
}

/// What the stacks of this crate are: QUIC, with a recovery of their own in which the controller can be chosen.
pub(crate) fn info(name: &str) -> StackInfo {
    StackInfo {
        supported_policies: SupportedPolicies::Only { policies: &["controller"] },
        schema: Some(&SCHEMA),
        ..StackInfo::new(name)
    }
}

impl Settings {
    /// The flow-control windows, in words.
    pub(crate) fn windows(&self) -> String {
        let size = human_bytes;
        let (stream, connection, send) = (self.stream_window, self.connection_window, self.send_window);
        format!("windows {} per stream, {} per connection, {} to send", size(stream), size(connection), size(send))
    }
}

/// What the stacks of this crate have in common.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controller = match self.controller {
            Controller::Cubic => "CUBIC",
            Controller::NewReno => "NewReno",
            Controller::Bbr => "BBR",
        };
        if self.variant == Variant::Shipped {
            return write!(f, "{controller}, as shipped");
        }
        write!(f, "{controller}, MTU {} to {}", self.initial_mtu, self.max_mtu)
    }
}

/// Describes both sides, in one if they are the same.
pub(crate) fn describe(sides: &[Settings; 2], side: impl Fn(&Settings) -> String) -> String {
    let [client, server] = sides;
    if client == server {
        return side(client);
    }
    format!("client: {}; server: {}", side(client), side(server))
}

/// The version of a dependency that this was built with.
pub(crate) fn version(name: &str) -> &'static str {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let entry = LOCK.split("[[package]]").find(|entry| {
        entry
            .trim_start()
            .strip_prefix("name = \"")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('"'))
    });
    let version = entry.and_then(|entry| entry.split("version = \"").nth(1)).and_then(|rest| rest.split('"').next());
    version.unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_sim::Traffic;

    #[test]
    fn what_a_stack_does_not_have_is_refused_by_name() {
        let flow = FlowPlan::new("f", Traffic::download(Some(1)));
        let shipped = Settings::of("quinn", Variant::Tuned, &flow).unwrap();
        assert_eq!(shipped[1].controller, Controller::Cubic);
        let with = |policies: &str| flow.clone().policies(policies.parse().unwrap());
        let error = Settings::of("quinn", Variant::Tuned, &with("controller=abba")).unwrap_err().to_string();
        assert!(error.contains("stack quinn cannot do controller=abba"), "{error}");
        let reno = Settings::of("quinn", Variant::Tuned, &with("controller=new-reno")).unwrap();
        assert_eq!(reno[1].controller, Controller::NewReno);
        let error = Settings::of("quinn", Variant::Tuned, &with("start=standard")).unwrap_err().to_string();
        assert!(error.contains("stack quinn cannot do") && error.contains("start=standard"), "{error}");
        let error = Settings::of("quinn-bbr", Variant::Bbr, &with("controller=new-reno")).unwrap_err().to_string();
        assert!(error.contains("stack quinn-bbr cannot do controller=new-reno"), "{error}");
    }

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert!(version("quinn-proto").starts_with("0.11."), "{}", version("quinn-proto"));
        assert_eq!(version("quin"), "unknown");
    }
}
