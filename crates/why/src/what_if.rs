//! What if: a transfer with other settings, asked for by their names.

use core::fmt;
use core::str::FromStr;

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Rate, human_duration, parse_bytes};

use crate::answer::{Answer, MARGIN, WhyError};
use crate::world::{Credit, World};

/// Settings that are asked for, such as `controller=bbr` or `receive_window=16 MB`; several with commas between them.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    text: String,
    changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq)]
enum Change {
    /// A slot of the recovery policies and what to put into it.
    Policy(String),
    /// Of the connection and of each stream; none: without end.
    ReceiveWindow(Option<u64>),
    /// None: no limit.
    MaxRate(Option<Rate>),
    InitialWindow(u64),
}

const ACCEPTED: &str = "receive_window=16 MB (or unlimited), max_rate=20 Mbps (or off), initial_window=64 kB, \
                        or a recovery policy such as controller=bbr";

impl FromStr for WhatIf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut changes = Vec::new();
        for part in parts(text) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("{part:?} has no value; expected {ACCEPTED}"))?;
            let (key, value) = (key.trim().replace('-', "_"), value.trim());
            let size = || {
                parse_bytes(value).map_err(|error| format!("{key}={value}: {error}")).and_then(|bytes| {
                    if bytes == 0 { Err(format!("{key} of nothing: nothing moves")) } else { Ok(bytes) }
                })
            };
            changes.push(match key.as_str() {
                "receive_window" if value == "unlimited" => Change::ReceiveWindow(None),
                "receive_window" => Change::ReceiveWindow(Some(size()?)),
                "initial_window" => Change::InitialWindow(size()?.max(1200)),
                "max_rate" if value == "off" => Change::MaxRate(None),
                "max_rate" => {
                    let rate: Rate = value.parse().map_err(|error| format!("{key}={value}: {error}"))?;
                    if rate.bps() == 0 {
                        return Err("max_rate of nothing: nothing moves".to_owned());
                    }
                    Change::MaxRate(Some(rate))
                }
                _ => {
                    thalweg_recovery::Policies::default()
                        .with(part.trim())
                        .map_err(|error| format!("{error}; or {ACCEPTED}"))?;
                    Change::Policy(part.trim().to_owned())
                }
            });
        }
        if changes.is_empty() {
            return Err(format!("nothing is asked; expected {ACCEPTED}"));
        }
        Ok(WhatIf { text: text.trim().to_owned(), changes })
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What stands between commas that are not in parentheses.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_i32, 0, Vec::new());
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

impl WhatIf {
    /// A transfer with these settings.
    #[must_use]
    pub fn apply(&self, world: &World) -> World {
        let mut world = world.clone();
        for change in &self.changes {
            match change {
                Change::Policy(policy) => {
                    if let Ok(policies) = world.sender.policies.clone().with(policy) {
                        world.sender.policies = policies;
                    }
                }
                Change::ReceiveWindow(window) => {
                    world.credit = window.map(|bytes| [Credit { initial: bytes, most: bytes }; 2]);
                }
                Change::MaxRate(rate) => world.sender.max_rate = *rate,
                Change::InitialWindow(bytes) => world.sender.initial_window = *bytes,
            }
        }
        world
    }
}

/// What other settings would have changed.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Changed {
    /// What was asked for.
    pub what_if: String,
    /// Seconds that the transfer would have taken; none if it would not have come to an end.
    pub seconds: Option<f64>,
    /// The least and the most that this may be.
    pub range: Option<(f64, f64)>,
}

impl Answer {
    /// How long the transfer would have taken with other settings.
    ///
    /// # Errors
    /// When the run over the path that was read does not come out as the log says, or the path cannot be run.
    pub fn what_if(&self, what_if: &WhatIf) -> Result<Changed, WhyError> {
        if !self.is_reproduced() {
            return Err(WhyError::Untold(
                "the run over the path that was read differs from the log, so what it says of other settings would not \
                 hold"
                    .to_owned(),
            ));
        }
        let mut shares = Vec::new();
        for (world, again) in self.likely() {
            if let (Some(again), Some(with)) = (again, what_if.apply(world).run(None)?) {
                shares.push(with.nanos() as f64 / again.nanos().max(1) as f64);
            }
        }
        let none = Changed { what_if: what_if.to_string(), seconds: None, range: None };
        if shares.is_empty() {
            return Ok(none);
        }
        let share = shares.iter().sum::<f64>() / shares.len() as f64;
        for world in self.variations() {
            if let (Some(again), Some(with)) = (world.run(None)?, what_if.apply(&world).run(None)?) {
                shares.push(with.nanos() as f64 / again.nanos().max(1) as f64);
            }
        }
        let took = self.completion.as_secs_f64();
        let least = shares.iter().copied().fold(share, f64::min) - MARGIN;
        let most = shares.iter().copied().fold(share, f64::max) + MARGIN;
        Ok(Changed { seconds: Some(took * share), range: Some((took * least.max(0.0), took * most)), ..none })
    }
}

impl Changed {
    /// As a line of text, beside the time that the transfer took, in seconds.
    pub fn text(&self, took: f64) -> String {
        let time = |seconds: f64| human_duration(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        let (Some(seconds), Some((from, to))) = (self.seconds, self.range) else {
            return format!("{}: it would not have come to an end", self.what_if);
        };
        let change = (seconds / took.max(1e-9) - 1.0) * 100.0;
        let change = match change.abs() {
            ..1.0 => "no change".to_owned(),
            percent if change < 0.0 => format!("{percent:.0} % less"),
            percent => format!("{percent:.0} % more"),
        };
        format!(
            "{}: about {} instead of {} ({change}; {} to {})",
            self.what_if,
            time(seconds),
            time(took),
            time(from),
            time(to)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_what_is_none_says_what_would_be_accepted() {
        let both: WhatIf = "controller=bbr, receive_window=16 MB".parse().unwrap();
        assert_eq!(
            both.changes,
            [Change::Policy("controller=bbr".to_owned()), Change::ReceiveWindow(Some(16_000_000))]
        );
        assert_eq!(both.to_string(), "controller=bbr, receive_window=16 MB");
        let rate: WhatIf = "max-rate = 20 Mbps".parse().unwrap();
        assert_eq!(rate.changes, [Change::MaxRate(Some(Rate::from_bps(20_000_000)))]);
        assert_eq!("resume=handshake(share=1)".parse::<WhatIf>().unwrap().changes.len(), 1);
        for wrong in
            ["", "controller", "controller=nobody", "receive_window=much", "receive_window=0 B", "max_rate=x", "a=b"]
        {
            let error = wrong.parse::<WhatIf>().unwrap_err();
            assert!(
                error.contains("expected") || error.contains("nothing") || error.contains("such as"),
                "{wrong}: {error}"
            );
        }
    }

    #[test]
    fn a_line_says_what_changes() {
        let changed = Changed { what_if: "a".to_owned(), seconds: Some(5.0), range: Some((4.0, 6.0)) };
        assert_eq!(changed.text(10.0), "a: about 5 s instead of 10 s (50 % less; 4 s to 6 s)");
        assert!(changed.text(5.01).contains("(no change;"));
        assert!(changed.text(4.0).contains("(25 % more;"));
        assert!(Changed { seconds: None, ..changed }.text(1.0).contains("not have come to an end"));
    }
}
