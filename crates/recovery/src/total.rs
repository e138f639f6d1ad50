//! The rate limit of a connection that has several paths: what leaves on all of them together.

use thalweg_units::Instant;

use crate::config::Config;
use crate::congestion::Allowance;
use crate::pacing::{Credit, Pacer};
use crate::path::Path;
use crate::types::Budget;

/// A limit on what leaves on all paths together; there is one only while several paths share it. That of each path
/// holds besides.
#[derive(Debug, Default)]
pub(crate) struct TotalLimit(Option<Pacer>);

impl TotalLimit {
    /// Goes by the limit of the configuration and the paths from now on.
    pub(crate) fn set<'a>(&mut self, now: Instant, config: &Config, paths: impl Iterator<Item = &'a Path>) {
        let mut used = paths.filter(|path| !path.is_retired);
        let (Some(most), Some(first), Some(second)) = (config.max_rate, used.next(), used.next()) else {
            self.0 = None;
            return;
        };
        let (size, burst) = (first.datagram_size().min(second.datagram_size()), first.initial_window());
        let pacer = self.0.get_or_insert_with(|| {
            // The first path has had its burst already.
            let mut empty = Pacer::new(now, burst);
            empty.on_sent(now, burst);
            empty
        });
        if pacer.rate() != Some(most) {
            pacer.start_over();
        }
        pacer.set(now, &Allowance::new(u64::MAX, Some(most), size), burst, true);
    }

    /// What leaves of what a path may send: a datagram of `size` at least, or nothing before the limit allows it.
    pub(crate) fn budget(&mut self, now: Instant, size: u16, allowed: Budget) -> Budget {
        let (Some(pacer), Budget::Now(room)) = (&mut self.0, allowed) else { return allowed };
        match pacer.credit(now, size, room, 0) {
            Credit::Bytes(bytes) => Budget::Now(bytes.min(room)),
            Credit::NotBefore(next) => Budget::Paced(next),
        }
    }

    /// So many bytes left on one of the paths.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u32) {
        if let Some(pacer) = &mut self.0 {
            pacer.on_sent(now, bytes.into());
        }
    }
}
