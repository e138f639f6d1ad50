//! A client and a server of the probe over links of the lab, in virtual time.
#![allow(clippy::unwrap_used)]

#[path = "all/abuse.rs"]
mod abuse;
#[path = "all/answers.rs"]
mod answers;
#[path = "all/bulk.rs"]
mod bulk;
#[path = "all/judge.rs"]
mod judge;
#[path = "all/loads.rs"]
mod loads;
#[path = "all/models.rs"]
mod models;
#[path = "all/paths.rs"]
mod paths;
#[path = "all/scenarios.rs"]
mod scenarios;
#[path = "all/trains.rs"]
mod trains;
#[path = "all/truth.rs"]
mod truth;
#[path = "all/world.rs"]
mod world;
