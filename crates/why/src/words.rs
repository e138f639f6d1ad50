//! The answer in words, and as a table for programs.

use serde::Serialize;
use thalweg_units::{Duration, Rate, human_bytes, human_duration};

use crate::Cause;
use crate::answer::{Answer, NOTHING};
use crate::gather::{Facts, Limit};
use crate::what_if::Changed;
use crate::world::Host;

/// Below this share of the time a cause is ruled out.
const LITTLE: f64 = 0.01;
/// From this share of its rate on, a path is full.
const FULL: f64 = 0.85;
/// The most moments that are shown.
const MOMENTS: usize = 5;

/// What an answer says.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The answer as a sentence or two.
    pub sentence: String,
    /// The cause that costs most; none if there is nothing to gain, or none can be told.
    pub cause: Option<Cause>,
    /// How long the transfer took, in seconds.
    pub seconds: f64,
    /// How long it takes when what was read off the log is run again.
    pub seconds_again: Option<f64>,
    /// Whether the two are near enough for figures.
    pub has_figures: bool,
    /// What each cause costs, largest first.
    pub causes: Vec<CauseReport>,
    /// When the primary cause shows.
    pub moments: Vec<Moment>,
    /// What to try.
    pub advice: Vec<String>,
    /// What other settings would have changed, for those that were asked for.
    pub what_if: Vec<Changed>,
    /// Causes that are not it, and why.
    pub ruled_out: Vec<String>,
    /// What was read off the log.
    pub path: PathReport,
    /// Where the sender waited, in shares of the time between its first and last data.
    pub waited: Vec<(String, f64)>,
    /// What the receiver saw, if its log was given as well.
    pub receiver: Option<String>,
    /// What is wrong with the log, or not known.
    pub notes: Vec<String>,
}

/// What one cause costs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CauseReport {
    /// The cause.
    pub cause: Cause,
    /// Who can change it.
    pub who: &'static str,
    /// The share of the time that taking it away saves.
    pub share: f64,
    /// The least and the most that this may be.
    pub range: (f64, f64),
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Moment {
    /// Since the first event, in seconds.
    pub at: f64,
    /// What.
    pub what: String,
}

/// A path as it was read.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PathReport {
    /// Bits per second on the wire.
    pub rate_bps: u64,
    /// The least that it may be and the most, if the bottleneck never showed.
    pub rate_range_bps: Option<(u64, u64)>,
    /// Seconds.
    pub round_trip: f64,
    /// Bytes.
    pub queue: u64,
    /// Share of the packets lost by chance.
    pub chance_loss: f64,
    /// Packets that found a full queue.
    pub lost_to_queue: u64,
    /// Of the path's rate, the share that the transfer had.
    pub used: f64,
}

impl Answer {
    /// What it says. `next` is what would limit once the primary cause is gone ([`Answer::next`]).
    pub fn report(&self, next: Option<Cause>) -> Report {
        let causes = self.savings.iter().map(|saving| CauseReport {
            cause: saving.cause,
            who: saving.cause.owner(),
            share: saving.share,
            range: (saving.from, saving.to),
        });
        let packets = self.facts.flight.packets.max(1) as f64;
        let path = &self.world.path;
        let is_unknown = self.reading.unknown_rate.filter(|(low, _)| path.rate > *low);
        Report {
            sentence: self.sentence(next),
            cause: self.primary().filter(|_| self.is_reproduced()),
            seconds: self.completion.as_secs_f64(),
            seconds_again: self.again.map(|again| again.as_secs_f64()),
            has_figures: self.is_reproduced(),
            causes: causes.filter(|_| self.is_reproduced()).collect(),
            moments: self.moments(),
            advice: self.advice(),
            what_if: Vec::new(),
            ruled_out: self.ruled_out(),
            path: PathReport {
                rate_bps: path.rate.bps(),
                rate_range_bps: is_unknown.map(|(low, high)| (low.bps(), high.bps())),
                round_trip: path.round_trip.as_secs_f64(),
                queue: path.queue,
                chance_loss: path.loss + path.lost.len() as f64 / packets,
                lost_to_queue: self.reading.losses.0,
                used: self.use_of_path(),
            },
            waited: self.waited(),
            receiver: self.facts.other_end.as_ref().map(|end| end.seen.clone()),
            notes: self.notes(),
        }
    }

    fn sentence(&self, next: Option<Cause>) -> String {
        let took = human_duration(self.completion);
        let used = percent(self.use_of_path());
        if !self.is_reproduced() {
            let again =
                self.again.map_or("does not end".to_owned(), |again| format!("takes {}", human_duration(again)));
            return format!(
                "Cannot tell why it took {took}: the path that can be read off this log, simulated, {again}. That is \
                 too far off to trust what it says of causes."
            );
        }
        let Some(saving) = self.savings.first().filter(|saving| saving.is_clear()) else {
            return if self.use_of_path() >= FULL {
                format!("This path gave {used} of its rate: nothing to gain. It took {took}.")
            } else {
                format!(
                    "Nothing that this log shows would have made it faster by much: {took}, {used} of the rate that the \
                     path showed."
                )
            };
        };
        let least = self.world.path.round_trip.min(self.completion);
        let left = |share: f64| human_duration(self.completion.mul_f64((1.0 - share).clamp(0.0, 2.0)));
        let mut sentence = format!(
            "Slow because of {}: {took}; without {} about {} ({} to {}).",
            saving.cause.name(),
            saving.cause.removed(),
            left(saving.share),
            // Whatever is taken away, one round trip is left.
            human_duration(self.completion.mul_f64((1.0 - saving.to).max(0.0)).max(least)),
            left(saving.from),
        );
        if let Some(next) = next {
            sentence.push_str(&format!(" Then {} would limit.", next.name()));
        }
        sentence
    }

    fn moments(&self) -> Vec<Moment> {
        let start = self.facts.course.first.unwrap_or(0.0);
        let at = |milliseconds: f64| (milliseconds - start) / 1000.0;
        let mut moments = Vec::new();
        match self.primary() {
            Some(Cause::Interruption) => {
                let mut stops = self.reading.stops.clone();
                stops.sort_by(|a, b| (b.1 - b.0).total_cmp(&(a.1 - a.0)));
                moments.extend(stops.iter().take(MOMENTS).map(|(from, to, is_outage)| {
                    let kind = if *is_outage { "an outage" } else { "a suspension" };
                    Moment { at: from / 1000.0, what: format!("{kind} of {}", span(to - from)) }
                }));
            }
            Some(Cause::Application) => {
                let mut pauses = self.facts.waits.pauses.clone();
                pauses.sort_by(|a, b| (b.to - b.from).total_cmp(&(a.to - a.from)));
                moments.extend(pauses.iter().take(MOMENTS).map(|pause| Moment {
                    at: at(pause.from),
                    what: format!(
                        "nothing to send for {}, after {}",
                        span(pause.to - pause.from),
                        human_bytes(pause.bytes)
                    ),
                }));
            }
            Some(Cause::Start) => {
                let exit = self.facts.course.start_exit;
                moments.extend(exit.map(|exit| Moment { at: at(exit), what: "the start ends".to_owned() }));
            }
            Some(Cause::Handshake) => {
                let course = &self.facts.course;
                let retry = course.retry.map(|retry| (retry, "the server asks for another round trip (Retry)"));
                let lost = course.handshake_losses.iter().map(|lost| (*lost, "a packet of the handshake is lost"));
                let done = course.handshake.map(|done| (done, "the handshake is complete"));
                let all = retry.into_iter().chain(lost.take(MOMENTS - 2)).chain(done);
                moments.extend(all.map(|(time, what)| Moment { at: at(time), what: what.to_owned() }));
            }
            Some(Cause::BlackHole) => {
                moments.extend(self.reading.drop.iter().map(|drop| Moment {
                    at: at(drop.at),
                    what: format!(
                        "packets of more than {} bytes no longer come through; {} of them are lost",
                        drop.size, drop.lost
                    ),
                }));
            }
            Some(Cause::ChanceLoss | Cause::Policer) => {
                let lost = self.facts.flight.losses.lost.values().take(MOMENTS);
                moments.extend(lost.map(|lost| Moment {
                    at: at(lost.sent),
                    what: format!("a packet is lost; those beside it took {}", span(lost.round_trip)),
                }));
            }
            _ => {}
        }
        moments.sort_by(|a, b| a.at.total_cmp(&b.at));
        moments
    }

    fn advice(&self) -> Vec<String> {
        let is_told = self.primary().is_some() && self.is_reproduced();
        let worth = self.savings.iter().filter(|saving| saving.share >= NOTHING && is_told);
        worth.take(3).map(|saving| saving.cause.advice().to_owned()).collect()
    }

    fn ruled_out(&self) -> Vec<String> {
        let share = |cause: Cause| self.savings.iter().find(|saving| saving.cause == cause).map(|saving| saving.share);
        let (facts, path, lost) = (&self.facts, &self.world.path, self.reading.losses);
        let mut out = Vec::new();
        for cause in Cause::ALL {
            let share = share(cause);
            if share.is_some_and(|share| share >= LITTLE) {
                continue;
            }
            let why = match cause {
                Cause::ReceiveWindow if facts.waits.time(Limit::Credit) == 0.0 => "the sender never waited for credit",
                Cause::Application if facts.waits.pauses.is_empty() => "there was always something to send",
                Cause::RateLimit if self.world.sender.max_rate.is_none() => "none was set",
                Cause::ChanceLoss if lost == (0, 0) => "no packet was lost",
                Cause::ChanceLoss if lost.1 == 0 => "packets were lost beside a full queue only",
                Cause::Reordering if facts.flight.losses.late.is_empty() => "no packet came late",
                Cause::Interruption if self.reading.stops.is_empty() => "the peer was never silent for long",
                Cause::Policer if lost == (0, 0) => "no packet was lost",
                Cause::Policer if path.policer.is_none() => "the losses do not look like one",
                Cause::BlackHole if path.mtu.is_none() => "large packets came through to the end",
                Cause::BusyHost if self.world.sender.host == Host::default() => "the sender's host was in time",
                Cause::LateProbe | Cause::WayBack if share.is_none() => continue,
                _ if self.is_reproduced() => "taking it away saves less than 1 %",
                _ => continue,
            };
            out.push(format!("{}: {why}", cause.name()));
        }
        out
    }

    fn waited(&self) -> Vec<(String, f64)> {
        let waits = &self.facts.waits;
        let Some((first, last)) = waits.span.filter(|_| waits.has_limits) else { return Vec::new() };
        let share = |limit: Limit| waits.time(limit) / (last - first).max(0.001);
        let mut list: Vec<(String, f64)> =
            Limit::ALL.into_iter().map(|limit| (limit.name().to_owned(), share(limit))).collect();
        list.retain(|(_, share)| *share >= 0.001);
        list.sort_by(|a, b| b.1.total_cmp(&a.1));
        list
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = condition(&self.facts);
        if !self.reading.knows_rules {
            let rules =
                if self.reading.is_assumed { "those that its stack ships are" } else { "CUBIC as in the RFCs is" };
            notes.push(format!("the log does not say by which rules its sender sends; {rules} assumed"));
        }
        let path = &self.world.path;
        if let Some((low, high)) = self.reading.unknown_rate.filter(|(low, _)| path.rate > *low) {
            let is_narrow = high.bps() < low.bps().saturating_mul(4);
            notes.push(if is_narrow {
                format!(
                    "the transfer never filled the path; packets that left together came apart as at {} to {}",
                    rounded(low),
                    rounded(high)
                )
            } else {
                format!(
                    "the transfer never filled the path, so its rate is not known: {} or more; {} is assumed",
                    rounded(low),
                    rounded(path.rate)
                )
            });
        }
        if !self.reading.is_whole {
            notes.push(
                "not all data were acknowledged when the log ends; they count as delivered a round trip later"
                    .to_owned(),
            );
        }
        notes
    }
}

/// What is wrong with a log.
fn condition(facts: &Facts) -> Vec<String> {
    let condition = &facts.condition;
    let seconds = |milliseconds: f64| (milliseconds - facts.course.first.unwrap_or(0.0)) / 1000.0;
    let mut notes: Vec<String> = condition
        .damage
        .iter()
        .map(|damage| {
            let (from, to) = (seconds(damage.from), seconds(damage.to));
            let records = if damage.records == 1 { "record" } else { "records" };
            format!("{} {records} unreadable between {from:.3} and {to:.3} s", damage.records)
        })
        .collect();
    if condition.is_truncated {
        notes.push(format!("the file ends in the middle, at {:.3} s", seconds(facts.course.last)));
    }
    if condition.out_of_order > 0 {
        notes.push(format!(
            "{} records are out of order, by {} at most",
            condition.out_of_order,
            span(condition.furthest_back)
        ));
    }
    if condition.leaps > 0 {
        notes.push(format!("{} records left out: their times are hours from those beside them", condition.leaps));
    }
    if condition.other_connections > 0 {
        notes.push("the file has several connections; this is the first".to_owned());
    }
    if facts.course.migrations > 0 {
        notes
            .push(format!("the connection changed its path {} times; they are taken for one", facts.course.migrations));
    }
    if let Some(last) = facts.silences.last()
        && !facts.course.is_closed
        && facts.course.last - last > 3000.0
        && facts.flight.unanswered() > 0
    {
        notes.push(format!("silent since {:.3} s: no answer from the peer; an outage, or it died", seconds(last)));
    }
    notes
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn span(milliseconds: f64) -> String {
    human_duration(Duration::from_secs_f64((milliseconds / 1000.0).max(0.0)))
}

/// With three digits.
pub(crate) fn rounded(rate: Rate) -> Rate {
    let mut step = 1;
    while rate.bps() / step >= 1000 {
        step *= 10;
    }
    Rate::from_bps(rate.bps() / step * step)
}

impl Report {
    /// As a page of text.
    pub fn text(&self) -> String {
        let mut lines = vec![self.sentence.clone()];
        let worth = |cause: &&CauseReport| cause.share >= LITTLE;
        if self.causes.iter().any(|cause| cause.share >= LITTLE) {
            lines.push(String::new());
            lines.push("saved without it".to_owned());
        }
        for cause in self.causes.iter().filter(worth) {
            let range = if cause.share >= NOTHING && cause.cause == self.causes[0].cause {
                format!(" ({} to {})", percent(cause.range.0.max(0.0)), percent(cause.range.1))
            } else {
                String::new()
            };
            lines.push(format!(
                "  {:>5}  {}{range}: {} can change it",
                percent(cause.share),
                cause.cause.name(),
                cause.who
            ));
        }
        list(&mut lines, "moments", self.moments.iter().map(|moment| format!("{:.3} s  {}", moment.at, moment.what)));
        list(&mut lines, "what if", self.what_if.iter().map(|changed| changed.text(self.seconds)));
        list(&mut lines, "try", self.advice.iter().cloned());
        list(&mut lines, "not", self.ruled_out.iter().cloned());
        let path = &self.path;
        let mut read = vec![format!(
            "{}, round trip {}, room for {} before it; the transfer had {} of that rate",
            rounded(Rate::from_bps(path.rate_bps)),
            human_duration(Duration::from_secs_f64(path.round_trip)),
            human_bytes(path.queue),
            percent(path.used)
        )];
        if path.chance_loss > 0.0 || path.lost_to_queue > 0 {
            read.push(format!(
                "{:.2} % of the packets lost by chance, {} lost to a full queue",
                path.chance_loss * 100.0,
                path.lost_to_queue
            ));
        }
        if let Some(again) = self.seconds_again {
            read.push(format!("run again in virtual time it takes {again:.3} s"));
        }
        list(&mut lines, "path as read", read.into_iter());
        if !self.waited.is_empty() {
            let shares: Vec<String> =
                self.waited.iter().map(|(name, share)| format!("{name} {}", percent(*share))).collect();
            list(&mut lines, "where the sender waited", core::iter::once(shares.join(", ")));
        }
        list(&mut lines, "what the receiver saw", self.receiver.iter().cloned());
        list(&mut lines, "notes", self.notes.iter().cloned());
        lines.push(String::new());
        lines.join("\n")
    }
}

fn list(lines: &mut Vec<String>, head: &str, items: impl Iterator<Item = String>) {
    for (at, item) in items.enumerate() {
        if at == 0 {
            lines.push(String::new());
            lines.push(head.to_owned());
        }
        lines.push(format!("  {item}"));
    }
}
