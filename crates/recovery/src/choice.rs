//! Named choices: the values of a policy field, and the errors of naming one.

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
}

/// One field of [`Policies`](crate::Policies), for listings.
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
    pub(crate) const fn built(name: &'static str, doc: &'static str, when: &'static str) -> Choice {
        Choice { name, doc, when, built: true }
    }

    pub(crate) const fn reserved(name: &'static str, doc: &'static str) -> Choice {
        Choice { name, doc, when: "", built: false }
    }
}

impl Field {
    /// The names that it can be set to, for messages.
    pub(crate) fn accepted(&self) -> String {
        self.choices.iter().filter(|choice| choice.built).map(|choice| choice.name).collect::<Vec<_>>().join(", ")
    }

    /// Why it cannot be set to `value`.
    pub(crate) fn refuse(&self, value: &str) -> PolicyError {
        match self.choices.iter().find(|choice| choice.name == value && !choice.built) {
            Some(reserved) => {
                PolicyError::NotBuilt { field: self.name, value: reserved.name, accepted: self.accepted() }
            }
            None => PolicyError::UnknownValue { field: self.name, value: value.to_owned(), accepted: self.accepted() },
        }
    }
}

/// Declares the choices of a field as an enum, one line per value:
/// `Variant "name" or "alias", "what it does (source)", "when to use it";`. Either name is read; the first is printed.
macro_rules! choices {
    (
        #[doc = $field_doc:literal]
        $kind:ident, $field_name:literal {
            $( $( #[$attribute:meta] )* $variant:ident $name:literal $( or $alias:literal )?, $doc:literal, $when:literal; )*
        } $( default $default:ident )? $( reserved { $( $reserved:literal, $reserved_doc:literal; )* } )?
    ) => {
        #[doc = $field_doc]
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $kind {
            $( $( #[$attribute] )* #[doc = $doc] $variant, )*
        }

        impl $kind {
            /// The field of [`Policies`](crate::Policies) that it is the value of, with everything that can be named
            /// there.
            pub const FIELD: $crate::choice::Field = $crate::choice::Field {
                name: $field_name,
                doc: $field_doc,
                choices: &[
                    $( $( #[$attribute] )* $crate::choice::Choice::built($name, $doc, $when), )*
                    $( $( $crate::choice::Choice::reserved($reserved, $reserved_doc), )* )?
                ],
            };

            /// The name, as written.
            pub const fn name(self) -> &'static str {
                match self { $( $( #[$attribute] )* $kind::$variant => $name, )* }
            }

            /// The choice that a name or an alias stands for.
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name {
                    $( $( #[$attribute] )* $name $( | $alias )? => Some($kind::$variant), )*
                    _ => None,
                }
            }
        }

        $(
            impl Default for $kind {
                fn default() -> Self {
                    $kind::$default
                }
            }
        )?

        impl core::fmt::Display for $kind {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl core::str::FromStr for $kind {
            type Err = $crate::choice::PolicyError;

            fn from_str(value: &str) -> Result<Self, $crate::choice::PolicyError> {
                Self::named(value).ok_or_else(|| Self::FIELD.refuse(value))
            }
        }
    };
}

pub(crate) use choices;
