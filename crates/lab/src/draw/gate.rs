//! The gate: figures of drawn worlds that are committed, and what must not become worse than they are.

use serde::{Deserialize, Serialize};

use super::{DISTRIBUTION, Results};

/// Committed figures of several draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Committed {
    /// Version of the distribution.
    pub distribution: u32,
    /// One for each draw.
    pub draws: Vec<Draw>,
}

/// Committed figures of one draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// How many single paths.
    pub single: u64,
    /// How many shared paths.
    pub shared: u64,
    /// The number of the first of each.
    pub from: u64,
    /// Share of the downloads within 1.5 times the cold floor.
    pub within: Option<f64>,
    /// Geometric mean of completion over `start=hystart++`.
    pub over_hystart: Option<f64>,
    /// Least share that rivals keep of what they have beside `controller=cubic`.
    pub least_kept: Option<f64>,
    /// Worlds in which a connection dies or a run never completes, such as "single 37". Empty unless they are known.
    pub dead: Vec<String>,
}

/// What a comparison with committed figures found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Each makes the check fail.
    pub worse: Vec<String>,
    /// What should be known, and makes nothing fail.
    pub remarks: Vec<String>,
}

impl Draw {
    /// The figures of results, rounded to what is worth committing.
    pub fn of(results: &Results) -> Draw {
        let rounded = |value: f64| (value * 1e4).round() / 1e4;
        Draw {
            single: results.request.single,
            shared: results.request.shared,
            from: results.from,
            within: results.single.as_ref().map(|single| rounded(single.within.value)).filter(|value| !value.is_nan()),
            over_hystart: results.single.as_ref().map(|single| rounded(single.over_reference.value)),
            least_kept: results.shared.as_ref().map(|shared| rounded(shared.least)),
            dead: names(results),
        }
    }

    fn is_of(&self, results: &Results) -> bool {
        let asked = &results.request;
        (self.single, self.shared, 0, self.from) == (asked.single, asked.shared, asked.pairs, asked.from)
    }
}

fn names(results: &Results) -> Vec<String> {
    results.dead().map(|world| format!("{} {}", world.class.name(), world.number)).collect()
}

impl Committed {
    /// Reads a file's text.
    ///
    /// # Errors
    /// Why it cannot be read, or that it is of another distribution.
    pub fn parse(text: &str) -> Result<Committed, String> {
        let committed: Committed = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match committed.distribution {
            DISTRIBUTION => Ok(committed),
            other => Err(format!(
                "it has figures of distribution {other}, and this program draws from distribution {DISTRIBUTION}; write \
                 it again with --commit"
            )),
        }
    }

    /// Puts figures in place of those of the same draw.
    pub fn put(&mut self, draw: Draw) {
        self.distribution = DISTRIBUTION;
        let key = |draw: &Draw| (draw.from, draw.single, draw.shared);
        self.draws.retain(|other| key(other) != key(&draw));
        self.draws.push(draw);
        self.draws.sort_by_key(key);
    }

    /// The file's text.
    pub fn text(&self) -> String {
        // Nothing in it cannot be written as JSON.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Compares results with the figures of the same draw. A figure is worse if all of its interval is; one that has no
    /// interval, if it is.
    ///
    /// # Errors
    /// When there are no figures of this draw.
    pub fn compare(&self, results: &Results) -> Result<Comparison, String> {
        let Some(draw) = self.draws.iter().find(|draw| draw.is_of(results)) else {
            let known = self.draws.iter();
            let known =
                known.map(|draw| format!("--single {} --shared {} --from {}", draw.single, draw.shared, draw.from));
            return Err(format!("it has no figures of this draw; it has {}", known.collect::<Vec<_>>().join("; ")));
        };
        let mut found = Comparison::default();
        for world in results.dead() {
            let name = format!("{} {}", world.class.name(), world.number);
            let said = format!("{name} died: {}", world.dead.join("; "));
            match draw.dead.contains(&name) {
                true => found.remarks.push(format!("{said} (known)")),
                false => found.worse.push(said),
            }
        }
        let now = names(results);
        for name in draw.dead.iter().filter(|name| !now.contains(name)) {
            found.remarks.push(format!("{name} is committed as dead and lives: write the figures again with --commit"));
        }
        if let (Some(single), Some(within)) = (&results.single, draw.within) {
            let best = single.within.interval.map_or(single.within.value, |interval| interval.high);
            if best < within {
                let (now, then) = (percent(single.within.value), percent(within));
                found.worse.push(format!(
                    "{now} of the downloads are within {} x the floor, at most {}; committed {then}",
                    super::WITHIN,
                    percent(best)
                ));
            }
        }
        if let (Some(single), Some(mean)) = (&results.single, draw.over_hystart) {
            let best = single.over_reference.interval.map_or(single.over_reference.value, |interval| interval.low);
            // Committed figures are rounded.
            if best > mean + 1e-4 {
                found.worse.push(format!(
                    "completion over start=hystart++ is {:.3}, at least {best:.3}; committed {mean:.3}",
                    single.over_reference.value
                ));
            }
        }
        if let (Some(shared), Some(least)) = (&results.shared, draw.least_kept)
            && shared.least < least - 1e-4
        {
            // The least of some values has no interval, so that chance and change cannot be told apart.
            found.remarks.push(format!("rivals keep {:.2} at least; committed {least:.2}", shared.least));
        }
        Ok(found)
    }
}

fn percent(share: f64) -> String {
    crate::metric::format(share, crate::metric::Unit::Share)
}
