//! Requests in early data, TLS 1.3's 0-RTT (RFC 8470): what may be a replay must not change anything.
//!
//! Three things keep a replay harmless. A ticket is good for one connection (the server remembers sessions and forgets
//! each when it is used), so one server process takes the same early data at most once; after a restart it takes none
//! of the old ones, because it remembers no session. Only safe methods are answered early. Everything else waits until
//! the handshake is complete, which somebody who only repeats packets cannot bring about.

use std::time::Duration;

use http::request::Parts;
use http::{Method, StatusCode};
use thalweg::{Connection, ConnectionError, Incoming};

use crate::site::Answer;

/// How long the first answer of a connection may take to share datagrams with the end of the handshake: that of opening
/// a file and reading its first block.
const FIRST_ANSWER: Duration = Duration::from_millis(2);

/// Accepts a connection: at once if early data are wanted, else when the handshake is complete. `None` if it fails.
pub(super) async fn accept(incoming: Incoming, early_data: bool) -> Option<Connection> {
    let connecting = incoming.accept().hold(FIRST_ANSWER);
    if !early_data {
        return connecting.await.ok();
    }
    match connecting.into_0rtt() {
        Ok((connection, _)) => Some(connection),
        Err(connecting) => connecting.await.ok(),
    }
}

/// Whether doing it twice is as good as once (RFC 9110 section 9.2.1).
fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Returns when the request may be answered, and whether it is early then.
///
/// # Errors
/// If the connection is lost before.
pub(super) async fn admit(connection: &Connection, request: &Parts) -> Result<bool, ConnectionError> {
    let early = connection.is_handshaking();
    if early && !is_safe(&request.method) {
        connection.handshake_complete().await?;
        return Ok(false);
    }
    Ok(early)
}

/// The answer to a request that somebody in between received in early data and passed on (RFC 8470 section 5.1), if it
/// must not be done: there is no handshake here to wait for, only the sender can repeat it (section 5.2).
pub(super) fn refuse_forwarded(request: &Parts) -> Option<Answer> {
    let early = request.headers.get_all("early-data").iter().any(|value| value.as_bytes().trim_ascii() == b"1");
    (early && !is_safe(&request.method)).then(|| {
        Answer::error(
            StatusCode::TOO_EARLY,
            "This request was sent in TLS early data and may be a replay; send it again after the handshake.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn only_what_changes_something_is_too_early() {
        let refused = |method: Method, value: &str| {
            let request = Request::builder().method(method).header("Early-Data", value).body(()).unwrap();
            refuse_forwarded(&request.into_parts().0).map(|answer| answer.status.as_u16())
        };
        for method in [Method::PUT, Method::POST, Method::DELETE, Method::PATCH] {
            assert_eq!(refused(method.clone(), "1"), Some(425), "{method}");
            assert_eq!(refused(method, "0"), None);
        }
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            assert_eq!(refused(method, "1"), None);
        }
    }
}
