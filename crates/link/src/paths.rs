//! The `[path.NAME]` tables of a document: presets, paths of two directions, and chains of paths.

use crate::document::{DocumentError, Field, Node, Reader, Source, Value};
use crate::trace::Traces;
use crate::{Chain, Context, PathConfig, presets};

/// What the `[path.NAME]` tables of a document describe.
///
/// ```
/// use thalweg_link::trace::Synthetic;
/// use thalweg_link::{Paths, Pipe, Streams};
/// use thalweg_units::{Duration, Instant};
///
/// let text = r#"
///     [path.home]
///     preset = "wifi"
///     [path.access]
///     up   = { rate = "3 Mbps",  delay = "50 ms", queue = "600 ms" }
///     down = { rate = "25 Mbps", delay = "50 ms" }
///     [path.both]
///     hops = ["home", "access"]
/// "#;
/// let paths = Paths::parse("paths.toml", text, &Synthetic)?;
/// let hops = paths.hops("both").ok_or("no such path")?;
/// let pipe: Pipe<Vec<u8>> = Pipe::chain(&hops, Instant::ZERO, &Streams::new(1), Duration::from_secs(60))?;
/// assert_eq!(pipe.links().len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paths {
    /// Paths, in the order of the document.
    pub paths: Vec<PathConfig>,
    /// Chains of them, in the order of the document.
    pub chains: Vec<Chain>,
}

impl Paths {
    /// Reads the paths of a document, such as a scenario, whose other keys are left alone. `file` is its name in
    /// complaints.
    ///
    /// # Errors
    /// Everything wrong with the document as TOML and with its paths.
    pub fn parse(file: &str, text: &str, traces: &dyn Traces) -> Result<Paths, DocumentError> {
        const EXAMPLE: &str = "[path.NAME] with up and down";
        let source = Source::new(file, text);
        let read = |mut document: Node| {
            Paths::expand(&mut document);
            let table = Reader::root(&document, &source)?.need("path", EXAMPLE)?.table(EXAMPLE)?;
            let (paths, fields) = Paths::read(&table, traces);
            paths.check_queues(&fields, &paths.chains.iter().collect::<Vec<_>>());
            Some(paths)
        };
        let paths = Node::parse(text, &source).and_then(read).unwrap_or_default();
        source.verdict(paths)
    }

    /// Replaces the presets of all paths of a document by what they stand for.
    pub fn expand(document: &mut Node) {
        if let Value::Table(entries) = &mut document.value
            && let Some(entry) = entries.iter_mut().find(|entry| entry.key == "path")
            && let Value::Table(paths) = &mut entry.node.value
        {
            for path in paths {
                presets::expand(&mut path.node);
            }
        }
    }

    /// Reads the table `path` of a document whose presets are expanded; what is wrong has been complained about and is
    /// left out. Beside it where each of the paths that are no chains stands. Whether their queues hold anything
    /// depends on who takes them: see [`check_queues`](Self::check_queues).
    pub fn read<'a>(table: &Reader<'a>, traces: &dyn Traces) -> (Paths, Vec<Field<'a>>) {
        let (mut paths, mut fields) = (Paths::default(), Vec::new());
        let all = table.all();
        let is_chain = |field: &Field<'_>| field.node.get("hops").is_some();
        let plain: Vec<&str> = all.iter().filter(|(.., field)| !is_chain(field)).map(|(name, ..)| *name).collect();
        for (name, _, field) in &all {
            let Some(reader) = field.table("a table with up and down, or hops") else { continue };
            if is_chain(field) {
                paths.chains.extend(Chain::read(name, Box::new(reader), &plain));
            } else if let Some(path) = path(name, reader, traces) {
                paths.paths.push(path);
                fields.push(field.clone());
            }
        }
        if all.is_empty() {
            table.complain("is empty; write [path.NAME] with up and down");
        }
        (paths, fields)
    }

    /// Complains about queues in BDP that hold nothing: a BDP is that of the longest round trip over a path, of its own
    /// one or of one of these chains. `fields` are where the paths stand.
    pub fn check_queues(&self, fields: &[Field<'_>], chains: &[&Chain]) {
        for (path, field) in self.paths.iter().zip(fields) {
            let through = chains.iter().filter(|chain| chain.hops.contains(&path.name));
            let hops = through
                .flat_map(|chain| &chain.hops)
                .filter_map(|hop| self.paths.iter().find(|path| path.name == *hop));
            // Longer than zero is all that matters.
            let round_trip = hops.chain([path]).map(PathConfig::round_trip).max().unwrap_or_default();
            if let Some(complaint) = path.queue_complaint(round_trip) {
                field.complain(complaint);
            }
        }
    }

    /// The paths that packets to a path or chain of this name cross, from client to server; none if there is none.
    pub fn hops(&self, name: &str) -> Option<Vec<PathConfig>> {
        let route = route(name, &self.paths, &self.chains)?;
        Some(route.iter().filter_map(|path| self.paths.get(*path)).cloned().collect())
    }
}

/// The paths, by number, that packets to a path or chain of this name cross, from client to server; none if there is
/// none.
pub fn route(name: &str, paths: &[PathConfig], chains: &[Chain]) -> Option<Vec<usize>> {
    match paths.iter().position(|path| path.name == name) {
        Some(path) => Some(vec![path]),
        None => chains.iter().find(|chain| chain.name == name)?.route(paths),
    }
}

/// A path; its presets are expanded already.
fn path(name: &str, reader: Reader<'_>, traces: &dyn Traces) -> Option<PathConfig> {
    let directions = ["up", "down"].map(|key| reader.get(key).filter(|field| field.is_table())?.table(""));
    for table in directions.iter().flatten().chain([&reader]) {
        if let Some(preset) = table.get("preset") {
            presets::check(&preset);
        }
    }
    PathConfig::read(name, Box::new(reader), &Context { traces, also: &["preset"] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::PRESETS;
    use crate::trace::Synthetic;

    fn complaint(text: &str) -> String {
        Paths::parse("x.toml", text, &Synthetic).unwrap_err().to_string()
    }

    #[test]
    fn every_preset_is_a_path() {
        let table = |preset: &str| format!("[path.{preset}]\npreset = \"{preset}\"\n");
        let text: String = PRESETS.iter().map(|preset| table(preset.name)).collect();
        let paths = Paths::parse("x.toml", &text, &Synthetic).unwrap();
        let names: Vec<&str> = paths.paths.iter().map(|path| path.name.as_str()).collect();
        assert_eq!(names, PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>());
        assert!(paths.hops("lte").is_some_and(|hops| hops.len() == 1) && paths.hops("none").is_none());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let direction = "{ rate = \"5 Mbps\", delay = \"0 ms\" }";
        assert!(complaint("title = \"t\"").contains("needs path, for example"));
        assert!(complaint("path = { ").starts_with("x.toml:1:"));
        assert!(complaint("[path]").contains("is empty; write [path.NAME]"));
        let found = complaint(&format!("[path.p]\nup = {direction}\ndown = {direction}\n[path.q]\nhops = [\"r\"]"));
        assert!(found.contains("a queue in BDP is empty") && found.contains("x.toml:5:9: path.q.hops.0"), "{found}");
        let found = complaint("[path.p]\npreset = \"sattelite\"");
        assert!(found.contains("did you mean \"satellite\"?"), "{found}");
        let trace = "{ trace = \"drive.csv\", delay = \"5 ms\" }";
        let found = complaint(&format!("[path.p]\nup = {trace}\ndown = {trace}"));
        assert!(found.contains("there is no trace \"drive.csv\" here; write lte or leo"), "{found}");
    }
}
