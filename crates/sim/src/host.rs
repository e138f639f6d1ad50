//! What a simulated host must be able to do: few things, so that a foreign transport plugs in the same way ours does.

use thalweg_link::Streams;
use thalweg_proto::observe::EventHash;
use thalweg_units::{Ecn, Instant};

use crate::floor::IP_UDP_HEADERS;
use crate::meter::Meter;
use crate::plan::{Crypto, FlowPlan, Plan, PlanError, Record};
use crate::result::{PacketCounts, SideResult};

/// One end of a flow: a program with a socket.
///
/// The world calls [`datagram`](Self::datagram) and [`timer`](Self::timer) as things happen, and [`poll_send`](Self::poll_send)
/// after either.
pub trait Host: Send {
    /// A datagram arrived. Its bytes may be changed in place.
    fn datagram(&mut self, now: Instant, ecn: Ecn, bytes: &mut [u8]);

    /// When [`timer`](Self::timer) wants to be called.
    fn next_timer(&self) -> Option<Instant>;

    /// That time has come.
    fn timer(&mut self, now: Instant);

    /// Hands out everything that may leave now.
    fn poll_send(&mut self, now: Instant, out: &mut Outbox<'_>);

    /// Progress of the host. A flow ends when its client finishes; a server only reports failures.
    fn status(&self) -> Status;

    /// Whether other connections of the flow are still under way although one has failed: the flow is not over before
    /// they are.
    fn is_busy(&self) -> bool {
        false
    }

    /// What it has received.
    fn meter(&self) -> &Meter;

    /// Bytes of headers that the network adds to each datagram. IPv4 and UDP unless the host says otherwise.
    fn overhead(&self) -> u32 {
        IP_UDP_HEADERS
    }

    /// Packets sent and declared lost so far; `None` if the stack can tell only at the end.
    fn packets(&self) -> Option<PacketCounts> {
        None
    }

    /// The transport's figures at the end.
    fn report(&mut self, now: Instant) -> SideResult;
}

/// How far a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// There is something left to do.
    Running,
    /// Everything was done.
    Finished,
    /// It cannot be done any more, because of this.
    Failed(String),
}

/// Takes datagrams to the network. Their memory is recycled.
#[derive(Debug)]
pub struct Outbox<'a> {
    pub(crate) pool: &'a mut Vec<Vec<u8>>,
    pub(crate) out: &'a mut Vec<Outgoing>,
}

/// A datagram on its way to the network.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
    pub(crate) tail: bool,
}

impl Outbox<'_> {
    /// Sends one datagram.
    pub fn push(&mut self, ecn: Ecn, bytes: &[u8]) {
        let mut buffer = self.pool.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.out.push(Outgoing { ecn, payload: buffer, tail: false });
    }

    /// The datagram pushed last is the last of a message, sent for the first time: what [`LossModel::Tail`](thalweg_link::LossModel::Tail)
    /// takes.
    pub fn mark_tail(&mut self) {
        if let Some(last) = self.out.last_mut() {
            last.tail = true;
        }
    }
}

/// What a stack is told when it is to make the two ends of a flow.
pub struct StackContext<'a> {
    /// The whole plan.
    pub plan: &'a Plan,
    /// The flow.
    pub flow: &'a FlowPlan,
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
    /// Whether a path of the plan loses the last packets of messages, so that [`Outbox::mark_tail`] matters.
    pub tails: bool,
    /// The run's event log, if it is wanted: one observer per connection.
    pub hash: Option<EventHash>,
}

/// A client and a server.
pub type Hosts = (Box<dyn Host>, Box<dyn Host>);

/// An implementation of a transport that flows can be run with.
pub trait StackFactory: Send + Sync {
    /// Its name in plans.
    fn name(&self) -> &str;

    /// Makes a client and a server.
    ///
    /// # Errors
    /// When it cannot do what the flow asks for.
    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError>;

    /// What a reader of the result must know of how it was set up: policies, windows, packet sizes, acknowledgements.
    fn settings(&self, flow: &FlowPlan) -> String {
        let _ = flow;
        String::new()
    }

    /// Whether the same seed is the same run to the bit. A stack that draws chance from the system is not.
    fn is_repeatable(&self) -> bool {
        true
    }
}

/// The stacks that flows can name.
pub struct Registry {
    stacks: Vec<Box<dyn StackFactory>>,
}

impl Default for Registry {
    /// "thalweg", "tcp" and "raw".
    fn default() -> Self {
        Registry { stacks: vec![Box::new(crate::quic::Thalweg), Box::new(crate::tcp::Tcp), Box::new(crate::raw::Raw)] }
    }
}

impl Registry {
    /// Adds a stack; one of the same name is replaced.
    pub fn add(&mut self, stack: Box<dyn StackFactory>) {
        self.stacks.retain(|known| known.name() != stack.name());
        self.stacks.push(stack);
    }

    /// Names of the stacks.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.stacks.iter().map(|stack| stack.name())
    }

    /// Whether the same seed is the same run with this stack; false if there is none of that name.
    pub fn is_repeatable(&self, name: &str) -> bool {
        self.get(name).is_some_and(StackFactory::is_repeatable)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&dyn StackFactory> {
        self.stacks.iter().find(|stack| stack.name() == name).map(AsRef::as_ref)
    }
}
