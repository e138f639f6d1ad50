//! The distribution: what world `n` is. It depends on `n` and on nothing else, through integers and [`units::math`].
//!
//! Every quantity is drawn from a stream of its own name, so that a quantity that is added leaves the others as they
//! were. Kinds take turns, so that any thirty worlds in a row have each of them. Quantities without a natural scale
//! (rates, round trips, sizes) are log-uniform: every factor of ten has the same share.
//!
//! [`units::math`]: thalweg_units::math

use thalweg_link::{Dice, Streams};
use thalweg_units::{Duration, DurationExt, Rate, math};

/// Changes whenever a world of the same number becomes another: figures of different distributions are not compared.
pub const DISTRIBUTION: u32 = 1;

/// Slowest and fastest single path, kbps.
pub(super) const RATE: (u64, u64) = (250, 1_000_000);
/// Shortest and longest round trip of a single path, microseconds.
pub(super) const ROUND_TRIP: (u64, u64) = (2_000, 1_500_000);
/// Shortest and longest queue, thousandths of a BDP.
pub(super) const QUEUE: (u64, u64) = (50, 4_000);
/// Shortest and longest queue that is counted in packets.
pub(super) const PACKETS: (u64, u64) = (2, 64);
/// Slowest and fastest shared path, kbps: bounds the work of a run, as such a run lasts for seconds.
pub(super) const SHARED_RATE: (u64, u64) = (1_000, 150_000);
/// Shortest and longest round trip of a shared path, microseconds.
pub(super) const SHARED_ROUND_TRIP: (u64, u64) = (4_000, 300_000);
/// Most rivals.
pub(super) const MOST_RIVALS: u64 = 8;

/// Bytes of the largest download: 30,000 packets, which bounds time and memory of a run on the fastest, longest path.
const MOST_BYTES: u64 = 42_000_000;
/// The same where packets are lost by chance: a window of a few packets takes thousands of round trips for more.
const MOST_BYTES_LOSSY: u64 = 4_200_000;
/// Bytes of the smallest download: seven initial windows, about.
const LEAST_BYTES: u64 = 100_000;
/// The most interruptions of a run; a link refuses more than 100,000.
const MOST_SLOTS: u32 = 90_000;
/// Packets of 1,500 bytes that a shared path carries in a run at most.
const MOST_SHARED_PACKETS: u64 = 120_000;

/// What a single path has besides a rate, a round trip and a queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SingleKind {
    Plain,
    Jitter,
    Reordering,
    Slots,
    Asymmetry,
    Rfc9000,
    Policer,
    Wifi,
    Changes,
    Loss,
    Bursts,
    Sparse,
    Together,
}

impl SingleKind {
    pub(super) const ALL: [SingleKind; 13] = [
        SingleKind::Plain,
        SingleKind::Jitter,
        SingleKind::Reordering,
        SingleKind::Slots,
        SingleKind::Asymmetry,
        SingleKind::Rfc9000,
        SingleKind::Policer,
        SingleKind::Wifi,
        SingleKind::Changes,
        SingleKind::Loss,
        SingleKind::Bursts,
        SingleKind::Sparse,
        SingleKind::Together,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            SingleKind::Plain => "plain",
            SingleKind::Jitter => "jitter",
            SingleKind::Reordering => "reordering",
            SingleKind::Slots => "slots",
            SingleKind::Asymmetry => "asymmetry",
            SingleKind::Rfc9000 => "rfc9000",
            SingleKind::Policer => "policer",
            SingleKind::Wifi => "wifi",
            SingleKind::Changes => "changes",
            SingleKind::Loss => "loss",
            SingleKind::Bursts => "bursts",
            SingleKind::Sparse => "sparse",
            SingleKind::Together => "together",
        }
    }
}

/// With whom, and under what conditions, a path is shared.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SharedKind {
    Quic,
    Tcp,
    ShortQueue,
    Aqm,
    RoundTrips,
    Late,
    Bbr,
    Loss,
}

impl SharedKind {
    pub(super) const ALL: [SharedKind; 8] = [
        SharedKind::Quic,
        SharedKind::Tcp,
        SharedKind::ShortQueue,
        SharedKind::Aqm,
        SharedKind::RoundTrips,
        SharedKind::Late,
        SharedKind::Bbr,
        SharedKind::Loss,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            SharedKind::Quic => "quic",
            SharedKind::Tcp => "tcp",
            SharedKind::ShortQueue => "short-queue",
            SharedKind::Aqm => "aqm",
            SharedKind::RoundTrips => "round-trips",
            SharedKind::Late => "late",
            SharedKind::Bbr => "bbr",
            SharedKind::Loss => "loss",
        }
    }
}

/// The queue disciplines that shared paths have. Without `predict`, which is for senders of its own kind.
pub(super) const DISCIPLINES: [&str; 9] =
    ["head-drop", "codel", "pie", "red", "fq-codel", "sfq-codel", "fq-pie", "dualpi2", "cobalt"];

/// Shapes of jitter, as scenarios name them.
const SHAPES: [&str; 4] = ["uniform", "normal", "exponential", "lognormal"];

/// Capacity of a queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Thousandths of a BDP.
    Bdp(u64),
    /// Packets.
    Packets(u64),
}

/// Parts in a million.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Millionths(pub(super) u64);

/// An interruption that repeats.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Interruption {
    pub(super) every: Duration,
    pub(super) lasts: Duration,
}

/// What goes wrong on a single path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    Jitter { shape: &'static str, mean: Duration, is_both: bool },
    Reordering { share: Millionths, by: Duration },
    Slots(Interruption),
    Policer { rate: Rate, burst: u64 },
    Wifi { contention: Duration, suspension: Interruption },
    Changes(Vec<Change>),
    Loss(Millionths),
    Bursts { good: Duration, bad: Duration, share: Millionths },
    PacketBursts { enter: Millionths, leave: Millionths },
}

/// A new rate and delay from a time on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: Duration,
    pub(super) rate: Rate,
    pub(super) one_way: Duration,
}

/// What crosses a single path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// A download of so many bytes.
    Download(u64),
    /// Requests with a response of so many bytes each, one after the other.
    Requests { response: u64, count: u64, think: Duration },
    /// Downloads of so many bytes each that begin at these times.
    Together { bytes: u64, starts: Vec<Duration> },
}

/// A path that our flow has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Single {
    pub(super) number: u64,
    pub(super) kind: SingleKind,
    pub(super) rate: Rate,
    pub(super) round_trip: Duration,
    pub(super) queue: Queue,
    /// Rate of the way back.
    pub(super) back: Rate,
    pub(super) trouble: Trouble,
    /// Neither end takes requests for acknowledgments or reports times of arrival, and every second packet is
    /// acknowledged.
    pub(super) is_rfc9000: bool,
    pub(super) load: Load,
    /// Virtual time after which a run counts as one that never completes.
    pub(super) time_limit: Duration,
}

/// A path that our flow shares with rivals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) number: u64,
    pub(super) kind: SharedKind,
    pub(super) rate: Rate,
    /// Of our flow.
    pub(super) round_trip: Duration,
    /// Of the rivals.
    pub(super) their_round_trip: Duration,
    /// Capacity of the queue as time at the rate; none: that of the discipline.
    pub(super) queue: Option<Duration>,
    pub(super) discipline: &'static str,
    pub(super) loss: Option<Millionths>,
    pub(super) rivals: u64,
    pub(super) rival: Rival,
    pub(super) our_start: Duration,
    pub(super) their_start: Duration,
    /// From when on goodput counts.
    pub(super) settled: Duration,
    pub(super) duration: Duration,
}

/// What a rival is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// QUIC with CUBIC.
    Quic,
    /// TCP as in Linux.
    Tcp,
    /// QUIC with BBR.
    Bbr,
}

/// The streams of a world.
pub(super) struct Draws(Streams);

impl Draws {
    pub(super) fn new(class: &str, number: u64) -> Draws {
        Draws(Streams::new(number).scope("drawn").scope(class))
    }

    fn dice(&self, name: &str) -> Dice {
        self.0.dice(name)
    }

    /// Log-uniform between two numbers, both included. `low` is at least 1.
    pub(super) fn log_uniform(&self, name: &str, (low, high): (u64, u64)) -> u64 {
        let (low, high) = (low.max(1), high.max(low).max(1));
        let (from, to) = (math::ln(low as f64), math::ln(high as f64));
        let drawn = math::exp(from + (to - from) * self.dice(name).unit());
        // Casts of floats saturate.
        ((drawn + 0.5) as u64).clamp(low, high)
    }

    /// Uniform between two numbers, both included.
    pub(super) fn uniform(&self, name: &str, (low, high): (u64, u64)) -> u64 {
        low + self.dice(name).below(high.saturating_sub(low) + 1)
    }

    fn micros(&self, name: &str, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.log_uniform(name, (low, high)))
    }

    fn one_in(&self, name: &str, count: u64) -> bool {
        self.dice(name).below(count) == 0
    }

    fn one_of<T: Copy>(&self, name: &str, choices: &[T]) -> T {
        choices[self.dice(name).below(choices.len() as u64) as usize]
    }
}

pub(super) fn kbps(kbps: u64) -> Rate {
    Rate::from_bps(kbps.saturating_mul(1_000))
}

fn micros(span: Duration) -> u64 {
    span.nanos() / 1_000
}

/// In whole microseconds.
fn micro(span: Duration) -> Duration {
    Duration::from_micros(micros(span))
}

impl Single {
    /// World `number`.
    pub(super) fn draw(number: u64) -> Single {
        let draws = Draws::new("single", number);
        let kind = SingleKind::ALL[(number % SingleKind::ALL.len() as u64) as usize];
        let kilobits = draws.log_uniform("rate", RATE);
        let (rate, round_trip) = (kbps(kilobits), draws.micros("round-trip", ROUND_TRIP.0, ROUND_TRIP.1));
        let queue = match draws.one_in("queue-unit", 3) {
            true => Queue::Packets(draws.log_uniform("queue-packets", PACKETS)),
            false => Queue::Bdp(draws.log_uniform("queue", QUEUE)),
        };
        let back = match kind {
            SingleKind::Asymmetry => (kilobits / draws.log_uniform("asymmetry", (20, 400))).max(16),
            _ => (kilobits / draws.one_of("back", &[1, 2, 5, 10])).max(64),
        };
        let bdp = rate.bytes_in(round_trip).max(1);
        let is_lossy = matches!(kind, SingleKind::Loss | SingleKind::Bursts);
        let most = if is_lossy { MOST_BYTES_LOSSY } else { MOST_BYTES };
        // From two to 32 BDP.
        let whole = bdp.saturating_mul(draws.log_uniform("size", (2_000, 32_000))) / 1_000;
        let load = match kind {
            SingleKind::Sparse => Load::Requests {
                response: draws.log_uniform("response", (5_000, 1_000_000)),
                count: draws.uniform("requests", (5, 20)),
                think: draws.micros("think", 100_000, 10_000_000),
            },
            SingleKind::Together => {
                let count = draws.uniform("together", (2, 8));
                let mut dice = draws.dice("starts");
                let starts = (0..count).map(|_| Duration::from_micros(dice.below(100_000))).collect();
                Load::Together { bytes: (whole.min(most) / count).max(LEAST_BYTES), starts }
            }
            _ => Load::Download(whole.clamp(LEAST_BYTES, most)),
        };
        let (bytes, pauses) = match &load {
            Load::Download(bytes) => (*bytes, Duration::ZERO),
            Load::Requests { response, count, think } => (response * count, *think * *count as u32),
            Load::Together { bytes, starts } => (bytes * starts.len() as u64, Duration::ZERO),
        };
        let serial = rate.time_for(bytes);
        let mut trouble = trouble(&draws, kind, rate, round_trip, serial);
        let slowest = match &trouble {
            Trouble::Policer { rate, .. } => rate.time_for(bytes),
            _ => serial,
        };
        // Three hundred times what a path of this kind allows at best, about, and a minute.
        let best = slowest + round_trip * 3 + kbps(back).time_for(6_000);
        let mut time_limit = Duration::from_secs((Duration::from_secs(60) + best * 300 + pauses).as_secs());
        if let Trouble::Slots(slots) = &mut trouble {
            // Forty times the best, if not three hundred: there are only so many slots.
            let least = best * 40 / MOST_SLOTS;
            if slots.every < least {
                *slots = Interruption { every: micro(least), lasts: micro(least * 3 / 4) };
            }
            time_limit = time_limit.min(Duration::from_secs((slots.every * MOST_SLOTS).as_secs()));
        }
        Single {
            number,
            kind,
            rate,
            round_trip,
            queue,
            back: kbps(back),
            trouble,
            is_rfc9000: kind == SingleKind::Rfc9000 || draws.one_in("rfc9000", 6),
            load,
            time_limit,
        }
    }

    /// Whether there is a shortest possible time to compare with: that is known of a download of its own.
    pub(super) fn has_floor(&self) -> bool {
        matches!(self.load, Load::Download(_))
    }
}

/// What goes wrong on a path of this kind. `serial` is the time that the data take at the path's rate.
fn trouble(draws: &Draws, kind: SingleKind, rate: Rate, round_trip: Duration, serial: Duration) -> Trouble {
    let span = micros(serial + round_trip * 4).max(1_000);
    let of_round_trip = |part: u64| (micros(round_trip) / part).max(1);
    match kind {
        SingleKind::Jitter => Trouble::Jitter {
            shape: draws.one_of("shape", &SHAPES),
            mean: draws.micros("jitter", 100, 30_000.min(of_round_trip(2)).max(200)),
            is_both: draws.one_in("both", 2),
        },
        SingleKind::Reordering => Trouble::Reordering {
            share: Millionths(draws.log_uniform("share", (1_000, 200_000))),
            by: draws.micros("by", of_round_trip(100).max(50), of_round_trip(2)),
        },
        SingleKind::Slots => {
            let every = draws.micros("every", 2_000, 50_000);
            let lasts = Duration::from_micros(micros(every) * draws.uniform("held", (50, 95)) / 100);
            Trouble::Slots(Interruption { every, lasts })
        }
        SingleKind::Policer => Trouble::Policer {
            rate: kbps((rate.bps() / 1_000 * draws.uniform("policed", (20, 95)) / 100).max(100)),
            burst: draws.log_uniform("burst", (10_000, rate.bytes_in(round_trip).clamp(20_000, 10_000_000))),
        },
        SingleKind::Wifi => Trouble::Wifi {
            contention: draws.micros("contention", 1_500, 12_000),
            suspension: Interruption {
                every: draws.micros("every", 500_000, 10_000_000),
                lasts: draws.micros("lasts", 20_000, 300_000),
            },
        },
        SingleKind::Changes => {
            let count = draws.uniform("changes", (1, 3));
            let change = |index: u64| {
                let name = |what: &str| format!("{what}-{index}");
                // One after the other, each within its part of the transfer.
                let (from, part) = (span * index / count, span / count);
                let of_rate = draws.log_uniform(&name("rate"), (200, 3_000));
                let of_delay = draws.log_uniform(&name("delay"), (500, 2_000));
                Change {
                    at: Duration::from_micros(from + draws.uniform(&name("at"), (part / 10, part * 9 / 10))),
                    rate: kbps((rate.bps() / 1_000 * of_rate / 1_000).clamp(100, RATE.1)),
                    one_way: Duration::from_micros((micros(round_trip) * of_delay / 2_000).max(100)),
                }
            };
            Trouble::Changes((0..count).map(change).collect())
        }
        SingleKind::Loss => Trouble::Loss(Millionths(draws.log_uniform("loss", (100, 30_000)))),
        SingleKind::Bursts => match draws.one_in("by-packets", 2) {
            true => Trouble::PacketBursts {
                enter: Millionths(draws.log_uniform("enter", (100, 3_000))),
                leave: Millionths(draws.log_uniform("leave", (100_000, 500_000))),
            },
            false => Trouble::Bursts {
                good: draws.micros("good", 500_000, 20_000_000),
                bad: draws.micros("bad", 5_000, 300_000),
                share: Millionths(draws.uniform("share", (300_000, 1_000_000))),
            },
        },
        SingleKind::Plain | SingleKind::Asymmetry | SingleKind::Rfc9000 | SingleKind::Sparse | SingleKind::Together => {
            Trouble::None
        }
    }
}

impl Shared {
    /// World `number`.
    pub(super) fn draw(number: u64) -> Shared {
        let draws = Draws::new("shared", number);
        let kind = SharedKind::ALL[(number % SharedKind::ALL.len() as u64) as usize];
        let rate = kbps(draws.log_uniform("rate", SHARED_RATE));
        let round_trip = draws.micros("round-trip", SHARED_ROUND_TRIP.0, SHARED_ROUND_TRIP.1);
        let their_round_trip = match kind {
            SharedKind::RoundTrips => {
                let times = draws.log_uniform("apart", (125, 8_000));
                let theirs = micros(round_trip) * times / 1_000;
                Duration::from_micros(theirs.clamp(SHARED_ROUND_TRIP.0, 2 * SHARED_ROUND_TRIP.1))
            }
            _ => round_trip,
        };
        let longest = round_trip.max(their_round_trip);
        // At least a millisecond: what is shorter is a queue of a few packets on all but the fastest of these paths.
        let queue = match kind {
            SharedKind::Aqm => None,
            SharedKind::ShortQueue => Some(draws.micros("queue", 1_000, 8_000)),
            _ => {
                let thousandths = draws.log_uniform("queue", QUEUE);
                Some(Duration::from_micros((micros(longest) * thousandths / 1_000).max(1_000)))
            }
        };
        let rival = match kind {
            SharedKind::Quic => Rival::Quic,
            SharedKind::Tcp => Rival::Tcp,
            SharedKind::Bbr => Rival::Bbr,
            _ => draws.one_of("rival", &[Rival::Quic, Rival::Tcp]),
        };
        let lasting = (longest * 100).clamp(Duration::from_secs(10), Duration::from_secs(30));
        let duration =
            Duration::from_millis(lasting.min(rate.time_for(MOST_SHARED_PACKETS * 1_500)).as_millis() as u64);
        let (mut our_start, mut their_start) =
            (Duration::from_millis(draws.uniform("start", (0, 1_000))), Duration::ZERO);
        let mut settled = duration / 4;
        if kind == SharedKind::Late {
            let late = duration / 4;
            (our_start, their_start) = match draws.one_in("late", 2) {
                true => (late, Duration::ZERO),
                false => (Duration::ZERO, late),
            };
            settled = duration * 2 / 5;
        }
        Shared {
            number,
            kind,
            rate,
            round_trip,
            their_round_trip,
            queue,
            discipline: if kind == SharedKind::Aqm { draws.one_of("aqm", &DISCIPLINES) } else { "tail-drop" },
            loss: (kind == SharedKind::Loss).then(|| Millionths(draws.log_uniform("loss", (100, 15_000)))),
            rivals: draws.log_uniform("rivals", (1, MOST_RIVALS)),
            rival,
            our_start,
            their_start,
            settled,
            duration,
        }
    }
}
