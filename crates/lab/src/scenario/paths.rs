//! The paths of a scenario file without the rest of it, for what runs them in real time.

use std::path::Path;

use thalweg_link::Paths;
use thalweg_link::document::Diagnostic;

use super::ScenarioError;
use super::files::{self, Traces};

/// Reads the `[path.NAME]` tables of a scenario file, or of a file that has nothing else. Traces are files beside it.
///
/// # Errors
/// Everything wrong with its paths, or why it cannot be read.
pub fn load_paths(file: &Path) -> Result<Paths, ScenarioError> {
    let name = file.display().to_string();
    match files::text(file, files::MOST_SCENARIO) {
        Ok(text) => Paths::parse(&name, &text, &Traces::new(file.parent().unwrap_or(Path::new("")))),
        Err(reason) => {
            let message = format!("cannot read this file: {reason}; write the path of a file in TOML with [path.NAME]");
            let diagnostic =
                Diagnostic { file: name, line: 1, column: 1, key: String::new(), message, excerpt: String::new() };
            Err(ScenarioError { diagnostics: vec![diagnostic], more: 0 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_the_rest_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.toml");
        std::fs::write(directory.path().join("t.mahi"), "1\n2\n").unwrap();
        let text = "title = 7\n[path.p]\nup = { trace = \"t.mahi\", delay = \"1 ms\", queue = \"10 packets\" }\n\
                    down = { rate = \"1 Mbps\", delay = \"1 ms\" }";
        std::fs::write(&file, text).unwrap();
        assert_eq!(load_paths(&file).unwrap().paths.len(), 1);
        std::fs::write(&file, text.replace("1 Mbps", "1 Mps")).unwrap();
        assert!(load_paths(&file).unwrap_err().to_string().contains("path.p.down.rate"));
        assert!(load_paths(directory.path()).unwrap_err().to_string().contains("it is a directory"));
    }
}
