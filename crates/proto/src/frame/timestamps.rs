//! The timestamps behind an ACK: when the acknowledged packets arrived (draft-ietf-quic-receive-ts-02).
//!
//! They come newest first, in ranges of consecutive packet numbers. The first says how long after the start of the
//! receiver's clock its packet arrived; each further one, how long before the one in front of it.

use smallvec::SmallVec;

use crate::varint::{self, Reader};

/// The most ranges that are written: what reordering tears further apart is left out.
const MAX_RANGES: usize = 16;

/// The timestamps of an ACK frame, validated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Timestamps<'a> {
    /// How many there are.
    count: u64,
    /// From Timestamp Range Count on.
    fields: &'a [u8],
}

/// When a packet arrived.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Its number.
    pub number: u64,
    /// Since the start of the receiver's clock, in units of 2^exponent microseconds, where the exponent is that of the
    /// data sender's parameter `receive_timestamps_exponent`.
    pub units: u64,
}

impl<'a> Timestamps<'a> {
    /// Reads and checks the timestamps behind an ACK of `largest`.
    pub(super) fn parse(r: &mut Reader<'a>, largest: u64) -> Result<Timestamps<'a>, &'static str> {
        let fields = r.rest();
        let mut walk = Walk::new(*r, largest).ok_or("timestamps are truncated")?;
        let mut count = 0;
        while walk.step().map_err(|()| "timestamps are truncated or go below zero")?.is_some() {
            count += 1;
        }
        *r = walk.fields;
        Ok(Timestamps { count, fields: &fields[..fields.len() - r.remaining()] })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The timestamps, newest first. `largest` is the ACK's.
    pub(super) fn iter(&self, largest: u64) -> impl Iterator<Item = Timestamp> + use<'a> {
        let mut walk = Walk::new(Reader::new(self.fields), largest);
        std::iter::from_fn(move || walk.as_mut()?.step().ok().flatten())
    }

    /// As they stand in the frame.
    pub(super) fn fields(&self) -> &'a [u8] {
        self.fields
    }
}

/// Goes from timestamp to timestamp.
struct Walk<'a> {
    fields: Reader<'a>,
    largest: u64,
    /// Ranges not begun.
    ranges: u64,
    /// Timestamps left in the current range, and the number of the next; `None` below packet 0.
    left: u64,
    number: Option<u64>,
    /// The previous timestamp.
    units: Option<u64>,
}

impl<'a> Walk<'a> {
    fn new(mut fields: Reader<'a>, largest: u64) -> Option<Walk<'a>> {
        let ranges = fields.varint()?;
        Some(Walk { fields, largest, ranges, left: 0, number: None, units: None })
    }

    fn step(&mut self) -> Result<Option<Timestamp>, ()> {
        while self.left == 0 {
            let Some(ranges) = self.ranges.checked_sub(1) else {
                return Ok(None);
            };
            self.ranges = ranges;
            let below = self.fields.varint().ok_or(())?;
            self.number = Some(self.largest.checked_sub(below).ok_or(())?);
            self.left = self.fields.varint().ok_or(())?;
        }
        self.left -= 1;
        let number = self.number.ok_or(())?;
        self.number = number.checked_sub(1);
        let delta = self.fields.varint().ok_or(())?;
        let units = self.units.map_or(Ok(delta), |previous| previous.checked_sub(delta).ok_or(()))?;
        self.units = Some(units);
        Ok(Some(Timestamp { number, units }))
    }
}

/// Appends the timestamps of an ACK of `largest` in at most `max_len` bytes: of `times` (newest first, none above
/// `largest`, `units` not rising) the first that fit, at most `most`. Returns how many; with none, an empty list.
pub(super) fn encode(
    out: &mut Vec<u8>,
    max_len: usize,
    largest: u64,
    times: impl Iterator<Item = Timestamp> + Clone,
    most: usize,
) -> usize {
    // First what fits: counts stand before what they count. (The number that begins a range, its length.)
    let mut ranges: SmallVec<[(u64, u64); MAX_RANGES]> = SmallVec::new();
    let mut used = 1;
    let mut written = 0;
    let mut previous: Option<Timestamp> = None;
    for time in times.clone().take(most) {
        let delta = previous.map_or(time.units, |previous| previous.units.saturating_sub(time.units));
        let follows = previous.is_some_and(|previous| previous.number.checked_sub(1) == Some(time.number));
        let len = match ranges.last() {
            Some((_, len)) if follows => varint::len(len + 1) - varint::len(*len),
            _ if ranges.len() == MAX_RANGES => break,
            _ => varint::len(largest.saturating_sub(time.number)) + 1,
        };
        used += len + varint::len(delta);
        if used > max_len {
            break;
        }
        match ranges.last_mut() {
            Some((_, len)) if follows => *len += 1,
            _ => ranges.push((time.number, 1)),
        }
        written += 1;
        previous = Some(time);
    }
    varint::encode(ranges.len() as u64, out);
    let mut times = times;
    let mut previous: Option<u64> = None;
    for (number, len) in ranges {
        varint::encode(largest.saturating_sub(number), out);
        varint::encode(len, out);
        for time in times.by_ref().take(len as usize) {
            varint::encode(previous.map_or(time.units, |previous| previous.saturating_sub(time.units)), out);
            previous = Some(time.units);
        }
    }
    written
}
