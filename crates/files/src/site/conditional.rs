//! Validators and conditional requests (RFC 9110 sections 8.8 and 13).

use std::fs::Metadata;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};

/// Last second an HTTP date can name (end of the year 9999).
const LAST_HTTP_SECOND: u64 = 253_402_300_799;

/// What identifies one version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// Strong entity tag with its quotes: inode, size and modification time to the nanosecond.
    pub etag: String,
    /// Modification time, whole seconds since the epoch.
    pub modified: u64,
}

impl Validators {
    /// The validators of an open file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0u64;
        Self { etag: format!("\"{inode:x}-{:x}-{:x}\"", metadata.len(), since.as_nanos()), modified: since.as_secs() }
    }

    /// `Last-Modified`: never later than `now` (RFC 9110 section 8.8.2.1).
    #[must_use]
    pub fn last_modified(&self, now: SystemTime) -> String {
        http_date(self.modified.min(unix_seconds(now)))
    }
}

/// Seconds since the epoch; times before it count as the epoch.
#[must_use]
pub fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// An HTTP date; seconds no HTTP date can name are moved to the nearest that one can.
#[must_use]
pub fn http_date(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_HTTP_SECOND)))
}

/// What the preconditions of a request lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// Answer as if there were none.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates the preconditions in the order of RFC 9110 section 13.2.2.
///
/// `current` is `None` when nothing is stored at the target; `reading` is true for GET and HEAD.
#[must_use]
pub fn evaluate(headers: &HeaderMap, current: Option<&Validators>, reading: bool) -> Precondition {
    if headers.contains_key(IF_MATCH) {
        if !tag_matches(headers, &IF_MATCH, current, Comparison::Strong) {
            return Precondition::Failed;
        }
    } else if let (Some(limit), Some(current)) = (date(headers, &IF_UNMODIFIED_SINCE), current)
        && current.modified > limit
    {
        return Precondition::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if tag_matches(headers, &IF_NONE_MATCH, current, Comparison::Weak) {
            return if reading { Precondition::NotModified } else { Precondition::Failed };
        }
    } else if reading
        && let (Some(since), Some(current)) = (date(headers, &IF_MODIFIED_SINCE), current)
        && current.modified <= since
    {
        return Precondition::NotModified;
    }
    Precondition::Proceed
}

/// Whether the request is to create and never to replace: `If-None-Match: *` (RFC 9110 section 13.1.2).
pub(super) fn must_create(headers: &HeaderMap) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|value| value.as_bytes().trim_ascii() == b"*")
}

/// Whether `Range` may be honoured: there is no `If-Range`, or it names this very version (RFC 9110 section 13.1.5).
///
/// A date counts only if it is the exact `Last-Modified` and at least a second old at `now`; within that second the
/// file could have changed twice.
#[must_use]
pub fn if_range_holds(headers: &HeaderMap, current: &Validators, now: SystemTime) -> bool {
    let Some(value) = headers.get(IF_RANGE) else {
        return true;
    };
    let bytes = value.as_bytes();
    if bytes.starts_with(b"\"") || bytes.starts_with(b"W/") {
        return bytes == current.etag.as_bytes();
    }
    date(headers, &IF_RANGE) == Some(current.modified) && unix_seconds(now) > current.modified
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let text = headers.get(name)?.to_str().ok()?;
    Some(unix_seconds(httpdate::parse_http_date(text).ok()?))
}

#[derive(PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

fn tag_matches(headers: &HeaderMap, name: &HeaderName, current: Option<&Validators>, comparison: Comparison) -> bool {
    let Some(current) = current else {
        return false; // "*" and any tag alike match only what exists
    };
    headers.get_all(name).iter().any(|value| {
        let value = value.as_bytes().trim_ascii();
        value == b"*"
            || tags(value)
                .any(|(weak, tag)| tag == current.etag.as_bytes() && (!weak || comparison == Comparison::Weak))
    })
}

/// The entity tags of a list, with their quotes, and whether each is weak. Stops at the first thing that is not a tag.
fn tags(mut rest: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    std::iter::from_fn(move || {
        while let Some((b' ' | b'\t' | b',', tail)) = rest.split_first() {
            rest = tail;
        }
        let weak = rest.starts_with(b"W/");
        if weak {
            rest = &rest[2..];
        }
        let inner = rest.strip_prefix(b"\"")?;
        let end = inner.iter().position(|b| *b == b'"')?;
        let (tag, tail) = rest.split_at(end + 2);
        rest = tail;
        Some((weak, tag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn current() -> Validators {
        Validators {
            etag: "\"a-b-c\"".into(),
            modified: 784_111_777, // Sun, 06 Nov 1994 08:49:37 GMT
        }
    }

    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn verdict(list: &[(HeaderName, &str)], reading: bool) -> Precondition {
        evaluate(&headers(list), Some(&current()), reading)
    }

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn if_none_match_compares_weakly_and_answers_304_to_reads_412_to_writes() {
        for value in ["\"a-b-c\"", "W/\"a-b-c\"", "\"x\", \"a-b-c\"", "*", "\"x,y\",\"a-b-c\""] {
            assert_eq!(verdict(&[(IF_NONE_MATCH, value)], true), Precondition::NotModified, "{value}");
            assert_eq!(verdict(&[(IF_NONE_MATCH, value)], false), Precondition::Failed, "{value}");
        }
        for value in ["\"x\"", "a-b-c", "\"a-b-c", ""] {
            assert_eq!(verdict(&[(IF_NONE_MATCH, value)], true), Precondition::Proceed, "{value}");
        }
        assert_eq!(evaluate(&headers(&[(IF_NONE_MATCH, "*")]), None, false), Precondition::Proceed);
    }

    #[test]
    fn if_match_compares_strongly() {
        assert_eq!(verdict(&[(IF_MATCH, "\"a-b-c\"")], true), Precondition::Proceed);
        assert_eq!(verdict(&[(IF_MATCH, "*")], false), Precondition::Proceed);
        assert_eq!(verdict(&[(IF_MATCH, "W/\"a-b-c\"")], true), Precondition::Failed);
        assert_eq!(verdict(&[(IF_MATCH, "\"x\"")], true), Precondition::Failed);
        assert_eq!(evaluate(&headers(&[(IF_MATCH, "*")]), None, false), Precondition::Failed);
    }

    #[test]
    fn dates_are_looked_at_only_when_there_are_no_tags() {
        assert_eq!(verdict(&[(IF_MODIFIED_SINCE, AT)], true), Precondition::NotModified);
        assert_eq!(verdict(&[(IF_MODIFIED_SINCE, BEFORE)], true), Precondition::Proceed);
        assert_eq!(verdict(&[(IF_MODIFIED_SINCE, AT)], false), Precondition::Proceed);
        assert_eq!(verdict(&[(IF_MODIFIED_SINCE, "yesterday")], true), Precondition::Proceed);
        assert_eq!(verdict(&[(IF_UNMODIFIED_SINCE, BEFORE)], true), Precondition::Failed);
        assert_eq!(verdict(&[(IF_UNMODIFIED_SINCE, AT)], true), Precondition::Proceed);
        assert_eq!(verdict(&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, AT)], true), Precondition::Proceed);
        assert_eq!(verdict(&[(IF_MATCH, "\"a-b-c\""), (IF_UNMODIFIED_SINCE, BEFORE)], true), Precondition::Proceed);
    }

    #[test]
    fn if_range_wants_the_same_strong_tag_or_the_exact_date() {
        let later = UNIX_EPOCH + Duration::from_secs(784_111_778);
        let holds = |value: &str, now| if_range_holds(&headers(&[(IF_RANGE, value)]), &current(), now);
        assert!(if_range_holds(&HeaderMap::new(), &current(), later));
        assert!(holds("\"a-b-c\"", later));
        assert!(!holds("W/\"a-b-c\"", later));
        assert!(!holds("\"x\"", later));
        assert!(holds(AT, later));
        assert!(!holds(AT, UNIX_EPOCH + Duration::from_secs(784_111_777)));
        assert!(!holds(BEFORE, later));
        assert!(!holds("garbage", later));
    }

    #[test]
    fn dates_no_http_date_can_name_do_not_panic() {
        assert_eq!(http_date(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(unix_seconds(UNIX_EPOCH - Duration::from_secs(5)), 0);
        let future = Validators { etag: String::new(), modified: u64::MAX };
        assert_eq!(future.last_modified(UNIX_EPOCH), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn the_etag_changes_with_size_time_and_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let tag = || Validators::of(&std::fs::metadata(&path).unwrap()).etag;
        std::fs::write(&path, "one").unwrap();
        let first = tag();
        assert_eq!(first, tag());
        std::fs::write(&path, "four").unwrap();
        let second = tag();
        assert_ne!(first, second);
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(UNIX_EPOCH + Duration::new(5, 7))
            .unwrap();
        assert_ne!(second, tag());
    }
}
