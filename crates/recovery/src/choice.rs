//! Named choices: the values of a policy field with their parameters, and the errors of naming one.

mod parameter;

pub use parameter::{Number, Parameter, ParameterValue, ParameterValues, Share, Switch};
pub(crate) use parameter::{Parameters, parameters, print, read, split, words};

/// One value that a field can take, for listings such as `thalweg policies`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The name, as written.
    pub name: &'static str,
    /// One line on what it does and where it comes from.
    pub doc: &'static str,
    /// One line on when to use it; empty if it is reserved.
    pub when: &'static str,
    /// Whether it can be used; otherwise the name is reserved.
    pub built: bool,
    /// Whether it is there only to be compared with: the cargo feature `study` brings it.
    pub is_study: bool,
    /// What can be set of it, as `NAME(PARAMETER=VALUE)`.
    pub parameters: &'static [Parameter],
}

/// One field of [`Policies`](crate::Policies), for listings.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Field {
    /// The name, as written.
    pub name: &'static str,
    /// One line on what it decides.
    pub doc: &'static str,
    /// What it can be set to: those for use, those to compare with, those that are reserved.
    pub choices: &'static [Choice],
    /// The names of those to compare with, whether they are built or not.
    pub(crate) study: &'static [&'static str],
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
    /// The value is only there to be compared with, and was not built.
    #[error(
        "policy {field}={value} is only for comparison: build with the cargo feature \"study\" of thalweg-recovery to have it; {field} accepts {accepted}"
    )]
    Study {
        /// The field.
        field: &'static str,
        /// The value asked for.
        value: &'static str,
        /// What it accepts.
        accepted: String,
    },
    /// The value is written in another way now.
    #[error("policy {field}={old} is written in another way: \"{old}\" is now \"{new}\"")]
    Renamed {
        /// The field.
        field: &'static str,
        /// The value as it was written.
        old: &'static str,
        /// As it is written now.
        new: &'static str,
    },
    /// A bracket around parameters is missing, or there are too many.
    #[error("policy {policy} has a \"{missing}\" missing; write NAME or NAME(PARAMETER=VALUE, ...)")]
    Bracket {
        /// The policy, as `field=value`.
        policy: String,
        /// What is missing.
        missing: char,
    },
    /// The value has no parameters.
    #[error("policy {policy} has no parameters; write it without brackets")]
    NoParameters {
        /// The policy, as `field=name`.
        policy: String,
    },
    /// The value has no such parameter.
    #[error("policy {policy} has no parameter \"{parameter}\"; it has {accepted}")]
    UnknownParameter {
        /// The policy, as `field=name`.
        policy: String,
        /// The parameter asked for.
        parameter: String,
        /// Its parameters, and what each accepts.
        accepted: String,
    },
    /// A parameter is given twice.
    #[error("policy {policy} has the parameter {parameter} twice; leave one out")]
    RepeatedParameter {
        /// The policy, as `field=name`.
        policy: String,
        /// The parameter.
        parameter: &'static str,
    },
    /// A parameter does not accept this value.
    #[error("policy {policy} cannot have {parameter}=\"{value}\"; {parameter} accepts {accepted}")]
    ParameterValue {
        /// The policy, as `field=name`.
        policy: String,
        /// The parameter.
        parameter: &'static str,
        /// The value asked for.
        value: String,
        /// What it accepts.
        accepted: String,
    },
    /// The value is a controller of the program's own, which has no text form.
    #[error(
        "policy controller={value} is a controller of the program's own: set it in the program; controller accepts {accepted}"
    )]
    Custom {
        /// The value, as printed.
        value: String,
        /// What the field accepts.
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

impl Choice {
    pub(crate) const fn built(
        name: &'static str,
        doc: &'static str,
        when: &'static str,
        study: &[&str],
        parameters: &'static [Parameter],
    ) -> Choice {
        Choice { name, doc, when, built: true, is_study: contains(study, name), parameters }
    }

    pub(crate) const fn reserved(name: &'static str, doc: &'static str) -> Choice {
        Choice { name, doc, when: "", built: false, is_study: false, parameters: &[] }
    }
}

/// Whether a list has this name.
const fn contains(names: &[&str], name: &str) -> bool {
    let mut at = 0;
    while at < names.len() {
        if is_same(names[at].as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

impl Field {
    /// The names that it can be set to, for messages.
    pub(crate) fn accepted(&self) -> String {
        self.choices.iter().filter(|choice| choice.built).map(|choice| choice.name).collect::<Vec<_>>().join(", ")
    }

    /// Why it cannot be set to `value`, whose name it does not know.
    pub(crate) fn refuse(&self, value: &str) -> PolicyError {
        let (field, accepted) = (self.name, self.accepted());
        if let Some(reserved) = self.choices.iter().find(|choice| choice.name == value && !choice.built) {
            return PolicyError::NotBuilt { field, value: reserved.name, accepted };
        }
        if let Some(value) = self.study.iter().find(|name| **name == value) {
            return PolicyError::Study { field, value, accepted };
        }
        if let Some((_, old, new)) = RENAMED.iter().find(|(known, old, _)| *known == field && *old == value) {
            return PolicyError::Renamed { field, old, new };
        }
        PolicyError::UnknownValue { field, value: value.to_owned(), accepted }
    }

    /// The built choices as they can be written: each by its name, and once more for every notable value of each of its
    /// parameters.
    pub fn spellings(&self) -> Vec<String> {
        let mut all = Vec::new();
        for choice in self.choices.iter().filter(|choice| choice.built) {
            all.push(choice.name.to_owned());
            for parameter in choice.parameters {
                let of = |value| format!("{}({}={value})", choice.name, parameter.name);
                all.extend(parameter.notable().map(of));
            }
        }
        all
    }
}

/// Field, name of before, and how that is written now.
const RENAMED: &[(&str, &str, &str)] = &[
    ("controller", "bbr/peak-start", "bbr(start=trains)"),
    ("controller", "bbr/threshold", "bbr(threshold=on)"),
    ("controller", "bbr/peak-start-threshold", "bbr(start=trains, threshold=on)"),
    ("start", "peak-bandwidth/three-quarters", "peak-bandwidth(share=0.75)"),
    ("start", "peak-bandwidth/half", "peak-bandwidth(share=0.5)"),
    ("start", "peak-bandwidth/unscaled", "peak-bandwidth(initial-window=plain)"),
    ("start", "peak-bandwidth/spread", "peak-bandwidth(trains=off)"),
    ("start", "peak-bandwidth/published", "peak-bandwidth-published"),
    ("start", "peak-bandwidth/published-late", "peak-bandwidth-published(first-flight=off)"),
    ("rtt", "per-round/4v", "per-round"),
    ("rtt", "per-round/3v", "per-round(variations=3)"),
    ("rtt", "per-round/max", "per-round(base=largest, variations=1)"),
    ("probe", "capped/8", "capped(divisor=8)"),
    ("probe", "capped/16", "capped"),
    ("probe", "capped/32", "capped(divisor=32)"),
    ("ack-rate", "quarter", "phased(opening=4, later=4)"),
    ("ack-rate", "thin", "phased(opening=4, later=2)"),
    ("handshake", "twice-on-loss", "twice(from=loss)"),
    ("resume", "handshake/half", "handshake"),
    ("resume", "handshake/full", "handshake(share=1)"),
    ("mark", "end-start/only", "end-start(later=ignore)"),
];

/// Declares the choices of a field as an enum, one line per value:
/// `Variant "name", "what it does (source)", "when to use it";`, or `Variant(Parameters) "name", …`. What stands under
/// `study` is only there to be compared with, and built with the feature of that name.
macro_rules! choices {
    (
        #[doc = $field_doc:literal]
        $kind:ident, $field_name:literal { $( $main:tt )* }
        $( default $default:ident $( ( $default_parameters:ident ) )? )?
        $( study {
            $( $study:ident $( ( $study_parameters:ident ) )? $study_name:literal, $study_doc:literal, $study_when:literal; )*
        } )?
        $( reserved $reserved:tt )?
    ) => {
        $crate::choice::choices! {
            @table
            #[doc = $field_doc]
            $kind, $field_name {
                $( $main )*
                $( $(
                    #[cfg(feature = "study")]
                    $study $( ( $study_parameters ) )? $study_name, $study_doc, $study_when;
                )* )?
            } $( default $default $( ( $default_parameters ) )? )? [ $( $( $study_name )* )? ] $( reserved $reserved )?
        }
    };
    (
        @table
        #[doc = $field_doc:literal]
        $kind:ident, $field_name:literal {
            $(
                $( #[$attribute:meta] )*
                $variant:ident $( ( $parameters:ident ) )? $name:literal, $doc:literal, $when:literal;
            )*
        } $( default $default:ident $( ( $default_parameters:ident ) )? )? [ $( $study:literal )* ] $( reserved { $( $reserved:literal, $reserved_doc:literal; )* } )?
    ) => {
        #[doc = $field_doc]
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $kind {
            $( $( #[$attribute] )* #[doc = $doc] $variant $( ( $parameters ) )?, )*
        }

        impl $kind {
            /// The field of [`Policies`](crate::Policies) that it is the value of, with everything that can be named
            /// there.
            pub const FIELD: $crate::choice::Field = $crate::choice::Field {
                name: $field_name,
                doc: $field_doc,
                choices: &[
                    $(
                        $( #[$attribute] )*
                        $crate::choice::Choice::built(
                            $name,
                            $doc,
                            $when,
                            $kind::STUDY,
                            $crate::choice::choices!(@parameters $( $parameters )?),
                        ),
                    )*
                    $( $( $crate::choice::Choice::reserved($reserved, $reserved_doc), )* )?
                ],
                study: $kind::STUDY,
            };

            /// The names of those to compare with, whether they are built or not.
            const STUDY: &'static [&'static str] = &[ $( $study, )* ];

            /// The name, as written, without parameters.
            pub const fn name(self) -> &'static str {
                match self { $( $( #[$attribute] )* $kind::$variant { .. } => $name, )* }
            }

            /// The choice of this name, with the parameters that the brackets hold; `None` if there is none.
            pub(crate) fn named(
                name: &str,
                inside: Option<&str>,
            ) -> Option<Result<Self, $crate::choice::PolicyError>> {
                let found = match name {
                    $(
                        $( #[$attribute] )*
                        $name => $crate::choice::choices!(
                            @read $kind, $variant, $field_name, name, inside $(, $parameters )?
                        ),
                    )*
                    _ => return None,
                };
                Some(found)
            }
        }

        $(
            impl Default for $kind {
                fn default() -> Self {
                    $kind::$default $( ( $default_parameters::DEFAULT ) )?
                }
            }
        )?

        impl core::fmt::Display for $kind {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())?;
                match *self {
                    $(
                        $( #[$attribute] )*
                        $kind::$variant $( ( parameters @ $parameters { .. } ) )? => {
                            $( $crate::choice::print::<$parameters>(parameters, f)?; )?
                        }
                    )*
                }
                Ok(())
            }
        }

        impl core::str::FromStr for $kind {
            type Err = $crate::choice::PolicyError;

            fn from_str(value: &str) -> Result<Self, $crate::choice::PolicyError> {
                let (name, inside) = $crate::choice::split($field_name, value)?;
                Self::named(name, inside).unwrap_or_else(|| Err(Self::FIELD.refuse(name)))
            }
        }
    };
    (@parameters) => { &[] };
    (@parameters $parameters:ident) => { <$parameters as $crate::choice::Parameters>::ALL };
    (@read $kind:ident, $variant:ident, $field:literal, $name:ident, $inside:ident) => {
        match $inside {
            None => Ok($kind::$variant),
            Some(_) => Err($crate::choice::PolicyError::NoParameters { policy: format!("{}={}", $field, $name) }),
        }
    };
    (@read $kind:ident, $variant:ident, $field:literal, $name:ident, $inside:ident, $parameters:ident) => {
        $crate::choice::read::<$parameters>($field, $name, $inside).map($kind::$variant)
    };
}

pub(crate) use choices;
