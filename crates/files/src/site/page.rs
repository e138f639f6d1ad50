//! The pages the server writes itself: directory listings and errors. Self-contained, no scripts, everything escaped.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use http::StatusCode;

use super::path::{CleanPath, encode_segment};
use crate::calendar::Civil;

/// Most entries a listing shows. A page of 10 000 rows is about 2 MB; beyond that a browser is the wrong tool.
pub(super) const MAX_ENTRIES: usize = 10_000;

const STYLE: &str = "<style>\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.3rem;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
th{text-align:left;font-weight:600;border-bottom:1px solid #8888}\
th,td{padding:.2rem .8rem .2rem 0}\
td:first-child{overflow-wrap:anywhere}\
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
tbody tr:hover{background:#8882}\
a{text-decoration:none}a:hover{text-decoration:underline}\
footer{margin-top:1.5rem;font-size:.85rem;opacity:.7}\
</style>";

/// `text` as it may stand in HTML text and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters and those that turn the writing direction could make a name look like another.
            c if c.is_control() => out.push('\u{fffd}'),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title>{STYLE}</head>\n<body>{body}<footer>thalweg</footer></body></html>\n"
    )
}

/// A page with the error and, where there is one, the remedy.
pub(super) fn error(status: StatusCode, detail: &str) -> String {
    let reason = status.canonical_reason().unwrap_or("Error");
    let title = format!("{} {reason}", status.as_u16());
    let mut body = format!("<h1>{title}</h1>");
    if !detail.is_empty() {
        let _ = write!(body, "<p>{}</p>", escape(detail));
    }
    document(&title, &body)
}

struct Entry {
    name: std::ffi::OsString,
    directory: bool,
    size: u64,
    modified: Option<SystemTime>,
}

/// The listing of the directory that can be read at `directory`, whose real place is `real` below `root`.
///
/// Left out are hidden names (unless `hidden`), what cannot be looked at, what is neither a file nor a directory, and
/// symbolic links that lead out of the root: exactly what a request for it would not get.
pub(super) fn listing(
    root: &Path,
    directory: &Path,
    real: &Path,
    path: &CleanPath,
    hidden: bool,
) -> std::io::Result<String> {
    let mut entries = Vec::new();
    let mut left_out = 0usize;
    for entry in fs::read_dir(directory)? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        if (!hidden && bytes.starts_with(b".")) || super::temporary::is_temporary(bytes) {
            continue;
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_symlink() && !fs::canonicalize(real.join(&name)).is_ok_and(|target| target.starts_with(root)) {
            continue;
        }
        let Ok(metadata) = fs::metadata(entry.path()) else {
            continue;
        };
        if !metadata.is_file() && !metadata.is_dir() {
            continue;
        }
        if entries.len() == MAX_ENTRIES {
            left_out += 1;
            continue;
        }
        entries.push(Entry {
            name,
            directory: metadata.is_dir(),
            size: metadata.len(),
            modified: metadata.modified().ok(),
        });
    }
    entries.sort_by(|a, b| b.directory.cmp(&a.directory).then_with(|| a.name.cmp(&b.name)));

    let title = escape(&path.display());
    let mut body = format!(
        "<h1>{title}</h1><table><thead><tr><th>Name</th><th class=\"n\">Size</th>\
         <th class=\"n\">Modified (UTC)</th></tr></thead><tbody>\n"
    );
    if !path.is_root() {
        body.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for entry in &entries {
        let slash = if entry.directory { "/" } else { "" };
        // "./" keeps a name such as "a:b" from being read as a URL with a scheme; percent-encoding already covers it.
        let link = encode_segment(entry.name.as_encoded_bytes());
        let name = escape(&entry.name.to_string_lossy());
        let size = if entry.directory { String::new() } else { human_size(entry.size) };
        let modified = entry.modified.map(|time| Civil::from_system(time).short()).unwrap_or_default();
        let _ = writeln!(
            body,
            "<tr><td><a href=\"./{link}{slash}\">{name}{slash}</a></td><td class=\"n\" title=\"{} bytes\">{size}</td>\
             <td class=\"n\">{modified}</td></tr>",
            entry.size
        );
    }
    body.push_str("</tbody></table>\n");
    if entries.is_empty() {
        body.push_str("<p>This directory is empty.</p>");
    }
    if left_out > 0 {
        let _ = write!(body, "<p>… and {left_out} more that are not shown.</p>");
    }
    Ok(document(&format!("Index of {title}"), &body))
}

/// `0 B`, `999 B`, `1.5 kB`, `12.3 GB`: powers of 1000, like rates.
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    // Tenths of the unit, rounded half up; one more unit when rounding reaches 1000.
    let mut scale: u128 = 1000;
    let mut unit = 0;
    loop {
        let tenths = (u128::from(bytes) * 10 + scale / 2) / scale;
        if tenths < 10_000 || unit + 1 == UNITS.len() {
            return format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]);
        }
        scale *= 1000;
        unit += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well_and_never_show_four_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1550, "1.6 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (10_000_000, "10.0 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(human_size(bytes), text);
        }
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for name in ["<script>alert(1)<", "a\"onx='", "a&b", "ü #?%", "a:b", ".hidden", "\u{202e}gpj"] {
            fs::write(root.join(name), "x").unwrap();
        }
        fs::create_dir(root.join("sub dir")).unwrap();
        let path = CleanPath::parse("/", false).unwrap();
        let page = listing(&root, &root, &root, &path, false).unwrap();
        assert!(page.contains("&lt;script&gt;alert(1)&lt;"));
        assert!(!page.contains("<script>"));
        assert!(page.contains("href=\"./%C3%BC%20%23%3F%25\">ü #?%</a>"));
        assert!(page.contains("href=\"./a%22onx%3D%27\">a&quot;onx=&#39;</a>"));
        assert!(page.contains("href=\"./sub%20dir/\">sub dir/</a>"));
        assert!(page.contains("href=\"./a%3Ab\""));
        assert!(!page.contains("hidden"));
        assert!(!page.contains('\u{202e}'));
        assert!(!page.contains("../"));
        let at = |text: &str| page.find(text).unwrap();
        assert!(at("sub dir/<") < at(">a&amp;b<"));
        let path = CleanPath::parse("/x/", false).unwrap();
        let page = listing(&root, &root, &root, &path, true).unwrap();
        assert!(page.contains(".hidden") && page.contains("../"));
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_are_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::write(root.join("file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", root.join("leading-out")).unwrap();
        std::os::unix::fs::symlink("nothing", root.join("broken")).unwrap();
        std::os::unix::fs::symlink("file", root.join("inner")).unwrap();
        let path = CleanPath::parse("/", false).unwrap();
        let page = listing(&root, &root, &root, &path, false).unwrap();
        assert!(page.contains("inner"));
        assert!(!page.contains("leading-out") && !page.contains("broken"));
    }

    #[test]
    fn an_error_page_escapes_its_detail() {
        let page = error(StatusCode::NOT_FOUND, "no <b>");
        assert!(page.contains("404 Not Found") && page.contains("no &lt;b&gt;"));
    }
}
