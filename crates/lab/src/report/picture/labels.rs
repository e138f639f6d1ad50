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

/// The label without its middle: whole words stay, and a number with its unit is one. Only a word that alone is too
/// long is cut, and no number is.
fn shorten(label: &str, most: usize) -> String {
    if label.chars().count() <= most {
        return label.to_owned();
    }
    let words = words(label);
    let (head_room, tail_room) = ((most - 1).div_ceil(2), (most - 1) / 2);
    let head = begin(&words, head_room);
    // What the head leaves the tail may have.
    let room = tail_room + head_room.saturating_sub(head.chars().count());
    let tail = end(&words, room);
    format!("{}…{}", head.trim_end(), tail.trim_start())
}

/// The words of a label with the blanks after them, so that together they are the label. A number and its unit are one
/// word, and so is what a sign joins to it: "10 ms", "1.5 Mbps,".
fn words(label: &str) -> Vec<&str> {
    let mut words: Vec<&str> = label.split_inclusive(' ').collect();
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with(' ') && !word.trim_end().ends_with(',')
    };
    let is_unit = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '%');
    let mut at = 0;
    let mut start = 0;
    while at + 1 < words.len() {
        let (number, unit) = (words[at], words[at + 1]);
        if is_number(number) && is_unit(unit) {
            words[at] = &label[start..start + number.len() + unit.len()];
            words.remove(at + 1);
        }
        start += words[at].len();
        at += 1;
    }
    words
}

/// As many of the first words as fit, at most so many characters.
fn begin(words: &[&str], room: usize) -> String {
    let mut text = String::new();
    for word in words {
        if (text.clone() + word).trim_end().chars().count() > room {
            break;
        }
        text += word;
    }
    match words.first().filter(|_| text.is_empty()) {
        Some(word) => whole_numbers(word, room),
        None => text,
    }
}

/// The beginning of a word, without a number that is cut.
fn whole_numbers(word: &str, room: usize) -> String {
    let mut text: String = word.chars().take(room).collect();
    let goes_on = |c: char| c.is_ascii_digit() || c == '.';
    if word.chars().nth(room).is_some_and(goes_on) {
        text.truncate(text.trim_end_matches(goes_on).len());
    }
    text
}

/// As many of the last words as fit, at most so many characters.
fn end(words: &[&str], room: usize) -> String {
    let mut text = String::new();
    for word in words.iter().rev() {
        if ((*word).to_owned() + &text).trim_end().chars().count() > room {
            break;
        }
        text.insert_str(0, word);
    }
    match words.last().filter(|_| text.is_empty()) {
        Some(word) => {
            let count = word.chars().count();
            let tail: String = word.chars().skip(count.saturating_sub(room)).collect();
            let before = word.chars().nth(count.saturating_sub(room + 1)).filter(|_| count > room);
            let goes_on = |c: char| c.is_ascii_digit() || c == '.';
            if before.is_some_and(goes_on) { tail.trim_start_matches(goes_on).to_owned() } else { tail }
        }
        None => text,
    }
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

    #[test]
    fn no_number_is_cut_and_none_loses_its_unit() {
        let labels: Vec<String> = [("1", "5"), ("10", "5"), ("110", "5"), ("10", "150"), ("10.5", "15")]
            .map(|(rate, delay)| format!("rate = {rate} Mbps, delay = {delay} ms, queue = {delay}0 packets"))
            .to_vec();
        for most in 3..60 {
            for (short, label) in distinct(&labels, most).iter().zip(&labels) {
                let numbers = |text: &str| {
                    let parts = text.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|part| !part.is_empty());
                    parts.map(str::to_owned).collect::<Vec<_>>()
                };
                for number in numbers(short) {
                    assert!(numbers(label).contains(&number), "{most}: {short} of {label}");
                }
                for unit in ["Mbps", "ms", "packets"] {
                    assert!(!short.contains(&format!("…{unit}")), "{most}: {short}");
                }
            }
        }
        let delays = ["a path that is long, 10 ms", "a path that is long, 20 ms"].map(str::to_owned);
        assert_eq!(distinct(&delays, 12), ["a path…10 ms", "a path…20 ms"].map(str::to_owned));
    }
}
