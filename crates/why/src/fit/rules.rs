//! The rules of senders that do not log them: those that their stacks ship.

use thalweg_proto::MtuRules;
use thalweg_recovery::{Policies, ReorderingPolicy};

use crate::gather::{Facts, Stack};

/// What RFC 9002 and RFC 9438 say, for a stack of which nothing is known.
const OF_RFC: &str = "probe=rfc, ack-allowance=always, ack-rate=off, mark=reduce";

/// The recovery policies of the stack that wrote the log, as near as ours come to them.
pub(super) fn assumed(facts: &Facts) -> String {
    of(facts.stack(), if facts.window.is_halved() { "new-reno" } else { "cubic" })
}

/// How the stack that wrote the log finds the size of its packets.
pub(super) fn mtu(stack: Stack) -> MtuRules {
    match stack {
        Stack::Quinn | Stack::Noq | Stack::QuicGo => MtuRules::Halving,
        Stack::Quiche | Stack::Aioquic | Stack::Ours | Stack::Other => MtuRules::CommonSizes,
    }
}

/// What quinn and noq have in common, which pace by the smoothed round trip, whatever it is after a silence.
const OF_BOTH: &str = "start=standard, reordering=fixed, pacing-rtt=smoothed, growth-limit=backlog";

/// quiche does not pace.
const OF_QUICHE: &str = "start=hystart++, reordering=counting, pacing=off";

/// Its slow start has the delay test of Linux's, and its packets are paced at 5/4 in it, too.
const OF_QUIC_GO: &str = "start=hystart, reordering=adaptive, pacing-rtt=smoothed";

/// Its slow start ends as picoquic's does, but by the last five samples. It paces by one window per round trip, in
/// bursts of up to 16 datagrams, and does not look for the path's MTU.
const OF_AIOQUIC: &str = "start=delay-min, reordering=fixed, pacing-rtt=smoothed";

fn of(stack: Stack, controller: &str) -> String {
    let is_cubic = controller == "cubic";
    let (controller, common, own) = match stack {
        Stack::Quinn => (controller, OF_BOTH, "undo=off, pacing=bursts"),
        // CUBIC undoes a reduction when its packets come after all.
        Stack::Noq if is_cubic => (controller, OF_BOTH, "undo=episode, pacing=short-bursts"),
        Stack::Noq => (controller, OF_BOTH, "undo=off, pacing=short-bursts"),
        // Only its CUBIC undoes reductions: those by few losses, whether or not the packets were lost.
        Stack::Quiche if is_cubic => ("forgetful-cubic", OF_QUICHE, "undo=few"),
        Stack::Quiche => (controller, OF_QUICHE, "undo=off"),
        // Whatever the window is reduced by, it is NewReno's.
        Stack::QuicGo => ("gentle-reno", OF_QUIC_GO, "undo=episode, pacing=bursts"),
        // What it ships is NewReno.
        Stack::Aioquic => ("new-reno", OF_AIOQUIC, "undo=off, pacing=bursts"),
        Stack::Ours | Stack::Other => (controller, "start=standard, reordering=fixed", "undo=off"),
    };
    format!("controller={controller}, {common}, {own}, {OF_RFC}")
}

/// Rules that a sender may have instead of those that were assumed.
pub(crate) fn variants(policies: &Policies) -> Vec<Policies> {
    const CHOICES: [&str; 6] =
        ["undo=off", "undo=episode", "start=standard", "start=hystart++", "pacing=off", "pacing=on"];
    // Of stacks with other thresholds than those of RFC 9002 they are only near to what is shipped, or was once.
    const REORDERING: [&str; 3] = ["reordering=fixed", "reordering=time-only", "reordering=adaptive"];
    let is_near = policies.reordering != ReorderingPolicy::Fixed;
    let reordering = REORDERING.into_iter().filter(|_| is_near);
    let others = CHOICES.into_iter().chain(reordering).filter_map(|choice| policies.clone().with(choice).ok());
    others.filter(|other| other != policies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_quiche_only_cubic_takes_reductions_back() {
        let of = |controller| of(Stack::Quiche, controller);
        assert!(of("cubic").contains("controller=forgetful-cubic") && of("cubic").contains("undo=few"));
        assert!(of("new-reno").contains("controller=new-reno") && of("new-reno").contains("undo=off"));
        assert!(["cubic", "new-reno"].iter().all(|controller| of(controller).contains("reordering=counting")));
    }

    #[test]
    fn quinn_and_noq_pace_in_bursts_and_open_no_window_before_a_pause() {
        for (stack, pacing) in [(Stack::Quinn, "pacing=bursts"), (Stack::Noq, "pacing=short-bursts")] {
            let rules = ["cubic", "new-reno"].map(|controller| of(stack, controller));
            assert!(rules.iter().all(|rules| rules.contains("growth-limit=backlog") && rules.contains(pacing)));
        }
    }

    #[test]
    fn quinn_and_noq_look_for_the_mtu_by_halves_and_get_past_a_drop_of_it() {
        use crate::world::{Load, Path, Sender, World};
        use thalweg_units::{Duration, Rate};
        assert_eq!([Stack::Quinn, Stack::Noq].map(mtu), [MtuRules::Halving; 2]);
        assert_eq!([Stack::Quiche, Stack::Ours, Stack::Other].map(mtu), [MtuRules::CommonSizes; 3]);
        let path = Path::clean(Rate::from_bps(10_000_000), Duration::from_millis(40), 50_000);
        let load = Load { bytes: 1_000_000, is_up: false, pieces: 1, pause: Duration::ZERO };
        let sender = Sender {
            policies: of(Stack::Noq, "cubic").parse().unwrap(),
            mtu_rules: mtu(Stack::Noq),
            ..Sender::default()
        };
        let whole = World { path, credit: None, sender, load, seed: 1 };
        let mut dropped = whole.clone();
        dropped.path.mtu = Some((Duration::from_millis(400), 1350));
        let mut by_sizes = dropped.clone();
        by_sizes.sender.mtu_rules = MtuRules::CommonSizes;
        let took = [&whole, &dropped, &by_sizes].map(|world| world.run(None).unwrap().unwrap());
        assert!(took[0] < took[1] && took[1] < took[0] * 4, "{took:?}");
        assert_ne!(took[1], took[2], "the rules that we ship notice a drop at another time");
    }

    #[test]
    fn the_variants_are_other_rules() {
        for stack in [Stack::Quinn, Stack::Noq, Stack::Quiche, Stack::Other] {
            for controller in ["cubic", "new-reno"] {
                let policies: Policies = of(stack, controller).parse().unwrap();
                let variants = variants(&policies);
                let expected = match (stack, controller) {
                    (Stack::Quiche, "cubic") => 7,
                    (Stack::Quiche, _) => 6,
                    (Stack::Quinn | Stack::Noq, _) => 4,
                    _ => 3,
                };
                assert_eq!(variants.len(), expected, "{stack:?}");
                assert!(!variants.contains(&policies));
                let is_other = |variant: &&Policies| variant.reordering != policies.reordering;
                assert_eq!(variants.iter().any(|variant| is_other(&variant)), stack == Stack::Quiche, "{stack:?}");
            }
        }
    }
}
