//! Policies in force, and their textual form.
//!
//! Each choice has a field in [`Policies`] and one line per possible value in a table: in `names`, or beside the
//! algorithms that it chooses ([`congestion`](crate::congestion)). A value can be *reserved*: its name is known, but it
//! is not built yet; asking for it says so.

use core::fmt;
use core::str::FromStr;

use crate::choice::{Field, PolicyError};
use crate::congestion::{self, Congestion, ControllerPolicies, MarkPolicy, WindowParts};
use crate::rtt::RttPolicies;

mod names;

pub use names::{
    AckAllowancePolicy, AckRatePolicy, CappedParameters, ExitRttPolicy, GrowthLimitPolicy, HandshakeParameters,
    HandshakePolicy, PacingPolicy, PacingRttPolicy, PerRoundBase, PerRoundParameters, PhasedParameters, ProbePolicy,
    ReorderingPolicy, RestartPolicy, ResumePolicy, RttPolicy, TailPolicy, TwiceFrom, TwiceParameters, UndoPolicy,
};

/// Declares [`Policies`]: congestion control, and the fields that have one value each.
macro_rules! policies {
    ($( $field:ident: $kind:ident, )+) => {
        /// Which rule decides each of the things that can be decided in more than one way.
        ///
        /// Written as `controller=cubic, start=peak-bandwidth(share=0.5), …`; fields and parameters left out keep their
        /// defaults. What is printed reads back, except for a controller of the program's own. What a family of
        /// controllers does not have, and parameters with their defaults, are not printed.
        ///
        /// ```
        /// use thalweg_recovery::Policies;
        ///
        /// let policies: Policies = "controller=new-reno, pacing=off".parse()?;
        /// assert_eq!(
        ///     policies.to_string(),
        ///     "controller=new-reno, start=peak-bandwidth, reduction=immediate, reordering=rack, rtt=classic, \
        ///      pacing-rtt=bounded, exit-rtt=sample, probe=ladder, ack-allowance=lone, ack-rate=phased, \
        ///      undo=episode, pacing=off, growth-limit=unused, restart=keep, \
        ///      handshake=plain, tail=once, resume=off, mark=abe",
        /// );
        /// # Ok::<(), thalweg_recovery::PolicyError>(())
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Policies {
            /// Congestion control: a window made of parts, a model, or a controller of the program's own.
            pub congestion: Congestion,
            $(
                #[doc = concat!("The value of `", stringify!($field), "` in text: see [`", stringify!($kind), "`].")]
                pub $field: $kind,
            )+
        }

        impl Policies {
            /// Every field and every value, built or reserved, in the order in which they are printed.
            pub const fn catalogue() -> &'static [Field] {
                &[congestion::CONTROLLER, congestion::START, congestion::REDUCTION, $( $kind::FIELD, )+]
            }

            /// Whether policies with this controller have a field: a model has no `start`, for example. True of a
            /// controller that is not known.
            pub fn has(controller: &str, field: &str) -> bool {
                let mut policies = Policies::default();
                policies.set(congestion::CONTROLLER.name, controller).is_err()
                    || policies.fields().iter().any(|(name, _)| *name == field)
            }

            /// Every field that these policies have, with its value, in the order in which they are printed.
            pub fn fields(&self) -> Vec<(&'static str, String)> {
                let mut fields = self.congestion.fields();
                $( fields.push(($kind::FIELD.name, self.$field.to_string())); )+
                fields
            }

            /// Sets one field by name. A controller of another family drops the fields that this family does not have.
            ///
            /// # Errors
            /// When there is no such field, it does not accept the value, or the controller has no such field. The
            /// message lists what would be accepted.
            pub fn set(&mut self, field: &str, value: &str) -> Result<(), PolicyError> {
                if let Some(done) = self.congestion.set(field, value) {
                    return done;
                }
                $(
                    if field == $kind::FIELD.name {
                        self.$field = value.parse()?;
                        return Ok(());
                    }
                )+
                Err(PolicyError::UnknownField { field: field.to_owned(), fields: field_names() })
            }
        }

        impl fmt::Display for Policies {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let fields = self.fields().into_iter().map(|(field, value)| format!("{field}={value}"));
                f.write_str(&fields.collect::<Vec<_>>().join(", "))
            }
        }
    };
}

policies! {
    reordering: ReorderingPolicy,
    rtt: RttPolicy,
    pacing_rtt: PacingRttPolicy,
    exit_rtt: ExitRttPolicy,
    probe: ProbePolicy,
    ack_allowance: AckAllowancePolicy,
    ack_rate: AckRatePolicy,
    undo: UndoPolicy,
    pacing: PacingPolicy,
    growth_limit: GrowthLimitPolicy,
    restart: RestartPolicy,
    handshake: HandshakePolicy,
    tail: TailPolicy,
    resume: ResumePolicy,
    mark: MarkPolicy,
}

fn field_names() -> String {
    Policies::catalogue().iter().map(|field| field.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for Policies {
    type Err = PolicyError;

    /// Fields may come in any order.
    fn from_str(text: &str) -> Result<Policies, PolicyError> {
        Policies::default().with(text)
    }
}

impl From<&Policies> for RttPolicies {
    fn from(policies: &Policies) -> RttPolicies {
        RttPolicies { probe: policies.rtt, pacing: policies.pacing_rtt, exit: policies.exit_rtt }
    }
}

impl PacingPolicy {
    /// Whether packets are spread in some way.
    pub fn is_on(self) -> bool {
        self != PacingPolicy::Off
    }
}

impl Policies {
    /// What of them concerns the controller of a path.
    pub(crate) fn of_controller(&self) -> ControllerPolicies {
        let window = match self.congestion {
            Congestion::Window { growth, start, reduction } => Some(WindowParts { growth, start, reduction }),
            _ => None,
        };
        let is_paced = self.pacing.is_on();
        ControllerPolicies { window, is_paced, ecn_codepoint: self.mark.ecn_codepoint() }
    }

    /// The items of a text, such as `start=peak-bandwidth(share=0.5, trains=off)`: commas within brackets do not part
    /// them.
    pub fn items(text: &str) -> impl Iterator<Item = &str> {
        let mut depth = 0_u32;
        let parts = text.split(move |c| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        parts.map(str::trim).filter(|item| !item.is_empty())
    }

    /// The same with the fields that `text` names, written as for [`FromStr`], set to what it says. A controller of
    /// another family drops the fields that this family does not have.
    ///
    /// # Errors
    /// As [`FromStr`].
    pub fn with(mut self, text: &str) -> Result<Policies, PolicyError> {
        let mut items: Vec<(&str, &str)> = Vec::new();
        for item in Policies::items(text) {
            let Some((field, value)) = item.split_once('=') else {
                return Err(PolicyError::Malformed { item: item.to_owned(), fields: field_names() });
            };
            let (field, value) = (field.trim(), value.trim());
            if let Some((_, first)) = items.iter().find(|(known, _)| *known == field) {
                return Err(PolicyError::Repeated {
                    field: field.to_owned(),
                    first: (*first).to_owned(),
                    second: value.to_owned(),
                });
            }
            items.push((field, value));
        }
        // The controller first: it decides which other fields there are.
        items.sort_by_key(|(field, _)| *field != congestion::CONTROLLER.name);
        for (field, value) in items {
            self.set(field, value)?;
        }
        Ok(self)
    }
}
