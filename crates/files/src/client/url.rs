//! URLs of the `https` scheme, and what a redirect makes of them.

use http::Uri;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use rustls::pki_types::ServerName;

use super::error::Error;

/// What a person may type into a URL though RFC 3986 wants it encoded.
const SLOPPY: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// A place a file can be fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    /// Always absolute, with a path.
    pub uri: Uri,
    /// Without brackets.
    pub host: String,
    pub port: u16,
}

impl Location {
    /// Reads a URL; without a scheme it is taken to be `https`.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let fail = |why| Error::Url { url: text.to_owned(), why };
        let trimmed = text.trim();
        let trimmed = trimmed.split('#').next().unwrap_or("");
        let rest = match trimmed.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => {
                return Err(fail("plain http is not supported, HTTP/3 is always encrypted; write https://"));
            }
            Some(_) => return Err(fail("unknown scheme; write https://HOST[:PORT]/PATH")),
            None => trimmed,
        };
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(split);
        if authority.is_empty() {
            return Err(fail("the host is missing; write https://HOST[:PORT]/PATH"));
        }
        if authority.contains('@') {
            return Err(fail("user names in URLs are not supported; pass an Authorization header instead"));
        }
        if !authority.is_ascii() {
            return Err(fail("the host name must be ASCII; write an international name in its xn-- form"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = utf8_percent_encode(path, SLOPPY);
        let uri: Uri = format!("https://{authority}{slash}{path}")
            .parse()
            .map_err(|_| fail("not a URL; write https://HOST[:PORT]/PATH"))?;
        let host = uri.host().unwrap_or("").trim_matches(['[', ']']).to_ascii_lowercase();
        if host.is_empty() {
            return Err(fail("the host is missing; write https://HOST[:PORT]/PATH"));
        }
        let port = match uri.port() {
            Some(port) if port.as_u16() == 0 => return Err(fail("port 0 cannot be connected to")),
            Some(port) => port.as_u16(),
            // The Uri type drops ports it cannot read.
            None if authority.rsplit(']').next().is_some_and(|tail| tail.contains(':')) => {
                return Err(fail("the port must be a number from 1 to 65535"));
            }
            None => 443,
        };
        Ok(Self { uri, host, port })
    }

    /// Host and port, as connections are kept by.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(super) fn server_name(&self) -> Result<ServerName<'static>, Error> {
        ServerName::try_from(self.host.clone()).map_err(|_| Error::Url {
            url: self.uri.to_string(),
            why: "the host is neither a host name nor an IP address",
        })
    }

    /// Where a `Location` header leads from here (RFC 3986 section 5.2).
    pub(super) fn join(&self, reference: &str) -> Result<Self, Error> {
        let reference = reference.trim();
        let has_scheme = reference
            .split_once(':')
            .is_some_and(|(scheme, _)| !scheme.is_empty() && !scheme.contains(['/', '?', '#']));
        if has_scheme {
            return Self::parse(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::parse(&format!("https://{rest}"));
        }
        let reference = reference.split('#').next().unwrap_or("");
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (reference, None),
        };
        let base = self.uri.path();
        let (path, query) = if path.is_empty() {
            (base.to_owned(), query.or(self.uri.query()))
        } else if path.starts_with('/') {
            (path.to_owned(), query)
        } else {
            let directory = base.rsplit_once('/').map_or("", |(directory, _)| directory);
            (format!("{directory}/{path}"), query)
        };
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        Self::parse(&format!("https://{}{}{query}", self.authority(), without_dots(&path)))
    }
}

/// RFC 3986 section 5.2.4.
fn without_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    out.pop();
                }
                if last {
                    out.push("");
                }
            }
            other => out.push(other),
        }
    }
    format!("/{}", out.join("/"))
}

/// The name a file from this URL would have on disk: the last path segment, decoded. One that has control characters or
/// is not UTF-8 stays encoded. `None` when there is none that is safe.
#[must_use]
pub fn file_name(url: &str) -> Option<String> {
    let location = Location::parse(url).ok()?;
    let last = location.uri.path().rsplit('/').next()?;
    let decoded = percent_decode_str(last).decode_utf8().ok().filter(|name| !name.chars().any(char::is_control));
    let name = decoded.map_or_else(|| last.to_owned(), |name| name.into_owned());
    let separators: &[char] = if cfg!(unix) { &['/'] } else { &['/', '\\', ':'] };
    // No server has a name with these.
    let impossible = percent_decode_str(last).any(|byte| matches!(byte, b'/' | 0));
    let harmless = !name.is_empty() && name != "." && name != ".." && !name.contains(separators) && !impossible;
    harmless.then_some(name)
}

/// Whether this is a URL that files can be fetched from and stored at. Nothing is asked of the network.
///
/// # Errors
/// [`Error::Url`], which states what would be accepted.
pub fn check_url(url: &str) -> Result<(), Error> {
    let location = Location::parse(url)?;
    location.server_name().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_are_read_and_the_authority_is_taken_out() {
        let location = Location::parse("https://Example.com:4433/a b/ü?q=1#frag").unwrap();
        assert_eq!(location.uri.to_string(), "https://Example.com:4433/a%20b/%C3%BC?q=1");
        assert_eq!(location.authority(), "example.com:4433");
        let location = Location::parse("[::1]:4433").unwrap();
        assert_eq!(location.authority(), "[::1]:4433");
        assert_eq!(location.uri.path(), "/");
        assert_eq!(Location::parse("https://h?x").unwrap().uri.to_string(), "https://h/?x");
        assert_eq!(Location::parse("HTTPS://h/%41").unwrap().port, 443);
        assert!(Location::parse("https://127.0.0.1/").unwrap().server_name().is_ok());
        assert!(Location::parse("https://[::1]/").unwrap().server_name().is_ok());
    }

    #[test]
    fn urls_that_cannot_be_used_say_what_would_be() {
        for (url, word) in [
            ("http://h/", "https"),
            ("ftp://h/", "scheme"),
            ("https://u:p@h/", "Authorization"),
            ("https://ü.de/", "xn--"),
            ("https:///x", "host"),
            ("https://h:0/", "port"),
            ("https://h:99999/", "port"),
            ("", "host"),
        ] {
            let error = Location::parse(url).unwrap_err().to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn redirects_resolve_as_in_rfc_3986_section_5_4() {
        let base = Location::parse("https://a/b/c/d;p?q").unwrap();
        for (reference, target) in [
            ("g", "https://a/b/c/g"),
            ("./g", "https://a/b/c/g"),
            ("g/", "https://a/b/c/g/"),
            ("/g", "https://a/g"),
            ("//g", "https://g/"),
            ("?y", "https://a/b/c/d;p?y"),
            ("g?y", "https://a/b/c/g?y"),
            ("#s", "https://a/b/c/d;p?q"),
            ("", "https://a/b/c/d;p?q"),
            (".", "https://a/b/c/"),
            ("..", "https://a/b/"),
            ("../g", "https://a/b/g"),
            ("../../../g", "https://a/g"),
            ("/a:b", "https://a/a:b"),
            ("https://other:1/x", "https://other:1/x"),
        ] {
            let joined = base.join(reference).unwrap();
            let target = Location::parse(target).unwrap();
            assert_eq!(joined.uri.path_and_query(), target.uri.path_and_query(), "{reference}");
            assert_eq!(joined.authority(), target.authority(), "{reference}");
        }
        assert!(base.join("http://a/").is_err());
        assert!(base.join("file:///etc/passwd").is_err());
        assert!(base.join("mailto:x").is_err());
    }

    #[test]
    fn names_for_disk_are_harmless() {
        assert_eq!(file_name("https://h/a/b%20c.bin?x").as_deref(), Some("b c.bin"));
        // What a terminal or a script may trip over stays as the URL has it.
        assert_eq!(file_name("https://h/a%0Ab").as_deref(), Some("a%0Ab"));
        assert_eq!(file_name("https://h/%FF").as_deref(), Some("%FF"));
        if cfg!(unix) {
            assert_eq!(file_name("https://h/a%5Cb").as_deref(), Some("a\\b"));
            assert_eq!(file_name("https://h/a:b").as_deref(), Some("a:b"));
        }
        for url in
            ["https://h/", "https://h/a/", "https://h/..", "https://h/a%2Fb", "https://h/%00", "https://h/%2e%2e"]
        {
            assert_eq!(file_name(url), None, "{url}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", reference in "\\PC*") {
            let _ = Location::parse(&text);
            let _ = file_name(&text);
            let _ = Location::parse("https://h/a/b").unwrap().join(&reference);
        }
    }
}
