//! Drawing: the elements of SVG that pictures are made of.

use core::fmt::Write;

use crate::choices::{COLORS, LOOKS};

/// Width of every picture, in units of its view box.
pub(super) const WIDTH: f64 = 880.0;

/// An entry of a legend: a name and its color.
pub type Legend = Vec<(String, usize)>;

/// Text that can stand in XML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// How wide a text is drawn at 12 units, at most: the widths of DejaVu Sans, which is wider than most.
pub(super) fn text_width(text: &str) -> f64 {
    let width = |c: char| match c {
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 11.8,
        '=' | '+' | '×' | '−' | '<' | '>' => 10.1,
        'A'..='Z' => 8.6,
        '0'..='9' => 7.7,
        'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '\'' | '|' => 4.2,
        't' | 'f' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | ' ' => 5.0,
        _ => 7.6,
    };
    text.chars().map(width).sum()
}

/// In place of a choice's color: that of a bound, which no choice has.
pub const BOUND: usize = usize::MAX;

/// The classes of what has a choice's color: `kind`, the color, and whether it is one for the second time.
pub(super) fn colored(kind: &str, color: usize) -> String {
    if color == BOUND {
        return format!("{kind} bound");
    }
    let again = if color % LOOKS < COLORS { "" } else { " again" };
    format!("{kind} c{}{again}", color % COLORS)
}

/// Where a text is anchored.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// What stands before a name in a legend.
pub(super) enum Sample {
    /// A mark in the color of a choice.
    Mark(usize),
    /// A line of this class.
    Line(String),
    /// A filled rectangle of this class.
    Block(String),
}

/// A picture being drawn.
pub(super) struct Ink {
    body: String,
}

impl Ink {
    pub(super) fn new() -> Ink {
        Ink { body: String::new() }
    }

    /// The whole, so many units high.
    pub(super) fn finish(self, height: f64, name: &str) -> String {
        format!(
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n{}</svg>\n",
            escape(name),
            self.body
        )
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ =
            writeln!(self.body, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{}</text>", escape(text));
    }

    /// A text that ends at `x` and is at most so wide: a longer one is squeezed.
    pub(super) fn label(&mut self, (x, y): (f64, f64), room: f64, text: &str) {
        if text_width(text) <= room {
            self.text("label", (x, y), Anchor::End, text);
        } else {
            let _ = writeln!(
                self.body,
                "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" textLength=\"{room:.0}\" \
                 lengthAdjust=\"spacingAndGlyphs\">{}</text>",
                escape(text)
            );
        }
    }

    /// The title of a panel, in bold and at most so wide.
    pub(super) fn heading(&mut self, (x, y): (f64, f64), room: f64, text: &str) {
        /// Bold letters are wider.
        const BOLD: f64 = 1.13;
        let fit = match BOLD * text_width(text) > room {
            true => format!(" textLength=\"{room:.0}\" lengthAdjust=\"spacingAndGlyphs\""),
            false => String::new(),
        };
        let _ = writeln!(self.body, "<text class=\"panel\" x=\"{x:.1}\" y=\"{y:.1}\"{fit}>{}</text>", escape(text));
    }

    /// A text that reads upward and is at most so long: a longer one is squeezed.
    pub(super) fn upward(&mut self, class: &str, (x, y): (f64, f64), room: f64, text: &str) {
        let fit = match text_width(text) > room {
            true => format!(" textLength=\"{room:.0}\" lengthAdjust=\"spacingAndGlyphs\""),
            false => String::new(),
        };
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\"{fit}>{}</text>",
            escape(text)
        );
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    pub(super) fn rect(
        &mut self,
        class: &str,
        fill: Option<&str>,
        (x, y): (f64, f64),
        (w, h): (f64, f64),
        title: &str,
    ) {
        let fill = fill.map_or_else(String::new, |fill| format!(" fill=\"{fill}\""));
        let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\"{fill} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\">{title}</rect>"
        );
    }

    pub(super) fn path(&mut self, class: &str, d: &str) {
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// A path whose stroke has a width of its own, if any.
    pub(super) fn stroke(&mut self, class: &str, d: &str, width: Option<f64>) {
        let style = width.map_or_else(String::new, |width| format!(" style=\"stroke-width:{width:.1}\""));
        let _ = writeln!(self.body, "<path class=\"{class}\"{style} d=\"{d}\"/>");
    }

    /// A mark whose shape, beside its color, shows what it stands for.
    pub(super) fn mark(&mut self, color: usize, (x, y): (f64, f64), r: f64, title: &str) {
        let class = colored("mark", color);
        let d = match color % 4 {
            0 => format!("M{:.1} {y:.1}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 {} 0z", x - r, 2.0 * r, -2.0 * r),
            1 => format!("M{x:.1} {:.1}l{1} {1}l-{1} {1}l-{1} -{1}z", y - r * 1.25, r * 1.25),
            2 => format!("M{:.1} {:.1}h{2}v{2}h-{2}z", x - r * 0.9, y - r * 0.9, r * 1.8),
            _ => format!("M{x:.1} {:.1}l{:.1} {:.1}h-{:.1}z", y - r * 1.15, r * 1.2, r * 2.1, r * 2.4),
        };
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{d}\"><title>{}</title></path>", escape(title));
    }

    /// Draws a legend in rows from `top` on and gives the height that it takes; nothing for a single nameless entry.
    pub(super) fn legend(&mut self, entries: &Legend, from: (f64, f64)) -> f64 {
        let names: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
        let names = super::labels::distinct(&names, 60);
        let samples = names.into_iter().zip(entries).map(|(name, (_, color))| (Sample::Mark(*color), name));
        self.keys(&samples.collect::<Vec<_>>(), from)
    }

    /// The same with samples of any kind.
    pub(super) fn keys(&mut self, entries: &[(Sample, String)], (left, top): (f64, f64)) -> f64 {
        const ROW: f64 = 20.0;
        if entries.iter().all(|(_, name)| name.is_empty()) {
            return 0.0;
        }
        let (mut x, mut y) = (left, top);
        for (sample, name) in entries {
            let width = 34.0 + text_width(name);
            if x + width > WIDTH - 10.0 && x > left {
                (x, y) = (left, y + ROW);
            }
            match sample {
                Sample::Mark(color) => self.mark(*color, (x + 8.0, y + 9.0), 4.2, name),
                Sample::Line(class) => self.line(class, (x, y + 9.0), (x + 14.0, y + 9.0)),
                Sample::Block(class) => self.rect(class, None, (x + 1.0, y + 5.0), (12.0, 8.0), name),
            }
            self.text("label", (x + 18.0, y + 13.0), Anchor::Start, name);
            x += width;
        }
        y + ROW - top
    }
}
