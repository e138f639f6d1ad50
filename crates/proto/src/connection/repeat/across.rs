//! Copies of what one path has sent on another.
//!
//! - **Everything**, where the scheduler wants it ([`PathScheduler::is_redundant`]): each path sends again what others
//!   have under way, the oldest first, before it sends what is new.
//! - **What holds up the peer's credit**: where the peer permits no more, since bytes are missing that are under way on
//!   another path, a path with room sends again the oldest whose acknowledgment is overdue there (RFC 9002 section
//!   6.2.1), or expected later than here (opportunistic retransmission: Raiciu et al., "How Hard Can It Be? Designing
//!   and Implementing a Deployable Multipath TCP", NSDI 2012, section 4.2). The same before the credit is used up, once
//!   it is little more than a round trip's worth: what the copy brings then arrives in time. Copies of this kind stay
//!   below a 256th of the data.
//! - **What another path delivers sooner**, at the end of a transfer: once the application has written the end of its
//!   streams and all of that has left, a path with room sends again what others have under way, the newest first, if
//!   its acknowledgment is overdue, or is expected there much later than here. What a slow path, or one that has just
//!   filled its queue, was given before there was an end in sight then costs no more than the time to send it once
//!   more.
//! - **What would be missed late**: after that, what would be acknowledged there later than the copy arrives here, and
//!   all that a path of a much longer round trip has under way: if its queue has dropped some of it, that shows a long
//!   round trip later. No such copy is made once copies that may turn out needless make up a 128th of the data.
//!
//! Each packet is copied once on each path, copies are not copied, and copies fit into window and pacer. What is pinned
//! to a path is not copied on another.
//!
//! [`PathScheduler::is_redundant`]: crate::PathScheduler::is_redundant

use smallvec::SmallVec;
use thalweg_recovery::{DataSpace, Path, Recovery, SpaceId};
use thalweg_units::{Duration, Instant};

use crate::{
    connection::sent::SentFrames,
    range_set::RangeSet,
    streams::{SentStreams, Streams},
};

/// So many gaps are remembered between the numbers that were copied, for each pair of paths.
const MAX_RANGES: usize = 64;
/// A copy is worth it for sure if the acknowledgment there is expected after more than so many round trips here.
const SOONER_BY: u32 = 2;
/// The same before the peer's credit is used up, after one in so many round trips more than one.
const ALIKE_WITHIN: u32 = 8;
/// As a precaution at the end, it is worth it after so much of a round trip here. The copy arrives after more than half
/// of one, since a queue stands on the way there.
const ONE_WAY: (u32, u32) = (3, 4);
/// Copies that may turn out needless make up one in so many bytes of the data at most.
const PRECAUTION_SHARE: u64 = 128;
/// Of these, copies before the peer's credit is used up make up one in so many bytes of the data at most: the rest is
/// kept for the end.
const BLOCKING_SHARE: u64 = 256;
/// No estimate of a delay is longer.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Which packets have been copied.
#[derive(Debug, Default)]
pub(super) struct Across {
    /// On which path, of which path, and their numbers.
    copied: SmallVec<[(DataSpace, DataSpace, RangeSet); 2]>,
    precautions: Precautions,
}

/// Bytes of packets that were copied without anything waiting for them.
#[derive(Debug, Default)]
struct Precautions {
    all: u64,
    /// Of these, those copied before the peer's credit was used up.
    blocking: u64,
}

impl Precautions {
    /// How many bytes may be copied yet, of `sent` bytes of data; `None`: as many as there are, for something waits for
    /// the copy, or what is under way at the end bounds them.
    fn room(&self, worth: Worth, sent: u64) -> Option<u64> {
        let all = (sent / PRECAUTION_SHARE).saturating_sub(self.all);
        match worth {
            Worth::All | Worth::Blocking | Worth::Sooner => None,
            Worth::BlockingSoon => Some(all.min((sent / BLOCKING_SHARE).saturating_sub(self.blocking))),
            Worth::Doubtful => Some(all),
        }
    }

    fn add(&mut self, worth: Worth, bytes: u64) {
        match worth {
            Worth::All | Worth::Blocking => {}
            Worth::Sooner | Worth::Doubtful => self.all += bytes,
            Worth::BlockingSoon => {
                self.all += bytes;
                self.blocking += bytes;
            }
        }
    }
}

/// Which packets of other paths are worth a copy.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// All.
    All,
    /// Those that would be acknowledged sooner on the path of the copy: the peer's credit waits for the oldest of them.
    Blocking,
    /// The same before the credit is used up.
    BlockingSoon,
    /// Those of the ends of streams that would be acknowledged much sooner on the path of the copy.
    Sooner,
    /// Others of them that would be acknowledged later than the copy arrives, or whose path has a much longer round
    /// trip, so that a loss would be found out late.
    Doubtful,
}

impl Across {
    /// Makes the contents of up to `count` packets due once more that were sent on the paths of `others`, for the path
    /// `to` to carry. Returns whether there were any.
    pub(super) fn mark(
        &mut self,
        now: Instant,
        (to, worth, count): (DataSpace, Worth, usize),
        others: &[DataSpace],
        recovery: &Recovery<Box<SentFrames>>,
        streams: &mut Streams,
    ) -> bool {
        let Some(here) = recovery.space_path(to).map(Path::rtt) else { return false };
        let at_end = matches!(worth, Worth::Sooner | Worth::Doubtful);
        let mut found = 0;
        for from in others.iter().copied().filter(|from| *from != to) {
            let Some(path) = recovery.space_path(from) else { continue };
            let there = path.rtt();
            let overdue = there.probe_base();
            let is_long = there.smoothed > here.smoothed * SOONER_BY;
            let soonest = match worth {
                Worth::Sooner => here.smoothed * SOONER_BY,
                Worth::BlockingSoon => here.smoothed + here.smoothed / ALIKE_WITHIN,
                Worth::Doubtful => here.smoothed / ONE_WAY.1 * ONE_WAY.0,
                Worth::All | Worth::Blocking => here.smoothed,
            };
            let size = u64::from(path.datagram_size().max(1));
            let is_later = |place: usize, sent: Instant| {
                let age = now.saturating_since(sent);
                // How long it takes to deliver what is under way up to there; `None`: the path has delivered nothing.
                let ahead = size.saturating_mul(place as u64 + 1).min(path.bytes_in_flight());
                let drained = path.delivery_rate().map(|rate| rate.time_for(ahead).min(LONGEST));
                let due = drained.map(|drained| drained.max(there.smoothed.saturating_sub(age)));
                // What should have been acknowledged may be lost, though only its probe timeout says so for certain.
                let is_late = at_end && drained.is_some_and(|drained| age >= there.smoothed.saturating_add(drained));
                age >= overdue || is_late || due.is_none_or(|due| due > soonest)
            };
            // Whether any of them can be worth it, without a look at each.
            let oldest = recovery.outstanding_sent(SpaceId::Data(from)).next();
            let Some(oldest) = oldest.map(|(_, sent_at, _)| sent_at) else { continue };
            let all = usize::try_from(path.bytes_in_flight() / size).unwrap_or(usize::MAX);
            let is_any_later = || is_later(0, oldest) || is_later(all, now);
            if worth != Worth::All && !(worth == Worth::Doubtful && is_long) && !is_any_later() {
                continue;
            }
            let room = self.precautions.room(worth, streams.data_sent());
            let copied = self.copied(to, from);
            copied.remove(0..recovery.oldest_unacked(SpaceId::Data(from)).unwrap_or(u64::MAX));
            let is_worth_it = |(place, (number, sent_at, sent)): &(usize, (u64, Instant, &SentFrames))| {
                let is_due = || match worth {
                    Worth::All => true,
                    Worth::Blocking | Worth::BlockingSoon => is_later(*place, *sent_at),
                    Worth::Sooner => is_later(*place, *sent_at) && streams.is_of_finished(&sent.streams),
                    Worth::Doubtful => (is_long || is_later(*place, *sent_at)) && streams.is_of_finished(&sent.streams),
                };
                let is_copied = sent.is_copy || copied.contains(*number);
                !is_copied && !sent.streams.is_empty() && !streams.is_pinned(&sent.streams) && is_due()
            };
            let outstanding = recovery.outstanding_sent(SpaceId::Data(from));
            let outstanding = outstanding.map(|(number, sent_at, sent)| (number, sent_at, &**sent));
            let worthy = outstanding.enumerate().filter(is_worth_it);
            let worthy = worthy.map(|(_, (number, _, sent))| (number, &sent.streams));
            let packets = room.and_then(|bytes| usize::try_from(bytes / size).ok()).unwrap_or(usize::MAX);
            let left = packets.min(count - found);
            let chosen: SmallVec<[(u64, &SentStreams); 16]> = match worth {
                Worth::All | Worth::Blocking | Worth::BlockingSoon => worthy.take(left).collect(),
                // The newest arrives last.
                Worth::Sooner | Worth::Doubtful => {
                    let all: Vec<_> = worthy.collect();
                    all.into_iter().rev().take(left).collect()
                }
            };
            found += chosen.len();
            let bytes = size * chosen.len() as u64;
            for (number, contents) in chosen {
                copied.insert_one(number);
                streams.on_lost(contents);
            }
            copied.keep_highest(MAX_RANGES);
            self.precautions.add(worth, bytes);
        }
        found > 0
    }

    fn copied(&mut self, to: DataSpace, from: DataSpace) -> &mut RangeSet {
        let known = self.copied.iter().position(|(on, of, _)| (*on, *of) == (to, from));
        let at = known.unwrap_or_else(|| {
            self.copied.push((to, from, RangeSet::new()));
            self.copied.len() - 1
        });
        &mut self.copied[at].2
    }

    /// A path is no more.
    pub(super) fn forget(&mut self, space: DataSpace) {
        self.copied.retain(|(to, from, _)| *to != space && *from != space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn half_of_the_precautions_is_kept_for_the_end() {
        let mut precautions = Precautions::default();
        assert_eq!(precautions.room(Worth::BlockingSoon, MB), Some(4_096));
        precautions.add(Worth::BlockingSoon, 4_096);
        assert_eq!(precautions.room(Worth::BlockingSoon, MB), Some(0));
        assert_eq!(precautions.room(Worth::Doubtful, MB), Some(4_096));
        precautions.add(Worth::Doubtful, 4_096);
        assert_eq!(precautions.room(Worth::Doubtful, MB), Some(0));
        // A later transfer has a share of its own data.
        assert_eq!(precautions.room(Worth::BlockingSoon, 3 * MB), Some(8_192));
        assert_eq!(precautions.room(Worth::Doubtful, 3 * MB), Some(16_384));
    }

    #[test]
    fn copies_at_the_end_leave_less_before_the_credit_of_the_next_transfer() {
        let mut precautions = Precautions::default();
        precautions.add(Worth::Sooner, 7_000);
        assert_eq!(precautions.room(Worth::BlockingSoon, MB), Some(1_192));
        assert_eq!(precautions.room(Worth::BlockingSoon, 2 * MB), Some(8_192));
    }

    #[test]
    fn what_waits_for_its_copy_is_no_precaution() {
        let mut precautions = Precautions::default();
        for worth in [Worth::All, Worth::Blocking, Worth::Sooner] {
            assert_eq!(precautions.room(worth, 0), None);
        }
        precautions.add(Worth::All, MB);
        precautions.add(Worth::Blocking, MB);
        assert_eq!(precautions.room(Worth::Doubtful, MB), Some(8_192));
    }
}
