//! The content of a page, of one set of results or of two beside each other.

use std::collections::BTreeMap;

use super::compared::{self, Compared};
use super::picture::Picture;
use super::plots::{self, Drawn, Source};
use crate::answer;
use crate::choices::Grid;
use crate::matrix::{self, Matrix, Side};
use crate::results::Results;
use crate::scenario::{Axis, Measured, Point};
use crate::summary;

/// What a page shows of one set of results, or of two beside each other.
pub(super) struct Shown {
    pub(super) sentences: Vec<String>,
    /// The picture that answers the question.
    pub(super) main: Option<Picture>,
    /// The other pictures.
    pub(super) sections: Vec<Drawn>,
    pub(super) compared: Vec<Compared>,
    /// The metrics that differ and have no table in `compared`, in words.
    pub(super) uncompared: String,
    pub(super) matrices: Vec<Matrix>,
    pub(super) grid: Grid,
}

impl Shown {
    /// What is shown of one set.
    pub(super) fn of(set: &Results) -> Shown {
        let (scenario, grid) = (&set.scenario, Grid::of(&set.scenario));
        let (matrices, measured) = matrix::matrices(scenario, &set.runs, &grid);
        let runs = Some(&set.runs);
        let (main, sections) = plots::draw(&Source { scenario, runs, grid: &grid, matrices: &matrices });
        Shown {
            sentences: answer::sentences(scenario, &grid, &matrices, measured),
            main,
            sections,
            compared: compared::tables(scenario, &grid, &matrices),
            uncompared: compared::untabled(scenario, &grid, &matrices),
            matrices,
            grid,
        }
    }

    /// What is shown of two sets: B against A at every point that both have.
    pub(super) fn between(a: &Results, b: &Results) -> Shown {
        let name = |set: &Results, point: usize| set.scenario.points[point].name(&set.scenario.axes);
        let theirs: BTreeMap<String, usize> =
            (0..b.scenario.points.len()).map(|point| (name(b, point), point)).collect();
        let both: Vec<(usize, usize, String)> = (0..a.scenario.points.len())
            .filter_map(|point| Some((point, *theirs.get(&name(a, point))?, name(a, point))))
            .collect();
        let points: Vec<&Point> = both.iter().map(|(point, ..)| &a.scenario.points[*point]).collect();
        let grid = Grid::of_sets(&brief(&a.scenario.axes, &points));
        let side = |place: usize, choice: usize| {
            let (first, second, _) = both.get(place)?;
            Some(match choice {
                0 => Side { scenario: &a.scenario, runs: &a.runs, point: *first },
                _ => Side { scenario: &b.scenario, runs: &b.runs, point: *second },
            })
        };
        let mut all = matrix::asked(&a.scenario);
        for (metric, of) in matrix::judging(&a.scenario) {
            if !all.iter().any(|(it, known)| it.metric == metric && *known == of) {
                all.push((Measured { metric, statistic: summary::statistic(metric) }, of));
            }
        }
        let matrices = all.into_iter().filter_map(|(answer, of)| Matrix::of_sides((both.len(), 2), &side, answer, &of));
        let matrices: Vec<Matrix> = matrices.collect();
        let measured = matrices.len();
        // What is the same in both is not shown but for the metric that answers the question.
        let told = matrices.into_iter().enumerate().filter(|(at, it)| *at == 0 || it.tells_choices_apart());
        let matrices: Vec<Matrix> = told.map(|(_, it)| it.with_best(&side)).collect();
        let source = Source { scenario: &a.scenario, runs: None, grid: &grid, matrices: &matrices };
        let (main, sections) = plots::draw(&source);
        Shown {
            sentences: answer::sentences(&a.scenario, &grid, &matrices, measured),
            main,
            sections,
            compared: compared::tables(&a.scenario, &grid, &matrices),
            uncompared: compared::untabled(&a.scenario, &grid, &matrices),
            matrices,
            grid,
        }
    }
}

/// The names of points by what tells them apart.
fn brief(axes: &[Axis], points: &[&Point]) -> Vec<String> {
    let varies = |at: usize| points.iter().any(|point| point.labels[at] != points[0].labels[at]);
    let varied: Vec<usize> = (0..axes.len()).filter(|at| varies(*at)).collect();
    let words = |point: &&Point| {
        let words =
            varied.iter().filter(|at| !point.labels[**at].is_empty()).map(|at| axes[*at].in_words(&point.labels[*at]));
        words.collect::<Vec<_>>().join(", ")
    };
    points.iter().map(words).collect()
}
