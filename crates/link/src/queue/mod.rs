//! Queues and the disciplines that a description can name. One interface, clocked by an argument.
//!
//! A discipline of your own is a [`Queue`] given to [`Direction::with_queue`](crate::Direction::with_queue). One that
//! descriptions can name is a file here: a type with its parameters that implements [`Kind`], its queue, and its tests.
//! Its `mod` line and its entry in the list of `disciplines!` below make it known.

mod fifo;
mod limit;

use core::fmt::Debug;

pub use fifo::Fifo;
pub use limit::QueueLimit;
use serde::Serialize;
use thalweg_units::{Instant, Rate};

use crate::read::{Field, Table, nearest};
use crate::{Dice, DropCause, Packet};

/// A packet that waits, and since when.
#[derive(Clone, Debug)]
pub struct Queued<P> {
    /// The packet.
    pub packet: Packet<P>,
    /// When it came to the queue.
    pub at: Instant,
}

/// What a queue discarded.
#[derive(Clone, Debug)]
pub struct Dropped<P> {
    /// The packet.
    pub packet: Packet<P>,
    /// When.
    pub at: Instant,
    /// Why.
    pub cause: DropCause,
}

/// A queue discipline. The packet that is being serialized has left the queue and takes no place in it.
///
/// Nothing here reads a clock: the same object serves a simulation and a real-time emulator. Calls come with times that
/// do not go back. A queue that marks instead of dropping sets [`Packet::ecn`] to CE.
pub trait Queue<P>: Debug + Send {
    /// Takes in `packet`, or discards it or others into `dropped`.
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>);

    /// Takes in `packet` while the link is idle and nothing waits: it is next to be serialized, so it needs no place
    /// and the limit does not apply to it. A queue that does not say otherwise treats it like any other.
    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.enqueue(now, packet, dropped);
    }

    /// Hands out the next packet to serialize. Packets discarded on the way go into `dropped`. A queue that holds
    /// packets back gives none although some wait, and says in [`next_event`](Self::next_event) when to ask again.
    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>>;

    /// When a queue whose packets are all held back has one to hand out, later than the last call; none if it never
    /// holds back. It is asked again earlier if a packet arrives before.
    fn next_event(&self) -> Option<Instant> {
        None
    }

    /// The link now serves at this rate (limits given in time depend on it).
    fn set_rate(&mut self, rate: Rate) {
        let _ = rate;
    }

    /// Bytes that wait.
    fn len_bytes(&self) -> u64;

    /// Packets that wait.
    fn len_packets(&self) -> usize;
}

/// What a queue is built with, beside the parameters of its discipline.
#[derive(Debug)]
pub struct Setup {
    /// How much may wait, never in BDP.
    pub limit: QueueLimit,
    /// The rate of the link at the start.
    pub rate: Rate,
    /// Its chance, from a stream of its own.
    pub dice: Dice,
}

/// A queue discipline that descriptions can name: its parameters, and how to read and build it.
pub trait Kind: Clone + Debug + Default + PartialEq + Serialize {
    /// The name in `aqm = "NAME"`.
    const NAME: &'static str;
    /// A value of `aqm` with all parameters; a test reads it.
    const EXAMPLE: &'static str;
    /// What it does and its parameters with units and defaults, for `thalweg lab list --keys`.
    const DOC: &'static str;

    /// Reads the parameters in `aqm = { name = "NAME", … }`; none unless it says otherwise.
    fn read(table: &dyn Table) -> Option<Self> {
        let _ = table;
        Some(Self::default())
    }

    /// An empty queue.
    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>>;
}

/// Makes the sum of all disciplines; an entry is the only thing that a new one adds beside its file.
macro_rules! disciplines {
    ($($module:ident::$kind:ident,)+) => {
        $(pub use $module::$kind;)+

        /// Which queue stands before the link.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum Discipline {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind($kind),)+
        }

        impl Discipline {
            /// Name, example and documentation of each.
            pub const ALL: &'static [(&'static str, &'static str, &'static str)] =
                &[$(($kind::NAME, $kind::EXAMPLE, $kind::DOC),)+];

            /// The one of this name, as `table` says or with its default parameters.
            fn named(name: &str, table: Option<&dyn Table>) -> Option<Discipline> {
                $(if name == $kind::NAME {
                    return table.map_or_else(|| Some($kind::default()), $kind::read).map(Discipline::$kind);
                })+
                None
            }

            /// An empty queue of this discipline.
            pub(crate) fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
                match self {
                    $(Discipline::$kind(kind) => kind.build(setup),)+
                }
            }
        }

        $(impl From<$kind> for Discipline {
            fn from(kind: $kind) -> Discipline {
                Discipline::$kind(kind)
            }
        })+
    };
}

disciplines! {
    fifo::TailDrop,
    fifo::HeadDrop,
}

impl Default for Discipline {
    fn default() -> Discipline {
        TailDrop.into()
    }
}

impl Discipline {
    /// "tail-drop", or { name = "tail-drop", … } with parameters.
    pub(crate) fn read(field: &dyn Field) -> Option<Discipline> {
        let names = || Self::ALL.iter().map(|(name, ..)| *name);
        let expected = format!("one of {}", names().collect::<Vec<_>>().join(", "));
        let known = |field: &dyn Field| {
            let name = field.text(&expected)?.to_owned();
            if !names().any(|known| known == name) {
                let hint = nearest(&name, names()).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
                field.complain(&format_args!("\"{name}\" is not known; {hint}write {expected}"));
                return None;
            }
            Some(name)
        };
        let Some(table) = field.open() else { return Discipline::named(&known(field)?, None) };
        let name = table.need("name", "\"tail-drop\"").and_then(|field| known(&*field))?;
        let discipline = Discipline::named(&name, Some(&*table));
        table.finish();
        discipline
    }
}
