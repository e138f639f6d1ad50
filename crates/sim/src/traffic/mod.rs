//! Traffic of a flow: the kinds there are, and their sum.
//!
//! A kind of traffic is a file here (or a folder): a type with its parameters that implements [`TrafficKind`] (what
//! runs at both ends, what it is judged by) and [`Described`] (the keys of a scenario that stand for it, with their
//! documentation and how they are read). Its `mod` line and its entry in the list of `traffic!` below make it known.

mod call;
mod kind;
mod media;
mod page;
mod requests;
mod short_flows;
mod size;
mod transfer;

use core::fmt;
use core::ops::Deref;

pub use call::{Audio, Video};
pub use kind::{
    Bulk, Clients, Datagrams, Described, Ends, Judgement, Launcher, Needs, ReadContext, TrafficKey, TrafficKind,
};
pub(crate) use media::{MediaSink, MediaSource, PIECE_HEAD, media_span};
pub use page::PageObject;
pub use size::Size;
use thalweg_link::read::Table;

/// A key of a flow that stands for traffic of whatever kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TrafficInfo {
    /// The key in `KEY = { … }`.
    pub name: &'static str,
    /// A value with the parameters that it needs.
    pub example: &'static str,
    /// Its parameters with units and defaults.
    pub doc: &'static str,
    /// What it needs of a stack.
    pub needs: Needs,
    /// Names of the metrics that it has and other traffic has not.
    pub metrics: &'static [&'static str],
}

/// Makes the sum of all kinds; an entry is the only thing that a new one adds beside its file.
macro_rules! traffic {
    ($($module:ident::$kind:ident,)+) => {
        $(pub use $module::$kind;)+

        /// What a flow does. Its methods are those of [`TrafficKind`].
        #[derive(Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Traffic {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind($kind),)+
        }

        impl Traffic {
            /// The keys of a flow that stand for traffic, in the order of their documentation.
            pub fn keys() -> impl Iterator<Item = TrafficInfo> {
                let all = core::iter::empty();
                $(let all = all.chain(<$kind as Described>::KEYS.iter().map(|key| TrafficInfo {
                    name: key.name,
                    example: key.example,
                    doc: key.doc,
                    needs: <$kind as Described>::NEEDS,
                    metrics: key.metrics,
                }));)+
                all
            }

            /// What it needs of a stack.
            pub const fn needs(&self) -> Needs {
                match self {
                    $(Traffic::$kind(_) => <$kind as Described>::NEEDS,)+
                }
            }

            /// Reads the table under a key of [`keys`](Self::keys): the traffic of a flow, or of each of a group.
            /// What is wrong is complained about, and leaves nothing.
            pub fn read(key: &str, table: &dyn Table, context: &ReadContext<'_>) -> Option<Vec<Traffic>> {
                $(if let Some(known) = <$kind as Described>::KEYS.iter().find(|known| known.name == key) {
                    return Some((known.read)(table, context)?.into_iter().map(Traffic::$kind).collect());
                })+
                None
            }
        }

        impl Deref for Traffic {
            type Target = dyn TrafficKind;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Traffic::$kind(kind) => kind,)+
                }
            }
        }

        $(impl From<$kind> for Traffic {
            fn from(kind: $kind) -> Traffic {
                Traffic::$kind(kind)
            }
        })+
    };
}

traffic! {
    transfer::Transfer,
    requests::Requests,
    short_flows::Flows,
    page::Page,
    media::Media,
    call::Call,
}

impl Traffic {
    /// Fetches this many bytes; `None`: for ever.
    pub const fn download(bytes: Option<u64>) -> Traffic {
        Traffic::Transfer(Transfer { up: false, bytes })
    }

    /// Sends this many bytes; `None`: for ever.
    pub const fn upload(bytes: Option<u64>) -> Traffic {
        Traffic::Transfer(Transfer { up: true, bytes })
    }
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
