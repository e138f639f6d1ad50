//! Stack factories, which make the two hosts of a flow, and their descriptions.

use std::net::{IpAddr, SocketAddr};

use thalweg_link::Streams;
use thalweg_proto::observe::EventHash;
use thalweg_recovery::{Policies, PolicyError};
use thalweg_units::Instant;

use super::{Schema, Settings};
use crate::floor::Framing;
use crate::host::{Host, IP_UDP_HEADERS};
use crate::plan::{Crypto, FlowPlan, Plan, PlanError, Record};
use crate::result::SideResult;

/// Bytes that a full datagram of a bulk transfer spends on itself at least: short header with a connection ID of eight
/// bytes and a packet number of one (10), tag (16), and a STREAM frame's type, stream, offset of four bytes and length
/// of two (8).
pub const PACKET_OVERHEAD: u32 = 10 + 16 + 8;

/// The context in which a stack makes the two ends of a flow.
pub struct StackContext<'a> {
    /// The whole plan.
    pub plan: &'a Plan,
    /// The flow.
    pub flow: &'a FlowPlan,
    /// The client's address at first.
    pub client: SocketAddr,
    /// The client's addresses on the routes that it uses at the same time.
    pub beside: Vec<SocketAddr>,
    /// The server's address.
    pub server: SocketAddr,
    /// Chance for what this flow carries: sizes, arrivals, pauses.
    pub streams: Streams,
    /// Chance for its endpoints: connection IDs, keys, packet numbers skipped.
    pub endpoints: Streams,
    /// When the run starts.
    pub origin: Instant,
    /// When the client starts.
    pub start: Instant,
    /// Packet protection.
    pub crypto: Crypto,
    /// What to keep.
    pub record: Record,
    /// Whether a path of the plan loses the last packets of messages, so that
    /// [`Outbox::mark_tail`](crate::Outbox::mark_tail) matters.
    pub tails: bool,
    /// The run's event log, if it is wanted: one observer per connection.
    pub hash: Option<EventHash>,
}

impl StackContext<'_> {
    /// The client's addresses on all routes that it uses at the same time, the first one's first; none where it uses
    /// one route.
    pub fn clients(&self) -> Vec<IpAddr> {
        let first = (!self.beside.is_empty()).then_some(&self.client);
        first.into_iter().chain(&self.beside).map(SocketAddr::ip).collect()
    }
}

/// A client and a server.
pub type Hosts = (Box<dyn Host>, Box<dyn Host>);

/// An implementation of a transport that flows can be run with.
pub trait StackFactory: Send + Sync {
    /// What it is: its name, what it carries, what can be chosen.
    fn info(&self) -> StackInfo;

    /// Makes a client and a server.
    ///
    /// # Errors
    /// When it cannot do what the flow asks for.
    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError>;

    /// How the packets of a bulk transfer are made up, for the [`Floor`](crate::Floor). Those of QUIC unless the stack
    /// says otherwise. `up` states whether the client sends the data.
    fn framing(&self, flow: &FlowPlan, up: bool) -> Framing {
        let sender = if up { &flow.client } else { &flow.server };
        let datagram = u32::from(sender.max_mtu.max(sender.initial_mtu));
        Framing {
            packet: datagram + IP_UDP_HEADERS,
            overhead: IP_UDP_HEADERS + PACKET_OVERHEAD,
            // The first datagram is padded to 1,200 bytes (RFC 9000 section 14.1).
            first: 1200 + IP_UDP_HEADERS,
            handshake: u32::from(!flow.saved.early_data),
        }
    }

    /// What a reader of the result must know of how it was set up, in one line: policies, windows, packet sizes,
    /// acknowledgments.
    fn settings(&self, flow: &FlowPlan) -> String {
        let _ = flow;
        String::new()
    }

    /// The same by subject, beside that line; `sender` is what the data's sender counted.
    fn notes(&self, flow: &FlowPlan, sender: &SideResult) -> Vec<(&'static str, String)> {
        let _ = (flow, sender);
        Vec::new()
    }
}

/// What a stack is, as far as plans, scenarios and results must know.
///
/// Written as `StackInfo { …, ..StackInfo::new(NAME) }`.
#[derive(Clone, Debug)]
pub struct StackInfo {
    /// Its name in plans.
    pub name: String,
    /// What it carries. Default everything.
    pub carries: Carries,
    /// Which policies of recovery make a difference to it. Default all.
    pub supported_policies: SupportedPolicies,
    /// The policies of a flow with these [settings](Self::schema) that names these, as text. Default: what it does not
    /// name is as shipped.
    pub policies: fn(&Settings, &str) -> Result<Policies, PolicyError>,
    /// Settings that no other stack has. Default none.
    pub schema: Option<&'static Schema>,
    /// Whether the same seed is the same run to the bit. Default true; a stack that draws chance from the system is
    /// not.
    pub is_repeatable: bool,
    /// Whether its connections can go on from another local address when they are notified. Default false.
    pub hears_of_moves: bool,
    /// Whether its connections can use what an earlier one has saved ([`FlowPlan::saved`]). Default false.
    pub resumes: bool,
    /// Whether its streams have priorities and can be canceled by their receiver
    /// ([`Transport::set_priority`](crate::app::Transport::set_priority) and what follows it), as a
    /// [call](crate::Call) needs. Default false.
    pub has_stream_priorities: bool,
    /// Whether its connections can use several paths at once.
    pub uses_several_paths: bool,
}

impl StackInfo {
    /// A stack of this name with everything else as by default.
    pub fn new(name: &str) -> Self {
        StackInfo {
            name: name.to_owned(),
            carries: Carries::Everything,
            supported_policies: SupportedPolicies::All,
            policies: |_, named| named.parse(),
            schema: None,
            is_repeatable: true,
            hears_of_moves: false,
            resumes: false,
            has_stream_priorities: false,
            uses_several_paths: false,
        }
    }

    /// Whether a policy of recovery makes a difference to it.
    pub fn supports(&self, policy: &str) -> bool {
        match self.supported_policies {
            SupportedPolicies::All => true,
            SupportedPolicies::AllBut { policies, .. } => !policies.contains(&policy),
            SupportedPolicies::Only { policies } => policies.contains(&policy),
        }
    }
}

/// What a stack carries.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carries {
    /// Streams and datagrams.
    Everything,
    /// Streams.
    Streams,
    /// Datagrams, without a handshake and without repair.
    Datagrams,
}

/// Which policies of recovery make a difference to a stack.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupportedPolicies {
    /// All.
    All,
    /// All but these.
    AllBut {
        /// Names of the policies.
        policies: &'static [&'static str],
        /// What stands in their place, after a colon.
        instead: &'static str,
    },
    /// These alone: its recovery is its own.
    Only {
        /// Names of the policies.
        policies: &'static [&'static str],
    },
}
