//! `docs/policies.md`: the catalogue of recovery rules as a page, from their docstrings and a line on when to use each.

use std::fmt::Write as _;

use thalweg::Policies;

/// When to use a choice, and its measured effect: `(field, choice, when, effect)`. Effects are medians of the scenario
/// in brackets, a file below `scenarios/`, as measured for docs/defaults.md.
const WHEN: &[(&str, &str, &str, &str)] = &[
    (
        "controller",
        "new-reno",
        "for comparison, and where flows must share with others that halve",
        "10 MB take 1.16 times as long under 1 % loss each way, 1.05 to 2 times on four more paths of fourteen (`choices`)",
    ),
    (
        "controller",
        "cubic",
        "long or fast paths, where one datagram per round trip takes minutes to regain a window",
        "what the others are compared with",
    ),
    (
        "start",
        "standard",
        "for comparison; where delay varies for other reasons than queues",
        "no path of fourteen differs by 2 % (`choices`)",
    ),
    (
        "start",
        "hystart++",
        "wherever a queue is longer than a few milliseconds: less loss at the end of the start",
        "100 MB by satellite: 8,468 packets lost instead of 9,935 with credit for twice the path, at the same time to completion (`satellite`)",
    ),
    (
        "reduction",
        "immediate",
        "where a pause of half a round trip is no harm; simplest to reason about",
        "what the others are compared with",
    ),
    (
        "reduction",
        "rate-halving",
        "to compare with Linux before 3.2",
        "1.09 times as long over fourteen paths, 1.12 under loss (`choices`); in TCP 3 % fewer timeouts, completion 3.4 % later (`prr-queue`)",
    ),
    (
        "reduction",
        "prr-ub",
        "to reproduce RFC 6937's comparison; not for networks",
        "41 segments leave on one ACK after 90 of 100 are lost, as with `immediate` (`prr-burst`)",
    ),
    (
        "reduction",
        "prr-crb",
        "where bursts after heavy loss must be avoided at any price",
        "1 segment on that ACK (`prr-burst`); no path of fourteen differs by 2 % (`choices`)",
    ),
    (
        "reduction",
        "prr-ssrb",
        "to compare with RFC 6937 as most stacks have it",
        "2 segments on that ACK (`prr-burst`); no path of fourteen differs by 2 % (`choices`)",
    ),
    (
        "reduction",
        "prr",
        "short responses and bursts of loss: keeps sending while it reduces the window",
        "in TCP 48 % fewer lost retransmissions than `prr-ssrb`, completion 0.7 % later (`prr-queue`); 1.002 times `immediate` over fourteen paths (`choices`)",
    ),
    (
        "reordering",
        "fixed",
        "networks that do not reorder; the RFC's letter",
        "1.042 times the clean time, 274 reductions more, where 5 % of packets are 5 ms late (`recovery/reordering`)",
    ),
    (
        "reordering",
        "half-in-flight",
        "to compare with nginx; tolerant with large windows, strict with small ones",
        "1.001 times there, 2 reductions more; 1.04 times on a far path that reorders (`choices`)",
    ),
    (
        "reordering",
        "time-only",
        "networks known to reorder within an eighth of a round trip",
        "as half-in-flight, in both (`recovery/reordering`, `choices`)",
    ),
    (
        "reordering",
        "adaptive",
        "networks that may reorder: learns from the first packet wrongly declared lost",
        "1.004 times there, 2 reductions more (`recovery/reordering`)",
    ),
    (
        "reordering",
        "rack",
        "networks that may reorder: learns before a packet is wrongly declared lost",
        "1.001 times there, no reduction more (`recovery/reordering`)",
    ),
    ("rtt", "classic", "the RFC's letter; quick to follow", "what the others are compared with"),
    (
        "rtt",
        "per-round/4v",
        "paths whose samples within a round belong together, such as Wi-Fi with aggregation",
        "0.997 times over fourteen paths (`choices`); 2 % later when the MTU drops (`mtu-drop`)",
    ),
    (
        "rtt",
        "per-round/3v",
        "as above, with quicker probes and more needless ones",
        "0.998 times (`choices`); 1 to 2 % sooner when the MTU drops (`mtu-drop`), a needless probe more in a third of the runs beside a newcomer (`newcomer`)",
    ),
    (
        "rtt",
        "per-round/max",
        "where needless probes cost more than late ones",
        "0.997 times (`choices`); 2 to 3 % sooner when the MTU drops (`mtu-drop`)",
    ),
    (
        "rtt",
        "windowed",
        "as above, on paths whose delay changes for good",
        "0.998 times (`choices`); a black hole costs 0.343 s instead of 0.348 s (`black-hole`)",
    ),
    (
        "pacing-rtt",
        "smoothed",
        "unless there is a reason to pace by another estimate than the timer's",
        "what the others are compared with",
    ),
    (
        "pacing-rtt",
        "classic",
        "with a per-round timer, to pace as if there were none",
        "differs only where `rtt` is not classic (`policies/deep`)",
    ),
    (
        "pacing-rtt",
        "per-round",
        "where acknowledgments come in clumps",
        "1.000 times, no path of fourteen differs by 2 % (`choices`)",
    ),
    (
        "pacing-rtt",
        "short",
        "to send faster while a queue builds up; for comparison",
        "1.000 times, no path of fourteen differs by 2 % (`choices`)",
    ),
    ("exit-rtt", "sample", "as RFC 9406 has it", "what the others are compared with"),
    ("exit-rtt", "classic", "where single samples jump", "1.000 times, no path of fourteen differs by 2 % (`choices`)"),
    (
        "exit-rtt",
        "per-round",
        "where samples jump within a round",
        "1.000 times, no path of fourteen differs by 2 % (`choices`)",
    ),
    (
        "exit-rtt",
        "short",
        "where jitter would end the start too early",
        "1.000 times, no path of fourteen differs by 2 % (`choices`)",
    ),
    (
        "probe",
        "rfc",
        "the RFC's letter; crowds of flows on a dead link send least",
        "silence after an outage 4.1 s, 62 of 300 connections die; 14 datagrams into an outage of 30 s (`recovery/outage`)",
    ),
    (
        "probe",
        "capped/8",
        "outages of seconds, with a limit on probes that is close to the RFC's",
        "silence 1.66 s, 22 datagrams (`recovery/outage`)",
    ),
    (
        "probe",
        "capped/16",
        "outages of seconds",
        "silence 0.92 s, 36 datagrams (`recovery/outage`); 200 flows on 1 Mbps: goodput 0.91 of `rfc` (`recovery/crowd`)",
    ),
    (
        "probe",
        "capped/32",
        "outages of seconds, where silence after the repair matters more than probes during the outage",
        "silence 0.56 s, 66 to 68 datagrams (`recovery/outage`)",
    ),
    (
        "probe",
        "ladder",
        "outages from a second to the idle timeout: short silence after each with few probes",
        "silence 0.50 s, 38 datagrams (`recovery/outage`); 200 flows on 1 Mbps: goodput 0.98 of `rfc`, 4 % of its dead connections (`recovery/crowd`)",
    ),
    (
        "ack-allowance",
        "always",
        "the RFC's letter; peers that delay acknowledgments by more than they report",
        "2 MB under 15 % loss each way take twice as long (`recovery/heavy-loss`)",
    ),
    (
        "ack-allowance",
        "lone",
        "short paths with small windows, where 25 ms are many round trips",
        "2 MB under 15 % loss each way in 1.29 s (`recovery/heavy-loss`)",
    ),
    ("undo", "episode", "always, unless it is what is studied", "what the others are compared with"),
    (
        "undo",
        "off",
        "to see what packets wrongly declared lost cost",
        "3.08 times as long on a far path that reorders (`choices`)",
    ),
    ("pacing", "on", "always, unless it is what is studied", "what the others are compared with"),
    (
        "pacing",
        "off",
        "to see what bursts do to queues",
        "1.16 times as long with a short queue, 0.96 times where loss and reordering meet (`choices`)",
    ),
];

/// The page.
pub(super) fn markdown() -> String {
    let default = Policies::default().to_string();
    let chosen: Vec<&str> = default.split(", ").collect();
    let mut out = String::from(
        "# Policies\n\n\
         Written by `thalweg policies --markdown` from the code. Every rule of recovery has a name, spelled the same on the command line \
         (`--policies`), in scenarios (`policies = { … }`) and in the API. `thalweg lab run scenarios/recovery` measures them against each \
         other; its report shows what is shipped beside the best choice for each row. [defaults.md](defaults.md) says how the shipped ones were \
         chosen. Effects are medians of the scenario in brackets; `choices` is 10 MB over fourteen paths, in times of the shipped rule.\n\n",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Shipped: `{default}`");
    for field in Policies::catalogue() {
        let _ = writeln!(out, "\n## {}\n\n{}\n", field.name, field.doc.trim());
        let _ = writeln!(
            out,
            "| choice | what it does, and its source | when to use it | measured effect |\n|---|---|---|---|"
        );
        for choice in field.choices {
            let is_default = chosen.contains(&format!("{}={}", field.name, choice.name).as_str());
            let name =
                if is_default { format!("**`{}`** (shipped)", choice.name) } else { format!("`{}`", choice.name) };
            let when = WHEN.iter().find(|(of, known, ..)| *of == field.name && *known == choice.name);
            let (when, effect) = match (choice.built, when) {
                (false, _) => ("reserved, not built yet", ""),
                (true, Some((_, _, when, effect))) => (*when, *effect),
                (true, None) => ("", ""),
            };
            let _ = writeln!(out, "| {name} | {} | {when} | {effect} |", choice.doc.replace('|', "\\|"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_what_the_code_says() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
        let written = std::fs::read_to_string(file).unwrap();
        assert!(
            written == markdown(),
            "docs/policies.md is old; write it with: thalweg policies --markdown > docs/policies.md"
        );
    }

    #[test]
    fn what_is_said_is_about_choices_that_exist() {
        for (field, choice, ..) in WHEN {
            let known = Policies::catalogue().iter().find(|known| known.name == *field);
            let built =
                known.is_some_and(|known| known.choices.iter().any(|known| known.built && known.name == *choice));
            assert!(built, "{field}={choice}");
        }
        for field in Policies::catalogue() {
            for choice in field.choices.iter().filter(|choice| choice.built) {
                let noted = WHEN.iter().any(|(of, known, ..)| *of == field.name && *known == choice.name);
                assert!(noted, "nothing is said of {}={}", field.name, choice.name);
            }
        }
    }
}
