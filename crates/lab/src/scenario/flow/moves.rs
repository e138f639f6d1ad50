//! Changes of a client's address: how they are written and read.

use serde::Serialize;
use thalweg_sim::StackInfo;
use thalweg_units::Duration;

use crate::scenario::read::Reader;

/// The client's address changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoveSpec {
    /// When, in virtual time from the start of the run.
    pub at: Duration,
    /// The path from then on, by name; none if a NAT on the way forgets the client.
    pub to: Option<String>,
    /// Whether the client's transport is notified.
    pub notice: bool,
}

/// Reads `move` and `rebind`: when the client's address changes.
pub(super) fn moves(reader: &Reader<'_>, paths: &[String], stack: Option<&StackInfo>) -> Option<Vec<MoveSpec>> {
    const EXAMPLE: &str = "{ at = \"2 s\", to = \"lte\", notice = true }";
    let fields = |key| reader.get(key).map_or_else(Vec::new, |field| field.items());
    let mut moves = Vec::new();
    let mut is_fine = true;
    for item in fields("move") {
        let table = item.table(EXAMPLE)?;
        let at = table.need("at", "\"2 s\"").and_then(|field| field.duration());
        let choices: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), path.as_str())).collect();
        let to = table.need("to", "\"lte\"").and_then(|field| field.choice(&choices));
        let notice = table.need("notice", "true").and_then(|field| {
            let notice = field.boolean()?;
            if let Some(stack) = stack.filter(|stack| notice && !stack.hears_of_moves) {
                field.complain(format!(
                    "needs a stack whose connections can be notified of a new address, which \"{}\" is not; write notice = false",
                    stack.name
                ));
            }
            Some(notice)
        });
        table.finish();
        let (Some(at), Some(to), Some(notice)) = (at, to, notice) else {
            is_fine = false;
            continue;
        };
        moves.push(MoveSpec { at, to: Some(to.to_owned()), notice });
    }
    for item in fields("rebind") {
        let Some(at) = item.duration() else {
            is_fine = false;
            continue;
        };
        moves.push(MoveSpec { at, to: None, notice: false });
    }
    if moves.len() > MOST_MOVES {
        reader.complain(format!("has {} changes of address; at most {MOST_MOVES} are accepted", moves.len()));
        return None;
    }
    moves.sort_by_key(|change| change.at);
    is_fine.then_some(moves)
}

/// The most changes of a client's address.
const MOST_MOVES: usize = 10_000;
