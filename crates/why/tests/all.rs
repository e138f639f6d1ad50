//! Tests of the crate as a whole.
#![allow(clippy::unwrap_used)]

#[path = "all/asked.rs"]
mod asked;
#[path = "all/damage.rs"]
mod damage;
#[path = "all/draw.rs"]
mod draw;
#[path = "all/drawn.rs"]
mod drawn;
#[path = "all/each.rs"]
mod each;
#[path = "all/kept.rs"]
mod kept;
#[path = "all/logged.rs"]
mod logged;
#[path = "all/plain.rs"]
mod plain;
#[path = "all/tally.rs"]
mod tally;
#[path = "all/truth.rs"]
mod truth;
