//! Names of files after their content.

use crate::hash::Digest;

/// A name for a file after its content.
pub(crate) fn file_name(parts: &[&str]) -> String {
    let mut out = String::new();
    for c in parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ").chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '+' || c == '.' => out.push(c),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    if out.len() <= MOST_NAME {
        return out;
    }
    // What is cut off may be all that tells two names apart.
    let digest = Digest::of(parts.join("\n").as_bytes());
    out.truncate(MOST_NAME - digest.short().len() - 1);
    format!("{out}-{}", digest.short())
}

/// The longest name of a file without its extension: systems take 255 bytes.
const MOST_NAME: usize = 180;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_files_stay_apart() {
        let long = |end: &str| file_name(&[&"policies = something long, ".repeat(10), end]);
        let (one, other) = (long("window"), long("rtt"));
        assert_ne!(one, other);
        assert!(one.len() <= 180 && other.len() <= 180);
        assert_eq!(file_name(&["a = b, seed 1", "window"]), "a-b-seed-1-window");
    }
}
