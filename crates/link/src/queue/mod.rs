//! Queues and the disciplines that a description can name. One interface, clocked by an argument.
//!
//! A discipline of your own is a [`Queue`] given to [`Direction::with_queue`](crate::Direction::with_queue). One that
//! descriptions can name is a file here: a type with its parameters that implements [`Kind`], its queue, and its tests.
//! Its `mod` line and its entry in the list of `disciplines!` below make it known.

mod backlog;
mod cobalt;
mod codel;
mod dual_pi2;
mod fifo;
mod fixed;
mod flows;
mod fq_codel;
mod fq_pie;
mod grid;
mod interface;
mod limit;
mod lists;
mod pie;
mod predict;
mod red;
mod rounds;
mod sfq_codel;
#[cfg(test)]
mod testing;

use core::fmt::Debug;

pub use codel::Law;
pub use dual_pi2::DualLaw;
pub use fifo::Fifo;
pub use flows::FlowHash;
pub use grid::Grid;
pub use interface::{Dropped, Kind, Needs, Queue, Queued, Setup};
pub(crate) use interface::{FEW, MANY, set};
pub use limit::QueueLimit;
pub use pie::{DelayEstimate, PieVariant};
pub use predict::{MarkAt, NotEct};
pub use red::Adaptation;
use serde::Serialize;
use thalweg_units::Rate;

use crate::read::{Field, Table, nearest};

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

            /// One of each, with its default parameters.
            pub fn every() -> impl Iterator<Item = Discipline> {
                [$(Discipline::$kind($kind::default()),)+].into_iter()
            }

            /// The one of this name, as `table` says or with its default parameters.
            fn named(name: &str, table: Option<&dyn Table>) -> Option<Discipline> {
                $(if name == $kind::NAME {
                    return table.map_or_else(|| Some($kind::default()), $kind::read).map(Discipline::$kind);
                })+
                None
            }

            /// Its name in descriptions.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Discipline::$kind(_) => $kind::NAME,)+
                }
            }

            /// How much may wait where a description does not state it: see [`Kind::limit`].
            pub fn limit(&self, rate: Option<Rate>) -> QueueLimit {
                match self {
                    $(Discipline::$kind(kind) => kind.limit(rate),)+
                }
            }

            /// What its queue has to have room for: see [`Kind::needs`].
            pub fn needs(&self, rate: Rate) -> Option<Needs> {
                match self {
                    $(Discipline::$kind(kind) => kind.needs(rate),)+
                }
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
    codel::CoDel,
    pie::Pie,
    red::Red,
    red::Hred,
    fq_codel::FqCodel,
    sfq_codel::SfqCodel,
    fq_pie::FqPie,
    dual_pi2::DualPi2,
    predict::Predict,
    cobalt::Cobalt,
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

#[cfg(test)]
mod tests {
    use thalweg_units::Duration;

    use super::testing::Keys;
    use super::*;
    use crate::read::Value::{self, Boolean, Float, Integer, Text};

    fn refuses<K: Kind>(values: &[(&'static str, Value<'static>)], parts: &[&str]) {
        let (_, complaints) = Keys::read::<K>(values);
        assert_eq!(complaints.len(), 1, "{values:?}: {complaints:?}");
        assert!(parts.iter().all(|part| complaints[0].contains(part)), "{values:?}: {complaints:?}");
    }

    #[test]
    fn absurd_parameters_are_refused_with_what_is_accepted() {
        refuses::<CoDel>(&[("target", Text("0 ms"))], &["target: 0 ns is out of range", "1 us to 60 s"]);
        refuses::<CoDel>(
            &[("target", Text("200 ms"))],
            &["200 ms", "not below its interval of 100 ms", "1 us to less"],
        );
        refuses::<CoDel>(&[("interval", Text("5 ms"))], &["not below its interval of 5 ms"]);
        refuses::<CoDel>(&[("interval", Text("2 h"))], &["interval: 7200 s is out of range", "60 s"]);
        refuses::<CoDel>(&[("l4s", Boolean(true))], &["needs ce_threshold"]);
        refuses::<CoDel>(&[("law", Text("kernel"))], &["one of exact, linux"]);
        refuses::<Pie>(&[("update", Text("1 us"))], &["update: 1 us is out of range", "100 us to 60 s"]);
        refuses::<Pie>(&[("alpha", Float(-1.0))], &["alpha: -1 is out of range", "from 0 to 1000"]);
        refuses::<Pie>(&[("mean_packet", Text("0 B"))], &["mean_packet", "1 B to 65535 B"]);
        refuses::<Pie>(&[("variant", Text("ns3"))], &["did you mean \"ns-3\"?"]);
        refuses::<Red>(&[("min", Integer(20))], &["min = 20", "not below max = 15"]);
        refuses::<Red>(&[("weight", Integer(0))], &["weight: 0 is out of range", "to 1"]);
        refuses::<Red>(&[("max_p", Integer(2))], &["max_p", "did you mean \"2 %\"?"]);
        refuses::<Red>(&[("target", Text("5 ms")), ("min", Integer(5))], &["has min beside target = \"5 ms\""]);
        refuses::<Hred>(&[("max", Integer(5))], &["min = 5", "not below max = 5"]);
        refuses::<FqCodel>(&[("queues", Integer(10_000_000))], &["10000000 is out of range", "1 to 65536"]);
        refuses::<FqCodel>(&[("quantum", Text("1 B"))], &["quantum: 1 B is out of range", "256 B to 1048576 B"]);
        refuses::<FqCodel>(&[("batch", Integer(0))], &["batch: 0 is out of range", "1 to 65536"]);
        refuses::<SfqCodel>(&[("queues", Integer(0))], &["0 is out of range", "1 to 65536"]);
        refuses::<Cobalt>(&[("target", Text("1 s"))], &["1 s", "not below its interval of 100 ms"]);
        refuses::<DualPi2>(&[("k", Integer(0))], &["k: 0 is out of range", "1 to 16"]);
        refuses::<DualPi2>(&[("weight_c", Integer(100))], &["weight_c: 100 is out of range", "1 to 99"]);
    }

    /// "1000 packets" for a CoDel that nothing is said of.
    #[test]
    fn every_discipline_has_a_limit_and_says_it() {
        let rate: Rate = "20 Mbps".parse().unwrap();
        for discipline in Discipline::every() {
            let (_, _, doc) = Discipline::ALL.iter().find(|(name, ..)| *name == discipline.name()).unwrap();
            let doc = doc.split_whitespace().collect::<Vec<_>>().join(" ");
            let limit = discipline.limit(Some(rate));
            let said = match discipline {
                Discipline::Cobalt(_) => "default queue: four intervals at the link's rate, within 4 MiB".to_owned(),
                _ => format!("default queue \"{limit}\""),
            };
            assert!(doc.contains(&said), "{}: {said} is not in {doc}", discipline.name());
            // A default is never too short for what it is the default of.
            let bytes = limit.bytes(rate, Duration::from_millis(20)).unwrap_or(u64::MAX);
            assert!(discipline.needs(rate).is_none_or(|needs| needs.bytes <= bytes), "{discipline:?}: {limit}");
        }
        let cobalt = |rate: &str| Discipline::from(Cobalt::default()).limit(Some(rate.parse().unwrap()));
        assert_eq!(cobalt("200 Mbps"), QueueLimit::Bytes(10_000_000));
        assert_eq!((cobalt("20 Mbps"), cobalt("10 Gbps")), (QueueLimit::Bytes(4 << 20), QueueLimit::Bytes(15_503_360)));
        let linux = DualPi2::law(DualLaw::Linux);
        assert_eq!(Discipline::from(linux).limit(None), QueueLimit::Packets(10_000));
    }

    #[test]
    fn parameters_are_read_over_those_of_the_variant() {
        let (pie, complaints) = Keys::read::<Pie>(&[("variant", Text("paper")), ("burst", Text("0 ms"))]);
        let (pie, paper) = (pie.unwrap(), Pie::variant(PieVariant::Paper));
        assert_eq!((pie.target, pie.update, pie.burst.is_zero()), (paper.target, paper.update, true));
        assert!(complaints.is_empty());
        let (dual, _) = Keys::read::<DualPi2>(&[("law", Text("linux")), ("k", Integer(3))]);
        assert_eq!(dual.unwrap(), DualPi2 { k: 3, ..DualPi2::law(DualLaw::Linux) });
        let (hred, _) = Keys::read::<Hred>(&[("max_p", Float(0.3))]);
        assert_eq!(hred.unwrap().0, Red { max_p: 0.3, ..Hred::default().0 });
    }
}
