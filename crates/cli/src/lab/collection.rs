//! The folder for results of several scenarios, and the one report of all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use thalweg_lab::report;
use thalweg_lab::results::Results;
use thalweg_lab::scenario::Scenario;
use thalweg_lab::store::write_whole;

use crate::failure::{Failure, Result};

/// Where results go: where the caller says; otherwise `results/NAME` of the one scenario or the one folder named, or
/// `results/all`.
pub(super) fn root(named: &[PathBuf], out: Option<&Path>, first: Option<&Scenario>, several: bool) -> PathBuf {
    if let Some(out) = out {
        return out.to_owned();
    }
    let name = match (named, first) {
        (_, Some(scenario)) if !several => scenario.name.clone(),
        ([folder], _) => {
            // "." and ".." have a name too.
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            folder.file_name().map_or_else(|| "all".to_owned(), |name| name.to_string_lossy().into_owned())
        }
        _ => "all".to_owned(),
    };
    Path::new("results").join(name)
}

/// A directory for the results of each scenario; two scenarios of one name get two.
pub(super) fn directories(scenarios: &[Scenario], root: &Path, several: bool) -> Vec<PathBuf> {
    if !several {
        return vec![root.to_owned()];
    }
    let mut taken = BTreeSet::new();
    scenarios
        .iter()
        .map(|scenario| {
            let folder = Path::new(&scenario.file).parent().and_then(Path::file_name);
            let longer = folder.map(|folder| format!("{}-{}", folder.to_string_lossy(), scenario.name));
            let numbered = (2..).map(|number| format!("{}-{number}", scenario.name));
            let names = [scenario.name.clone()].into_iter().chain(longer).chain(numbered);
            let name = names.into_iter().find(|name| taken.insert(name.clone())).unwrap_or_default();
            root.join(name)
        })
        .collect()
}

/// The results in a directory: itself, or those in the folders of a collection.
pub(super) fn inside(directory: &Path) -> Vec<PathBuf> {
    let own = directory.join("manifest.json").is_file();
    let mut folders: Vec<PathBuf> = std::fs::read_dir(directory)
        .map(|entries| entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
        .unwrap_or_default();
    folders.retain(|folder| folder.join("manifest.json").is_file());
    folders.sort();
    // A directory without results is named by the error about its manifest.
    if own || folders.is_empty() { vec![directory.to_owned()] } else { folders }
}

/// The parts of a sharded sweep that belong together: by the name of the scenario's folder, which is empty where a part
/// is the results of one scenario itself.
pub(super) fn parts(directories: &[PathBuf]) -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let mut parts: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for directory in directories {
        for folder in inside(directory) {
            let name = folder.strip_prefix(directory).unwrap_or(Path::new("")).to_owned();
            parts.entry(name).or_default().push(folder);
        }
    }
    parts
}

/// Writes the report of all.
pub(super) fn write(root: &Path, sets: &[Results]) -> Result<PathBuf> {
    let name = root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let page = report::collection(&format!("Scenarios: {name}"), sets, root).map_err(Failure::failed)?;
    let path = root.join("report.html");
    write_whole(&path, page.as_bytes()).map_err(Failure::failed)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(file: &str) -> Scenario {
        let text = "title = \"t\"\nquestion = \"q?\"\n[path.p]\npreset = \"broadband\"\n[[flow]]\ntransfer = { download = \"1 MB\" }\n";
        Scenario::parse(file, text, Path::new(""), &[thalweg_lab::scenario::StackInfo::new("thalweg")]).unwrap()
    }

    #[test]
    fn every_scenario_has_a_place_of_its_own() {
        let all = ["a/x.toml", "b/x.toml", "b/y.toml", "c/b/x.toml"].map(scenario);
        let names = directories(&all, Path::new("r"), true);
        assert_eq!(names, ["r/x", "r/b-x", "r/y", "r/x-2"].map(PathBuf::from));
        assert_eq!(directories(&all[..1], Path::new("r"), false), [PathBuf::from("r")]);
    }

    #[test]
    fn results_go_where_their_name_says() {
        let one = scenario("s/x.toml");
        let paths = |named: &[&str]| named.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(root(&paths(&["s/x.toml"]), None, Some(&one), false), Path::new("results/x"));
        assert_eq!(root(&paths(&["s/recovery/"]), None, Some(&one), true), Path::new("results/recovery"));
        assert_eq!(root(&paths(&["a.toml", "b.toml"]), None, Some(&one), true), Path::new("results/all"));
        assert_eq!(root(&paths(&["s"]), Some(Path::new("o")), Some(&one), true), Path::new("o"));
    }
}
