//! Draws transfers whose causes are known, and judges answers by them.
//!
//! Transfers from 10,000,000 on have the causes that those before them never have.
//!
//! usage: cargo run --release -p thalweg-why --example truth -- label FROM TO [BYTES] > LABELS
//!        cargo run --release -p thalweg-why --example truth -- judge LABELS tuning|held-out [MOST] [-v] [--both]
//!        cargo run --release -p thalweg-why --example truth -- one NUMBER
//!        cargo run --release -p thalweg-why --example truth -- log NUMBER > FILE.sqlog
//!        cargo run --release -p thalweg-why --example truth -- read FILE.sqlog
//!        cargo run --release -p thalweg-why --example truth -- what-if tuning|held-out COUNT
//!        cargo run --release -p thalweg-why --example truth -- compare tuning|held-out COUNT
#![allow(clippy::unwrap_used, missing_docs, dead_code)]

#[path = "../tests/all/asked.rs"]
mod asked;
#[path = "../tests/all/draw.rs"]
mod draw;
#[path = "../tests/all/each.rs"]
mod each;
#[path = "../tests/all/kept.rs"]
mod kept;
#[path = "../tests/all/logged.rs"]
mod logged;
#[path = "../tests/all/tally.rs"]
mod tally;
#[path = "../tests/all/truth.rs"]
mod truth;

use draw::draw;
use each::each;
use tally::Tally;
use truth::Truth;

/// Judges the answers to the logs of runs, of senders or of both ends, and prints those that are wrong.
fn judge(truths: &[Truth], is_verbose: bool, are_both: bool) {
    let numbers: Vec<u64> = truths.iter().map(|truth| truth.number).collect();
    let answer = if are_both { logged::answer_of_both } else { logged::answer };
    let answers = each(&numbers, |number| Some((number, answer(&draw(number)))));
    let mut tally = Tally::default();
    for ((number, answer), truth) in answers.iter().zip(truths) {
        let is_right = tally.add(truth, answer.as_ref().ok());
        if is_right && !is_verbose {
            continue;
        }
        let world = draw(*number);
        let word = if is_right { "right" } else { "WRONG" };
        println!("{word} {number}: {:?} took {:?} {:?}", truth.primary(), truth.completion, truth.savings);
        let sender = |world: &thalweg_why::world::World| (world.sender.max_rate, world.sender.host);
        println!("   {:?} {:?} {:?} {:?}", world.path, world.load, world.credit, sender(&world));
        match answer {
            Ok(answer) => {
                let list: Vec<_> =
                    answer.savings.iter().map(|saving| (saving.cause, saving.share, saving.from, saving.to)).collect();
                println!("   told {:?} {:?} {:?}", answer.completion, answer.again, list);
                let (world, range) = (&answer.world, answer.report(None).path.rate_range_bps);
                println!("   {:?} {:?} {:?} {:?} {range:?}", world.path, world.load, world.credit, sender(world));
            }
            Err(error) => println!("   told {error}"),
        }
    }
    tally.print();
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut is_asked = |option: &str| {
        let before = args.len();
        args.retain(|one| one != option);
        args.len() < before
    };
    let (is_verbose, are_both) = (is_asked("-v"), is_asked("--both"));
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["label", from, to, ref most @ ..] => {
            let most = most.first().map_or(u64::MAX, |most| most.parse().unwrap());
            let is_wanted = |number: &u64| draw(*number).load.bytes <= most;
            let numbers: Vec<u64> = (from.parse().unwrap()..to.parse().unwrap()).filter(is_wanted).collect();
            for truth in each(&numbers, |number| Truth::of(number, &draw(number))) {
                println!("{}", truth.line());
            }
        }
        ["judge", labels, half, ref most @ ..] => {
            let text = std::fs::read_to_string(labels).unwrap();
            let truths: Vec<Truth> = text.lines().filter_map(Truth::parse).collect();
            let wanted = |truth: &&Truth| draw::is_for_tuning(truth.number) == (half == "tuning");
            let most = most.first().map_or(usize::MAX, |most| most.parse().unwrap());
            let truths: Vec<Truth> = truths.iter().filter(wanted).take(most).cloned().collect();
            judge(&truths, is_verbose, are_both);
        }
        ["one", number] => {
            let number = number.parse().unwrap();
            judge(&[Truth::of(number, &draw(number)).unwrap()], true, are_both);
        }
        ["read", file] => {
            let log = std::io::BufReader::with_capacity(1 << 18, std::fs::File::open(file).unwrap());
            let answer = thalweg_why::Log::read(log).unwrap().answer().unwrap();
            print!("{}", answer.report(answer.next().unwrap()).text());
        }
        ["log", number] => {
            let log = logged::log(&draw(number.parse().unwrap()));
            std::io::Write::write_all(&mut std::io::stdout(), &log).unwrap();
        }
        [what @ ("what-if" | "compare"), half, count, ..] => {
            let wanted = |number: &u64| draw::is_for_tuning(*number) == (half == "tuning");
            let numbers: Vec<u64> = (1..).filter(wanted).take(count.parse().unwrap()).collect();
            if what == "what-if" {
                asked::print_what_if(&each(&numbers, asked::what_if), is_verbose);
            } else {
                asked::print_compared(&each(&numbers, asked::compared), is_verbose);
            }
        }
        _ => eprintln!("usage: truth label FROM TO, or truth judge LABELS tuning|held-out [MOST]"),
    }
}
