//! Points with intervals: a row for each place, a mark for each choice.

use super::ink::{Anchor, Ink, Legend, WIDTH, colored, text_width};
use super::labels::distinct;
use super::scale::{Reading, Scale};
use crate::choices::COLORS;

/// A value with its interval.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Color and shape.
    pub color: usize,
    /// Where it is; what is not finite is drawn at the edge, with the word for it.
    pub value: f64,
    /// Its interval; an end that is not finite is open.
    pub interval: Option<(f64, f64)>,
    /// What a pointer shows.
    pub title: String,
}

/// A row of marks.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is of.
    pub label: String,
    /// One for each choice that was run.
    pub marks: Vec<Mark>,
    /// A figure beside them, such as what the reference of ratios comes to here; may be empty.
    pub figure: String,
}

/// The picture.
#[derive(Clone, Debug)]
pub struct Dots {
    /// What it shows, for those who cannot see it.
    pub name: String,
    /// What the axis shows.
    pub axis: String,
    /// How its values read.
    pub reading: Reading,
    /// From top to bottom.
    pub rows: Vec<Row>,
    /// Which color is which choice.
    pub legend: Legend,
    /// A line to compare with: 1 of ratios.
    pub reference: Option<f64>,
    /// What the figures beside the rows are of; none if there are none.
    pub figures: Option<String>,
}

const RIGHT: f64 = 70.0;

/// How much room a word takes from top to bottom.
const WORD: f64 = 16.0;

impl Dots {
    /// How wide the figures beside the rows are.
    fn column(&self) -> f64 {
        let figures = self.rows.iter().map(|row| text_width(&row.figure));
        if self.figures.is_some() { figures.fold(0.0, f64::max) + 12.0 } else { 0.0 }
    }

    /// As SVG; none if no value can be drawn.
    pub fn svg(&self) -> Option<String> {
        let names: Vec<String> = self.rows.iter().map(|row| row.label.clone()).collect();
        let labels = distinct(&names, 38);
        let left = labels.iter().map(|label| text_width(label)).fold(40.0, f64::max).min(WIDTH * 0.5) + 18.0;
        let marks = || self.rows.iter().flat_map(|row| &row.marks);
        let values = marks().flat_map(|mark| {
            let (low, high) = mark.interval.unwrap_or((mark.value, mark.value));
            [mark.value, low, high]
        });
        let must: Vec<f64> = self.reference.into_iter().collect();
        let column = self.column();
        let scale = Scale::new(values, &must, (left, WIDTH - RIGHT - column), self.reading)?;
        let most = self.rows.iter().map(|row| row.marks.len()).max()?;
        // Marks of a row lie one below the other, so that intervals do not cover each other.
        let lane = 7.0;
        let height = 9.0 + lane * most as f64;
        let mut ink = Ink::new();
        let mut top = ink.legend(&self.legend, (left - 8.0, 0.0)) + 8.0;
        if let Some(head) = &self.figures {
            ink.label((WIDTH - 6.0, top + 8.0), WIDTH * 0.5, head);
            top += WORD;
        }
        let bottom = top + height * self.rows.len() as f64;
        for (at, _) in self.rows.iter().enumerate().filter(|(at, _)| at % 2 == 0) {
            ink.rect("band", None, (0.0, top + height * at as f64), (WIDTH, height), "");
        }
        scale.draw_below(&mut ink, (top, bottom), &self.axis);
        if let Some(reference) = self.reference {
            let x = scale.at(reference);
            ink.line("reference", (x, top), (x, bottom));
        }
        for (at, (row, label)) in self.rows.iter().zip(&labels).enumerate() {
            let middle = top + height * (at as f64 + 0.5);
            ink.label((left - 12.0, middle + 4.0), left - 18.0, label);
            if !row.figure.is_empty() {
                ink.label((WIDTH - 6.0, middle + 4.0), column, &row.figure);
            }
            let first = middle - lane * (row.marks.len() as f64 - 1.0) / 2.0;
            let mut free = f64::NEG_INFINITY;
            for (lane_at, mark) in row.marks.iter().enumerate() {
                let y = first + lane * lane_at as f64;
                if mark.value.is_finite() {
                    draw(&mut ink, &scale, mark, y);
                    continue;
                }
                // What is not finite is drawn at the edge.
                ink.mark(mark.color, (scale.span.1 + 10.0, y), 3.6, &mark.title);
                // A word stands for the marks next to it, too: lanes are narrower than words are high.
                if y >= free {
                    ink.text("bad", (scale.span.1 + 20.0, y + 4.0), Anchor::Start, &scale.reading.say(mark.value));
                    free = y + WORD;
                }
            }
        }
        Some(ink.finish(bottom + 44.0, &self.name))
    }
}

fn draw(ink: &mut Ink, scale: &Scale, mark: &Mark, y: f64) {
    let class = colored("interval", mark.color % COLORS);
    let (first, last) = scale.span;
    if let Some((low, high)) = mark.interval {
        let ends = [low, high].map(|end| if end.is_finite() { scale.at(end) } else { f64::NAN });
        let (x1, x2) = (if ends[0].is_nan() { first } else { ends[0] }, if ends[1].is_nan() { last } else { ends[1] });
        ink.line(&class, (x1, y), (x2, y));
        // An end that is open has a tip instead of a stop.
        for (x, open, way) in [(x1, ends[0].is_nan(), 4.0), (x2, ends[1].is_nan(), -4.0)] {
            if open {
                ink.path(
                    &class,
                    &format!("M{:.1} {:.1}L{x:.1} {y:.1}L{:.1} {:.1}", x + way, y - 3.0, x + way, y + 3.0),
                );
            } else {
                ink.line(&class, (x, y - 3.0), (x, y + 3.0));
            }
        }
    }
    ink.mark(mark.color, (scale.at(mark.value), y), 4.0, &mark.title);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Unit;

    fn mark(value: f64, interval: Option<(f64, f64)>) -> Mark {
        Mark { color: 0, value, interval, title: "a mark".to_owned() }
    }

    fn dots(marks: &[Mark]) -> Dots {
        let row = Row { label: "wifi < far".to_owned(), marks: marks.to_vec(), figure: "1.5 s".to_owned() };
        Dots {
            name: "completion".to_owned(),
            axis: "completion".to_owned(),
            reading: Reading::Unit(Unit::Seconds),
            rows: vec![row],
            legend: vec![("shipped".to_owned(), 0), ("rfc".to_owned(), 1)],
            reference: None,
            figures: Some("median of shipped".to_owned()),
        }
    }

    #[test]
    fn a_picture_is_text_that_stays_the_same() {
        let dots =
            dots(&[mark(1.0, Some((0.9, f64::INFINITY))), mark(f64::INFINITY, None), mark(2.0, Some((1.5, 2.5)))]);
        let svg = dots.svg().unwrap();
        assert_eq!(Some(&svg), dots.svg().as_ref());
        assert!(svg.contains("wifi &lt; far") && svg.contains(">never<"), "{svg}");
        assert!(svg.contains(">1.5 s<") && svg.contains(">median of shipped<"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_word_stands_for_the_marks_next_to_it() {
        let never = || mark(f64::INFINITY, None);
        for (marks, words) in [(vec![never(), never()], 1), (vec![never(); 3], 1), (vec![never(); 4], 2)] {
            let marks: Vec<Mark> = [mark(1.0, None)].into_iter().chain(marks).collect();
            assert_eq!(dots(&marks).svg().unwrap().matches(">never<").count(), words);
        }
    }

    #[test]
    fn nothing_finite_is_no_picture_and_equal_values_are() {
        assert!(dots(&[mark(f64::INFINITY, None)]).svg().is_none());
        for value in [0.0, -3.0, 5.0, 1e12] {
            let svg = dots(&[mark(value, None), mark(value, None)]).svg().unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
