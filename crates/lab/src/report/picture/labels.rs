//! Labels that fit: shortened so that no two that differ become the same text.

use std::collections::BTreeMap;

/// The labels with at most `most` characters each; more only where two would become the same text.
///
/// The middle is left out, as beginnings and ends are what tells labels apart.
pub fn distinct(labels: &[String], most: usize) -> Vec<String> {
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    for width in most.max(3)..longest {
        let short: Vec<String> = labels.iter().map(|label| shorten(label, width)).collect();
        let mut whole: BTreeMap<&str, &str> = BTreeMap::new();
        let clash = short.iter().zip(labels).any(|(short, label)| *whole.entry(short).or_insert(label) != *label);
        if !clash {
            return short;
        }
    }
    labels.to_vec()
}

fn shorten(label: &str, most: usize) -> String {
    let count = label.chars().count();
    if count <= most {
        return label.to_owned();
    }
    let (head, tail) = ((most - 1).div_ceil(2), (most - 1) / 2);
    let start: String = label.chars().take(head).collect();
    let end: String = label.chars().skip(count - tail).collect();
    format!("{}…{}", start.trim_end(), end.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All words of two letters and a blank, up to six long.
    fn words() -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..6 {
            last = last.iter().flat_map(|word| ["a", "b", " "].map(|letter| format!("{word}{letter}"))).collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    #[test]
    fn labels_that_differ_stay_different() {
        let all = words();
        for (most, step) in (3..8).flat_map(|most| [1, 7, 50].map(|step| (most, step))) {
            let labels: Vec<String> = all.iter().step_by(step).cloned().collect();
            let short: std::collections::BTreeSet<String> = distinct(&labels, most).into_iter().collect();
            assert_eq!(short.len(), labels.len(), "{most} {step}");
        }
    }

    #[test]
    fn the_middle_is_left_out() {
        let labels = ["a long name of a path, first", "a long name of a path, second", "short"].map(str::to_owned);
        assert_eq!(distinct(&labels, 13), ["a long…first", "a long…second", "short"].map(str::to_owned));
    }
}
