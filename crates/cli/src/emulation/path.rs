//! Which path packets cross: one of a file, or a preset.

use std::path::PathBuf;

use clap::Args;
use thalweg_lab::scenario::load_paths;
use thalweg_link::presets::PRESETS;
use thalweg_link::trace::Synthetic;
use thalweg_link::{DirectionConfig, PathConfig, Paths, RateModel};
use thalweg_units::{Rate, exact_duration};

use crate::failure::{Failure, Result};

/// The options that choose a path.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Path")]
pub struct PathArgs {
    /// A path by name; `thalweg lab list --presets` lists them
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Which path or chain of the file, if it has several
    #[arg(long, value_name = "NAME")]
    path: Option<String>,
    /// Seed of every choice that the path leaves to chance; the lab draws the same with the same seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// The options that choose one path or several.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Path")]
pub struct PathsArgs {
    /// A path by name; `thalweg lab list --presets` lists them. Several make as many interfaces, named after them
    #[arg(long, value_name = "NAME")]
    preset: Vec<String>,
    /// Which path or chain of the file, if it has several. Several make as many interfaces, named after them
    #[arg(long, value_name = "NAME")]
    path: Vec<String>,
    /// Seed of every choice that paths leave to chance; the lab draws the same with the same seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// A path and its name.
#[derive(Debug)]
pub struct Chosen {
    /// What it is called.
    pub name: String,
    /// From client to server.
    pub hops: Vec<PathConfig>,
}

impl PathArgs {
    /// The path that is asked for: of this file, or a preset.
    ///
    /// # Errors
    ///
    /// When it is neither or both, or when there is no such path, or it is wrong.
    pub fn choose(&self, file: Option<&PathBuf>) -> Result<Chosen> {
        let mut chosen = choose(file, self.preset.as_slice(), self.path.as_slice())?;
        chosen.pop().ok_or_else(|| Failure::usage("no path"))
    }
}

impl PathsArgs {
    /// The paths that are asked for, at least one.
    ///
    /// # Errors
    ///
    /// As for one of them.
    pub fn choose(&self, file: Option<&PathBuf>) -> Result<Vec<Chosen>> {
        choose(file, &self.preset, &self.path)
    }
}

/// The paths of a file, or the presets, at least one.
fn choose(file: Option<&PathBuf>, presets: &[String], names: &[String]) -> Result<Vec<Chosen>> {
    match (file, presets) {
        (Some(file), []) => {
            let paths = load_paths(file).map_err(Failure::usage)?;
            let names = names_of(&paths, names, &file.display().to_string())?;
            Ok(names.into_iter().map(|name| Chosen { hops: hops(&paths, &name), name }).collect())
        }
        (None, [first, ..]) => match names {
            [] => presets.iter().map(|preset| of_preset(preset)).collect(),
            [path, ..] => {
                let message = format!("--path {path} chooses from a file; --preset {first} is a path by itself");
                Err(Failure::usage(message))
            }
        },
        (Some(file), [preset, ..]) => {
            let file = file.display();
            Err(Failure::usage(format!("both {file} and --preset {preset} name a path; leave one of them out")))
        }
        (None, []) => {
            let names = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
            Err(Failure::usage(format!(
                "no path: name a file with [path.NAME], such as a scenario, or write --preset with one of {names}"
            )))
        }
    }
}

fn of_preset(preset: &str) -> Result<Chosen> {
    let text = format!("[path.\"{}\"]\npreset = \"{}\"", preset.escape_debug(), preset.escape_debug());
    let paths = Paths::parse("--preset", &text, &Synthetic).map_err(|error| {
        // What a path without a preset lacks is beside the point.
        let about = error.diagnostics.iter().find(|diagnostic| diagnostic.message.contains("preset"));
        let message = about.or(error.diagnostics.first()).map_or("", |diagnostic| &diagnostic.message);
        Failure::usage(format!("--preset: {message}"))
    })?;
    Ok(Chosen { hops: hops(&paths, preset), name: preset.to_owned() })
}

/// Which paths of the file: those that are wanted, or the only one.
fn names_of(paths: &Paths, wanted: &[String], file: &str) -> Result<Vec<String>> {
    let plain = paths.paths.iter().map(|path| &path.name);
    let names: Vec<&String> = plain.chain(paths.chains.iter().map(|chain| &chain.name)).collect();
    let all = || names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = wanted.iter().find(|name| !names.contains(name)) {
        return Err(Failure::usage(format!("{file} has no path \"{name}\"; it has {}", all())));
    }
    match (wanted, &names[..]) {
        ([], [only]) => Ok(vec![(*only).clone()]),
        ([], _) => Err(Failure::usage(format!("{file} has several paths; write --path with one of {}", all()))),
        (wanted, _) => Ok(wanted.to_vec()),
    }
}

fn hops(paths: &Paths, name: &str) -> Vec<PathConfig> {
    paths.hops(name).unwrap_or_default()
}

impl Chosen {
    /// `satellite (up 3 Mbps, 300 ms; down 250 Mbps, 300 ms)`.
    pub fn words(&self) -> String {
        let direction = |of: fn(&PathConfig) -> &DirectionConfig| {
            let configs = self.hops.iter().map(of);
            let rate = configs.clone().map(rate).min().unwrap_or(Rate::MAX);
            let delay = exact_duration(configs.map(|config| config.delay.nominal()).sum());
            if rate == Rate::MAX { format!("unlimited, {delay}") } else { format!("{rate}, {delay}") }
        };
        let (up, down) = (direction(|path| &path.up), direction(|path| &path.down));
        let traced = self.hops.iter().any(|path| path.up.trace.is_some() || path.down.trace.is_some());
        let traced = if traced { "; the rate follows a trace" } else { "" };
        format!("{} (up {up}; down {down}{traced})", self.name)
    }
}

/// The rate at the start; none known ahead is no limit.
fn rate(config: &DirectionConfig) -> Rate {
    match &config.rate {
        _ if config.trace.is_some() => Rate::MAX,
        RateModel::Constant(rate) => *rate,
        _ => config.rate.nominal(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(preset: Option<&str>, path: Option<&str>) -> PathArgs {
        PathArgs { preset: preset.map(str::to_owned), path: path.map(str::to_owned), seed: 1 }
    }

    fn complaint(args: &PathArgs, file: Option<&PathBuf>) -> String {
        args.choose(file).unwrap_err().to_string()
    }

    #[test]
    fn presets_are_paths() {
        for preset in PRESETS {
            let chosen = args(Some(preset.name), None).choose(None).unwrap();
            assert_eq!((chosen.name.as_str(), chosen.hops.len()), (preset.name, 1));
        }
        let satellite = args(Some("satellite"), None).choose(None).unwrap();
        assert_eq!(satellite.words(), "satellite (up 3 Mbps, 300 ms; down 250 Mbps, 300 ms)");
        let lte = args(Some("lte"), None).choose(None).unwrap();
        assert!(lte.words().ends_with("; the rate follows a trace)"), "{}", lte.words());
        assert!(complaint(&args(Some("sattelite"), None), None).contains("did you mean \"satellite\"?"));
        assert!(complaint(&args(Some("a\"b\n"), None), None).contains("there is no preset"));
    }

    #[test]
    fn a_file_with_several_paths_needs_a_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.toml");
        let text = "[path.home]\npreset = \"wifi\"\n[path.far]\npreset = \"satellite\"\n\
                    [path.both]\nhops = [\"home\", \"far\"]";
        std::fs::write(&file, text).unwrap();
        assert!(complaint(&args(None, None), Some(&file)).contains("write --path with one of home, far, both"));
        assert!(complaint(&args(None, Some("x")), Some(&file)).contains("has no path \"x\"; it has home, far, both"));
        let both = args(None, Some("both")).choose(Some(&file)).unwrap();
        assert_eq!((both.hops.len(), both.hops[0].name.as_str()), (2, "home"));
        assert!(complaint(&args(Some("wifi"), None), Some(&file)).contains("leave one of them out"));
        assert!(complaint(&args(Some("wifi"), Some("x")), None).contains("is a path by itself"));
        assert!(complaint(&args(None, None), None).contains("--preset with one of broadband"));
        let several = PathsArgs { preset: Vec::new(), path: vec!["far".to_owned(), "home".to_owned()], seed: 1 };
        let chosen = several.choose(Some(&file)).unwrap();
        assert_eq!(chosen.iter().map(|path| path.name.as_str()).collect::<Vec<_>>(), ["far", "home"]);
        std::fs::write(&file, "[path.p]\nup = 3").unwrap();
        assert!(complaint(&args(None, None), Some(&file)).contains("path.p"));
    }
}
