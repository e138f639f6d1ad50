//! Checks of requests that the specifications demand and the libraries below leave out.
//!
//! `hyper` takes HTTP/1.1 requests without `Host` or with several, and none of the libraries minds user information in
//! an authority. What makes a message malformed on the wire of HTTP/3 is checked in thalweg-h3, and in `h2` for HTTP/2.

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Version};

/// Why the request gets 400, if it does.
pub(super) fn problem(request: &Parts) -> Option<&'static str> {
    lengths(request).or_else(|| authorities(request))
}

/// RFC 9112 section 3.2, RFC 9113 section 8.3.1, RFC 9114 section 4.3.1.
fn authorities(request: &Parts) -> Option<&'static str> {
    let mut hosts = request.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Some("The request has more than one Host field; exactly one is accepted.");
    }
    if host.is_none() && request.version == Version::HTTP_11 {
        return Some("The request has no Host field, which HTTP/1.1 requires.");
    }
    let target = request.uri.authority();
    if host.is_none() && target.is_none() && request.version > Version::HTTP_11 {
        return Some("The request names no host, neither in :authority nor in Host.");
    }
    let host = match host.map(parsed) {
        Some(None) => return Some("The Host field must be a host name, with or without a port."),
        Some(Some(host)) => Some(host),
        None => None,
    };
    // RFC 9110 section 4.2.4.
    if host.iter().chain(target).any(|authority| authority.as_str().contains('@')) {
        return Some("The request has user information before the host, which is not accepted.");
    }
    // In HTTP/1.1 the target wins (RFC 9112 section 3.2.2).
    if let (Some(host), Some(target)) = (&host, target)
        && request.version > Version::HTTP_11
        && host != target
    {
        return Some("The fields :authority and Host differ.");
    }
    None
}

fn parsed(host: &HeaderValue) -> Option<Authority> {
    host.to_str().ok()?.parse().ok()
}

/// RFC 9110 section 8.6.
fn lengths(request: &Parts) -> Option<&'static str> {
    let mut lengths = request.headers.get_all(CONTENT_LENGTH).iter().map(|value| {
        let digits = value.as_bytes();
        let number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        value.to_str().ok().filter(|_| number).and_then(|text| text.parse::<u64>().ok())
    });
    let first = lengths.next()?;
    if first.is_none() || lengths.any(|length| length != first) {
        return Some("Content-Length must be one number.");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn judged(version: Version, uri: &str, fields: &[(&str, &str)]) -> Option<&'static str> {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        problem(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn http_1_1_has_exactly_one_host() {
        let v = Version::HTTP_11;
        assert_eq!(judged(v, "/", &[("host", "a")]), None);
        assert_eq!(judged(v, "/", &[("host", "[::1]:4433")]), None);
        assert_eq!(judged(v, "https://b/", &[("host", "a")]), None);
        assert!(judged(v, "/", &[]).is_some());
        assert!(judged(v, "https://a/", &[]).is_some());
        for host in ["", "a b", "a/b", "u@a", "a:b:c@d"] {
            assert!(judged(v, "/", &[("host", host)]).is_some(), "{host:?}");
        }
        assert!(judged(v, "/", &[("host", "a"), ("host", "a")]).is_some());
        assert!(judged(v, "https://u@a/", &[("host", "a")]).is_some());
        assert_eq!(judged(Version::HTTP_10, "/", &[]), None);
        assert!(judged(Version::HTTP_10, "/", &[("host", "a"), ("host", "b")]).is_some());
    }

    #[test]
    fn later_versions_have_one_authority_without_user_information() {
        for v in [Version::HTTP_2, Version::HTTP_3] {
            assert_eq!(judged(v, "https://a/", &[]), None);
            assert_eq!(judged(v, "https://a:1/", &[("host", "a:1")]), None);
            assert_eq!(judged(v, "/", &[("host", "a")]), None);
            assert!(judged(v, "/", &[]).is_some());
            assert!(judged(v, "https://a/", &[("host", "b")]).is_some());
            assert!(judged(v, "https://u:p@a/", &[]).is_some());
        }
    }

    #[test]
    fn content_length_is_one_number() {
        let with = |values: &[&str]| {
            let fields: Vec<_> = values.iter().map(|value| ("content-length", *value)).collect();
            judged(Version::HTTP_3, "https://a/", &fields)
        };
        assert_eq!(with(&["5"]), None);
        assert_eq!(with(&["5", "5"]), None);
        for values in [&["5", "6"][..], &["x"], &[""], &["+5"], &["5, 5"], &["18446744073709551616"], &["5", "x"]] {
            assert!(with(values).is_some(), "{values:?}");
        }
    }
}
