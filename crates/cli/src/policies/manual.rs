//! `docs/policies.md`: the catalogue of recovery rules as a page, from the code's own words and a line on when to use each.

use std::fmt::Write as _;

use thalweg::Policies;

/// When to use a choice: `(field, choice, when)`.
const WHEN: &[(&str, &str, &str)] = &[
    ("controller", "new-reno", "for comparison, and where flows must share with others that halve"),
    ("controller", "cubic", "long or fast paths, where one datagram per round trip takes minutes to regain a window"),
    ("start", "standard", "for comparison; where delay varies for other reasons than queues"),
    ("start", "hystart++", "wherever a queue is longer than a few milliseconds: less loss at the end of the start"),
    ("reduction", "immediate", "where a pause of half a round trip is no harm; simplest to reason about"),
    ("reduction", "rate-halving", "to compare with Linux before 3.2"),
    ("reduction", "prr-ub", "to reproduce RFC 6937's comparison; not for networks"),
    ("reduction", "prr-crb", "where bursts after heavy loss must be avoided at any price"),
    ("reduction", "prr-ssrb", "to compare with RFC 6937 as most stacks have it"),
    ("reduction", "prr", "short responses and bursts of loss: keeps sending while it reduces"),
    ("reordering", "fixed", "networks that do not reorder; the RFC's letter"),
    ("reordering", "half-in-flight", "to compare with nginx; tolerant with large windows, strict with small ones"),
    ("reordering", "time-only", "networks known to reorder within an eighth of a round trip"),
    ("reordering", "adaptive", "networks that may reorder: pays for the first wrong declaration, then learns"),
    ("reordering", "rack", "networks that may reorder: learns before anything is declared wrongly"),
    ("rtt", "classic", "the RFC's letter; quick to follow"),
    ("rtt", "per-round/4v", "paths whose samples within a round belong together, such as Wi-Fi with aggregation"),
    ("rtt", "per-round/3v", "as above, with quicker probes and more of them in vain"),
    ("rtt", "per-round/max", "where probes in vain cost more than late ones"),
    ("rtt", "windowed", "as above, on paths whose delay changes for good"),
    ("pacing-rtt", "smoothed", "unless there is a reason to pace by another estimate than the timer's"),
    ("pacing-rtt", "classic", "with a per-round timer, to pace as if there were none"),
    ("pacing-rtt", "per-round", "where acknowledgements come in clumps"),
    ("pacing-rtt", "short", "to send faster while a queue builds up; for comparison"),
    ("exit-rtt", "sample", "as RFC 9406 has it"),
    ("exit-rtt", "classic", "where single samples jump"),
    ("exit-rtt", "per-round", "where samples jump within a round"),
    ("exit-rtt", "short", "where jitter would end the start too early"),
    ("probe", "rfc", "the RFC's letter; crowds of flows on a dead link send least"),
    ("probe", "capped/8", "outages of seconds, with a limit on probes that is close to the RFC's"),
    ("probe", "capped/16", "outages of seconds"),
    ("probe", "capped/32", "outages of seconds, where silence after the repair matters more than probes in the dark"),
    ("probe", "ladder", "outages from a second to the idle timeout: short silence after each with few probes"),
    ("undo", "episode", "always, unless it is the subject"),
    ("undo", "off", "to see what wrong declarations cost"),
    ("pacing", "on", "always, unless it is the subject"),
    ("pacing", "off", "to see what bursts do to queues"),
];

/// The page.
pub(super) fn markdown() -> String {
    let default = Policies::default().to_string();
    let chosen: Vec<&str> = default.split(", ").collect();
    let mut out = String::from(
        "# Policies\n\n\
         Written by `thalweg policies --markdown` from the code. Every rule of recovery has a name, spelled the same on the command line \
         (`--policies`), in scenarios (`policies = { … }`) and in the API. `thalweg lab run scenarios/recovery` measures them against each \
         other; its report shows what is shipped beside the best choice for each row.\n\n",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Shipped: `{default}`");
    for field in Policies::catalogue() {
        let _ = writeln!(out, "\n## {}\n\n{}\n", field.name, field.doc.trim());
        let _ = writeln!(out, "| choice | what it does, and its source | when to use it |\n|---|---|---|");
        for choice in field.choices {
            let is_default = chosen.contains(&format!("{}={}", field.name, choice.name).as_str());
            let name =
                if is_default { format!("**`{}`** (shipped)", choice.name) } else { format!("`{}`", choice.name) };
            let when = WHEN.iter().find(|(of, known, _)| *of == field.name && *known == choice.name);
            let when = match (choice.built, when) {
                (false, _) => "reserved, not built yet",
                (true, Some((_, _, when))) => when,
                (true, None) => "",
            };
            let _ = writeln!(out, "| {name} | {} | {when} |", choice.doc.replace('|', "\\|"));
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
        for (field, choice, _) in WHEN {
            let known = Policies::catalogue().iter().find(|known| known.name == *field);
            let built =
                known.is_some_and(|known| known.choices.iter().any(|known| known.built && known.name == *choice));
            assert!(built, "{field}={choice}");
        }
    }
}
