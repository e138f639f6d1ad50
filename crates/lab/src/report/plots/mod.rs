//! The plots of a page, by section, with the number of those left out.
//!
//! A plot is a file here that draws it, and an entry of [`SECTIONS`]; the page needs to know nothing else about it.
//! Where a plot does not apply it draws nothing, and a section without pictures is not in the page.

mod delivery;
mod distribution;
mod metrics;
mod source;
mod waits;

use serde::Serialize;

pub(super) use source::Source;

use super::limited::Limited;
use super::picture::Picture;

/// A kind of picture.
struct Plot {
    /// Draws it: nothing where it does not apply, and as many pictures as a page has room for.
    draw: fn(&Source<'_>) -> Limited<Picture>,
    /// What is said to be not drawn, if there are so many more.
    left_out: fn(usize) -> String,
}

/// A part of a page with pictures, which opens on demand.
struct Section {
    /// What links in the page name.
    id: &'static str,
    /// The link.
    link: &'static str,
    /// The headline, if there are so many pictures.
    title: fn(usize) -> String,
    /// Whether the first picture answers the question: it stands at the top of the page in place of here.
    is_answer: bool,
    /// What is drawn, in order.
    plots: &'static [Plot],
}

/// Every section of pictures, in the order of the page.
const SECTIONS: [Section; 3] = [
    Section {
        id: "delivery",
        link: "Delivery over time",
        title: |_| "Delivery over time".to_owned(),
        is_answer: false,
        plots: &[Plot { draw: delivery::pictures, left_out: |more| format!("{more} more flows.") }],
    },
    Section {
        id: "more",
        link: "More pictures",
        title: |count| format!("More pictures: {count} other metrics"),
        is_answer: true,
        plots: &[Plot {
            draw: metrics::pictures,
            left_out: |more| format!("{more} more metrics; the tables have or name them."),
        }],
    },
    Section {
        id: "distributions",
        link: "Distributions",
        title: |_| "Distributions over runs".to_owned(),
        is_answer: false,
        plots: &[
            // How long packets wait comes first: where it is asked for it is what the report is about.
            Plot { draw: waits::pictures, left_out: |more| format!("the sojourn times of {more} more links.") },
            Plot {
                draw: distribution::pictures,
                left_out: |more| format!("the distributions of {more} more metrics."),
            },
        ],
    },
];

/// A section as the template takes it.
#[derive(Serialize)]
pub(super) struct Drawn {
    /// What links in the page name.
    pub(super) id: &'static str,
    /// The link.
    pub(super) link: &'static str,
    title: String,
    /// Each as an element of the page; a section without any is left out.
    pub(super) pictures: Vec<String>,
    not_drawn: Vec<String>,
}

/// The picture that answers the question, and every section.
pub(super) fn draw(source: &Source<'_>) -> (Option<Picture>, Vec<Drawn>) {
    let mut answer = None;
    let mut drawn = Vec::new();
    for section in &SECTIONS {
        let (mut pictures, mut not_drawn) = (Vec::new(), Vec::new());
        for plot in section.plots {
            let Limited { shown, more } = (plot.draw)(source);
            pictures.extend(shown);
            not_drawn.extend((more > 0).then(|| (plot.left_out)(more)));
        }
        let mut pictures = pictures.into_iter();
        if section.is_answer {
            answer = pictures.next();
        }
        let pictures: Vec<String> = pictures.map(|picture| picture.html()).collect();
        let title = (section.title)(pictures.len());
        drawn.push(Drawn { id: section.id, link: section.link, title, pictures, not_drawn });
    }
    (answer, drawn)
}
