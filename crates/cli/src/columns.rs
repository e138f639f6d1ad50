//! Text in columns: tables of at most [`WIDTH`] columns, wrapped sentences, labels that are shortened and stay apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::paint::{Paint, Tone};

/// The most columns that a line for people takes.
pub(crate) const WIDTH: usize = 100;

/// Between two columns of a table.
const GAP: usize = 2;

/// How many columns a text takes on a terminal, one for each character.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// The text in lines of at most `most` columns, broken at spaces; lines after the first begin with `indent` spaces. A
/// word that is longer keeps a line to itself and is not broken, so that commands and paths can be copied.
pub(crate) fn wrapped(text: &str, most: usize, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut filled = 0;
    // What a line begins with stays.
    let begin: String = text.chars().take_while(|c| *c == ' ').collect();
    line.push_str(&begin);
    for word in unbroken(text) {
        let space = usize::from(filled > 0);
        if filled > 0 && width(&line) + space + width(&word) > most {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            filled = 0;
        }
        if filled > 0 {
            line.push(' ');
        }
        line.push_str(&word);
        filled += 1;
    }
    lines.push(line);
    lines
}

/// The words of a text; a number keeps what follows it if that is as short as a unit.
fn unbroken(text: &str) -> Vec<String> {
    /// The longest unit: "kbps", "Mbps".
    const UNIT: usize = 4;
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(before) if before.ends_with(|c: char| c.is_ascii_digit()) && width(word) <= UNIT + 1 => {
                before.push(' ');
                before.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// A sentence in lines of at most [`WIDTH`] columns, each ended.
pub(crate) fn sentence(text: &str, indent: usize) -> String {
    wrapped(text, WIDTH, indent).into_iter().map(|line| line + "\n").collect()
}

/// The labels, none longer than `most` (at least 6) columns: longer ones lose their middle. Different labels stay
/// different.
pub(crate) fn shortened(labels: &[String], most: usize) -> Vec<String> {
    let most = most.max(6);
    // What is kept whole is taken already.
    let mut taken: BTreeSet<String> = labels.iter().filter(|label| width(label) <= most).cloned().collect();
    let mut known: BTreeMap<&String, String> = BTreeMap::new();
    for label in labels.iter().filter(|label| width(label) > most) {
        if !known.contains_key(label) {
            let found = cuts(label, most).find(|cut| !taken.contains(cut)).unwrap_or_else(|| label.clone());
            taken.insert(found.clone());
            known.insert(label, found);
        }
    }
    labels.iter().map(|label| known.get(label).unwrap_or(label).clone()).collect()
}

/// Ways to take `label` down to `most` columns: from equal halves outwards, then with a number.
fn cuts(label: &str, most: usize) -> impl Iterator<Item = String> {
    let letters: Vec<char> = label.chars().collect();
    let room = most.saturating_sub(1);
    let half = room.div_ceil(2);
    let cut = move |head: usize| {
        let tail = room - head;
        let (first, last) = (&letters[..head], &letters[letters.len() - tail..]);
        first.iter().chain(['…'].iter()).chain(last).collect::<String>()
    };
    let start: Vec<char> = label.chars().take(room).collect();
    let numbered = (2_u64..).map(move |number| {
        let number = number.to_string();
        let kept: String = start.iter().take(room.saturating_sub(number.len())).collect();
        format!("{kept}…{number}")
    });
    let heads = (0..=room / 2).flat_map(move |by| [half.saturating_sub(by), (half + by).min(room)]);
    heads.map(cut).chain(numbered)
}

/// A list of names and what is to say about each, in lines of at most [`WIDTH`] columns. Long names have a line to
/// themselves.
pub(crate) fn described<'a>(entries: impl Iterator<Item = (&'a str, String)> + Clone) -> String {
    let longest = entries.clone().map(|(name, _)| width(name)).filter(|wide| *wide <= NAME_MOST).max().unwrap_or(0);
    let mut out = String::new();
    for (name, text) in entries {
        let mut name = name.to_owned();
        if width(&name) > NAME_MOST {
            out += &format!("{name}\n");
            name.clear();
        }
        let lines = wrapped(&text, WIDTH.saturating_sub(longest + GAP), 0);
        for (number, line) in lines.iter().enumerate() {
            let name = if number == 0 { name.as_str() } else { "" };
            let room = " ".repeat(longest.saturating_sub(width(name)) + GAP);
            out += &format!("{}\n", format!("{name}{room}{line}").trim_end());
        }
    }
    out
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// What it says.
    pub(crate) text: String,
    /// Its color.
    pub(crate) tone: Tone,
}

impl Cell {
    /// With a color.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), tone: Tone::Plain }
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// What its head says; broken at spaces, or shortened, if it is much wider than the cells.
    pub(crate) head: String,
    /// Whether its cells end, instead of begin, under each other.
    pub(crate) right: bool,
    /// From the first row to the last.
    pub(crate) cells: Vec<Cell>,
}

impl Column {
    /// Names, on the left.
    pub(crate) fn left(head: impl Into<String>, cells: Vec<Cell>) -> Column {
        Column { head: head.into(), right: false, cells }
    }

    /// Numbers, on the right.
    pub(crate) fn right(head: impl Into<String>, cells: Vec<Cell>) -> Column {
        Column { head: head.into(), right: true, cells }
    }
}

/// A table that was laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Laid {
    /// Its lines, each ended.
    pub(crate) text: String,
    /// The heads of the columns that did not fit.
    pub(crate) left_out: Vec<String>,
}

/// The most lines of a head.
const HEAD_LINES: usize = 3;
/// The least columns that a head has to itself.
const HEAD_LEAST: usize = 12;
/// The most columns of names.
const NAME_MOST: usize = 36;

/// A table of at most [`WIDTH`] columns, every line begun with `indent` spaces. Columns that do not fit are left out
/// from the right, the first ones never.
pub(crate) fn table(columns: &[Column], indent: usize, paint: Paint) -> Laid {
    let mut laid: Vec<(usize, Vec<String>, Vec<Cell>, bool)> = Vec::new();
    let (mut used, mut shown) = (indent, 0);
    let heads: Vec<String> = columns.iter().map(|column| column.head.clone()).collect();
    for column in columns {
        let texts: Vec<String> = column.cells.iter().map(|cell| cell.text.clone()).collect();
        let texts = if column.right { texts } else { shortened(&texts, NAME_MOST) };
        let cells: Vec<Cell> =
            texts.into_iter().zip(&column.cells).map(|(text, cell)| Cell { text, tone: cell.tone }).collect();
        let widest = cells.iter().map(|cell| width(&cell.text)).max().unwrap_or(0);
        let head = head(&heads, shown, widest.max(HEAD_LEAST));
        let wide = head.iter().map(|line| width(line)).max().unwrap_or(0).max(widest);
        let gap = if laid.is_empty() { 0 } else { GAP };
        if used + gap + wide > WIDTH && !laid.is_empty() {
            break;
        }
        used += gap + wide;
        shown += 1;
        laid.push((wide, head, cells, column.right));
    }
    let lines = laid.iter().map(|(_, head, ..)| head.len()).max().unwrap_or(0);
    let rows = laid.iter().map(|(_, _, cells, _)| cells.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = (usize, bool, Cell)>| {
        let mut out = " ".repeat(indent);
        let mut open = 0;
        for (at, (wide, right, cell)) in cells.enumerate() {
            let room = wide.saturating_sub(width(&cell.text));
            let before = open + if at > 0 { GAP } else { 0 } + if right { room } else { 0 };
            if !cell.text.is_empty() {
                out.push_str(&" ".repeat(before));
                out.push_str(&paint.tone(cell.tone, &cell.text));
                open = if right { 0 } else { room };
            } else {
                // Nothing is said yet: no line ends in spaces.
                open += wide + if at > 0 { GAP } else { 0 };
            }
        }
        text.push_str(out.trim_end());
        text.push('\n');
    };
    if heads.iter().any(|head| !head.is_empty()) {
        for number in 0..lines {
            line(&mut laid.iter().map(|(wide, head, _, right)| {
                // Heads stand on their cells.
                let text = (number + head.len()).checked_sub(lines).and_then(|at| head.get(at)).cloned();
                (*wide, *right, Cell::from(text.unwrap_or_default()))
            }));
        }
    }
    for row in 0..rows {
        line(
            &mut laid
                .iter()
                .map(|(wide, _, cells, right)| (*wide, *right, cells.get(row).cloned().unwrap_or_default())),
        );
    }
    Laid { text, left_out: heads[shown..].to_vec() }
}

/// The head of column `at` in lines of at most `most` columns.
fn head(heads: &[String], at: usize, most: usize) -> Vec<String> {
    let whole = &heads[at];
    let lines = wrapped(whole, most, 0);
    if lines.len() <= HEAD_LINES && lines.iter().all(|line| width(line) <= most) {
        return lines;
    }
    // Names without spaces, or too many of them.
    let short = shortened(heads, (2 * most).min(NAME_MOST));
    let lines = wrapped(&short[at], most, 0);
    if lines.len() <= HEAD_LINES { lines } else { vec![short[at].clone()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn labels_lose_their_middle_and_stay_apart() {
        let labels = owned(&[
            "short",
            "preset = broadband, rate = 10 Mbps, loss = 1 %, late",
            "preset = broadband, rate = 20 Mbps, loss = 1 %, late",
            "preset = broadband, rate = 30 Mbps, loss = 1 %, late",
            "preset = broadband, rate = 10 Mbps, loss = 1 %, late",
        ]);
        for most in 6..60 {
            let short = shortened(&labels, most);
            assert!(short.iter().all(|label| width(label) <= most), "{short:?}");
            for (one, first) in labels.iter().zip(&short) {
                for (other, second) in labels.iter().zip(&short) {
                    assert_eq!(one == other, first == second, "{first} and {second}");
                }
            }
            assert_eq!(short[0], "short");
        }
        assert_eq!(shortened(&owned(&["abcdefghijkl"]), 7), ["abc…jkl"]);
    }

    #[test]
    fn a_thousand_labels_with_equal_ends_stay_apart() {
        let labels: Vec<String> = (0..1000).map(|n| format!("{}{n:04}{}", "a".repeat(40), "z".repeat(40))).collect();
        let short = shortened(&labels, 20);
        let different: BTreeSet<&String> = short.iter().collect();
        assert_eq!(different.len(), labels.len());
        assert!(short.iter().all(|label| width(label) <= 20));
    }

    #[test]
    fn sentences_are_broken_at_spaces_and_words_are_not() {
        let lines = wrapped("  one two three four", 11, 4);
        assert_eq!(lines, ["  one two", "    three", "    four"]);
        let path = "/a/very/long/path/that/somebody/copies";
        assert_eq!(wrapped(&format!("see {path} now"), 12, 0), ["see", path, "now"]);
        assert_eq!(wrapped("", 10, 0), [""]);
        assert_eq!(wrapped("found 40 %, and more", 9, 0), ["found", "40 %, and", "more"]);
    }

    #[test]
    fn descriptions_begin_under_each_other() {
        let long = "word ".repeat(40);
        let far = "a/folder/with/a/long/name/and/a/file/with/another.toml";
        let entries = [("rtt", long.as_str()), ("completion", "short"), (far, "text")];
        let text = described(entries.iter().map(|(name, text)| (*name, (*text).to_owned())));
        assert!(text.lines().all(|line| width(line) <= WIDTH && line.trim_end() == line), "{text}");
        let begins = |word: &str| text.lines().filter_map(|line| line.find(word)).collect::<Vec<_>>();
        assert!(begins("word").iter().chain(&begins("short")).chain(&begins("text")).all(|at| *at == 12), "{text}");
        assert!(text.contains(&format!("{far}\n")));
    }

    fn columns() -> Vec<Column> {
        vec![
            Column::left("place", vec!["wifi".into(), "a satellite".into()]),
            Column::right("completion, s", vec!["1.2".into(), Cell::toned("123.4", Tone::Bad)]),
            Column::right("floor", vec!["1".into(), Cell::default()]),
        ]
    }

    #[test]
    fn names_stand_left_and_numbers_right() {
        let laid = table(&columns(), 2, Paint::NONE);
        // Heads stand on their cells.
        let expected = [
            "               completion,",
            "  place                  s  floor",
            "  wifi                 1.2      1",
            "  a satellite        123.4",
        ];
        assert_eq!(laid.text.lines().collect::<Vec<_>>(), expected);
        assert!(laid.left_out.is_empty());
    }

    #[test]
    fn color_changes_no_column() {
        let plain = table(&columns(), 2, Paint::NONE).text;
        let colored = table(&columns(), 2, Paint::ALWAYS).text;
        assert_ne!(colored, plain);
        let mut bare = String::new();
        let mut rest = colored.as_str();
        while let Some((before, after)) = rest.split_once("\u{1b}[") {
            bare.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        assert_eq!(bare + rest, plain);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut columns = columns();
        for number in 0..20 {
            columns.push(Column::right(format!("metric {number}"), vec!["12.34 [12.3, 12.4]".into(), "1".into()]));
        }
        let laid = table(&columns, 2, Paint::NONE);
        assert!(laid.text.lines().all(|line| width(line) <= WIDTH), "{}", laid.text);
        assert_eq!(laid.left_out.last().unwrap(), "metric 19");
        let shown = 20 - laid.left_out.len();
        assert!(shown > 0 && laid.left_out[0] == format!("metric {shown}"), "{:?}", laid.left_out);
        assert!(laid.text.lines().all(|line| !line.ends_with(' ')));
    }

    #[test]
    fn two_long_heads_are_not_the_same_text() {
        let long = |end: &str| format!("policies={}{end}{}", "x".repeat(60), "y".repeat(60));
        let columns = vec![
            Column::left("", vec!["a".into()]),
            Column::right(long("one"), vec!["1".into()]),
            Column::right(long("two"), vec!["2".into()]),
        ];
        let laid = table(&columns, 0, Paint::NONE);
        let heads: Vec<&str> = laid.text.lines().next().unwrap().split_whitespace().collect();
        assert!(heads.len() == 2 && heads[0] != heads[1], "{}", laid.text);
    }
}
