//! Results of drawn worlds in words, for a terminal.

use core::fmt::Write as _;

use super::{Class, Judged, Results, SHORT_WITHIN, WITHIN, judge};
use crate::metric::{Unit, format as figure};
use crate::stats::Estimate;
use crate::summary::with_interval;

/// How many of the worst worlds are named.
const NAMED: usize = 10;

impl core::fmt::Display for Results {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut out = String::new();
        self.single_in_words(&mut out);
        self.shared_in_words(&mut out);
        self.pairs_in_words(&mut out);
        self.dead_in_words(&mut out);
        f.write_str(out.trim_end())
    }
}

/// "50.0 % [40.0 %, 60.0 %]", or why there is no interval.
fn estimated(estimate: &Estimate, unit: Unit) -> String {
    let shown = with_interval(estimate.value, estimate.interval, unit);
    estimate.missing.map_or_else(|| shown.clone(), |missing| format!("{shown} ({missing})"))
}

impl Results {
    fn head(&self, out: &mut String, class: Class, count: usize) {
        let paths = if count == 1 { "path" } else { "paths" };
        let _ = writeln!(out, "{count} {} {paths} from world {}", class.name(), self.from);
    }

    fn single_in_words(&self, out: &mut String) {
        let Some(single) = &self.single else { return };
        let worlds = self.of_class(Class::Single);
        let floors = worlds.iter().filter(|world| world.over_floor.is_some()).count();
        self.head(out, Class::Single, worlds.len());
        if floors > 0 {
            let within = estimated(&single.within, Unit::Share);
            let _ = writeln!(out, "  within {WITHIN} x the cold floor: {within} of {floors} downloads");
        }
        let mean = estimated(&single.over_reference, Unit::Ratio);
        let _ = writeln!(out, "  completion over start=hystart++: {mean}, geometric mean");
        let _ = writeln!(out, "  {:<12}{:>7}{:>10}{:>8}{:>8}", "kind", "worlds", "within", "mean", "worst");
        for row in judge::by_kind(&worlds) {
            let within = if row.floors == 0 { "-".to_owned() } else { format!("{}/{}", row.within, row.floors) };
            let (middle, worst) = (row.middle, row.worst);
            let _ = writeln!(out, "  {:<12}{:>7}{within:>10}{middle:>8.2}{worst:>8.2}", row.kind, row.worlds);
        }
        self.worst(out, &worlds, "times the cold floor", |world| world.over_floor);
        self.worst(out, &worlds, "times start=hystart++", |world| world.ratio);
    }

    fn shared_in_words(&self, out: &mut String) {
        let Some(shared) = &self.shared else { return };
        let worlds = self.of_class(Class::Shared);
        self.head(out, Class::Shared, worlds.len());
        let (least, less) = (figure(shared.least, Unit::Ratio), figure(shared.less_at_most, Unit::Share));
        let _ = writeln!(out, "  least share that rivals keep of what they have beside controller=cubic: {least}");
        let _ = writeln!(out, "  (less than that on at most {less} of such paths, with 95 % confidence)");
        let (tenth, median) = (estimated(&shared.tenth, Unit::Ratio), estimated(&shared.median, Unit::Ratio));
        let _ = writeln!(out, "  a path in ten leaves them less than {tenth}; median {median}");
        let _ = writeln!(out, "  {:<12}{:>7}{:>8}{:>8}", "kind", "worlds", "median", "least");
        for row in judge::by_kind(&worlds) {
            let _ = writeln!(out, "  {:<12}{:>7}{:>8.2}{:>8.2}", row.kind, row.worlds, row.middle, row.worst);
        }
        self.worst(out, &worlds, "of what rivals have beside controller=cubic", |world| Some(-world.kept?));
    }

    fn pairs_in_words(&self, out: &mut String) {
        let Some(pairs) = &self.pairs else { return };
        let worlds = self.of_class(Class::Pair);
        let _ = writeln!(out, "{} pairs of paths from world {}", worlds.len(), self.from);
        let (gains, gain) = (estimated(&pairs.gains, Unit::Share), estimated(&pairs.gain, Unit::Ratio));
        let _ = writeln!(out, "  20 MB, better path first: {gains} gain from the second path");
        let _ = writeln!(out, "  gain as a share of what it carries alone: median {gain}");
        let short = estimated(&pairs.short, Unit::Share);
        let _ = writeln!(out, "  256 kB, either first: {short} take at most {SHORT_WITHIN} x the first path alone");
        let _ = writeln!(out, "  {:<12}{:>7}{:>8}{:>8}", "kind", "worlds", "median", "least");
        for row in judge::by_kind(&worlds) {
            let _ = writeln!(out, "  {:<12}{:>7}{:>8.2}{:>8.2}", row.kind, row.worlds, row.middle, row.worst);
        }
        self.worst(out, &worlds, "loss by the second path", |world| Some(-world.pair?.gain));
        self.worst(out, &worlds, "times the first path alone", |world| {
            world.pair.map(|pair| pair.short[0].max(pair.short[1]))
        });
    }

    /// The worlds with the largest values; dead ones first. Values below zero are shown without their sign.
    fn worst(&self, out: &mut String, worlds: &[Judged], of: &str, value: fn(&Judged) -> Option<f64>) {
        let mut known: Vec<(f64, &Judged)> = worlds.iter().filter_map(|world| Some((value(world)?, world))).collect();
        known.sort_by(|one, other| {
            let is_dead = |world: &Judged| !world.dead.is_empty();
            is_dead(other.1).cmp(&is_dead(one.1)).then(other.0.total_cmp(&one.0))
        });
        if known.is_empty() {
            return;
        }
        let _ = writeln!(out, "  worst, {of}:");
        for (value, world) in known.into_iter().take(NAMED) {
            let dead = if world.dead.is_empty() { "" } else { " DEAD" };
            let _ =
                writeln!(out, "  {:>8.2}{dead}  {} {}, {}", value.abs(), world.class.name(), world.number, world.title);
            let _ = writeln!(out, "            {}", self.request.replay(world.class, world.number));
        }
    }

    fn dead_in_words(&self, out: &mut String) {
        let mut count = 0;
        for world in self.dead() {
            count += 1;
            for reason in &world.dead {
                let _ = writeln!(out, "dead: {} {}, {reason}", world.class.name(), world.number);
            }
        }
        if count == 0 {
            let _ = writeln!(out, "every connection lived, and every run completed ({} runs)", self.runs);
        }
    }
}
