//! The header section of a response: what it states about the body, and the bounds on its own size.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};

/// Largest header section of an answer, bytes (RFC 9114 section 4.2.2, and its like over TCP): what Chromium takes.
/// Bounds what a server can make the client hold.
pub(super) const MAX_SECTION: u32 = 256 * 1024;

/// Most fields in a header section over HTTP/1.1, where room for them is set aside before they are read.
pub(super) const MAX_FIELDS: usize = 1024;

/// The length of the body, if the server promised one.
///
/// Several equal values are one (RFC 9110 section 8.6).
///
/// # Errors
/// What is wrong: values that differ, or one that is not a number.
pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, String> {
    let mut length = None;
    for field in headers.get_all(CONTENT_LENGTH) {
        for value in field.to_str().unwrap_or("?").split(',') {
            let value = value.trim_matches([' ', '\t']);
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let Some(number) = value.parse::<u64>().ok().filter(|_| digits) else {
                return Err("the server's Content-Length is not a number".into());
            };
            if length.is_some_and(|length| length != number) {
                return Err("the server's answer has several Content-Length values that differ".into());
            }
            length = Some(number);
        }
    }
    Ok(length)
}

/// The codings that were applied to the body, in order, if it has any (RFC 9110 section 8.4).
pub(super) fn content_encoding(headers: &HeaderMap) -> Option<String> {
    let mut codings = Vec::new();
    for field in headers.get_all(CONTENT_ENCODING) {
        for coding in String::from_utf8_lossy(field.as_bytes()).split(',') {
            let coding = coding.trim().to_ascii_lowercase();
            // "identity" is reserved for Accept-Encoding, but means nothing here either.
            if !coding.is_empty() && coding != "identity" {
                // Goes to terminals and into a file of lines.
                codings.push(coding.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect::<String>());
            }
        }
    }
    (!codings.is_empty()).then(|| codings.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, values: &[&str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for value in values {
            map.append(name.clone(), value.parse().unwrap());
        }
        map
    }

    #[test]
    fn a_length_is_digits_and_the_same_everywhere() {
        let length = |values: &[&str]| content_length(&headers(CONTENT_LENGTH, values));
        assert_eq!(length(&[]), Ok(None));
        assert_eq!(length(&["7"]), Ok(Some(7)));
        assert_eq!(length(&["7", " 7 ,\t07"]), Ok(Some(7)));
        for values in [&["7", "8"][..], &["7, 8"], &["8, 8", "7"]] {
            assert!(length(values).unwrap_err().contains("differ"), "{values:?}");
        }
        for value in ["", "+7", "-7", "7 7", "7,", "0x7", "7.0", "18446744073709551616", "ü"] {
            let mut map = HeaderMap::new();
            map.append(CONTENT_LENGTH, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
            assert!(content_length(&map).unwrap_err().contains("not a number"), "{value}");
        }
        assert_eq!(length(&["18446744073709551615"]), Ok(Some(u64::MAX)));
    }

    #[test]
    fn codings_are_named_in_order_and_identity_is_none() {
        let coding = |values: &[&str]| content_encoding(&headers(CONTENT_ENCODING, values));
        assert_eq!(coding(&[]), None);
        assert_eq!(coding(&["identity", ""]), None);
        assert_eq!(coding(&["GZIP"]).as_deref(), Some("gzip"));
        assert_eq!(coding(&["gzip , br", "identity", "zstd"]).as_deref(), Some("gzip, br, zstd"));
        assert_eq!(coding(&["a\tb"]).as_deref(), Some("a?b"));
    }
}
