//! The access log: one line per request, in the shape of the "combined" format with protocol, bytes and duration.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::account::{Account, Charge};
use crate::calendar::Civil;

/// What happened to one request. [`fmt::Display`] is the log line, without a newline.
///
/// `192.0.2.7 - - [20/Nov/2026:18:57:00 +0000] "GET /a.bin HTTP/3" 200 1048576 "-" "thalweg/0.1.0" 0.031s`, with
/// ` aborted` at the end when the answer did not get through completely, and the reason in parentheses if it lies with
/// this server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AccessRecord {
    /// Who asked.
    pub peer: SocketAddr,
    /// When the request arrived.
    pub time: SystemTime,
    /// Request method.
    pub method: http::Method,
    /// Path and query as they came.
    pub target: String,
    /// `HTTP/1.1`, `HTTP/2`, `HTTP/3`.
    pub protocol: &'static str,
    /// Status code of the answer.
    pub status: u16,
    /// Bytes of the body handed to the transport (for uploads: received).
    pub bytes: u64,
    /// From the request's arrival until the last byte was handed to the transport; over HTTP/3, until it was
    /// acknowledged.
    pub duration: Duration,
    /// Whether it was answered in early data (0-RTT), before the handshake was complete.
    pub early_data: bool,
    /// The `Referer` header.
    pub referer: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: Option<String>,
    /// False when the client went away or a file could not be read to its end.
    pub complete: bool,
    /// Why this server broke the answer off, for instance because the file changed while it was being sent.
    pub reason: Option<String>,
}

/// Where access records go. Called once per request, from the runtime's threads: it must not block for long.
pub type AccessLog = Arc<dyn Fn(&AccessRecord) + Send + Sync>;

impl fmt::Display for AccessRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = |text: &Option<String>| match text {
            Some(text) => Escaped(text.clone()),
            None => Escaped("-".into()),
        };
        write!(
            f,
            "{} - - [{}] \"{} {} {}\" {} {} \"{}\" \"{}\" {:.3}s",
            self.peer.ip().to_canonical(),
            Civil::from_system(self.time).log(),
            self.method,
            Escaped(self.target.clone()),
            self.protocol,
            self.status,
            self.bytes,
            dash(&self.referer),
            dash(&self.user_agent),
            self.duration.as_secs_f64(),
        )?;
        if !self.complete {
            f.write_str(" aborted")?;
            if let Some(reason) = &self.reason {
                write!(f, " ({})", Escaped(reason.clone()))?;
            }
        }
        Ok(())
    }
}

/// Text from a peer: what could end the field, the line or a terminal's patience is written as `\xHH`.
struct Escaped(String);

impl fmt::Display for Escaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\x{byte:02x}")?,
                0x20..=0x7e => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}

/// The part of a record known when the request arrives; becomes a record when the answer is done or dropped.
pub(crate) struct Entry {
    record: AccessRecord,
    started: std::time::Instant,
    log: Option<AccessLog>,
    account: Option<Arc<Account>>,
}

impl Entry {
    pub(crate) fn new(
        log: Option<AccessLog>,
        peer: SocketAddr,
        protocol: &'static str,
        request: &http::request::Parts,
    ) -> Self {
        let text = |name| {
            let value = request.headers.get(name)?;
            Some(String::from_utf8_lossy(http::HeaderValue::as_bytes(value)).into_owned())
        };
        Self {
            record: AccessRecord {
                peer,
                time: SystemTime::now(),
                method: request.method.clone(),
                target: request.uri.path_and_query().map_or_else(|| request.uri.to_string(), ToString::to_string),
                protocol,
                status: 0,
                bytes: 0,
                duration: Duration::ZERO,
                early_data: false,
                referer: text(http::header::REFERER),
                user_agent: text(http::header::USER_AGENT),
                complete: false,
                reason: None,
            },
            started: std::time::Instant::now(),
            log,
            account: None,
        }
    }

    /// Names the connection, which may be dropped with all its requests.
    pub(crate) fn of(mut self, account: &Arc<Account>) -> Self {
        self.account = Some(Arc::clone(account));
        self
    }

    /// Counts bytes that are held for the request.
    pub(crate) fn charge(&self, bytes: usize) -> Option<Charge> {
        self.account.as_ref().map(|account| account.charge(bytes as u64))
    }

    /// Whether the server has no memory left for data.
    pub(crate) fn is_memory_spent(&self) -> bool {
        self.account.as_ref().is_some_and(|account| account.left() == 0)
    }

    /// The client sent so many bytes.
    pub(crate) fn add_received(&mut self, bytes: usize) {
        self.add_bytes(bytes);
        if let Some(account) = &self.account {
            account.take(bytes);
        }
    }

    pub(crate) fn status(&mut self, status: http::StatusCode) {
        self.record.status = status.as_u16();
    }

    pub(crate) fn early_data(&mut self, early: bool) {
        self.record.early_data = early;
    }

    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.record.bytes += bytes as u64;
    }

    /// This server breaks the answer off.
    pub(crate) fn fail(&mut self, reason: impl fmt::Display) {
        self.record.complete = false;
        self.record.reason = Some(reason.to_string());
    }

    pub(crate) fn complete(&mut self) {
        self.record.complete = true;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.record.duration = self.started.elapsed();
        let why = self.account.as_ref().and_then(|account| account.why());
        if let (false, None, Some(why)) = (self.record.complete, &self.record.reason, why) {
            self.record.reason = Some(why.to_string());
        }
        if let Some(log) = &self.log {
            log(&self.record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Why;

    #[test]
    fn requests_of_a_dropped_connection_say_why() {
        let account = Account::new(thalweg::Budget::new(0));
        let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let log: AccessLog = {
            let lines = Arc::clone(&lines);
            Arc::new(move |record| lines.lock().unwrap().push(record.to_string()))
        };
        let parts = http::Request::get("/a").body(()).unwrap().into_parts().0;
        let entry = || Entry::new(Some(Arc::clone(&log)), ([127, 0, 0, 1], 1).into(), "HTTP/3", &parts).of(&account);
        let (mut complete, cut) = (entry(), entry());
        complete.complete();
        account.drop_for(Why::Memory);
        drop((complete, cut));
        let lines = lines.lock().unwrap();
        assert!(lines[0].ends_with('s') && !lines[0].contains("aborted"), "{}", lines[0]);
        assert!(lines[1].ends_with("aborted (the server's memory is full, and this client held most and took least)"));
    }

    #[test]
    fn a_line_cannot_be_forged_by_what_a_client_sends() {
        let mut record = AccessRecord {
            peer: "[::ffff:192.0.2.7]:5".parse().unwrap(),
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
            method: http::Method::GET,
            target: "/a\"b\n\u{1b}[2J".into(),
            protocol: "HTTP/3",
            status: 200,
            bytes: 5,
            duration: Duration::from_millis(31),
            early_data: false,
            referer: None,
            user_agent: Some("x\\y ü".into()),
            complete: false,
            reason: None,
        };
        assert_eq!(
            record.to_string(),
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a\\x22b\\x0a\\x1b[2J HTTP/3\" 200 5 \"-\" \
             \"x\\x5cy \\xc3\\xbc\" 0.031s aborted"
        );
        record.reason = Some("the file \n changed".into());
        assert!(record.to_string().ends_with("0.031s aborted (the file \\x0a changed)"), "{record}");
    }
}
