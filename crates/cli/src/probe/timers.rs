//! The catalogue's rules for the probe timer, on a measurement's round trips.

use serde_json::{Value, json};
use thalweg_probe::{Findings, Followed, Timer, TimerFindings};
use thalweg_recovery::{INITIAL_RTT, Policies, Rtt, Sample};
use thalweg_units::{Duration, Instant, human_duration};

/// The slot of the catalogue whose choices say how long the timer waits.
const SLOT: &str = "rtt";

/// A rule of the catalogue.
struct Rule(Rtt);

impl Timer for Rule {
    fn learn(&mut self, now: Instant, round_trip: Duration) {
        self.0.on_sample(Sample::prompt(now, round_trip));
    }

    fn wait(&self) -> Duration {
        self.0.probe_base()
    }
}

/// Every rule that is for use, the shipped one first.
pub(super) struct Timers(Vec<(&'static str, Followed<Rule>)>);

impl Timers {
    pub(super) fn new() -> Timers {
        let slot = Policies::catalogue().iter().filter(|field| field.name == SLOT);
        let choices = slot.flat_map(|field| field.choices).filter(|choice| choice.built && !choice.is_study);
        let rule = |name: &'static str| {
            let mut policies = Policies::default();
            policies.set(SLOT, name).ok()?;
            Some((name, Followed::new(Rule(Rtt::new(policies.rtt, INITIAL_RTT)))))
        };
        let mut rules: Vec<_> = choices.filter_map(|choice| rule(choice.name)).collect();
        let shipped = Policies::default().fields();
        rules.sort_by_key(|(name, _)| !shipped.iter().any(|(field, value)| *field == SLOT && value == name));
        Timers(rules)
    }

    /// Adds the next part of a measurement.
    pub(super) fn add(&mut self, findings: &Findings) {
        self.0.iter_mut().for_each(|(_, rule)| rule.add(findings));
    }

    /// What each rule would have done.
    pub(super) fn findings(&self) -> Vec<(&'static str, TimerFindings)> {
        self.0.iter().map(|(name, rule)| (*name, rule.findings().clone())).collect()
    }
}

/// In a line.
pub(super) fn words(rules: &[(&'static str, TimerFindings)]) -> Option<String> {
    let (_, first) = rules.first().filter(|(_, first)| first.set > 0)?;
    let one = |(name, findings): &(&str, TimerFindings)| {
        let late = match findings.needed {
            0 => String::new(),
            _ => format!(" ({} late)", human_duration(findings.late.quantile(1, 2))),
        };
        format!("{SLOT}={name} {}{late}", findings.spurious)
    };
    let all: Vec<String> = rules.iter().map(one).collect();
    Some(format!("needless probes for {} datagrams, {} lost: {}", first.set, first.needed, all.join(", ")))
}

/// As JSON; times in milliseconds.
pub(super) fn json(rules: &[(&'static str, TimerFindings)]) -> Value {
    let ms = |span: Duration| (span.as_nanos() as f64 / 1e3).round() / 1e3;
    let one = |(name, findings): &(&str, TimerFindings)| {
        let late = |num, den| (findings.needed > 0).then(|| ms(findings.late.quantile(num, den)));
        json!({
            "rule": format!("{SLOT}={name}"),
            "set": findings.set,
            "spurious": findings.spurious,
            "needed": findings.needed,
            "late_p50": late(1, 2),
            "late_p95": late(95, 100),
        })
    };
    rules.iter().map(one).collect()
}
