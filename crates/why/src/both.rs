//! The logs of both ends of a transfer: the sender's is judged, and the receiver's says what came.

use crate::answer::{Log, WhyError};
use crate::bins::{Bins, ENOUGH_BYTES};
use crate::gather::{Facts, OtherEnd, Times};
use crate::receiver;

/// Of the packets that were sent no more than so many, and no more than this part, never came without being missed.
const FEW: u64 = 10;
const SHARE: u64 = 10;
/// Digits of the connection ID that a client chooses for its server at first, at least (RFC 9000 section 7.2). What is
/// shorter numbers the connections of a log.
const NAME: usize = 16;
/// More of a name is not printed: characters.
const SHOWN: usize = 40;

impl Log {
    /// Whether more data came to the end that wrote it than it sent, as its frames say. There is nothing more of the
    /// log then: what is fed later is not read.
    ///
    /// # Errors
    /// When the log is no log.
    pub fn is_of_receiver(&mut self) -> std::io::Result<bool> {
        self.finish()?;
        Ok(self.facts.received.bytes() > self.facts.waits.bytes())
    }

    /// Puts the log of the receiver of the same transfer beside this one, which is its sender's: it knows which packets
    /// came, and how fast. No clock of one end is compared with that of the other.
    ///
    /// # Errors
    /// When either is no log, or they are not those of a sender and of its receiver.
    pub fn beside(&mut self, receiver: &mut Log) -> Result<(), WhyError> {
        if self.is_of_receiver()? || !receiver.is_of_receiver()? {
            return Err(WhyError::Untold("two logs of one end are no log of both".to_owned()));
        }
        if let Some(why) = differ(&self.facts, &receiver.facts) {
            return Err(WhyError::Untold(format!("the logs are of two connections: {why}")));
        }
        let facts = &receiver.facts;
        self.facts.other_end = Some(OtherEnd {
            seen: receiver::seen(facts),
            came: (!is_broken(facts)).then_some(facts.course.packets[1]),
            rate: dispersed(&self.facts.course.departures, &facts.arrivals.times),
        });
        Ok(())
    }
}

/// Packets over which a rate is taken, one more than the times between them.
const ROW: usize = 9;
/// So much longer than they left they came, a ratio and milliseconds: then the bottleneck held them up.
const LONGER: (f64, f64) = (1.25, 0.2);
/// They tell a rate if they are this share of all.
const PART: f64 = 0.1;
/// A gap that is longer than this share of a row is a pause, or a receiver that reads several packets at a time.
const PAUSE: f64 = 0.4;

/// The rate at which packets came apart that had left closer together, bytes per millisecond. Those that others
/// overtook are left out: something else held them up.
fn dispersed(left: &Times, came: &Times) -> Option<f64> {
    let mut both = Vec::new();
    let mut earliest = f64::INFINITY;
    for (number, (left, _)) in left.iter().rev() {
        if let Some((came, size)) = came.get(number).filter(|(came, _)| *came <= earliest) {
            earliest = *came;
            both.push((*left, *came, *size as f64));
        }
    }
    both.reverse();
    let (mut rates, mut all) = (Bins::default(), 0.0);
    for row in both.windows(ROW) {
        let [(left, came, _), .., (last_left, last_came, size)] = row else { continue };
        let (leaving, coming) = (last_left - left, last_came - came);
        let longest = row.windows(2).map(|pair| pair[1].1 - pair[0].1).fold(0.0, f64::max);
        all += size;
        if coming > LONGER.0 * leaving + LONGER.1 && longest <= PAUSE * coming {
            let bytes: f64 = row[1..].iter().map(|(_, _, size)| size).sum();
            rates.add(bytes / coming, *size);
        }
    }
    rates.steady(0.5, ENOUGH_BYTES.max(PART * all))
}

/// Whether a log was cut or damaged.
fn is_broken(facts: &Facts) -> bool {
    facts.condition.is_truncated || !facts.condition.damage.is_empty()
}

/// Why the two are not of one transfer, if they are not; as far as that can be told of logs that were cut or damaged.
fn differ(sender: &Facts, receiver: &Facts) -> Option<String> {
    let [one, other] = [sender, receiver].map(|facts| facts.header.odcid.as_deref().filter(|name| name.len() >= NAME));
    if let (Some(one), Some(other)) = (one, other)
        && one != other
    {
        let shown = |name: &str| name.chars().take(SHOWN).collect::<String>().escape_debug().to_string();
        return Some(format!("they are called {} and {}", shown(one), shown(other)));
    }
    if is_broken(sender) || is_broken(receiver) {
        return None;
    }
    // A simulator may call its connections alike. What the sender knows of may not have come.
    let (sent, came) = (sender.course.packets[0], receiver.course.packets[1]);
    let missing = (sender.flight.losses.lost.len() + sender.flight.unanswered()) as u64;
    let slack = FEW + sent / SHARE;
    let is_alike = came <= sent + slack && sent <= came + missing + slack;
    (!is_alike).then(|| format!("{sent} packets were sent in one, and {came} came in the other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_come_apart_tell_the_rate_unless_others_overtook_them() {
        // Forty at once every 100 ms, which come 1 ms apart; in the second case every twentieth comes 30 ms late.
        let times = |of: &dyn Fn(u64) -> f64| (0..800).map(|number| (number, (of(number), 1200))).collect::<Times>();
        let left = times(&|number| 100.0 * (number / 40) as f64);
        let at = |number: u64| 100.0 * (number / 40) as f64 + 50.0 + (number % 40) as f64;
        let late = |number: u64| at(number) + if number % 20 == 3 { 30.0 } else { 0.0 };
        for came in [times(&at), times(&late)] {
            let rate = dispersed(&left, &came).unwrap();
            assert!((rate / 1200.0 - 1.0).abs() < 0.2, "{rate}");
        }
        assert_eq!(dispersed(&left, &times(&|number| 50.0 + 100.0 * (number / 40) as f64)), None, "none came apart");
        let paced = times(&|number| 10.0 * number as f64);
        assert_eq!(dispersed(&paced, &times(&|number| 10.0 * number as f64 + 50.0)), None, "as they had left");
        let stalls = times(&|number| 10.0 * number as f64 + if number > 400 { 300.0 } else { 50.0 });
        assert_eq!(dispersed(&paced, &stalls), None, "a pause of the path");
        let batches = times(&|number| 100.0 * (number / 40) as f64 + 50.0 + 2.0 * (number % 40 / 20) as f64);
        assert_eq!(dispersed(&left, &batches), None, "read twenty at a time");
        assert_eq!(dispersed(&left, &Times::new()), None);
    }
}
