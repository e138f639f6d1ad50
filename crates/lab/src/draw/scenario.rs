//! Drawn worlds as scenario files. What is run is what the file says, so the file gives the same result to the bit.

use core::fmt::Write as _;

use thalweg_recovery::Policies;
use thalweg_units::{Duration, human_bytes, human_duration};

use super::distribution::{Interruption, Load, Millionths, Queue, Rival, Shared, Single, Trouble};

/// Runs of each shared world: who comes first is chance, and one run says little.
const SHARED_SEEDS: u64 = 2;

/// Both ends do what RFC 9000 asks for and nothing else.
const RFC9000: &str = "{ min_ack_delay = \"off\", receive_timestamps = 0, ack = \"every-second\" }";

/// What a scenario compares: the label and the policies that differ from the shipped ones.
pub(super) struct Choices {
    judged: String,
    reference: Option<String>,
}

impl Choices {
    /// `judged` against the shipped policies with one field changed. One choice if both are the same.
    pub(super) fn new(judged: &Policies, field: &str, value: &str) -> Choices {
        let mut reference = Policies::default();
        // A name of the catalogue; an error would leave the shipped policies, which a test refuses.
        let _ = reference.set(field, value);
        let changed = changes(judged);
        let label = if changed.is_empty() { "shipped" } else { "judged" };
        let rest = changed.iter().map(|(field, value)| format!(", {field} = \"{value}\"")).collect::<String>();
        let is_same = *judged == reference;
        Choices {
            judged: format!("{{ label = \"{label}\"{rest} }}"),
            reference: (!is_same).then(|| format!("{{ label = \"{field}={value}\", {field} = \"{value}\" }}")),
        }
    }

    fn vary(&self, flow: &str) -> String {
        let both = [Some(self.judged.as_str()), self.reference.as_deref()];
        let both: Vec<&str> = both.into_iter().flatten().collect();
        format!("[vary]\n\"flow.{flow}.policies\" = [\n  {},\n]\n", both.join(",\n  "))
    }
}

/// Fields and values in which policies differ from the shipped ones.
fn changes(policies: &Policies) -> Vec<(&'static str, String)> {
    let shipped = Policies::default().fields();
    policies.fields().into_iter().filter(|field| !shipped.contains(field)).collect()
}

/// The policies as the command line takes them; empty for the shipped ones.
pub(super) fn policies_text(policies: &Policies) -> String {
    changes(policies).iter().map(|(field, value)| format!("{field}={value}")).collect::<Vec<_>>().join(",")
}

pub(super) fn percent(share: Millionths) -> String {
    format!("{}.{:04} %", share.0 / 10_000, share.0 % 10_000)
}

/// A time as scenarios write it.
fn exact_duration(time: Duration) -> String {
    if time.is_zero() { "0 s".to_owned() } else { thalweg_units::exact_duration(time) }
}

fn interruption(stop: Interruption) -> String {
    format!("every = \"{}\", for = \"{}\"", exact_duration(stop.every), exact_duration(stop.lasts))
}

/// The lines that every drawn scenario begins with.
pub(super) fn head(title: &str, question: &str, time_limit: Duration, seeds: u64, first_seed: u64) -> String {
    format!(
        "title = \"{title}\"\nquestion = \"{question}\"\nseeds = {seeds}\nfirst_seed = {first_seed}\n\
         time_limit = \"{}\"\ncrypto = \"null\"\nrecord = \"none\"\n",
        exact_duration(time_limit)
    )
}

impl Single {
    /// What it is, in a line.
    pub(super) fn title(&self) -> String {
        let queue = match self.queue {
            Queue::Bdp(thousandths) => format!("{}.{:02} BDP", thousandths / 1_000, thousandths % 1_000 / 10),
            Queue::Packets(packets) => format!("{packets} packets"),
        };
        let load = match &self.load {
            Load::Download(bytes) => human_bytes(*bytes),
            Load::Requests { response, count, .. } => format!("{count} responses of {}", human_bytes(*response)),
            Load::Together { bytes, starts } => format!("{} downloads of {}", starts.len(), human_bytes(*bytes)),
        };
        let is_extra = self.is_rfc9000 && self.kind.name() != "rfc9000";
        let receiver = if is_extra { " rfc9000" } else { "" };
        let trouble = match &self.trouble {
            Trouble::None | Trouble::Changes(_) => String::new(),
            Trouble::Jitter { shape, mean, .. } => format!(" {shape} {}", human_duration(*mean)),
            Trouble::Reordering { share, by } => format!(" {} by {}", percent(*share), human_duration(*by)),
            Trouble::Slots(slots) => format!(" {} of {}", human_duration(slots.lasts), human_duration(slots.every)),
            Trouble::Policer { rate, .. } => format!(" {rate}"),
            Trouble::Wifi { contention, .. } => format!(" {}", human_duration(*contention)),
            Trouble::Loss(share) => format!(" {}", percent(*share)),
            Trouble::Bursts { good, bad, .. } => format!(" {} of {}", human_duration(*bad), human_duration(*good)),
            Trouble::PacketBursts { enter, leave } => format!(" enter {}, leave {}", percent(*enter), percent(*leave)),
        };
        format!(
            "{}{trouble}{receiver}: {} x {}, queue {queue}, {load}",
            self.kind.name(),
            self.rate,
            human_duration(self.round_trip)
        )
    }

    /// The scenario file.
    pub(super) fn text(&self, choices: &Choices) -> String {
        let question = "How long does it take, against the floor and against start=hystart++?";
        let title = format!("single {}, {}", self.number, self.title());
        let mut out = head(&title, question, self.time_limit, 1, self.number);
        let metric = match self.load {
            Load::Download(_) => "completion_over_cold_floor.p50",
            Load::Requests { .. } => "response.mean",
            Load::Together { .. } => "completion_mean.p50",
        };
        let _ = writeln!(out, "answer = \"{metric}\"");
        let (down, up, both) = self.directions();
        let _ = write!(out, "\n[path.p]\ndown = {{ {down} }}\nup = {{ {up} }}\n{both}");
        let transport = if self.is_rfc9000 { format!("transport = {RFC9000}\n") } else { String::new() };
        let mut flow = |name: &str, rest: String| {
            let _ = write!(out, "\n[[flow]]\nname = \"{name}\"\n{rest}{transport}");
        };
        match &self.load {
            Load::Download(bytes) => flow("tested", format!("transfer = {{ download = \"{bytes} B\" }}\n")),
            Load::Requests { response, count, think } => {
                let think = exact_duration(*think);
                flow(
                    "tested",
                    format!(
                        "requests = {{ request = \"400 B\", response = \"{response} B\", count = {count}, \
                         think = \"{think}\" }}\n"
                    ),
                );
            }
            Load::Together { bytes, starts } => {
                for (index, start) in starts.iter().enumerate() {
                    let start = exact_duration(*start);
                    flow(
                        &format!("tested-{}", index + 1),
                        format!("phase = false\nstart = \"{start}\"\ntransfer = {{ download = \"{bytes} B\" }}\n"),
                    );
                }
            }
        }
        out + "\n" + &choices.vary("*")
    }

    /// The keys of both directions, and those of the path.
    fn directions(&self) -> (String, String, String) {
        let one_way = exact_duration(self.round_trip / 2);
        let queue = match self.queue {
            Queue::Bdp(thousandths) => format!("{}.{:03} BDP", thousandths / 1_000, thousandths % 1_000),
            Queue::Packets(packets) => format!("{packets} packets"),
        };
        let mut down = format!("rate = \"{}\", delay = \"{one_way}\", queue = \"{queue}\"", self.rate);
        let mut up = format!("rate = \"{}\", delay = \"{one_way}\", queue = \"100 ms\"", self.back);
        let mut both = String::new();
        let mut add = |more: String| down += &format!(", {more}");
        match &self.trouble {
            Trouble::None => {}
            Trouble::Jitter { shape, mean, is_both } => {
                let jitter = format!("jitter = {{ shape = \"{shape}\", mean = \"{}\" }}", exact_duration(*mean));
                if *is_both {
                    up += &format!(", {jitter}");
                }
                add(jitter);
            }
            Trouble::Reordering { share, by } => {
                add(format!("reorder = {{ share = \"{}\", by = \"{}\" }}", percent(*share), exact_duration(*by)));
            }
            Trouble::Slots(slots) => up += &format!(", suspend = {{ {}, held = \"before\" }}", interruption(*slots)),
            Trouble::Policer { rate, burst } => {
                add(format!("policer = {{ rate = \"{rate}\", burst = \"{burst} B\" }}"));
            }
            Trouble::Wifi { contention, suspension } => {
                let mean = exact_duration(*contention);
                add(format!("jitter = {{ shape = \"contention\", mean = \"{mean}\" }}"));
                both = format!("suspend = {{ {}, random = true }}\n", interruption(*suspension));
            }
            Trouble::Changes(changes) => {
                let change = |change: &super::distribution::Change| {
                    let (at, one_way) = (exact_duration(change.at), exact_duration(change.one_way));
                    format!("{{ at = \"{at}\", rate = \"{}\", delay = \"{one_way}\" }}", change.rate)
                };
                add(format!("changes = [{}]", changes.iter().map(change).collect::<Vec<_>>().join(", ")));
            }
            Trouble::Loss(share) => add(format!("loss = \"{}\"", percent(*share))),
            Trouble::Bursts { good, bad, share } => {
                let (good, bad) = (exact_duration(*good), exact_duration(*bad));
                let share = percent(*share);
                add(format!(
                    "loss = {{ burst = {{ mean_good = \"{good}\", mean_bad = \"{bad}\", bad = \"{share}\" }} }}"
                ));
            }
            Trouble::PacketBursts { enter, leave } => {
                let (enter, leave) = (percent(*enter), percent(*leave));
                add(format!("loss = {{ burst = {{ enter = \"{enter}\", leave = \"{leave}\" }} }}"));
            }
        }
        (down, up, both)
    }
}

impl Rival {
    fn name(self) -> &'static str {
        match self {
            Rival::Quic => "QUIC with CUBIC",
            Rival::Tcp => "TCP as in Linux",
            Rival::Bbr => "QUIC with BBR",
        }
    }

    /// Keys of the flow.
    fn keys(self) -> &'static str {
        match self {
            Rival::Quic => "policies = { controller = \"cubic\" }",
            Rival::Tcp => "stack = \"tcp\"",
            Rival::Bbr => "policies = { controller = \"bbr\" }",
        }
    }
}

impl Shared {
    /// What it is, in a line.
    pub(super) fn title(&self) -> String {
        let loss = self.loss.map_or_else(String::new, |share| format!(" {}", percent(share)));
        let queue = match self.queue {
            Some(queue) => human_duration(queue),
            None => self.discipline.to_owned(),
        };
        let theirs = match self.their_round_trip == self.round_trip {
            true => String::new(),
            false => format!(" (theirs {})", human_duration(self.their_round_trip)),
        };
        let late = match self.kind.name() {
            "late" if self.our_start > self.their_start => " ours",
            "late" => " theirs",
            _ => "",
        };
        format!(
            "{}{late}{loss}: {} x {}, {} x {}{theirs}, queue {queue}",
            self.kind.name(),
            self.rivals,
            self.rival.name(),
            self.rate,
            human_duration(self.round_trip),
        )
    }

    /// The scenario file.
    pub(super) fn text(&self, choices: &Choices) -> String {
        let question = "How much do the rivals keep of what they have beside CUBIC?";
        let title = format!("shared {}, {}", self.number, self.title());
        // Seeds of neighbors do not overlap.
        let first_seed = self.number.saturating_mul(SHARED_SEEDS).min(i64::MAX as u64 - SHARED_SEEDS);
        let mut out = head(&title, question, self.duration, SHARED_SEEDS, first_seed);
        let exact = exact_duration;
        let _ = writeln!(out, "measure = {{ from = \"{}\", to = \"{}\" }}", exact(self.settled), exact(self.duration));
        let _ = writeln!(out, "answer = {{ flow = \"{RIVALS}{}\", metric = \"goodput.p50\" }}", self.first());
        let (rate, one_way) = (self.rate, exact(self.round_trip.min(self.their_round_trip) / 2));
        let mut down = format!("rate = \"{rate}\", delay = \"{one_way}\"");
        if let Some(queue) = self.queue {
            let _ = write!(down, ", queue = \"{}\"", exact(queue));
        }
        if self.discipline != "tail-drop" {
            let _ = write!(down, ", aqm = \"{}\"", self.discipline);
        }
        if let Some(share) = self.loss {
            let _ = write!(down, ", loss = \"{}\"", percent(share));
        }
        let up = format!("rate = \"{rate}\", delay = \"{one_way}\", queue = \"100 ms\"");
        let _ = write!(out, "\n[path.shared]\ndown = {{ {down} }}\nup = {{ {up} }}\n");
        let (ours, theirs) = self.ways(&mut out);
        let count = if self.rivals > 1 { format!("count = {}\n", self.rivals) } else { String::new() };
        let _ = write!(
            out,
            "\n[[flow]]\nname = \"rival\"\npath = \"{theirs}\"\nstart = \"{}\"\n{count}{}\n\
             transfer = {{ download = \"endless\" }}\n\
             \n[[flow]]\nname = \"tested\"\npath = \"{ours}\"\nstart = \"{}\"\n\
             transfer = {{ download = \"endless\" }}\n\n",
            exact(self.their_start),
            self.rival.keys(),
            exact(self.our_start),
        );
        out + &choices.vary("tested")
    }

    /// The paths of our flow and of the rivals: whoever is farther away has a hop of its own before the shared path.
    fn ways(&self, out: &mut String) -> (&'static str, &'static str) {
        let (ours, theirs) = (self.round_trip, self.their_round_trip);
        if ours == theirs {
            return ("shared", "shared");
        }
        let apart = exact_duration(ours.abs_diff(theirs) / 2);
        let hop = format!("{{ rate = \"1 Gbps\", delay = \"{apart}\", queue = \"100 ms\" }}");
        let _ = write!(out, "\n[path.hop]\ndown = {hop}\nup = {hop}\n\n[path.far]\nhops = [\"hop\", \"shared\"]\n");
        if ours > theirs { ("far", "shared") } else { ("shared", "far") }
    }

    /// What tells the first of several rivals apart.
    fn first(&self) -> &'static str {
        if self.rivals > 1 { "-1" } else { "" }
    }
}

/// What the names of rivals begin with.
pub(super) const RIVALS: &str = "rival";
