//! JSON text: formatted pieces, hexadecimal digits, and strings that stay inside their quotes.

use std::fmt::Write as _;

/// Formats into a string, which cannot fail.
pub(super) fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(arguments);
}

pub(super) fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        put(out, format_args!("{byte:02x}"));
    }
}

/// A JSON string (RFC 8259 section 7): whatever a peer puts into a reason phrase stays inside the quotes.
pub(super) fn string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if control < ' ' => put(out, format_args!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}
