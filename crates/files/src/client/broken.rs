//! Reasons of broken exchanges, in words for people: the libraries' own are for programmers.

use std::error::Error as _;
use std::io;

use super::head::{MAX_FIELDS, MAX_SECTION};

/// How an answer's body broke off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    /// What happened, for a person.
    pub why: String,
    /// Whether the server cancelled this answer and nothing else: its connection may well serve another request.
    pub cancelled: bool,
}

impl Broken {
    /// Of an answer over TCP.
    pub(super) fn tcp(error: hyper::Error) -> Self {
        let cancelled = http2(&error).is_some_and(|error| error.is_reset() && error.is_remote());
        Self { why: why_tcp(error), cancelled }
    }
}

fn http2(error: &hyper::Error) -> Option<&h2::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Why an exchange over TCP failed.
pub(super) fn why_tcp(error: hyper::Error) -> String {
    if error.is_parse_too_large() {
        return format!("the server sent a header section of more than {MAX_SECTION} bytes or {MAX_FIELDS} fields");
    }
    if let Some(error) = http2(&error) {
        return why_http2(error);
    }
    // The body of an upload, which is read here.
    if error.is_user() {
        return error.source().map_or_else(|| "the request was given up at this end".into(), ToString::to_string);
    }
    if error.is_parse() {
        return malformed(&error.to_string()).into();
    }
    if error.is_incomplete_message() {
        return "the server closed the connection before it answered".into();
    }
    if error.is_timeout() {
        return "the server does not answer any more".into();
    }
    if error.is_canceled() || error.is_closed() {
        return "the connection was closed before the request was answered".into();
    }
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(source) => why_io(source),
        None => "the connection to the server broke".into(),
    }
}

/// What is wrong with a head of HTTP/1.1, of which the library reports no more than a phrase.
fn malformed(phrase: &str) -> &'static str {
    match phrase {
        phrase if phrase.contains("content-length") => {
            "the server's answer is malformed: its Content-Length is no number, or has values that differ"
        }
        phrase if phrase.contains("transfer-encoding") => {
            "the server's answer is malformed: its Transfer-Encoding cannot be used"
        }
        phrase if phrase.contains("header") => "the server's answer is malformed: a header field is not well formed",
        _ => "the server's answer is not HTTP",
    }
}

fn why_http2(error: &h2::Error) -> String {
    let reason = error.reason().map(|reason| format!(" ({})", name(reason))).unwrap_or_default();
    if error.is_library() {
        return match error.reason() {
            // The library does not tell the two apart.
            Some(h2::Reason::PROTOCOL_ERROR) if error.is_reset() => {
                format!(
                    "the server's answer is malformed, or it sent a header section of more than {MAX_SECTION} bytes"
                )
            }
            Some(h2::Reason::ENHANCE_YOUR_CALM | h2::Reason::COMPRESSION_ERROR) if error.is_go_away() => {
                format!("the server sent a header section of more than {MAX_SECTION} bytes")
            }
            _ => format!("the server broke the rules of HTTP/2{reason}"),
        };
    }
    if error.is_reset() {
        return format!("the server cancelled the request{reason}");
    }
    if error.is_go_away() {
        return format!("the server closed the connection{reason}");
    }
    error.get_io().map_or_else(|| format!("the connection to the server broke{reason}"), why_io)
}

/// The name of a code as RFC 9113 section 7 has it.
fn name(reason: h2::Reason) -> String {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    let code = u32::from(reason);
    let known = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    known.map_or_else(|| format!("code {code:#x}"), |name| (*name).to_owned())
}

fn why_io(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the server closed the connection in the middle of its answer".into(),
        io::ErrorKind::ConnectionReset => "the server reset the connection".into(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected => "the server closed the connection".into(),
        // What HTTP/1.1's chunks are found to be.
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => "the server's answer is malformed".into(),
        io::ErrorKind::TimedOut => "the server does not answer any more".into(),
        _ => format!("the connection to the server broke: {}", super::session::chain_io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_http2_have_the_names_of_the_rfc() {
        assert_eq!(name(h2::Reason::INTERNAL_ERROR), "INTERNAL_ERROR");
        assert_eq!(name(h2::Reason::HTTP_1_1_REQUIRED), "HTTP_1_1_REQUIRED");
        assert_eq!(name(h2::Reason::from(0x1234)), "code 0x1234");
        let reset = h2::Error::from(h2::Reason::REFUSED_STREAM);
        assert!(why_http2(&reset).ends_with("(REFUSED_STREAM)"), "{}", why_http2(&reset));
    }

    #[test]
    fn errors_of_the_connection_are_told_in_words() {
        for (kind, words) in [
            (io::ErrorKind::UnexpectedEof, "in the middle"),
            (io::ErrorKind::ConnectionReset, "reset"),
            (io::ErrorKind::InvalidInput, "malformed"),
        ] {
            assert!(why_io(&kind.into()).contains(words), "{kind}");
        }
        let tls = io::Error::other(rustls::Error::DecryptError);
        assert!(why_io(&tls).contains("decrypt"), "{}", why_io(&tls));
    }
}
