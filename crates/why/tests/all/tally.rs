//! Counts how often answers are right.

use std::collections::BTreeMap;

use thalweg_why::{Answer, Cause};

use crate::truth::{NOTHING, Truth};

/// What was counted.
#[derive(Debug, Default)]
pub struct Tally {
    pub runs: u64,
    pub right: u64,
    /// By the right answer and the answer given.
    confusion: BTreeMap<(Option<Cause>, Option<Cause>), u64>,
    /// Of the runs with a cause that was told: shares within ten points, and inside of the interval.
    shares: (u64, u64, u64),
    reproduced: u64,
    /// Of the runs with nothing to gain, and of those with something: answers to the contrary.
    false_alarms: (u64, u64),
    misses: (u64, u64),
}

impl Tally {
    /// One more; whether it is right.
    pub fn add(&mut self, truth: &Truth, answer: Option<&Answer>) -> bool {
        let told = answer.and_then(Answer::primary);
        let is_right = answer.is_some() && truth.is_right(told);
        let expected = if is_right { told } else { truth.primary() };
        self.runs += 1;
        self.right += u64::from(is_right);
        *self.confusion.entry((expected, told)).or_default() += 1;
        let most = truth.savings.first().map_or(0.0, |(_, share)| *share);
        let of = if most < NOTHING { &mut self.false_alarms } else { &mut self.misses };
        of.1 += 1;
        of.0 += u64::from((most < NOTHING) != told.is_none());
        let Some(answer) = answer else { return false };
        self.reproduced += u64::from(answer.is_reproduced());
        if let Some(saving) = answer.savings.first().filter(|_| told.is_some()) {
            let share = truth.share(saving.cause);
            self.shares.0 += 1;
            self.shares.1 += u64::from((share - saving.share).abs() <= 0.10);
            self.shares.2 += u64::from(saving.from <= share && share <= saving.to);
        }
        is_right
    }

    /// The share of answers that are right.
    pub fn share_right(&self) -> f64 {
        self.right as f64 / self.runs.max(1) as f64
    }

    /// Prints all of it.
    pub fn print(&self) {
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        println!("runs {}, primary cause right {:.1} %", self.runs, percent(self.right, self.runs));
        let name = |cause: Option<Cause>| cause.map_or("Nothing".to_owned(), |cause| format!("{cause:?}"));
        // What was neither true nor told is left out.
        let is_seen = |kind: &Option<Cause>| self.confusion.keys().any(|(row, column)| row == kind || column == kind);
        let kinds: Vec<Option<Cause>> = Cause::ALL.into_iter().map(Some).chain([None]).filter(is_seen).collect();
        print!("{:>14}", "true \\ told");
        kinds.iter().for_each(|kind| print!("{:>14}", name(*kind)));
        println!("{:>8}{:>10}", "recall", "precision");
        for row in &kinds {
            let count =
                |row: Option<Cause>, column: Option<Cause>| self.confusion.get(&(row, column)).copied().unwrap_or(0);
            print!("{:>14}", name(*row));
            kinds.iter().for_each(|column| print!("{:>14}", count(*row, *column)));
            let hit = count(*row, *row);
            let of_row: u64 = kinds.iter().map(|column| count(*row, *column)).sum();
            let of_column: u64 = kinds.iter().map(|other| count(*other, *row)).sum();
            println!("{:>7.1}%{:>9.1}%", percent(hit, of_row), percent(hit, of_column));
        }
        let (told, near, inside) = self.shares;
        println!(
            "share of the primary cause within 10 points {:.1} %, inside of the interval {:.1} %, of {told}",
            percent(near, told),
            percent(inside, told)
        );
        println!("the log's completion came out again within 10 %: {:.1} %", percent(self.reproduced, self.runs));
        println!(
            "nothing to gain: false alarms {:.1} % of {}, misses {:.1} % of {}",
            percent(self.false_alarms.0, self.false_alarms.1),
            self.false_alarms.1,
            percent(self.misses.0, self.misses.1),
            self.misses.1
        );
    }
}
