//! The figures of a scenario as tables: a row for each place, a column for each choice or, where nothing is chosen, for
//! each metric.

use thalweg_lab::choices::Grid;
use thalweg_lab::matrix;
use thalweg_lab::metric::{self, Better, Metric, Scope, Unit};
use thalweg_lab::results::Results;
use thalweg_lab::stats::{Estimate, FEWEST_FOR_MEDIAN, Interval, Missing, Statistic};
use thalweg_lab::summary::{self, Sample};

use super::words::counted;
use crate::columns::{Cell, Column, sentence, table};
use crate::paint::Paint;

/// The most rows of a table.
const MOST_ROWS: usize = 40;
/// The most flows with a table of their own.
const MOST_FLOWS: usize = 4;

/// Something that is measured, and how it is summed up.
type Measured = (&'static Metric, Statistic);

/// The main figures of each flow.
pub(super) fn tables(results: &Results, paint: Paint) -> String {
    let grid = Grid::of(&results.scenario);
    let mut flows: Vec<String> = Vec::new();
    for point in 0..results.scenario.points.len() {
        for flow in summary::subjects(&results.scenario, point, Scope::Flow) {
            if !flows.contains(&flow) {
                flows.push(flow);
            }
        }
    }
    // The flow of the answer first.
    let answered = results.scenario.answer.as_ref().and_then(|(_, of)| of.as_ref());
    flows.sort_by_key(|flow| Some(flow) != answered);
    let mut out = String::new();
    for flow in flows.iter().take(MOST_FLOWS) {
        out += &Figures { results, grid: &grid, flow, paint }.of_flow(flows.len() > 1);
    }
    if let Some((_, rest)) = flows.split_at_checked(MOST_FLOWS).filter(|(_, rest)| !rest.is_empty()) {
        out += &sentence(&format!("  also measured: the flows {}; the report shows them", rest.join(", ")), 4);
    }
    out
}

/// The figures of one flow.
struct Figures<'a> {
    results: &'a Results,
    grid: &'a Grid,
    flow: &'a str,
    paint: Paint,
}

impl Figures<'_> {
    fn estimate(&self, (metric, statistic): Measured, place: usize, choice: usize) -> Option<Estimate> {
        let Results { scenario, runs, .. } = self.results;
        let point = self.grid.point(place, choice)?;
        let sample = Sample::new(scenario, runs, point, self.flow, metric);
        (!sample.all().is_empty()).then(|| sample.estimate(statistic))
    }

    /// Every figure of a metric: place by place, choice by choice.
    fn all(&self, measured: Measured) -> Vec<Vec<Option<Estimate>>> {
        let of_place =
            |place| (0..self.grid.choices.len()).map(|choice| self.estimate(measured, place, choice)).collect();
        (0..self.grid.places.len()).map(of_place).collect()
    }

    fn of_flow(&self, named: bool) -> String {
        // The same metric first as in the report.
        let asked = matrix::asked(&self.results.scenario).into_iter().find(|(_, flow)| flow == self.flow);
        let answer = asked.map(|(answer, _)| (answer.metric, answer.statistic));
        let mut measured: Vec<(Measured, Vec<Vec<Option<Estimate>>>)> = Vec::new();
        let mut add = |one: Measured| {
            let known = measured.iter().any(|((metric, _), _)| metric.name == one.0.name);
            let all = if known { Vec::new() } else { self.all(one) };
            // What is 0 everywhere is no figure, unless it is all there is.
            if all.iter().flatten().flatten().any(|estimate| estimate.value != 0.0 || answer == Some(one)) {
                measured.push((one, all));
            }
            measured.len()
        };
        // What is shown of flows beside what the scenario asks about, if it has values.
        let shown = || metric::in_order(|rank| rank.figures).into_iter().map(|it| (it, summary::statistic(it)));
        let main = answer.into_iter().chain(shown()).find(|one| add(*one) > 0);
        if let Some(main) = main {
            self.spoken_of().into_iter().chain(shown()).filter(|one| one.0.name != main.0.name).for_each(|one| {
                add(one);
            });
        }
        let Some((main, figures)) = measured.first() else { return String::new() };
        let name = if named { format!("{}: ", self.flow) } else { String::new() };
        if self.grid.choices.len() > 1 && self.grid.places.len() > 1 {
            let (columns, unit) = self.by_choice(*main, figures);
            let laid = table(&columns, 2, self.paint);
            let lines = self.grid.places.len() * self.grid.choices.len();
            if laid.left_out.is_empty() || lines > MOST_ROWS {
                let statistic = match self.is_repeated(main.0) && main.1 != Statistic::MEDIAN {
                    true => format!("{} of each run, median", main.1),
                    false => main.1.to_string(),
                };
                let title = format!("{name}{}{unit}, {}", words(main.0), self.explained(&statistic, figures, &columns));
                return self.titled(&title, &laid.text, &laid.left_out, "also run", self.grid.places.len());
            }
        }
        let columns = self.by_metric(&measured);
        let laid = table(&columns, 2, self.paint);
        // A column of anything else than is usual says so itself.
        let usual = |one: &Measured| one.1 == summary::statistic(one.0);
        let stated = measured.iter().map(|(one, _)| *one).find(usual).map(|(_, statistic)| statistic);
        let stated = stated.unwrap_or(Statistic::MEDIAN);
        let mixed = measured.iter().any(|(one, _)| usual(one) && one.1 != stated);
        let statistic = match mixed && measured.iter().any(|((metric, _), _)| metric.unit == Unit::Share) {
            true => "medians, of shares means,".to_owned(),
            false => stated.to_string(),
        };
        let title = format!("{name}{}", self.explained(&statistic, figures, &columns));
        let rows = self.grid.places.len() * self.grid.choices.len();
        self.titled(&title, &laid.text, &laid.left_out, "also measured", rows)
    }

    /// Whether runs have many values of a metric.
    fn is_repeated(&self, metric: &Metric) -> bool {
        self.results.runs.is_repeated(self.flow, metric)
    }

    /// What the scenario expects something of.
    fn spoken_of(&self) -> Vec<Measured> {
        let scenario = &self.results.scenario;
        let all = scenario.expectations.iter().chain(&scenario.known);
        let of_flows = all.filter(|it| it.metric.scope == Scope::Flow && !it.metric.is_yes_or_no());
        of_flows.map(|it| (it.metric, summary::statistic(it.metric))).collect()
    }

    /// A table between its title and what it leaves out.
    fn titled(&self, title: &str, text: &str, left_out: &[String], what: &str, rows: usize) -> String {
        let heads = text.lines().count().saturating_sub(rows);
        let shown: String = text.lines().take(heads + MOST_ROWS).map(|line| format!("{line}\n")).collect();
        let mut out = sentence(&format!("  {title}"), 4) + &shown;
        if let Some(more) = rows.checked_sub(MOST_ROWS).filter(|more| *more > 0) {
            out += &format!("  … and {more} more rows in the report\n");
        }
        if !left_out.is_empty() {
            out += &sentence(&format!("  {what}: {}; the report shows all", left_out.join("; ")), 4);
        }
        out
    }

    /// What the figures are.
    fn explained(&self, statistic: &str, figures: &[Vec<Option<Estimate>>], columns: &[Column]) -> String {
        let mut texts = columns.iter().flat_map(|column| &column.cells).map(|cell| cell.text.as_str());
        let has = |mark| texts.clone().any(|text: &str| text.contains(mark));
        let interval = if has('[') { " [95 % interval]" } else { "" };
        let best = if texts.any(|text| text.contains('*')) { "; * is best, beyond chance and 1 %" } else { "" };
        let runs = figures.iter().flatten().flatten().map(|estimate| estimate.runs).max().unwrap_or(0);
        format!("{statistic} over {}{interval}{best}", counted(runs as u64, "run"))
    }

    /// A column for each axis in which places differ; `rows` are the places that are printed, none for a blank.
    fn places(&self, rows: &[Option<usize>]) -> Vec<Column> {
        let (places, axes) = (&self.grid.places, &self.results.scenario.axes);
        let differs = |axis: usize| places.iter().any(|place| place.labels.iter().any(|(at, _)| *at == axis));
        let label = |place: usize, axis: usize| {
            let found = places[place].labels.iter().find(|(at, _)| *at == axis);
            found.map_or_else(Cell::default, |(_, label)| Cell::from(label.clone()))
        };
        let column = |axis: usize| {
            let cells = rows.iter().map(|row| row.map_or_else(Cell::default, |place| label(place, axis))).collect();
            Column::left(axes[axis].label.clone(), cells)
        };
        (0..axes.len()).filter(|axis| differs(*axis)).map(column).collect()
    }

    /// A column for each choice, all in one unit, which is given too.
    fn by_choice(&self, main: Measured, figures: &[Vec<Option<Estimate>>]) -> (Vec<Column>, String) {
        let scale =
            Scale::of(main.1.unit(main.0.unit), figures.iter().flatten().flatten().map(|estimate| estimate.value));
        let best: Vec<Vec<bool>> = figures.iter().map(|place| best(better(main), place)).collect();
        let of_choice = |(number, choice): (usize, &thalweg_lab::choices::Choice)| {
            let cells = figures.iter().zip(&best).map(|(place, best)| (&place[number], best[number]));
            Column::right(choice.name.clone(), scale.cells(cells))
        };
        let choices = self.grid.choices.iter().enumerate().map(of_choice);
        let unit = if scale.name.is_empty() { String::new() } else { format!(" in {}", scale.name) };
        let places: Vec<Option<usize>> = (0..self.grid.places.len()).map(Some).collect();
        (self.places(&places).into_iter().chain(choices).collect(), unit)
    }

    /// A column for each metric, a row for each place and choice.
    fn by_metric(&self, measured: &[(Measured, Vec<Vec<Option<Estimate>>>)]) -> Vec<Column> {
        let choices = &self.grid.choices;
        let mut columns = Vec::new();
        if self.grid.places.len() > 1 {
            let rows: Vec<Option<usize>> = self.pairs().map(|(place, choice)| (choice == 0).then_some(place)).collect();
            columns = self.places(&rows);
        }
        if choices.len() > 1 {
            columns
                .push(Column::left("", self.pairs().map(|(_, choice)| choices[choice].name.clone().into()).collect()));
        }
        for ((metric, statistic), figures) in measured {
            let scale = Scale::of(
                statistic.unit(metric.unit),
                figures.iter().flatten().flatten().map(|estimate| estimate.value),
            );
            let best: Vec<Vec<bool>> = figures.iter().map(|place| best(better((*metric, *statistic)), place)).collect();
            let cells = self.pairs().map(|(place, choice)| (&figures[place][choice], best[place][choice]));
            let unit = if scale.name.is_empty() { String::new() } else { format!(", {}", scale.name) };
            let name = match *statistic {
                statistic if statistic == summary::statistic(metric) => words(metric),
                Statistic::Spread => words(metric) + " spread",
                statistic if self.is_repeated(metric) => format!("{statistic} of each run's {}", words(metric)),
                statistic => format!("{statistic} {}", words(metric)),
            };
            columns.push(Column::right(name + &unit, scale.cells(cells)));
        }
        columns
    }

    /// Place and choice of each row.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let choices = self.grid.choices.len();
        (0..self.grid.places.len()).flat_map(move |place| (0..choices).map(move |choice| (place, choice)))
    }
}

fn words(metric: &Metric) -> String {
    metric.name.replace('_', " ")
}

/// How much better something has to be to be marked, as a share: less than this does not show in three digits.
const LEAST: f64 = 0.01;

/// In which direction a figure is better. Runs that are closer together are, whatever of.
fn better((metric, statistic): Measured) -> Better {
    if statistic == Statistic::Spread { Better::Less } else { metric.better }
}

/// Which of some figures nothing else is better than beyond chance: none where that is true of all.
fn best(better: Better, figures: &[Option<Estimate>]) -> Vec<bool> {
    let none = vec![false; figures.len()];
    if better == Better::Neither || figures.len() < 2 {
        return none;
    }
    // The worst and the best that each may be.
    let bounds = |estimate: &Estimate| match (estimate.interval, estimate.missing) {
        (Some(Interval { low, high }), _) => (low, high),
        (None, Some(Missing::Alike(seeds))) if seeds >= FEWEST_FOR_MEDIAN => (estimate.value, estimate.value),
        (None, _) => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let is_beaten = |one: &Estimate| {
        let (low, high) = bounds(one);
        figures.iter().flatten().any(|other| {
            let (other_low, other_high) = bounds(other);
            match better {
                Better::Less => other_high < low && other.value < one.value * (1.0 - LEAST),
                _ => other_low > high && other.value * (1.0 - LEAST) > one.value,
            }
        })
    };
    let marks: Vec<bool> = figures.iter().map(|figure| figure.as_ref().is_some_and(|one| !is_beaten(one))).collect();
    let run = figures.iter().flatten().count();
    if marks.iter().filter(|mark| **mark).count() == run { none } else { marks }
}

/// The unit in which all figures of a column are printed.
struct Scale {
    factor: f64,
    name: &'static str,
    unit: Unit,
}

impl Scale {
    /// One that gives the median figure one to three digits before the point.
    fn of(unit: Unit, values: impl Iterator<Item = f64>) -> Scale {
        let mut sizes: Vec<f64> = values.map(f64::abs).filter(|size| size.is_finite() && *size > 0.0).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let middle = sizes.get(sizes.len() / 2).copied().unwrap_or(1.0);
        let steps: &[(f64, &'static str)] = match unit {
            Unit::Seconds => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
            Unit::Bytes => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
            Unit::BitsPerSecond => &[(1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bps")],
            Unit::Share => &[(1e-2, "%")],
            Unit::Ratio | Unit::Count => &[(1.0, "")],
        };
        let fitting = steps.iter().find(|(factor, _)| middle >= *factor).or(steps.last());
        let (factor, name) = fitting.copied().unwrap_or((1.0, ""));
        Scale { factor, name, unit }
    }

    fn number(&self, value: f64) -> String {
        match value / self.factor {
            _ if value.is_infinite() => metric::format(value, self.unit),
            value if value.is_nan() => "–".to_owned(),
            // A median of counts between two of them.
            value if self.unit == Unit::Count && (2.0 * value).fract() == 0.0 && value.fract() != 0.0 => {
                format!("{value:.1}")
            }
            value => digits(value),
        }
    }

    /// Figures with their intervals, under each other. An interval that prints as its figure is not printed.
    fn cells<'e>(&self, figures: impl Iterator<Item = (&'e Option<Estimate>, bool)>) -> Vec<Cell> {
        let parts: Vec<(String, String)> = figures
            .map(|(estimate, best)| {
                let Some(estimate) = estimate else { return (String::new(), String::new()) };
                let value = self.number(estimate.value);
                let ends = estimate.interval.map(|Interval { low, high }| {
                    let end = |value: f64| if value.is_infinite() { "open".to_owned() } else { self.number(value) };
                    (end(low), end(high))
                });
                let told = ends.filter(|(low, high)| *low != value || *high != value);
                let interval = told.map_or_else(String::new, |(low, high)| format!(" [{low}, {high}]"));
                (value + if best { "*" } else { " " }, interval)
            })
            .collect();
        let wide = |part: fn(&(String, String)) -> &String| {
            parts.iter().map(|parts| part(parts).chars().count()).max().unwrap_or(0)
        };
        let (values, intervals) = (wide(|parts| &parts.0), wide(|parts| &parts.1));
        // A column without marks needs no room for them.
        let marked = parts.iter().any(|(value, _)| value.ends_with('*'));
        let cell = |(value, interval): &(String, String)| {
            let text = format!("{value:>values$}{interval:<intervals$}");
            Cell::from(if marked || intervals > 0 { text } else { text.trim_end().to_owned() })
        };
        parts.iter().map(cell).collect()
    }
}

/// Three significant digits; whole numbers below 10,000 as they are.
fn digits(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    if size < 10_000.0 && size.fract() == 0.0 {
        return format!("{sign}{size:.0}");
    }
    let decimals = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.09995 => 3,
        _ => 4,
    };
    format!("{sign}{size:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, interval: Option<(f64, f64)>, missing: Option<Missing>) -> Option<Estimate> {
        let interval = interval.map(|(low, high)| Interval { low, high });
        Some(Estimate { value, interval, missing, runs: 9, distinct: 9 })
    }

    #[test]
    fn the_best_is_marked_where_it_is_beyond_chance() {
        let (completion, goodput) = (metric::find("completion").unwrap(), metric::find("goodput").unwrap());
        let (less, more) = (better((completion, Statistic::MEDIAN)), better((goodput, Statistic::MEDIAN)));
        assert_eq!(better((goodput, Statistic::Spread)), Better::Less);
        let apart = [estimate(1.0, Some((0.9, 1.1)), None), estimate(2.0, Some((1.9, 2.1)), None)];
        assert_eq!(best(less, &apart), [true, false]);
        assert_eq!(best(more, &apart), [false, true]);
        let close = [estimate(1.0, Some((0.9, 1.1)), None), estimate(1.1, Some((1.0, 1.2)), None), None];
        assert_eq!(best(less, &close), [false, false, false]);
        let tied = [close[0], close[1], apart[1]];
        assert_eq!(best(less, &tied), [true, true, false]);
        // Two runs show nothing; the same result from every seed shows all.
        let few = [estimate(1.0, None, Some(Missing::Few(2))), estimate(2.0, None, Some(Missing::Few(2)))];
        assert_eq!(best(less, &few), [false, false]);
        let alike = [estimate(1.0, None, Some(Missing::Alike(9))), estimate(2.0, None, Some(Missing::Alike(9)))];
        assert_eq!(best(less, &alike), [true, false]);
        let nearly = [estimate(1.0, None, Some(Missing::Alike(9))), estimate(1.001, None, Some(Missing::Alike(9)))];
        assert_eq!(best(less, &nearly), [false, false]);
    }

    #[test]
    fn a_column_has_one_unit_and_its_numbers_end_under_each_other() {
        let scale = Scale::of(Unit::Seconds, [0.0123, 0.5, 28.0].into_iter());
        assert_eq!(scale.name, "ms");
        let figures = [
            estimate(0.0123, Some((0.01, 0.02)), None),
            estimate(28.0, None, None),
            estimate(f64::INFINITY, None, None),
        ];
        let cells = scale.cells(figures.iter().map(|figure| (figure, false)));
        let texts: Vec<&str> = cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(texts[0], " 12.3  [10, 20]");
        let ends: Vec<usize> =
            texts.iter().map(|text| text.split(" [").next().unwrap().trim_end().chars().count()).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "{texts:?}");
        assert!(texts[2].starts_with("never"), "{texts:?}");
        // What the interval adds is nothing at this precision.
        let narrow = estimate(1.2345, Some((1.2344, 1.2346)), None);
        assert_eq!(Scale::of(Unit::Ratio, [1.0].into_iter()).cells([(&narrow, false)].into_iter())[0].text, "1.23");
    }

    #[test]
    fn numbers_have_three_digits() {
        let all = [(0.0, "0"), (3.0, "3"), (0.123_45, "0.123"), (9.996, "10.0"), (99.97, "100"), (-1.5, "−1.50")];
        for (value, text) in all {
            assert_eq!(digits(value), text);
        }
        assert_eq!(digits(1_234.0), "1234");
    }
}
