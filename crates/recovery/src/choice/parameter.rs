//! Parameters of choices: `NAME(PARAMETER=VALUE, …)`, their types, and how they are read and printed.
//!
//! A value is a word, a whole number or a [`Share`]. All are integers inside, so that whatever they decide is decided
//! alike on every machine. What is equal to the default is not printed.

use core::fmt;

use super::PolicyError;

/// A parameter of a choice, for listings.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// The name, as written.
    pub name: &'static str,
    /// One line on what it decides.
    pub doc: &'static str,
    /// What it can be set to.
    pub accepts: ParameterValues,
    /// The unit of a number; empty if it has none.
    pub unit: &'static str,
    /// The value unless another is named.
    pub default: ParameterValue,
}

/// What a parameter can be set to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterValues {
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number, from the first to the last.
    Numbers(u8, u8),
    /// A share in thousandths, from the first to the last.
    Shares(u16, u16),
}

/// A value of a parameter.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParameterValue {
    /// A word.
    Word(&'static str),
    /// A whole number.
    Number(u8),
    /// A share in thousandths.
    Share(u16),
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Number<const LEAST: u8, const MOST: u8>(u8);

/// A share from `LEAST` to `MOST` thousandths, exact.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Share<const LEAST: u16, const MOST: u16>(u16);

impl<const LEAST: u8, const MOST: u8> Number<LEAST, MOST> {
    pub(crate) const VALUES: ParameterValues = ParameterValues::Numbers(LEAST, MOST);

    /// The number; `None` if it is out of range.
    pub const fn new(number: u8) -> Option<Self> {
        if LEAST <= number && number <= MOST { Some(Number(number)) } else { None }
    }

    /// The nearest number in range.
    pub const fn clamped(number: u8) -> Self {
        let least = if number < LEAST { LEAST } else { number };
        Number(if least > MOST { MOST } else { least })
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    pub(crate) const fn plain(self) -> ParameterValue {
        ParameterValue::Number(self.0)
    }

    pub(crate) fn of(value: ParameterValue) -> Option<Self> {
        match value {
            ParameterValue::Number(number) => Self::new(number),
            _ => None,
        }
    }
}

impl<const LEAST: u16, const MOST: u16> Share<LEAST, MOST> {
    pub(crate) const VALUES: ParameterValues = ParameterValues::Shares(LEAST, MOST);

    /// The share of so many thousandths; `None` if it is out of range.
    pub const fn from_thousandths(thousandths: u16) -> Option<Self> {
        if LEAST <= thousandths && thousandths <= MOST { Some(Share(thousandths)) } else { None }
    }

    /// The nearest share in range to so many thousandths.
    pub const fn clamped(thousandths: u16) -> Self {
        let least = if thousandths < LEAST { LEAST } else { thousandths };
        Share(if least > MOST { MOST } else { least })
    }

    /// The share in thousandths.
    pub const fn thousandths(self) -> u16 {
        self.0
    }

    /// The share as a fraction in lowest terms: numerator and denominator.
    pub const fn ratio(self) -> (u64, u64) {
        let (mut large, mut small) = (THOUSAND, self.0);
        while small > 0 {
            (large, small) = (small, large % small);
        }
        ((self.0 / large) as u64, (THOUSAND / large) as u64)
    }

    pub(crate) const fn plain(self) -> ParameterValue {
        ParameterValue::Share(self.0)
    }

    pub(crate) fn of(value: ParameterValue) -> Option<Self> {
        match value {
            ParameterValue::Share(thousandths) => Self::from_thousandths(thousandths),
            _ => None,
        }
    }
}

const THOUSAND: u16 = 1_000;

/// `0.75` or `1` in thousandths: digits, and up to three decimals.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let decimals = decimals.trim_end_matches('0');
    if decimals.len() > 3 {
        return None;
    }
    let fraction: u16 = format!("{decimals:0<3}").parse().ok()?;
    whole.parse::<u16>().ok()?.checked_mul(THOUSAND)?.checked_add(fraction)
}

impl ParameterValues {
    /// The value that a text stands for.
    fn read(self, text: &str) -> Option<ParameterValue> {
        match self {
            ParameterValues::Words(words) => {
                words.iter().find(|word| **word == text).copied().map(ParameterValue::Word)
            }
            ParameterValues::Numbers(least, most) => {
                let number = text.parse().ok().filter(|number| (least..=most).contains(number));
                number.map(ParameterValue::Number)
            }
            ParameterValues::Shares(least, most) => {
                let share = thousandths(text).filter(|share| (least..=most).contains(share));
                share.map(ParameterValue::Share)
            }
        }
    }

    /// Some values that make a difference: every word, the least and the most.
    fn notable(self) -> Vec<ParameterValue> {
        match self {
            ParameterValues::Words(words) => words.iter().copied().map(ParameterValue::Word).collect(),
            ParameterValues::Numbers(least, most) => [least, most].map(ParameterValue::Number).into(),
            ParameterValues::Shares(least, most) => [least, most].map(ParameterValue::Share).into(),
        }
    }
}

impl fmt::Display for ParameterValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ParameterValues::Words(words) => f.write_str(&words.join(" or ")),
            ParameterValues::Numbers(least, most) => write!(f, "{least} to {most}"),
            ParameterValues::Shares(least, most) => {
                let (least, most) = (ParameterValue::Share(least), ParameterValue::Share(most));
                write!(f, "{least} to {most}, up to three decimals")
            }
        }
    }
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ParameterValue::Word(word) => f.write_str(word),
            ParameterValue::Number(number) => write!(f, "{number}"),
            ParameterValue::Share(share) if share.is_multiple_of(THOUSAND) => write!(f, "{}", share / THOUSAND),
            ParameterValue::Share(share) => {
                let decimals = format!("{:03}", share % THOUSAND);
                write!(f, "{}.{}", share / THOUSAND, decimals.trim_end_matches('0'))
            }
        }
    }
}

impl Parameter {
    /// What it accepts, with the unit.
    pub fn accepted(&self) -> String {
        match self.unit {
            "" => self.accepts.to_string(),
            unit => format!("{} {unit}", self.accepts),
        }
    }

    /// Some values other than the default that make a difference.
    pub(super) fn notable(&self) -> impl Iterator<Item = ParameterValue> {
        self.accepts.notable().into_iter().filter(|value| *value != self.default)
    }
}

/// Parameters with what each accepts, for messages.
fn accepted(parameters: &[Parameter]) -> String {
    let each = parameters.iter().map(|parameter| format!("{} ({})", parameter.name, parameter.accepted()));
    each.collect::<Vec<_>>().join(", ")
}

/// The parameters of one choice.
pub(crate) trait Parameters: Copy + Default {
    /// Their descriptions, in the order in which they are printed.
    const ALL: &'static [Parameter];

    /// The value of the parameter with this number.
    fn get(&self, at: usize) -> ParameterValue;

    /// Sets the parameter with this number, if the value is of its type.
    fn put(&mut self, at: usize, value: ParameterValue);
}

/// Prints the parameters that differ from the default in brackets; nothing if none does.
pub(crate) fn print<P: Parameters>(parameters: P, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut opening = "(";
    for (at, parameter) in P::ALL.iter().enumerate() {
        let value = parameters.get(at);
        if value != parameter.default {
            write!(f, "{opening}{}={value}", parameter.name)?;
            opening = ", ";
        }
    }
    if opening == "(" { Ok(()) } else { f.write_str(")") }
}

/// The name of `NAME(PARAMETER=VALUE, …)`, and what the brackets hold, if there are any.
///
/// # Errors
/// When a bracket is missing.
pub(crate) fn split<'t>(field: &str, text: &'t str) -> Result<(&'t str, Option<&'t str>), PolicyError> {
    let Some((name, rest)) = text.split_once('(') else {
        return match text.contains(')') {
            true => Err(PolicyError::Bracket { policy: format!("{field}={text}"), missing: '(' }),
            false => Ok((text, None)),
        };
    };
    match rest.strip_suffix(')') {
        Some(inside) if !inside.contains(['(', ')']) => Ok((name.trim_end(), Some(inside))),
        _ => Err(PolicyError::Bracket { policy: format!("{field}={text}"), missing: ')' }),
    }
}

/// Reads what the brackets hold.
pub(crate) fn read<P: Parameters>(field: &str, name: &str, inside: Option<&str>) -> Result<P, PolicyError> {
    let mut parameters = P::default();
    let mut known = Vec::new();
    for item in inside.unwrap_or("").split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (parameter, value) = item.split_once('=').unwrap_or((item, ""));
        let (parameter, value) = (parameter.trim(), value.trim());
        let Some(at) = P::ALL.iter().position(|known| known.name == parameter) else {
            return Err(PolicyError::UnknownParameter {
                policy: format!("{field}={name}"),
                parameter: parameter.to_owned(),
                accepted: accepted(P::ALL),
            });
        };
        if known.contains(&at) {
            return Err(PolicyError::RepeatedParameter {
                policy: format!("{field}={name}"),
                parameter: P::ALL[at].name,
            });
        }
        known.push(at);
        let Some(plain) = P::ALL[at].accepts.read(value) else {
            return Err(PolicyError::ParameterValue {
                policy: format!("{field}={name}"),
                parameter: P::ALL[at].name,
                value: value.to_owned(),
                accepted: P::ALL[at].accepted(),
            });
        };
        parameters.put(at, plain);
    }
    Ok(parameters)
}

/// Declares the words that a parameter accepts, as an enum.
macro_rules! words {
    (
        #[doc = $doc:literal]
        $kind:ident { $( $variant:ident $word:literal, $variant_doc:literal; )* }
    ) => {
        #[doc = $doc]
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $kind {
            $( #[doc = $variant_doc] $variant, )*
        }

        impl $kind {
            pub(crate) const VALUES: $crate::choice::ParameterValues =
                $crate::choice::ParameterValues::Words(&[$( $word, )*]);

            pub(crate) const fn plain(self) -> $crate::choice::ParameterValue {
                match self {
                    $( $kind::$variant => $crate::choice::ParameterValue::Word($word), )*
                }
            }

            pub(crate) fn of(value: $crate::choice::ParameterValue) -> Option<Self> {
                match value {
                    $( $crate::choice::ParameterValue::Word($word) => Some($kind::$variant), )*
                    _ => None,
                }
            }
        }
    };
}

/// Declares the parameters of a choice as a struct, one line per parameter:
/// `field "name": Type = default, "unit", "what it decides";`.
macro_rules! parameters {
    (
        #[doc = $doc:literal]
        $kind:ident {
            $( $field:ident $name:literal: $type:ty = $default:expr, $unit:literal, $field_doc:literal; )*
        }
    ) => {
        #[doc = $doc]
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub struct $kind {
            $( #[doc = $field_doc] pub $field: $type, )*
        }

        impl $kind {
            /// Every parameter as it is unless another value is named.
            pub const DEFAULT: $kind = $kind { $( $field: $default, )* };
        }

        impl Default for $kind {
            fn default() -> Self {
                $kind::DEFAULT
            }
        }

        impl $crate::choice::Parameters for $kind {
            const ALL: &'static [$crate::choice::Parameter] = &[
                $( $crate::choice::Parameter {
                    name: $name,
                    doc: $field_doc,
                    accepts: <$type>::VALUES,
                    unit: $unit,
                    default: $kind::DEFAULT.$field.plain(),
                }, )*
            ];

            fn get(&self, at: usize) -> $crate::choice::ParameterValue {
                [$( self.$field.plain(), )*][at]
            }

            fn put(&mut self, at: usize, value: $crate::choice::ParameterValue) {
                let mut number = 0;
                $(
                    if at == number && let Some(value) = <$type>::of(value) {
                        self.$field = value;
                    }
                    number += 1;
                )*
                let _ = number;
            }
        }
    };
}

pub(crate) use {parameters, words};

words! {
    #[doc = "Whether something is done."]
    Switch {
        Off "off", "It is not.";
        On "on", "It is.";
    }
}

impl Switch {
    /// Whether it is on.
    pub const fn is_on(self) -> bool {
        matches!(self, Switch::On)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_exact() {
        let read = |text: &str| thousandths(text);
        assert_eq!(
            ["1", "1.0", "0.5", "0.50", "0.333", "00.7500"].map(read),
            [Some(1_000), Some(1_000), Some(500), Some(500), Some(333), Some(750)]
        );
        for wrong in ["", ".", "1.", ".5", "0.3333", "-1", "+0.5", "1e3", "0,5", "66", "99999999"] {
            assert_eq!(read(wrong).filter(|share| *share <= THOUSAND), None, "{wrong}");
        }
        type Any = Share<1, 1_000>;
        let ratio = |thousandths| Any::clamped(thousandths).ratio();
        assert_eq!([500, 750, 1_000, 333].map(ratio), [(1, 2), (3, 4), (1, 1), (333, 1_000)]);
    }

    #[test]
    fn numbers_stay_in_range() {
        type Some = Number<2, 64>;
        assert_eq!([1, 2, 64, 65].map(|number| Some::new(number).is_some()), [false, true, true, false]);
        assert_eq!([0, 2, 200].map(|number| Some::clamped(number).get()), [2, 2, 64]);
    }

    proptest! {
        #[test]
        fn what_is_printed_of_a_share_reads_back(share in 0..=u16::MAX) {
            prop_assert_eq!(thousandths(&ParameterValue::Share(share).to_string()), Some(share));
        }
    }
}
