//! Which loads a server carries: for whom, how many at a time, and for how long.
//!
//! A load is the one thing of a probe server that costs bandwidth, so a server carries none unless it was told to. Then
//! an address has one at a time and a share of the time; the caller keeps each below a rate.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use thalweg_units::{Duration, Instant};

use crate::server::network;

/// Limits of the loads of a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Loads at a time.
    pub at_a_time: usize,
    /// How long one lasts at most.
    pub longest: Duration,
    /// How long the loads of one IPv4 address or of one IPv6 network of 64 bits last in all, at most, within
    /// [`within`](Self::within).
    pub in_all: Duration,
    /// See [`in_all`](Self::in_all).
    pub within: Duration,
    /// Addresses that are remembered. More have to wait.
    pub addresses: usize,
}

impl Default for LoadLimits {
    /// 4 at a time, 20 s each, 80 s in ten minutes for an address, 4,096 addresses.
    fn default() -> Self {
        LoadLimits {
            at_a_time: 4,
            longest: Duration::from_secs(20),
            in_all: Duration::from_secs(80),
            within: Duration::from_secs(600),
            addresses: 4096,
        }
    }
}

/// What an address has had.
#[derive(Copy, Clone, Debug)]
struct Had {
    since: Instant,
    used: Duration,
    /// When the load that it has now began.
    running: Option<Instant>,
}

/// The loads of a server, by address.
#[derive(Debug)]
pub struct Loads {
    limits: LoadLimits,
    had: BTreeMap<[u8; 9], Had>,
    running: usize,
}

/// Why a load is not carried.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoLoad {
    /// Others have loads now, or this address has one.
    #[error("the server carries as many loads as it may now; try again in a minute")]
    Busy,
    /// The address has had its share.
    #[error("this address has had as much load as it may for now; try again in ten minutes")]
    Enough,
}

impl Loads {
    /// None so far.
    pub fn new(limits: LoadLimits) -> Self {
        Loads { limits, had: BTreeMap::new(), running: 0 }
    }

    /// Begins a load for an address. Returns for how long it may last.
    ///
    /// # Errors
    /// Why it may not begin.
    pub fn begin(&mut self, now: Instant, from: SocketAddr) -> Result<Duration, NoLoad> {
        let LoadLimits { at_a_time, longest, in_all, within, addresses } = self.limits;
        self.had.retain(|_, had| had.running.is_some() || now.saturating_since(had.since) < within);
        let key = network(from);
        if self.running >= at_a_time || (self.had.len() >= addresses && !self.had.contains_key(&key)) {
            return Err(NoLoad::Busy);
        }
        let had = self.had.entry(key).or_insert(Had { since: now, used: Duration::ZERO, running: None });
        if had.running.is_some() {
            return Err(NoLoad::Busy);
        }
        let rest = in_all.saturating_sub(had.used);
        if rest.is_zero() {
            return Err(NoLoad::Enough);
        }
        had.running = Some(now);
        self.running += 1;
        Ok(rest.min(longest))
    }

    /// Ends the load of an address.
    pub fn end(&mut self, now: Instant, from: SocketAddr) {
        let Some(had) = self.had.get_mut(&network(from)) else { return };
        if let Some(began) = had.running.take() {
            had.used += now.saturating_since(began);
            self.running -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn from(host: &str) -> SocketAddr {
        SocketAddr::new(host.parse().unwrap(), 5000)
    }

    #[test]
    fn an_address_has_one_at_a_time_and_its_share() {
        let mut loads = Loads::new(LoadLimits::default());
        let here = from("192.0.2.1");
        let mut now = 0;
        for _ in 0..4 {
            assert_eq!(loads.begin(at(now), here), Ok(Duration::from_secs(20)));
            assert_eq!(loads.begin(at(now), SocketAddr::new(here.ip(), 6000)), Err(NoLoad::Busy));
            loads.end(at(now + 20), here);
            now += 20;
        }
        assert_eq!(loads.begin(at(now), here), Err(NoLoad::Enough));
        assert!(loads.begin(at(now), from("192.0.2.2")).is_ok());
        // Ten minutes later it is forgotten.
        assert!(loads.begin(at(601), here).is_ok());
        // Less of the share is left: less is given.
        loads.end(at(606), here);
        assert!(loads.begin(at(606), here).is_ok());
        loads.end(at(676), here);
        assert_eq!(loads.begin(at(676), here), Ok(Duration::from_secs(5)));
    }

    #[test]
    fn networks_of_ipv6_count_as_one_and_memory_is_bounded() {
        let limits = LoadLimits { at_a_time: 3, addresses: 5, ..LoadLimits::default() };
        let mut loads = Loads::new(limits);
        assert!(loads.begin(at(0), from("2001:db8::1")).is_ok());
        assert_eq!(loads.begin(at(0), from("2001:db8::2:1")), Err(NoLoad::Busy));
        assert!(loads.begin(at(0), from("2001:db8:0:1::1")).is_ok() && loads.begin(at(0), from("192.0.2.1")).is_ok());
        assert_eq!(loads.begin(at(0), from("192.0.2.2")), Err(NoLoad::Busy));
        loads.end(at(1), from("192.0.2.1"));
        // Whoever had one is remembered, and only so many are.
        for host in 2..100u8 {
            let host = from(&format!("192.0.2.{host}"));
            if loads.begin(at(1), host).is_ok() {
                loads.end(at(2), host);
            }
        }
        assert_eq!(loads.had.len(), 5);
        assert!(loads.begin(at(700), from("192.0.2.77")).is_ok());
    }
}
