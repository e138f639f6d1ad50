use std::path::Path;

use thalweg_sim::Registry;

use super::*;
use crate::scenario::{Scenario, ScenarioError};

/// A download over Wi-Fi beside an LTE path, with these lines in its flow.
fn parse(lines: &str) -> Result<Scenario, ScenarioError> {
    let link = "{ rate = \"20 Mbps\", delay = \"10 ms\" }";
    let text = format!(
        "title = \"t\"\nquestion = \"q\"\ntime_limit = \"20 s\"\n[path.wifi]\nup = {link}\ndown = {link}\n[path.lte]\nup = {link}\n\
         down = {link}\n[[flow]]\npath = \"wifi\"\ntransfer = {{ download = \"10 MB\" }}\n{lines}\n"
    );
    let stacks: Vec<StackInfo> = Registry::default().stacks().cloned().collect();
    Scenario::parse("t.toml", &text, Path::new(""), &stacks)
}

fn complaint(lines: &str, key: &str, needle: &str) {
    let error = parse(lines).expect_err(lines);
    let found = error.diagnostics.iter().find(|found| found.key == key);
    let found = found.unwrap_or_else(|| panic!("nothing about {key}: {error}"));
    assert!(found.message.contains(needle), "{found}");
}

#[test]
fn moves_and_rebindings_are_in_the_order_of_time() {
    let text = "rebind = [\"3 s\", \"500 ms\"]\nmove = [{ at = \"2 s\", to = \"lte\", notice = true }, { at = \"1 s\", to = \"wifi\", notice = false }]";
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let flow = &scenario.points[0].world.flows[0];
    let moves: Vec<_> =
        flow.moves.iter().map(|change| (change.at.as_millis(), change.to.as_deref(), change.notice)).collect();
    let expected = [(500, None, false), (1000, Some("wifi"), false), (2000, Some("lte"), true), (3000, None, false)];
    assert_eq!(moves, expected);
    assert!(flow.takes("lte") && flow.takes("wifi") && !flow.takes("cable"));
    let plan = flow.plan(|name| Ok(usize::from(name == "lte"))).unwrap();
    assert_eq!((plan.route.clone(), plan.moves.len()), (vec![0], 4));
    assert_eq!(plan.moves[2].what, AddressChange::Move { route: vec![1], notice: true });
    // A single one needs no list, and tables in brackets are a list.
    for text in [
        "move = { at = \"2 s\", to = \"lte\", notice = false }\nrebind = \"1 s\"",
        "rebind = \"1 s\"\n[[flow.move]]\nat = \"2 s\"\nto = \"lte\"\nnotice = false",
    ] {
        assert_eq!(parse(text).unwrap().points[0].world.flows[0].moves.len(), 2, "{text}");
    }
    assert_ne!(parse("rebind = \"1 s\"").unwrap().points[0].digest, parse("").unwrap().points[0].digest);
}

#[test]
fn a_move_that_cannot_be_says_where_and_why() {
    complaint("move = { at = \"2 s\", to = \"lte\" }", "flow.0.move", "needs notice");
    complaint("move = { at = \"2 s\", to = \"5g\", notice = true }", "flow.0.move.to", "wifi, lte");
    complaint("move = { at = 2, to = \"lte\", notice = true }", "flow.0.move.at", "no unit");
    complaint("move = { at = \"20 s\", to = \"lte\", notice = true }", "flow.0", "at 20 s, when the run is over");
    complaint("rebind = \"yes\"", "flow.0.rebind", "");
    let told = "stack = \"tcp\"\nmove = { at = \"2 s\", to = \"lte\", notice = true }";
    complaint(told, "flow.0.move.notice", "\"tcp\" is not; write notice = false");
    assert!(parse(&told.replace("true", "false")).is_ok());
}

#[test]
fn datagrams_are_refused_where_the_stack_carries_none() {
    let media = "stack = \"tcp\"\nmedia = { rate = \"1 Mbps\", deadline = \"100 ms\", duration = \"9 s\" }";
    complaint(media, "flow.0.media", "the stack \"tcp\" does not carry");
}
