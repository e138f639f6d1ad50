//! Which policies are in force, how they are written down, and the few numbers that are not policies.
//!
//! Every choice has one field in [`Policies`] and one line per possible value in the tables below. A value can be *reserved*:
//! its name is known and it has its place in the code, but it is not built yet; asking for it says so.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use thalweg_units::{Duration, Rate};

use crate::controller::ControllerFactory;
use crate::profile::Profile;

/// One value that a field can take, for listings such as `thalweg policies`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The name, as written.
    pub name: &'static str,
    /// One line on what it does and where it comes from.
    pub doc: &'static str,
    /// Whether it can be used; otherwise the name is reserved.
    pub built: bool,
}

/// One field of [`Policies`], for listings.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// The name, as written.
    pub name: &'static str,
    /// One line on what it decides.
    pub doc: &'static str,
    /// What it can be set to; built ones first.
    pub choices: &'static [Choice],
}

/// Why a policy string was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// An item is not of the form `field=value`.
    #[error("policy \"{item}\" is not of the form field=value; fields are {fields}")]
    Malformed {
        /// The item.
        item: String,
        /// The known fields.
        fields: String,
    },
    /// There is no such field.
    #[error("there is no policy field \"{field}\"; fields are {fields}")]
    UnknownField {
        /// The field asked for.
        field: String,
        /// The known fields.
        fields: String,
    },
    /// The same field is given twice.
    #[error("policy field \"{field}\" is given twice: \"{first}\" and \"{second}\"")]
    Repeated {
        /// The field.
        field: String,
        /// Its first value.
        first: String,
        /// Its second value.
        second: String,
    },
    /// The field does not know this value.
    #[error("policy {field} cannot be \"{value}\"; it accepts {accepted}")]
    UnknownValue {
        /// The field.
        field: &'static str,
        /// The value asked for.
        value: String,
        /// What it accepts.
        accepted: String,
    },
    /// The value is reserved for something that does not exist yet.
    #[error("policy {field}={value} has a place but is not built yet; {field} accepts {accepted}")]
    NotBuilt {
        /// The field.
        field: &'static str,
        /// The value asked for.
        value: &'static str,
        /// What it accepts.
        accepted: String,
    },
    /// Two values that exclude each other.
    #[error("{first} cannot be combined with {second}: {reason}")]
    Excluded {
        /// One of them, as `field=value`.
        first: String,
        /// The other.
        second: String,
        /// Why.
        reason: &'static str,
    },
}

/// Declares the policy fields: for each an enum with one line per value, and all of them as the fields of [`Policies`].
///
/// `Variant "name" or "alias"` reads either and prints the name.
macro_rules! policies {
    ($(
        #[doc = $field_doc:literal]
        $field:ident $field_name:literal: $kind:ident {
            $( $variant:ident $name:literal $( or $alias:literal )? $doc:literal, )+
        } default $default:ident, reserved { $( $reserved:literal $reserved_doc:literal, )* }
    )+) => {
        $(
            #[doc = $field_doc]
            #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
            #[non_exhaustive]
            pub enum $kind {
                $( #[doc = $doc] $variant, )+
            }

            impl $kind {
                /// The field of [`Policies`] that this is the value of, and what it can be set to.
                pub const FIELD: Field = Field {
                    name: $field_name,
                    doc: $field_doc,
                    choices: &[
                        $( Choice { name: $name, doc: $doc, built: true }, )+
                        $( Choice { name: $reserved, doc: $reserved_doc, built: false }, )*
                    ],
                };

                /// The name, as written.
                pub const fn name(self) -> &'static str {
                    match self { $( $kind::$variant => $name, )+ }
                }
            }

            impl Default for $kind {
                fn default() -> Self {
                    $kind::$default
                }
            }

            impl fmt::Display for $kind {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(self.name())
                }
            }

            impl FromStr for $kind {
                type Err = PolicyError;

                fn from_str(value: &str) -> Result<Self, PolicyError> {
                    match value {
                        $( $name $( | $alias )? => Ok($kind::$variant), )+
                        _ => Err(Self::FIELD.refuse(value)),
                    }
                }
            }
        )+

        /// Which rule decides each of the things that can be decided in more than one way.
        ///
        /// Written as `controller=cubic, start=hystart++, …`; fields left out keep their defaults, and what is printed reads back.
        ///
        /// ```
        /// use thalweg_recovery::Policies;
        ///
        /// let policies: Policies = "controller=new-reno, pacing=off".parse()?;
        /// assert_eq!(
        ///     policies.to_string(),
        ///     "controller=new-reno, start=hystart++, reduction=immediate, reordering=rack, rtt=classic, pacing-rtt=smoothed, exit-rtt=sample, probe=ladder, ack-allowance=lone, undo=episode, pacing=off",
        /// );
        /// # Ok::<(), thalweg_recovery::PolicyError>(())
        /// ```
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Policies {
            $( #[doc = $field_doc] pub $field: $kind, )+
        }

        impl Policies {
            /// Every field and every value, built or reserved, in the order in which they are printed.
            pub const fn catalogue() -> &'static [Field] {
                &[ $( $kind::FIELD, )+ ]
            }

            /// Sets one field by name.
            ///
            /// # Errors
            /// When there is no such field, or it does not accept the value; the message lists what would be accepted.
            pub fn set(&mut self, field: &str, value: &str) -> Result<(), PolicyError> {
                match field {
                    $( $field_name => self.$field = value.parse()?, )+
                    _ => return Err(PolicyError::UnknownField { field: field.to_owned(), fields: field_names() }),
                }
                Ok(())
            }
        }

        impl fmt::Display for Policies {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut separator = "";
                $(
                    write!(f, "{separator}{}={}", $field_name, self.$field)?;
                    separator = ", ";
                )+
                let _ = separator;
                Ok(())
            }
        }
    };
}

policies! {
    #[doc = "How the window grows once the start is over, and how far congestion reduces it."]
    controller "controller": ControllerPolicy {
        NewReno "new-reno" "one datagram per round trip, halved on congestion (RFC 9002 section 7)",
        Cubic "cubic" "a cubic function of the time since the last reduction, to 0.7 on congestion (RFC 9438)",
    } default Cubic, reserved {
        "bbr" "a model of bandwidth and round-trip time (draft-ietf-ccwg-bbr)",
        "prague" "scalable response to L4S marks",
    }

    #[doc = "How the window is first opened, and what ends that."]
    start "start": StartPolicy {
        Standard "standard" "slow start until loss or a congestion mark (RFC 9002 section 7.3.1)",
        HyStartPlusPlus "hystart++" "slow start that slows down and then stops when the round-trip time rises (RFC 9406)",
    } default HyStartPlusPlus, reserved {
        "hystart" "the delay and ACK-train exits of Linux",
        "peak-bandwidth" "jump to half of what a measured burst implies",
        "careful-resume" "jump to what an earlier connection had (RFC 9959)",
        "search" "exit when delivery stops doubling",
    }

    #[doc = "How the window gets from its old size to the reduced one."]
    reduction "reduction": ReductionPolicy {
        Immediate "immediate" "at once; nothing leaves until in flight has fallen below it (RFC 6675, RFC 9002 section 7.3.2)",
        RateHalving "rate-halving" "one datagram less per two delivered, and never more than one above what is in flight (Linux before 3.2)",
        PrrUb "prr-ub" "in proportion to what is delivered; below the target without a bound (RFC 6937, for comparison)",
        PrrCrb "prr-crb" "in proportion to what is delivered; below the target by packet conservation (RFC 6937)",
        PrrSsrb "prr-ssrb" "in proportion to what is delivered; below the target as in slow start (RFC 6937)",
        Prr "prr" "in proportion to what is delivered; below the target as in slow start only while repairs get through (RFC 9937)",
    } default Immediate, reserved {}

    #[doc = "How much reordering to tolerate before declaring a packet lost."]
    reordering "reordering": ReorderingPolicy {
        Fixed "fixed" "three packets, or 9/8 of the round-trip time (RFC 9002 section 6.1)",
        HalfInFlight "half-in-flight" "half of what is in flight but at least three packets, or 9/8 of the round-trip time (nginx)",
        TimeOnly "time-only" "9/8 of the round-trip time, however many packets",
        Adaptive "adaptive" "fixed until a declaration proves wrong; then time only, with a window that grows and shrinks (RACK, RFC 8985)",
        Rack "rack" "time only, with that window from the first reordering seen on (RACK, RFC 8985)",
    } default Rack, reserved {}

    #[doc = "How round-trip samples become the estimate that the probe timer waits by."]
    rtt "rtt": RttPolicy {
        Classic "classic" "exponential averages over samples (RFC 9002 section 5.3 in the order of appendix A.7)",
        PerRound4V "per-round/4v" or "per-round" "one update per round trip, from the mean and the extremes; smoothed + 4 variations",
        PerRound3V "per-round/3v" "the same; smoothed + 3 variations",
        PerRoundMax "per-round/max" "the same; the largest sample ever + the variation",
        Windowed "windowed" "the same; the largest sample of as many round trips as the controller's cycle lasts + the variation",
    } default Classic, reserved {}

    #[doc = "Which round-trip estimate pacing spreads a window over."]
    pacing_rtt "pacing-rtt": PacingRttPolicy {
        Smoothed "smoothed" "the smoothed estimate of rtt=",
        Classic "classic" "an exponential average over samples",
        PerRound "per-round" "an average that is updated once per round trip",
        Short "short" "the smallest of the last eight samples, a millisecond or more apart",
    } default Smoothed, reserved {}

    #[doc = "Which round-trip estimate a start compares to find that a queue builds up."]
    exit_rtt "exit-rtt": ExitRttPolicy {
        Sample "sample" "the newest sample, less the ACK delay that the peer reports",
        Classic "classic" "an exponential average over samples",
        PerRound "per-round" "an average that is updated once per round trip",
        Short "short" "the smallest of the last eight samples, a millisecond or more apart",
    } default Sample, reserved {}

    #[doc = "When silence makes the sender probe."]
    probe "probe": ProbePolicy {
        Rfc "rfc" "smoothed + 4 variations + the peer's ACK delay, doubling at each expiry (RFC 9002 section 6.2)",
        Capped8 "capped/8" "as rfc, but never longer than an eighth of the idle timeout",
        Capped16 "capped/16" or "capped" "as rfc, but never longer than a sixteenth of the idle timeout",
        Capped32 "capped/32" "as rfc, but never longer than a thirty-second of the idle timeout",
        Ladder "ladder" "doubling at first, then growing by a quarter of the silence, to a thirty-second of the idle timeout, of a crowded path to a tenth; single probes after the second",
    } default Ladder, reserved {}

    #[doc = "Whether the probe timer allows for acknowledgments that the peer holds back."]
    ack_allowance "ack-allowance": AckAllowancePolicy {
        Always "always" "the peer's maximum ACK delay, always (RFC 9002 section 6.2.1)",
        Lone "lone" "the peer's maximum ACK delay while a single ack-eliciting packet is in flight; with several in flight, the delay that the peer lately reported for acknowledgments of several, as every second one is acknowledged at once (RFC 9000 section 13.2.2)",
    } default Lone, reserved {}

    #[doc = "Whether a reduction is taken back when its losses prove to have been reordering."]
    undo "undo": UndoPolicy {
        Episode "episode" "taken back when every packet of the episode has been acknowledged after all (RFC 9438 section 4.9)",
        Off "off" "never taken back",
    } default Episode, reserved {}

    #[doc = "Whether packets are spread over the round trip."]
    pacing "pacing": PacingPolicy {
        On "on" "a token bucket at a multiple of window per round-trip time (RFC 9002 section 7.7)",
        Off "off" "whatever the window allows leaves at once",
    } default On, reserved {}
}

/// Controllers that own their start and their response to congestion, so that both fields have no meaning beside them.
const MODELS: &[&str] = &["bbr"];

impl Field {
    fn accepted(&self) -> String {
        self.choices.iter().filter(|choice| choice.built).map(|choice| choice.name).collect::<Vec<_>>().join(", ")
    }

    fn refuse(&self, value: &str) -> PolicyError {
        match self.choices.iter().find(|choice| choice.name == value) {
            Some(reserved) => {
                PolicyError::NotBuilt { field: self.name, value: reserved.name, accepted: self.accepted() }
            }
            None => PolicyError::UnknownValue { field: self.name, value: value.to_owned(), accepted: self.accepted() },
        }
    }
}

fn field_names() -> String {
    Policies::catalogue().iter().map(|field| field.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for Policies {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Policies, PolicyError> {
        let mut items: Vec<(&str, &str)> = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
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
        refuse_excluded(&items)?;
        let mut policies = Policies::default();
        for (field, value) in items {
            policies.set(field, value)?;
        }
        Ok(policies)
    }
}

/// Combinations that mean nothing, refused before anything is built from them.
fn refuse_excluded(items: &[(&str, &str)]) -> Result<(), PolicyError> {
    let value_of = |name: &str| items.iter().find(|(field, _)| *field == name).map(|(_, value)| *value);
    if let Some(model) = value_of("controller").filter(|name| MODELS.contains(name)) {
        for field in ["start", "reduction"] {
            if let Some(value) = value_of(field) {
                return Err(PolicyError::Excluded {
                    first: format!("{field}={value}"),
                    second: format!("controller={model}"),
                    reason: "a controller that works from a model owns its start and its response to congestion",
                });
            }
        }
    }
    Ok(())
}

/// Everything that [`Recovery`](crate::Recovery) is told once.
#[derive(Clone, Debug)]
pub struct Config {
    /// The rules in force.
    pub policies: Policies,
    /// The round-trip time to assume on a path before the first sample. Default 333 ms (RFC 9002 section 6.2.2).
    pub initial_rtt: Duration,
    /// The longest the peer says that it delays an ACK, until it says otherwise. Default 25 ms (RFC 9000 section 18.2).
    pub max_ack_delay: Duration,
    /// Our own idle timeout: the probe timer goes by it until the endpoints have agreed on one
    /// ([`Recovery::set_idle_timeout`]). Default none.
    ///
    /// [`Recovery::set_idle_timeout`]: crate::Recovery::set_idle_timeout
    pub idle_timeout: Option<Duration>,
    /// Seed of every random choice of recovery, such as the waits between probes into a crowded path. Default 0; a transport
    /// draws one for each connection.
    pub seed: u64,
    /// Whether to mark packets ECT(0) and to heed the peer's counts. Default true.
    pub ecn: bool,
    /// Whether to record trace events for [`Recovery::drain_trace`](crate::Recovery::drain_trace), which then has
    /// to be called now and again. Default false: it costs nothing then.
    pub trace: bool,
    /// What the transport's acknowledgments can tell. Default QUIC.
    pub profile: Profile,
    /// The most that may leave on a path, whatever window and pacing allow. Default none.
    pub max_rate: Option<Rate>,
    /// A congestion controller of the user's own; when present, `policies.controller`, `start` and `reduction` do not apply.
    pub controller: Option<Arc<dyn ControllerFactory>>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            policies: Policies::default(),
            initial_rtt: crate::rtt::INITIAL_RTT,
            max_ack_delay: Duration::from_millis(25),
            idle_timeout: None,
            seed: 0,
            ecn: true,
            trace: false,
            profile: Profile::QUIC,
            max_rate: None,
            controller: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn defaults_are_the_documented_ones() {
        let text = "controller=cubic, start=hystart++, reduction=immediate, reordering=rack, \
                    rtt=classic, pacing-rtt=smoothed, exit-rtt=sample, probe=ladder, ack-allowance=lone, undo=episode, \
                    pacing=on";
        assert_eq!(Policies::default().to_string(), text);
        assert_eq!(text.parse::<Policies>().unwrap(), Policies::default());
        assert_eq!("".parse::<Policies>().unwrap(), Policies::default());
    }

    #[test]
    fn unknown_values_name_the_field_the_value_and_what_is_accepted() {
        let error = "controller=vegas".parse::<Policies>().unwrap_err().to_string();
        assert_eq!(error, "policy controller cannot be \"vegas\"; it accepts new-reno, cubic");
    }

    #[test]
    fn unknown_fields_list_the_known_ones() {
        let error = "colour=blue".parse::<Policies>().unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no policy field \"colour\"; fields are controller, start, reduction, reordering, rtt, pacing-rtt, exit-rtt, probe, ack-allowance, undo, pacing"
        );
    }

    #[test]
    fn reserved_values_say_that_they_are_not_built_yet() {
        for reserved in ["bbr", "prague"] {
            let error = format!("controller={reserved}").parse::<Policies>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "policy controller={reserved} has a place but is not built yet; controller accepts new-reno, cubic"
                )
            );
        }
    }

    #[test]
    fn an_alias_reads_as_the_name_it_stands_for() {
        let policies: Policies = "probe=capped".parse().unwrap();
        assert_eq!(policies.probe, ProbePolicy::Capped16);
        assert_eq!(policies.probe.to_string(), "capped/16");
    }

    #[test]
    fn a_model_refuses_a_start_and_a_reduction() {
        for field in ["start=standard", "reduction=immediate"] {
            let error = format!("controller=bbr, {field}").parse::<Policies>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{field} cannot be combined with controller=bbr: ")), "{error}");
        }
        assert!(matches!("controller=bbr".parse::<Policies>(), Err(PolicyError::NotBuilt { .. })));
    }

    #[test]
    fn malformed_and_repeated_items_are_refused() {
        assert!(matches!("cubic".parse::<Policies>(), Err(PolicyError::Malformed { .. })));
        let error = "undo=off, undo=episode".parse::<Policies>().unwrap_err().to_string();
        assert_eq!(error, "policy field \"undo\" is given twice: \"off\" and \"episode\"");
    }

    #[test]
    fn every_built_choice_of_the_catalogue_can_be_set_and_every_other_cannot() {
        for field in Policies::catalogue() {
            assert!(!field.doc.is_empty());
            for choice in field.choices {
                assert!(!choice.doc.is_empty());
                let mut policies = Policies::default();
                assert_eq!(
                    policies.set(field.name, choice.name).is_ok(),
                    choice.built,
                    "{}={}",
                    field.name,
                    choice.name
                );
                assert_eq!(policies.to_string().parse::<Policies>().unwrap(), policies);
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z+=, -]{0,40}") {
            let _ = text.parse::<Policies>();
        }
    }
}
