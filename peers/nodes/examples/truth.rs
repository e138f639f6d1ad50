//! Draws transfers whose causes are known, has a rival stack send them, and judges the answers to its logs.
//!
//! The transfers are those of `truth` in crates/why, as downloads: the server is the rival, and its own rules take the
//! place of ours. A limit of the rate that was set is left out, as these stacks have none.
//!
//! usage: cargo run --release -p nodes --features quiche --example truth -- label STACK FROM TO [BYTES] > LABELS
//!        cargo run --release -p nodes --features quiche --example truth -- judge STACK LABELS tuning|held-out [-v]
//!        cargo run --release -p nodes --features quiche --example truth -- log STACK NUMBER > FILE.sqlog
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

#[path = "../../../crates/why/tests/all/draw.rs"]
mod draw;
#[path = "../../../crates/why/tests/all/each.rs"]
mod each;
#[path = "../../../crates/why/tests/all/kept.rs"]
mod kept;
#[path = "truth/rival.rs"]
mod rival;
#[path = "../../../crates/why/tests/all/tally.rs"]
mod tally;
#[path = "../../../crates/why/tests/all/truth.rs"]
mod truth;

use std::io::Write;

use draw::{draw, is_for_tuning};
use each::each;
use tally::Tally;
use thalweg_why::{Answer, Log, WhyError};
use truth::Truth;

fn answer(stack: &str, number: u64) -> Result<Answer, WhyError> {
    Log::read(&*rival::log(stack, &rival::drawn(number)))?.answer()
}

/// Judges the answers to the logs of a stack: where the cause can be told, by it; elsewhere only silence is right.
fn judge(stack: &str, truths: &[Truth], is_verbose: bool) {
    let numbers: Vec<u64> = truths.iter().map(|truth| truth.number).collect();
    let answers = each(&numbers, |number| Some((number, answer(stack, number))));
    let (mut tally, mut untold) = (Tally::default(), (0_u64, 0_u64));
    for ((number, answer), truth) in answers.iter().zip(truths) {
        let told = answer.as_ref().ok().filter(|answer| answer.is_reproduced());
        let is_right = if rival::is_told(stack, truth) {
            tally.add(truth, told)
        } else {
            untold.0 += 1;
            untold.1 += u64::from(told.is_none());
            told.is_none()
        };
        if is_right && !is_verbose {
            continue;
        }
        let world = rival::drawn(*number);
        let word = if is_right { "right" } else { "WRONG" };
        println!("{word} {number}: {:?} took {:?} {:?}", truth.primary(), truth.completion, truth.savings);
        let controller = world.sender.policies.congestion.controller_name();
        println!("   {:?} {:?} {:?} {controller} {:?}", world.path, world.load, world.credit, world.sender.host);
        match answer {
            Ok(answer) => {
                let list: Vec<_> =
                    answer.savings.iter().map(|saving| (saving.cause, saving.share, saving.from, saving.to)).collect();
                println!("   told {:?} {:?} {:?}", answer.completion, answer.again, list);
                let (path, sender) = (&answer.world.path, &answer.world.sender);
                println!("   {path:?} {:?} {:?} {}", answer.world.load, answer.world.credit, sender.initial_window);
            }
            Err(error) => println!("   told {error}"),
        }
    }
    tally.print();
    println!("where the cause cannot be told: {} of {} without an answer", untold.1, untold.0);
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["label", stack, from, to, ref most @ ..] => {
            let most = most.first().map_or(u64::MAX, |most| most.parse().unwrap());
            let is_wanted = |number: &u64| draw(*number).load.bytes <= most;
            let numbers: Vec<u64> = (from.parse().unwrap()..to.parse().unwrap()).filter(is_wanted).collect();
            for truth in each(&numbers, |number| rival::truth(stack, number)) {
                println!("{}", truth.line());
            }
        }
        ["judge", stack, labels, half, ..] => {
            let text = std::fs::read_to_string(labels).unwrap();
            let wanted = |truth: &Truth| is_for_tuning(truth.number) == (half == "tuning");
            let truths: Vec<Truth> = text.lines().filter_map(Truth::parse).filter(wanted).collect();
            judge(stack, &truths, args.contains(&"-v".to_owned()));
        }
        ["log", stack, number] => {
            let log = rival::log(stack, &rival::drawn(number.parse().unwrap()));
            std::io::stdout().write_all(&log).unwrap();
        }
        _ => eprintln!("usage: truth label STACK FROM TO, or truth judge STACK LABELS tuning|held-out"),
    }
}
