//! From a request to an answer, whatever the transport: the site on a thread that may block, uploads in large pieces.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, StatusCode};

use super::early::refuse_forwarded;
use super::memory::Memory;
use super::strict;
use crate::account::{Account, Charge};
use crate::body::{ReadBody, discard};
use crate::content::Pool;
use crate::log::{AccessLog, Entry};
use crate::site::{Answer, Site, Upload};

/// Bytes of an upload gathered before they are written: one trip to a blocking thread per MiB.
const UPLOAD_PIECE: usize = 1 << 20;

/// Pieces of an upload gathered at most. A client may send them of a byte each, and an entry for one takes
/// [`UPLOAD_ENTRY`].
const UPLOAD_PIECES: usize = 1024;

/// What keeping a piece of an upload takes beside its bytes, in bytes.
const UPLOAD_ENTRY: usize = size_of::<(Option<Charge>, Bytes)>();

/// Longest silence in the middle of an upload.
const UPLOAD_SILENCE: Duration = Duration::from_secs(60);

/// Most bytes read of a body that is of no use, so that its length can be compared with what the request says.
const USELESS_BODY: u64 = 64 * 1024;

/// Longest time spent on that: a client that waits for the answer before it sends the body gets it.
const USELESS_WAIT: Duration = Duration::from_secs(5);

/// What every connection needs.
#[derive(Clone)]
pub(super) struct Context {
    pub site: Arc<Site>,
    pub pool: Arc<Pool>,
    pub log: Option<AccessLog>,
    pub memory: Arc<Memory>,
    /// Whether to answer in early data.
    pub early_data: bool,
}

impl Context {
    pub(super) fn entry(
        &self,
        peer: SocketAddr,
        protocol: &'static str,
        request: &Parts,
        account: &Arc<Account>,
    ) -> Entry {
        Entry::new(self.log.clone(), peer, protocol, request).of(account)
    }
}

/// Bytes of a request's target and header fields.
pub(super) fn head_size(request: &Parts) -> u64 {
    let fields: usize = request.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let target = request.uri.path_and_query().map_or(0, |target| target.as_str().len());
    (fields + target) as u64
}

/// Answers one request. `Err` means that the client broke its body off or contradicted its length: there is nobody to
/// answer.
pub(super) async fn respond(
    context: &Context,
    request: Parts,
    body: &mut (impl ReadBody<Error = io::Error> + Send),
    entry: &mut Entry,
) -> io::Result<Answer> {
    let site = Arc::clone(&context.site);
    if let Some(answer) = refuse_forwarded(&request) {
        entry.status(answer.status);
        return Ok(answer.finish(&request.method, SystemTime::now()));
    }
    let answer = if let Some(problem) = strict::problem(&request) {
        Answer::error(StatusCode::BAD_REQUEST, problem).finish(&request.method, SystemTime::now())
    } else if site.is_upload(&request) {
        match blocking(move || site.begin_upload(&request, SystemTime::now())).await? {
            Ok(upload) => receive(upload, body, entry).await?,
            Err(answer) => *answer,
        }
    } else {
        if request.headers.contains_key(CONTENT_LENGTH) {
            discard(body, USELESS_BODY, USELESS_WAIT).await?;
        }
        blocking(move || site.answer(&request, SystemTime::now())).await?
    };
    entry.status(answer.status);
    Ok(answer)
}

async fn receive(
    mut upload: Upload,
    body: &mut (impl ReadBody<Error = io::Error> + Send),
    entry: &mut Entry,
) -> io::Result<Answer> {
    // Counted until they are written.
    let mut gathered: Vec<(Option<Charge>, Bytes)> = Vec::new();
    let mut size = 0;
    loop {
        let next = match tokio::time::timeout(UPLOAD_SILENCE, body.next()).await {
            Ok(next) => next?,
            Err(_) => {
                return Ok(Answer::error(
                    StatusCode::REQUEST_TIMEOUT,
                    "Nothing of the upload arrived for a minute; nothing was stored.",
                )
                .finish(&Method::PUT, SystemTime::now()));
            }
        };
        let ended = next.is_none();
        if let Some(bytes) = next {
            entry.add_received(bytes.len());
            size += bytes.len();
            gathered.push((entry.charge(bytes.len() + UPLOAD_ENTRY), bytes));
        }
        let is_full = size >= UPLOAD_PIECE || gathered.len() >= UPLOAD_PIECES;
        if is_full || ((ended || entry.is_memory_spent()) && size > 0) {
            let pieces = std::mem::take(&mut gathered);
            size = 0;
            let written = blocking(move || {
                for (_, piece) in pieces {
                    upload.write(&piece)?;
                }
                Ok::<_, Box<Answer>>(upload)
            })
            .await?;
            match written {
                Ok(same) => upload = same,
                Err(answer) => return Ok(*answer),
            }
        }
        if ended {
            return blocking(move || upload.finish(SystemTime::now())).await;
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| io::Error::other("the task was cancelled"))
}

#[cfg(test)]
mod tests {
    use super::super::memory::LEAST;
    use super::*;
    use crate::site::{SiteOptions, UploadOptions};
    use http::header::DATE;
    use http::{HeaderMap, Request, Version};

    /// A body of which nothing ever comes.
    struct Silent;

    impl ReadBody for Silent {
        type Error = io::Error;

        async fn next(&mut self) -> io::Result<Option<Bytes>> {
            std::future::pending().await
        }
    }

    /// A site that takes uploads, a connection to it, and its directory.
    fn scene() -> (Context, Arc<Account>, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let options = SiteOptions { upload: Some(UploadOptions::default()), ..SiteOptions::default() };
        let site = Arc::new(Site::new(root.path(), options).unwrap());
        let memory = Memory::new(LEAST, Duration::from_secs(30));
        let account = Arc::clone(memory.join().account());
        (Context { site, pool: Arc::default(), log: None, memory, early_data: false }, account, root)
    }

    fn put(early: &str) -> Parts {
        let request = Request::put("https://a/f").version(Version::HTTP_3).header("early-data", early);
        request.body(()).unwrap().into_parts().0
    }

    /// A body in pieces of one byte, and what is counted for its connection, in bytes.
    struct Crumbs {
        left: usize,
        account: Arc<Account>,
        held: Vec<u64>,
    }

    impl ReadBody for Crumbs {
        type Error = io::Error;

        async fn next(&mut self) -> io::Result<Option<Bytes>> {
            self.held.push(self.account.held());
            self.left = self.left.saturating_sub(1);
            Ok((self.left > 0).then(|| Bytes::from_static(b"x")))
        }
    }

    #[tokio::test]
    async fn an_upload_in_single_bytes_holds_little_and_all_of_it_is_counted() {
        let (context, account, root) = scene();
        let mut body = Crumbs { left: 10_001, account: Arc::clone(&account), held: Vec::new() };
        let request = put("0");
        let mut entry = context.entry(([127, 0, 0, 1], 1).into(), "test", &request, &account);
        let answer = respond(&context, request, &mut body, &mut entry).await.unwrap();
        assert_eq!(answer.status, 201);
        assert_eq!(std::fs::read(root.path().join("f")).unwrap(), [b'x'; 10_000]);
        // A piece is at least a pointer, a length, and what it is counted in.
        assert!(body.held[1000] >= 1000 * 24, "{} bytes are counted for 1000 pieces", body.held[1000]);
        let most = body.held.iter().max().unwrap();
        assert!(*most <= 64 * 1024, "{most} bytes");
        assert_eq!(account.held(), 0);
    }

    async fn answered(early: &str) -> (u16, HeaderMap, u64) {
        let (context, account, _root) = scene();
        let request = put(early);
        let mut entry = context.entry(([127, 0, 0, 1], 1).into(), "test", &request, &account);
        let answer = respond(&context, request, &mut Silent, &mut entry).await.unwrap();
        (answer.status.as_u16(), answer.headers, answer.content.len())
    }

    /// The minute of silence passes at once.
    #[tokio::test(start_paused = true)]
    async fn refusals_have_a_date_and_a_length_too() {
        for (early, expected) in [("1", 425), ("0", 408)] {
            let (status, headers, length) = answered(early).await;
            assert_eq!(status, expected);
            assert!(headers.contains_key(DATE), "{status}: {headers:?}");
            assert_eq!(headers[CONTENT_LENGTH], length.to_string(), "{status}");
        }
    }
}
