//! Errors of `h3` in words for people: its own texts show Rust's debug output.
//!
//! Its variants are open to additions, so they are matched with braces, also where they are tuples.

use h3::error::{Code, ConnectionError, LocalError, StreamError};
use h3::quic::ConnectionErrorIncoming;

/// Says why a request failed, without capital letter and full stop.
#[must_use]
pub fn describe(error: &StreamError) -> String {
    match error {
        StreamError::StreamError { code, reason, .. } => broken(reason, *code),
        StreamError::RemoteTerminate { code, .. } => format!("the peer cancelled the request ({code})"),
        StreamError::ConnectionError { 0: error, .. } => describe_connection(error),
        StreamError::HeaderTooBig { actual_size, max_size, .. } => {
            format!("a header section of {actual_size} bytes is larger than the {max_size} accepted")
        }
        StreamError::RemoteClosing { .. } => "the peer is closing the connection and takes no more requests".into(),
        StreamError::Undefined { 0: source, .. } => source.to_string(),
        _ => "the request failed for an unknown reason".into(),
    }
}

/// Says why an HTTP/3 connection failed, without capital letter and full stop.
#[must_use]
pub fn describe_connection(error: &ConnectionError) -> String {
    match error {
        ConnectionError::Local { error: LocalError::Application { code, reason, .. }, .. } => match *code {
            Code::H3_NO_ERROR => "this end closed the connection".into(),
            Code::H3_INTERNAL_ERROR => format!("this end failed: {}", plain(reason)),
            code => broken(reason, code),
        },
        ConnectionError::Local { .. } => "this end is closing the connection".into(),
        ConnectionError::Remote { 0: ConnectionErrorIncoming::ApplicationClose { error_code }, .. } => {
            match Code::from(*error_code) {
                Code::H3_NO_ERROR => "the peer closed the connection".into(),
                code => format!("the peer closed the connection ({code})"),
            }
        }
        ConnectionError::Remote { 0: ConnectionErrorIncoming::Undefined(source), .. } => source.to_string(),
        ConnectionError::Remote { 0: ConnectionErrorIncoming::InternalError(reason), .. } => {
            format!("this end failed: {}", plain(reason))
        }
        ConnectionError::Timeout { .. } | ConnectionError::Remote { 0: ConnectionErrorIncoming::Timeout, .. } => {
            "the connection timed out: nothing was received from the peer for the idle timeout".into()
        }
        _ => "the connection failed for an unknown reason".into(),
    }
}

fn broken(reason: &str, code: Code) -> String {
    format!("the peer broke a rule of HTTP/3: {} ({code})", plain(reason))
}

/// The reason without what `h3` prints of its own types: in "unexpected frame: Settings(..)", all after the colon.
/// Numbers stay.
fn plain(reason: &str) -> String {
    let text = match reason.split_once(": ") {
        Some((text, rest)) if !rest.bytes().all(|byte| byte.is_ascii_digit()) => text,
        _ => reason,
    };
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_lose_the_debug_output_and_keep_numbers() {
        for (reason, text) in [
            ("unexpected frame: Settings(Settings { entries: [] })", "unexpected frame"),
            ("First response frame is not headers", "first response frame is not headers"),
            ("invalid stream id: 7", "invalid stream id: 7"),
            ("", ""),
        ] {
            assert_eq!(plain(reason), text);
        }
    }
}
