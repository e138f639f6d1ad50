//! The answer to a measurement: one sentence that is true, the evidence, and what it means for people.

use serde::Serialize;
use thalweg_units::{Duration, Rate, human_duration};

use crate::hop::FirstHop;
use crate::loss::EcnFate;
use crate::pause::End;
use crate::summary::{Summary, WaySummary};
use crate::trace::Way;

/// A measurement of less than this is too short for a sentence, in nanoseconds.
const SHORTEST: i64 = 10_000_000_000;
/// Trouble in less than this share of the time, and never for [`LONG`], is none.
const LEAST_SHARE: f64 = 0.000_5;
/// What nobody who talks fails to notice, in nanoseconds: beyond what the buffer of a call bridges.
const LONG: i64 = 80_000_000;
/// A queue of this length spoils a call, in nanoseconds: with it, mouth to ear takes longer than ITU-T G.114
/// recommends.
const BAD_QUEUE: f64 = 150e6;
/// Losses in a row that nothing conceals, at the usual 20 ms of a call.
const BAD_BURST: u32 = 3;
/// Lateness of one datagram in a hundred that makes a busy computer.
const BUSY: Duration = Duration::from_millis(10);

/// What lasts so many times longer than a computer was late, in all and at a stretch, is not that computer's fault.
const FAR: f64 = 4.0;

/// What is the matter.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Cause {
    /// Nothing that people notice.
    Nothing,
    /// This computer did not run in time.
    ThisComputer,
    /// The server's computer did not run in time.
    ServerComputer,
    /// The first hop, such as the Wi-Fi, held datagrams and then let all of them go.
    FirstHop,
    /// A link beyond the first hop did.
    Beyond,
    /// A link did, and which cannot be told.
    Suspensions,
    /// A queue on the way up.
    QueueUp,
    /// A queue on the way down.
    QueueDown,
    /// Datagrams are lost, on either way or both.
    Loss,
    /// It cannot be told.
    Unknown,
}

/// What is known of a measurement beside its two streams.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Vantage {
    /// What the first router answered.
    pub first_hop: Option<FirstHop>,
    /// Whether both ends are on the same computer.
    pub one_computer: bool,
}

/// The answer to a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// What is the matter.
    pub cause: Cause,
    /// That in a sentence.
    pub sentence: String,
    /// What the sentence rests on, and what else was seen.
    pub evidence: Vec<String>,
    /// What it means for calls, games and downloads.
    pub meaning: Vec<String>,
}

fn time(nanos: i64) -> String {
    human_duration(Duration::from_nanos(nanos.max(0) as u64))
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

fn share(part: f64) -> String {
    let percent = part * 100.0;
    if percent >= 10.0 {
        format!("{percent:.0} %")
    } else if percent >= 1.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.2} %")
    }
}

/// How long the path was in trouble for one reason, and the longest time at a stretch, in nanoseconds.
#[derive(Copy, Clone, Debug, Default)]
struct Trouble {
    total: f64,
    longest: i64,
    count: usize,
}

impl Trouble {
    fn of(lengths: impl Iterator<Item = i64>) -> Trouble {
        let mut trouble = Trouble::default();
        for length in lengths {
            trouble.total += length as f64;
            trouble.longest = trouble.longest.max(length);
            trouble.count += 1;
        }
        trouble
    }

    /// How late this way's datagrams were sent, as far as that makes a busy computer.
    fn late(way: &WaySummary) -> Trouble {
        let late = way.lateness.quantiles((1..=100).map(|share| (share, 100))).filter(|late| *late >= BUSY);
        let each = way.lateness.count() as f64 / 100.0;
        let mut trouble = Trouble::default();
        for late in late {
            trouble.total += late.as_nanos() as f64 * each;
        }
        // The latest of all is a pause of its own.
        trouble.longest = i64::try_from(way.lateness.quantile(99, 100).as_nanos()).unwrap_or(i64::MAX);
        trouble
    }

    /// Whether this is so much more than that a computer was late that it has another reason.
    fn is_beyond(self, late: Trouble) -> bool {
        self.total > FAR * late.total && (self.longest == 0 || self.longest as f64 > FAR * late.longest as f64)
    }

    fn matters(self, length: i64) -> bool {
        self.longest >= LONG || self.total > LEAST_SHARE * length as f64
    }
}

/// How long each stretch of time is that these intervals, which may overlap, cover together.
fn stretches(mut intervals: Vec<(i64, i64)>) -> Vec<i64> {
    intervals.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (start, end) in intervals {
        match joined.last_mut().filter(|(_, until)| start <= *until) {
            Some((_, until)) => *until = end.max(*until),
            None => joined.push((start, end)),
        }
    }
    joined.into_iter().map(|(start, end)| end - start).collect()
}

/// The reasons that there may be, each with how long it lasted.
struct Troubles {
    client: Trouble,
    server: Trouble,
    suspensions: Trouble,
    queues: [Trouble; 2],
    loss: [Trouble; 2],
}

impl Troubles {
    fn of(summary: &Summary, one_computer: bool) -> Troubles {
        // On one computer a pause of either end is a pause of this one.
        let whose = |end: End| if one_computer { End::Client } else { end };
        let pauses = |end: End| {
            let of_end = summary.pauses.iter().filter(|pause| whose(pause.end_of_path) == end);
            Trouble::of(stretches(of_end.map(|pause| (pause.start, pause.end)).collect()).into_iter())
        };
        let queues = |way: &WaySummary| {
            let mut trouble = Trouble::of(way.queues.iter().map(|queue| queue.end - queue.start));
            // A long queue is worse than a short one of the same duration.
            let weight = |most: i64| (most as f64 / BAD_QUEUE).min(1.0);
            trouble.total = way.queues.iter().map(|queue| weight(queue.most) * (queue.end - queue.start) as f64).sum();
            trouble.longest = 0;
            trouble
        };
        let loss = |way: &WaySummary| {
            let bad = way.fate.bursts.iter().filter(|burst| burst.count >= BAD_BURST);
            let mut trouble = Trouble::of(bad.map(|burst| i64::from(burst.count) * summary.interval));
            // Single losses are concealed, until they are many.
            let many = (way.fate.loss() - 0.01).max(0.0);
            trouble.total = trouble.total.max(many * summary.length as f64);
            trouble
        };
        Troubles {
            client: pauses(End::Client),
            server: pauses(End::Server),
            suspensions: Trouble::of(summary.events.iter().map(|event| event.length())),
            queues: Way::BOTH.map(|way| queues(summary.way(way))),
            loss: Way::BOTH.map(|way| loss(summary.way(way))),
        }
    }
}

/// Answers what is the matter with the path that was measured.
///
/// The cause is what lasted longest in all: pauses of an end, suspensions, standing queues (a queue of less than 150 ms
/// counts by its share of that), losses of three in a row or beyond 1 %. It has to have lasted for 0.05 % of the time
/// or for 80 ms at a stretch. A computer that sends one datagram in a hundred late by 10 ms is busy, and named unless
/// something else lasted four times longer than it was late: such a computer does that to a call as well.
pub fn answer(summary: &Summary, vantage: &Vantage) -> Answer {
    let mut evidence = evidence(summary);
    evidence.extend(vantage.first_hop.as_ref().map(of_hop));
    let meaning = meaning(summary);
    let (cause, sentence) = cause(summary, vantage);
    Answer { cause, sentence, evidence, meaning }
}

impl Answer {
    /// The answer where nothing can be told, and the reason.
    pub fn unknown(because: &str) -> Answer {
        let sentence = format!("Cannot tell, because {because}.");
        Answer { cause: Cause::Unknown, sentence, evidence: Vec::new(), meaning: Vec::new() }
    }
}

fn cause(summary: &Summary, vantage: &Vantage) -> (Cause, String) {
    let length = summary.length;
    if length < SHORTEST {
        let sentence = format!(
            "Cannot tell, because {} are too short a time: measure for {} or longer.",
            time(length),
            time(SHORTEST)
        );
        return (Cause::Unknown, sentence);
    }
    let troubles = Troubles::of(summary, vantage.one_computer);
    let Troubles { client, server, suspensions, queues: [queue_up, queue_down], loss: [loss_up, loss_down] } = troubles;
    let candidates = [
        (Cause::ThisComputer, client),
        (Cause::ServerComputer, server),
        (Cause::Suspensions, suspensions),
        (Cause::QueueUp, queue_up),
        (Cause::QueueDown, queue_down),
        (Cause::Loss, if loss_up.total > loss_down.total { loss_up } else { loss_down }),
    ];
    let matters = candidates.into_iter().filter(|(_, trouble)| trouble.matters(length));
    let worst = matters.max_by(|(_, a), (_, b)| a.total.total_cmp(&b.total));
    let late = |way: Way| summary.way(way).lateness.quantile(99, 100);
    let late_here = if vantage.one_computer { late(Way::Up).max(late(Way::Down)) } else { late(Way::Up) };
    let is_far = |way: Way| worst.is_some_and(|(_, trouble)| trouble.is_beyond(Trouble::late(summary.way(way))));
    let is_far_here = is_far(Way::Up) && (is_far(Way::Down) || !vantage.one_computer);
    match worst {
        Some((Cause::ThisComputer, trouble)) => (Cause::ThisComputer, paused("This computer", trouble, length)),
        Some((Cause::ServerComputer, trouble)) => {
            (Cause::ServerComputer, paused("The server's computer", trouble, length))
        }
        _ if late_here >= BUSY && !is_far_here => (Cause::ThisComputer, is_busy("This computer", late_here)),
        _ if late(Way::Down) >= BUSY && !is_far(Way::Down) => {
            (Cause::ServerComputer, is_busy("The server's computer", late(Way::Down)))
        }
        Some((Cause::Suspensions, trouble)) => suspended(summary, trouble, vantage.first_hop.as_ref()),
        Some((cause @ (Cause::QueueUp | Cause::QueueDown), trouble)) => {
            let way = if cause == Cause::QueueUp { Way::Up } else { Way::Down };
            let most = summary.way(way).queues.iter().map(|queue| queue.most).max().unwrap_or(0);
            let stood = Trouble::of(summary.way(way).queues.iter().map(|queue| queue.end - queue.start));
            let sentence = format!(
                "A queue on the way {} delays everything behind it: {}, {} of the time, by up to {}.",
                way.name(),
                times(trouble.count),
                share(stood.total / length as f64),
                time(most)
            );
            (cause, sentence)
        }
        Some((Cause::Loss, _)) => {
            let [up, down] = Way::BOTH.map(|way| share(summary.way(way).fate.loss()));
            (Cause::Loss, format!("Datagrams are lost on the way: {up} up, {down} down."))
        }
        _ => {
            let p99 = summary.round_trips.quantile(99, 100);
            let sentence = format!(
                "Nothing is wrong that people would notice: 99 % of round trips took at most {}, and nothing stopped for \
                 {} or longer.",
                human_duration(p99),
                time(LONG)
            );
            (Cause::Nothing, sentence)
        }
    }
}

fn paused(who: &str, trouble: Trouble, length: i64) -> String {
    format!(
        "{who} itself did not run in time: it paused {}, for up to {}, {} in all of {}; that is no fault of the path.",
        times(trouble.count),
        time(trouble.longest),
        time(trouble.total as i64),
        time(length)
    )
}

fn is_busy(who: &str, late: Duration) -> String {
    format!("{who} itself is busy: it sent one datagram in a hundred {} late or more.", human_duration(late))
}

fn of_hop(hop: &FirstHop) -> String {
    let from = hop.address.map_or(String::new(), |address| format!("{address}, "));
    let FirstHop { answers, held, passed, .. } = hop;
    let round_trip = time(hop.round_trip);
    let told = if held + passed > 0 {
        format!("; {held} suspensions held it, and in {passed} it was crossed there and back")
    } else {
        String::new()
    };
    format!("first hop: {from}round trip {round_trip}, {answers} answers{told}")
}

fn suspended(summary: &Summary, trouble: Trouble, hop: Option<&FirstHop>) -> (Cause, String) {
    let count = |way: &str| summary.events.iter().filter(|event| event.way() == way).count();
    let ways = [("up", "sending up"), ("down", "sending down"), ("both", "both ways")];
    let ways: Vec<String> = ways
        .into_iter()
        .filter(|(way, _)| count(way) > 0)
        .map(|(way, words)| format!("{} {words}", count(way)))
        .collect();
    let (often, longest, ways) = (times(trouble.count), time(trouble.longest), ways.join(", "));
    let stopped = format!("stopped {often} for up to {longest} and then let everything go at once ({ways})");
    match hop.and_then(FirstHop::stopped) {
        Some(true) => {
            let sentence = format!("The first hop, which is the Wi-Fi if this computer uses one, {stopped}.");
            (Cause::FirstHop, sentence)
        }
        Some(false) => {
            let sentence = format!("A link beyond the first hop {stopped}; the first hop, such as the Wi-Fi, did not.");
            (Cause::Beyond, sentence)
        }
        None => {
            let sentence =
                format!("A link {stopped}, as Wi-Fi does: which link that is, this measurement cannot tell.");
            (Cause::Suspensions, sentence)
        }
    }
}

/// What became of the ECN marks of a way.
fn of_marks(way: Way, ecn: EcnFate) -> Option<String> {
    let EcnFate { kept, congested, cleared } = ecn;
    let name = way.name();
    let congested = if congested > 0 { format!(" ({congested} of them: congestion)") } else { String::new() };
    match (kept + ecn.congested, cleared) {
        (0, 0) => None,
        (_, 0) => Some(format!("marks survive {name}{congested}")),
        (0, _) => Some(format!("marks are taken away {name}")),
        (kept, cleared) => Some(format!("{cleared} of {} marks are taken away {name}{congested}", kept + cleared)),
    }
}

fn evidence(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let quantiles = |quantiles: &thalweg_link::Quantiles| {
        let at: Vec<String> =
            quantiles.quantiles([(50, 100), (95, 100), (99, 100)].into_iter()).map(human_duration).collect();
        format!("median {}, 95 % {}, 99 % {}, max {}", at[0], at[1], at[2], human_duration(quantiles.max()))
    };
    lines.push(format!("round trip: {}", quantiles(&summary.round_trips)));
    for way in Way::BOTH {
        let of_way = summary.way(way);
        let fate = &of_way.fate;
        let mut line = format!("{}: {}", way.name(), quantiles(&of_way.delays));
        line += &format!("; {} of {} lost ({})", fate.lost, fate.sent, share(fate.loss()));
        if let Some(longest) = fate.bursts.iter().map(|burst| burst.count).max().filter(|count| *count > 1) {
            line += &format!(", up to {longest} in a row");
        }
        if fate.reordered > 0 {
            line += &format!("; {} reordered, overtaken by up to {}", fate.reordered, fate.most_overtaken);
        }
        if fate.duplicates > 0 {
            line += &format!("; {} came twice", fate.duplicates);
        }
        lines.push(line);
    }
    let bound = time(summary.clock_bound());
    let drift = summary.clock.first().map_or(0.0, |piece| piece.drift * 1e6);
    lines.push(format!(
        "one-way delays: each may be up to {bound} longer or shorter, and those of the other way as much shorter or longer \
         (the server's clock drifts by {drift:+.2} ppm)"
    ));
    let marks = Way::BOTH.map(|way| (way, summary.way(way).fate.ecn)).into_iter();
    let marks: Vec<String> = marks.filter_map(|(way, ecn)| of_marks(way, ecn)).collect();
    if !marks.is_empty() {
        lines.push(format!("ECN: {}", marks.join(", ")));
    }
    for trains in &summary.trains {
        let (name, rate) = (trains.way.name(), rounded(trains.rate));
        let (low, high) = (rounded(trains.low), rounded(trains.high));
        let (whole, sent) = (trains.whole, trains.sent);
        lines.push(format!("trains {name}: {rate}, half of them {low} to {high}; {whole} of {sent} came whole"));
    }
    for load in summary.loads.iter().filter(|load| load.largest > 0) {
        let (way, lost) = (load.way.name(), share(load.loss));
        let queue = human_duration(load.queue);
        let largest = load.largest;
        lines.push(format!(
            "load {way}: a queue of {queue}, {lost} of the datagrams lost; the largest that was seen to pass has {largest} B"
        ));
    }
    let suspensions = Trouble::of(summary.events.iter().map(|event| event.length()));
    if suspensions.count > 0 {
        let series = summary.events.iter().filter_map(|event| event.series).max().map_or(0, |series| series + 1);
        let in_series = if series > 0 { format!(", {series} series of them") } else { String::new() };
        lines.push(format!(
            "suspensions: {}, {} in all, the longest {}{in_series}",
            suspensions.count,
            time(suspensions.total as i64),
            time(suspensions.longest)
        ));
    }
    for way in Way::BOTH {
        let queues = &summary.way(way).queues;
        if let Some(most) = queues.iter().map(|queue| queue.most).max() {
            let stood = Trouble::of(queues.iter().map(|queue| queue.end - queue.start));
            let (name, total) = (way.name(), time(stood.total as i64));
            lines.push(format!("standing queues {name}: {}, {total} in all, up to {}", queues.len(), time(most)));
        }
    }
    for (end, who) in [(End::Client, "this computer"), (End::Server, "the server's computer")] {
        let pauses = Trouble::of(
            summary.pauses.iter().filter(|pause| pause.end_of_path == end).map(|pause| pause.end - pause.start),
        );
        if pauses.count > 0 {
            let (count, longest) = (times(pauses.count), time(pauses.longest));
            lines.push(format!("pauses: {who} did not run {count}, for up to {longest}"));
        }
    }
    lines
}

fn meaning(summary: &Summary) -> Vec<String> {
    let gaps = summary.events.iter().filter(|event| event.length() >= LONG).count();
    let bursts =
        Way::BOTH.map(|way| summary.way(way).fate.bursts.iter().filter(|burst| burst.count >= BAD_BURST).count());
    let pauses = summary.pauses.iter().filter(|pause| pause.end - pause.start >= LONG).count();
    let gaps = gaps + bursts[0] + bursts[1] + pauses;
    let minutes = summary.length as f64 / 60e9;
    let calls = match gaps {
        0 => "calls: no interruption that one hears".to_owned(),
        gaps => format!(
            "calls: {gaps} interruption{} that one hears or sees, {:.1} a minute",
            if gaps == 1 { "" } else { "s" },
            gaps as f64 / minutes.max(1.0 / 60.0)
        ),
    };
    let (middle, high) = (summary.round_trips.quantile(1, 2), summary.round_trips.quantile(99, 100));
    let (middle, high) = (human_duration(middle), human_duration(high));
    let games = format!("games: actions take {middle} to the server and back, one in a hundred {high} or more");
    let mut lines = vec![calls, games];
    lines.extend(loads(summary));
    lines
}

/// A rate to three digits.
fn rounded(rate: Rate) -> Rate {
    let mut step = 1;
    while rate.bps() / step >= 1_000 {
        step *= 10;
    }
    Rate::from_bps((rate.bps() + step / 2) / step * step)
}

/// What the path does under load: what it means for downloads and uploads, and for whoever calls meanwhile.
fn loads(summary: &Summary) -> Vec<String> {
    if summary.loads.is_empty() {
        return vec!["downloads: not measured without load".to_owned()];
    }
    let told = summary.loads.iter().map(|load| {
        let what = if load.way == Way::Up { "uploads" } else { "downloads" };
        let longer = load.loaded.saturating_sub(load.idle);
        let meanwhile = match longer.as_nanos() as f64 {
            longer if longer >= BAD_QUEUE => ", which spoils a call",
            longer if longer >= 50e6 => ", which a game notices",
            _ => "",
        };
        format!(
            "{what}: {}; meanwhile round trips take {} instead of {} (95 % {}){meanwhile}, {} in a minute (RPM)",
            rounded(load.rate),
            human_duration(load.loaded),
            human_duration(load.idle),
            human_duration(load.loaded_p95),
            load.rpm
        )
    });
    told.collect()
}
