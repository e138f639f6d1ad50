//! The textual form of policies, and the errors of wrong ones.

use proptest::prelude::*;
use proptest::sample::select;
use thalweg_recovery::{
    Choice, Field, Number, ParameterValues, Policies, PolicyError, ProbePolicy, ResumePolicy, Share, StartPolicy,
    Switch,
};

fn refused(text: &str) -> String {
    text.parse::<Policies>().unwrap_err().to_string()
}

/// The names that are built, as messages list them.
fn accepted(field: &str) -> String {
    let field = Policies::catalogue().iter().find(|known| known.name == field).unwrap();
    field.choices.iter().filter(|choice| choice.built).map(|choice| choice.name).collect::<Vec<_>>().join(", ")
}

#[test]
fn defaults_are_the_documented_ones() {
    let text = "controller=regain, start=peak-bandwidth, reduction=immediate, reordering=rack, \
                rtt=classic, pacing-rtt=bounded, exit-rtt=sample, probe=ladder, ack-allowance=lone, ack-rate=phased, undo=episode, \
                pacing=on, growth-limit=unused, restart=keep, handshake=plain, tail=once, resume=off, mark=abe";
    assert_eq!(Policies::default().to_string(), text);
    assert_eq!(text.parse::<Policies>().unwrap(), Policies::default());
    assert_eq!("".parse::<Policies>().unwrap(), Policies::default());
}

#[test]
fn unknown_values_name_the_field_the_value_and_what_is_accepted() {
    let expected = format!("policy controller cannot be \"vegas\"; it accepts {}", accepted("controller"));
    assert_eq!(refused("controller=vegas"), expected);
    assert_eq!(refused("controller=vegas(beta=2)"), expected);
    assert!(accepted("controller").starts_with("new-reno, cubic, regain, lia, bbr"), "{}", accepted("controller"));
}

#[test]
fn unknown_fields_list_the_known_ones() {
    assert_eq!(
        refused("colour=blue"),
        "there is no policy field \"colour\"; fields are controller, start, reduction, reordering, rtt, pacing-rtt, exit-rtt, probe, ack-allowance, ack-rate, undo, pacing, growth-limit, restart, handshake, tail, resume, mark"
    );
}

#[test]
fn reserved_values_say_that_they_are_not_built_yet() {
    let accepted = accepted("controller");
    let expected = format!("policy controller=prague has a place but is not built yet; controller accepts {accepted}");
    assert_eq!(refused("controller=prague"), expected);
}

#[test]
fn what_is_only_there_for_comparison_needs_the_feature() {
    for (field, name) in [("controller", "c4"), ("start", "hystart"), ("reduction", "prr-ub")] {
        let text = format!("{field}={name}");
        let choices = Policies::catalogue().iter().find(|known| known.name == field).unwrap().choices;
        assert_eq!(choices.iter().any(|choice| choice.name == name && choice.is_study), cfg!(feature = "study"));
        if cfg!(feature = "study") {
            assert_eq!(text.parse::<Policies>().unwrap().fields().iter().filter(|(_, value)| value == name).count(), 1);
        } else {
            let expected = format!(
                "policy {text} is only for comparison: build with the cargo feature \"study\" of thalweg-recovery to have it; {field} accepts {}",
                accepted(field)
            );
            assert_eq!(refused(&text), expected);
        }
    }
}

#[test]
fn parameters_are_read_into_their_types() {
    let text = "start=peak-bandwidth( trains = off , share=0.50 ), probe=capped(divisor=8), resume=handshake(share=1)";
    let policies: Policies = text.parse().unwrap();
    let thalweg_recovery::Congestion::Window { start: StartPolicy::PeakBandwidth(start), .. } = policies.congestion
    else {
        panic!("{policies}");
    };
    assert_eq!((start.share, start.trains), (Share::from_thousandths(500).unwrap(), Switch::Off));
    let ProbePolicy::Capped(capped) = policies.probe else { panic!("{policies}") };
    assert_eq!(capped.divisor, Number::new(8).unwrap());
    let ResumePolicy::Handshake(resume) = policies.resume else { panic!("{policies}") };
    assert_eq!(resume.share.ratio(), (1, 1));
    let printed = policies.to_string();
    assert!(printed.contains("start=peak-bandwidth(share=0.5, trains=off), "), "{printed}");
}

#[test]
fn defaults_of_parameters_are_not_printed() {
    for (text, printed) in [
        ("probe=capped(divisor=16)", "probe=capped,"),
        ("probe=capped()", "probe=capped,"),
        ("start=peak-bandwidth(share=1.000, trains=on)", "start=peak-bandwidth,"),
        ("ack-rate=phased(later=2, opening=4)", "ack-rate=phased(opening=4, later=2),"),
        ("controller=bbr(threshold=on)", "controller=bbr(threshold=on),"),
    ] {
        let policies: Policies = text.parse().unwrap();
        assert!(policies.to_string().contains(printed), "{policies}");
    }
}

#[test]
fn wrong_parameters_are_refused_with_what_is_accepted() {
    let parameters = "share (0.1 to 1, up to three decimals), initial-window (scaled or plain), trains (off or on), accidents (off or on), growth (tripling or doubling)";
    let bracket = "write NAME or NAME(PARAMETER=VALUE, ...)";
    for (text, error) in [
        (
            "start=peak-bandwidth(shares=0.5)",
            format!("policy start=peak-bandwidth has no parameter \"shares\"; it has {parameters}"),
        ),
        (
            "start=peak-bandwidth(0.5)",
            format!("policy start=peak-bandwidth has no parameter \"0.5\"; it has {parameters}"),
        ),
        (
            "start=peak-bandwidth(share=2)",
            "policy start=peak-bandwidth cannot have share=\"2\"; share accepts 0.1 to 1, up to three decimals"
                .to_owned(),
        ),
        (
            "start=peak-bandwidth(trains=maybe)",
            "policy start=peak-bandwidth cannot have trains=\"maybe\"; trains accepts off or on".to_owned(),
        ),
        (
            "ack-rate=phased(later=65)",
            "policy ack-rate=phased cannot have later=\"65\"; later accepts 1 to 64 ACKs per window".to_owned(),
        ),
        (
            "probe=capped(divisor=8.5)",
            "policy probe=capped cannot have divisor=\"8.5\"; divisor accepts 2 to 128".to_owned(),
        ),
        ("probe=capped(divisor)", "policy probe=capped cannot have divisor=\"\"; divisor accepts 2 to 128".to_owned()),
        (
            "probe=capped(divisor=8, divisor=9)",
            "policy probe=capped has the parameter divisor twice; leave one out".to_owned(),
        ),
        ("probe=rfc(divisor=8)", "policy probe=rfc has no parameters; write it without brackets".to_owned()),
        ("probe=capped(divisor=8", format!("policy probe=capped(divisor=8 has a \")\" missing; {bracket}")),
        ("probe=capped divisor=8)", format!("policy probe=capped divisor=8) has a \"(\" missing; {bracket}")),
        ("probe=capped((divisor=8)", format!("policy probe=capped((divisor=8) has a \")\" missing; {bracket}")),
        ("controller=bbr(start=trains", format!("policy controller=bbr(start=trains has a \")\" missing; {bracket}")),
    ] {
        assert_eq!(refused(text), error);
    }
}

#[test]
fn spellings_of_before_say_how_they_are_written_now() {
    for (text, now) in [
        ("start=peak-bandwidth/half", "\"peak-bandwidth/half\" is now \"peak-bandwidth(share=0.5)\""),
        ("probe=capped/16", "\"capped/16\" is now \"capped\""),
        ("rtt=per-round/max", "\"per-round/max\" is now \"per-round(base=largest, variations=1)\""),
        (
            "controller=bbr/peak-start-threshold",
            "\"bbr/peak-start-threshold\" is now \"bbr(start=trains, threshold=on)\"",
        ),
        ("handshake=twice-on-loss", "\"twice-on-loss\" is now \"twice(from=loss)\""),
        ("ack-rate=thin", "\"thin\" is now \"phased(opening=4, later=2)\""),
    ] {
        assert!(refused(text).contains(now), "{}", refused(text));
        let PolicyError::Renamed { field, new, .. } = text.parse::<Policies>().unwrap_err() else { panic!("{text}") };
        assert!(format!("{field}={new}").parse::<Policies>().is_ok(), "{new}");
    }
}

#[test]
fn a_controller_of_the_programs_own_cannot_be_named() {
    let error = refused("controller=custom/mine(fast)");
    let accepted = format!("controller accepts {}", accepted("controller"));
    assert!(error.contains("custom/mine") && error.contains(&accepted), "{error}");
}

#[test]
fn malformed_and_repeated_items_are_refused() {
    assert!(matches!("cubic".parse::<Policies>(), Err(PolicyError::Malformed { .. })));
    assert_eq!(refused("undo=off, undo=episode"), "policy field \"undo\" is given twice: \"off\" and \"episode\"");
}

#[test]
fn commas_within_brackets_do_not_part_items() {
    let items = |text| Policies::items(text).collect::<Vec<_>>();
    assert_eq!(items("a=b(c=1, d=2), , e=f"), ["a=b(c=1, d=2)", "e=f"]);
    assert_eq!(items("a=b), c=d"), ["a=b)", "c=d"]);
}

#[test]
fn every_built_choice_of_the_catalogue_can_be_set_and_every_other_cannot() {
    for field in Policies::catalogue() {
        assert!(!field.doc.is_empty());
        let order = |choice: &Choice| (!choice.built, choice.is_study);
        assert!(field.choices.is_sorted_by_key(order), "{}: for use, to compare with, reserved", field.name);
        for choice in field.choices {
            assert!(!choice.doc.is_empty());
            assert_eq!(choice.when.is_empty(), !choice.built, "{}={}", field.name, choice.name);
            let mut policies = Policies::default();
            assert_eq!(policies.set(field.name, choice.name).is_ok(), choice.built, "{}={}", field.name, choice.name);
            assert_eq!(policies.to_string().parse::<Policies>().unwrap(), policies);
        }
        for text in field.spellings() {
            let mut policies = Policies::default();
            policies.set(field.name, &text).unwrap();
            assert!(policies.fields().contains(&(field.name, text)), "{policies}: canonical");
        }
    }
}

/// A choice of a field with any values of any of its parameters, in any order, as somebody may write it.
fn written(field: &'static Field) -> impl Strategy<Value = String> {
    let built: Vec<&Choice> = field.choices.iter().filter(|choice| choice.built).collect();
    select(built).prop_flat_map(move |choice| {
        let each: Vec<_> = choice
            .parameters
            .iter()
            .map(|parameter| {
                let value = match parameter.accepts {
                    ParameterValues::Words(words) => select(words).prop_map(str::to_owned).boxed(),
                    ParameterValues::Numbers(least, most) => {
                        (least..=most).prop_map(|number| number.to_string()).boxed()
                    }
                    ParameterValues::Shares(least, most) => {
                        (least..=most).prop_map(|share| format!("{}.{:03}", share / 1_000, share % 1_000)).boxed()
                    }
                    _ => unreachable!("there are no others"),
                };
                value.prop_map(|value| format!("{}={value}", parameter.name))
            })
            .collect();
        let some = each.prop_flat_map(|all| (0..=all.len(), Just(all).prop_shuffle()));
        some.prop_map(move |(count, all)| format!("{}={}({})", field.name, choice.name, all[..count].join(",")))
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z+=, ()./0-9-]{0,40}") {
        let _ = text.parse::<Policies>();
    }

    #[test]
    fn what_is_printed_reads_back(items in Policies::catalogue().iter().map(written).collect::<Vec<_>>()) {
        for item in items {
            // Brackets without anything in them are only for what has parameters.
            let item = item.trim_end_matches("()");
            let (field, value) = item.split_once('=').unwrap();
            let mut policies = Policies::default();
            policies.set(field, value).unwrap();
            let printed = policies.to_string();
            let read: Policies = printed.parse().unwrap();
            prop_assert_eq!(&read, &policies);
            prop_assert_eq!(read.to_string(), printed);
            let (_, again) = policies.fields().into_iter().find(|(name, _)| *name == field).unwrap();
            let spaces = value.matches(',').count();
            prop_assert!(again.len() <= value.len() + spaces, "{} is printed as {}", value, again);
        }
    }
}
