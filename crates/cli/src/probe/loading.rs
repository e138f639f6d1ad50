//! When a measurement loads the path, and what came of it.

use std::net::SocketAddr;
use std::time::Duration;

use thalweg_probe::{Client, Load, Way};
use thalweg_units::Instant;
use tokio::task::{JoinError, JoinHandle};

use super::load::{self, Carried};
use super::socket::Clock;
use crate::failure::Result;

/// How long the path is measured before the first load, at most.
const BEFORE: Duration = Duration::from_secs(10);
/// How long a load lasts, at most.
const LENGTH: Duration = Duration::from_secs(10);
/// From the end of a load to the next: its queue drains.
const BETWEEN: Duration = Duration::from_secs(3);

/// The loads of a measurement, one after the other.
pub(super) struct Loading {
    ways: Vec<Way>,
    server: Option<SocketAddr>,
    length: Duration,
    /// How long after the measurement began the next one begins.
    next: Duration,
    running: Option<(Way, JoinHandle<Result<Carried>>)>,
    carried: Vec<(Way, Carried)>,
    failed: Option<String>,
}

impl Loading {
    /// Loads of these ways within a measurement of this length.
    pub(super) fn new(ways: &[Way], length: Duration, server: Option<SocketAddr>) -> Loading {
        let part = length / (2 * ways.len() as u32 + 1);
        Loading {
            ways: ways.to_vec(),
            server,
            length: LENGTH.min(part),
            next: BEFORE.min(part),
            running: None,
            carried: Vec::new(),
            failed: None,
        }
    }

    /// Begins the next load, if it is time to; returns what to say of it.
    pub(super) fn begin(&mut self, client: &mut Client, clock: Clock) -> Option<String> {
        let started = client.trace().started;
        let now = clock.now();
        let since = Duration::from_nanos(now.as_nanos().saturating_sub(started));
        if self.running.is_some() || self.ways.is_empty() || started == 0 || since < self.next {
            return None;
        }
        let Some(server) = self.server else {
            self.ways.clear();
            let failed = "no load: there is no port after 65535";
            self.failed = Some(failed.to_owned());
            return Some(failed.to_owned());
        };
        let way = self.ways.remove(0);
        client.loaded(way, now, None);
        self.running = Some((way, tokio::spawn(load::load(server, way, self.length, clock))));
        Some(format!(
            "{:>7.1} s  loads the way {} for {:.0} s",
            since.as_secs_f64(),
            way.name(),
            self.length.as_secs_f64()
        ))
    }

    /// Waits for the end of the load; for ever if there is none.
    pub(super) async fn done(&mut self) -> std::result::Result<Result<Carried>, JoinError> {
        match &mut self.running {
            Some((_, task)) => task.await,
            None => std::future::pending().await,
        }
    }

    /// Takes the end of the load; returns why it was none, if so.
    pub(super) fn ended(
        &mut self,
        done: std::result::Result<Result<Carried>, JoinError>,
        client: &mut Client,
        now: Instant,
    ) -> Option<String> {
        let (way, _) = self.running.take()?;
        self.next = Duration::from_nanos(now.as_nanos().saturating_sub(client.trace().started)) + BETWEEN;
        let failed = match done {
            Ok(Ok(carried)) => {
                client.loaded(way, carried.from, Some(carried.until));
                self.carried.push((way, carried));
                return None;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => format!("no load: {error}"),
        };
        // The others would fail alike.
        self.ways.clear();
        client.loaded(way, now, Some(now));
        self.failed = Some(failed.clone());
        Some(failed)
    }

    /// What was carried in a measurement that began then, and why a load was not. What still runs ends.
    pub(super) fn end(mut self, started: u64) -> (Vec<(Way, Load)>, Option<String>) {
        if let Some((_, task)) = self.running.take() {
            task.abort();
            self.failed = Some("no load: the measurement ended before it".to_owned());
        }
        let since = |at: Instant| i64::try_from(i128::from(at.as_nanos()) - i128::from(started)).unwrap_or(i64::MAX);
        let load = |carried: &Carried| Load {
            from: since(carried.from),
            until: since(carried.until),
            delivered: carried.delivered.iter().map(|(at, bytes)| (since(*at), *bytes)).collect(),
            is_datagrams: true,
            largest: carried.told.largest,
            packets: carried.told.packets,
            packets_lost: carried.told.lost,
            own_trips: carried.own_trips.iter().map(|trip| trip.as_nanos() as i64).collect(),
        };
        (self.carried.iter().map(|(way, carried)| (*way, load(carried))).collect(), self.failed)
    }
}
