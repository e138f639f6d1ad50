//! The textual form of policies, and the errors of wrong ones.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use thalweg_recovery::{Policies, PolicyError, ProbePolicy};

/// The controllers that are built, as messages list them.
const CONTROLLERS: &str =
    "new-reno, cubic, cuback, abba, regain, bbr, bbr/peak-start, bbr/threshold, bbr/peak-start-threshold, c4";

#[test]
fn defaults_are_the_documented_ones() {
    let text = "controller=regain, start=peak-bandwidth, reduction=immediate, reordering=rack, \
                rtt=classic, pacing-rtt=smoothed, exit-rtt=sample, probe=ladder, ack-allowance=lone, ack-rate=phased, undo=episode, \
                pacing=on, growth-limit=unused, restart=keep, handshake=plain, tail=once, resume=off, mark=abe";
    assert_eq!(Policies::default().to_string(), text);
    assert_eq!(text.parse::<Policies>().unwrap(), Policies::default());
    assert_eq!("".parse::<Policies>().unwrap(), Policies::default());
}

#[test]
fn unknown_values_name_the_field_the_value_and_what_is_accepted() {
    let error = "controller=vegas".parse::<Policies>().unwrap_err().to_string();
    assert_eq!(error, format!("policy controller cannot be \"vegas\"; it accepts {CONTROLLERS}"));
}

#[test]
fn unknown_fields_list_the_known_ones() {
    let error = "colour=blue".parse::<Policies>().unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no policy field \"colour\"; fields are controller, start, reduction, reordering, rtt, pacing-rtt, exit-rtt, probe, ack-allowance, ack-rate, undo, pacing, growth-limit, restart, handshake, tail, resume, mark"
    );
}

#[test]
fn reserved_values_say_that_they_are_not_built_yet() {
    let error = "controller=prague".parse::<Policies>().unwrap_err().to_string();
    let expected =
        format!("policy controller=prague has a place but is not built yet; controller accepts {CONTROLLERS}");
    assert_eq!(error, expected);
}

#[test]
fn an_alias_reads_as_the_name_it_stands_for() {
    let policies: Policies = "probe=capped".parse().unwrap();
    assert_eq!(policies.probe, ProbePolicy::Capped16);
    assert_eq!(policies.probe.to_string(), "capped/16");
}

#[test]
fn a_controller_of_the_programs_own_cannot_be_named() {
    let error = "controller=custom/mine".parse::<Policies>().unwrap_err().to_string();
    assert!(error.contains("custom/mine") && error.contains(&format!("controller accepts {CONTROLLERS}")), "{error}");
}

#[test]
fn malformed_and_repeated_items_are_refused() {
    assert!(matches!("cubic".parse::<Policies>(), Err(PolicyError::Malformed { .. })));
    let error = "undo=off, undo=episode".parse::<Policies>().unwrap_err().to_string();
    assert_eq!(error, "policy field \"undo\" is given twice: \"off\" and \"episode\"");
}

#[test]
fn every_built_choice_of_the_catalogue_can_be_set_and_every_other_cannot() {
    for field in Policies::catalogue() {
        assert!(!field.doc.is_empty());
        for choice in field.choices {
            assert!(!choice.doc.is_empty());
            assert_eq!(choice.when.is_empty(), !choice.built, "{}={}", field.name, choice.name);
            let mut policies = Policies::default();
            assert_eq!(policies.set(field.name, choice.name).is_ok(), choice.built, "{}={}", field.name, choice.name);
            assert_eq!(policies.to_string().parse::<Policies>().unwrap(), policies);
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z+=, -]{0,40}") {
        let _ = text.parse::<Policies>();
    }
}
