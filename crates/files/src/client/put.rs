//! Sending a file.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use http::Method;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue};

use super::error::Error;
use super::pace::Paced;
use super::report::{Event, Meter, Report, rate_bps};
use super::session::SendBody;
use super::transfer::Transfer;
use super::url::Location;
use crate::body::ReadBody;
use crate::content::{Content, Piece, Reader};
use crate::stamp::Stamp;

/// Opens a regular file. Does not wait: the opening of a pipe would, for somebody who writes to it.
fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let check = |metadata: Metadata| match metadata.is_file() {
        true => Ok(metadata),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "only regular files can be sent")),
    };
    check(fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    // The name may lead to something else by now.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    let metadata = check(file.metadata()?)?;
    Ok((file, metadata))
}

impl Transfer<'_> {
    /// Sends the file at `path` to the URL with PUT. A URL that ends in `/` gets the file's name appended.
    pub(super) async fn put(&self, path: &Path) -> Result<Report, Error> {
        let read_error = |source| Error::Read { path: path.to_owned(), source: Arc::new(source) };
        let mut location = Location::parse(&self.url)?;
        if location.uri.path().ends_with('/')
            && let Some(name) = path.file_name()
        {
            location = location.join(&crate::site::path::encode_segment(name.as_encoded_bytes()))?;
        }
        let opening = tokio::task::spawn_blocking({
            let path = path.to_owned();
            move || open(&path)
        });
        let opened = tokio::select! {
            opened = opening => opened.unwrap_or_else(|_| Err(io::Error::other("the opening task was cancelled"))),
            () = self.inner.stopped() => return Err(self.stopped()),
        };
        let (file, metadata) = opened.map_err(read_error)?;
        let length = metadata.len();
        let session = self.session(&location).await?;
        self.sink.emit(&Event::Started { job: self.job, total: Some(length), resumed_from: 0 });

        let meter = Arc::new(Mutex::new(Meter::new(self.job, self.sink.clone(), Some(length), 0)));
        let sent = Arc::new(AtomicU64::new(0));
        let counted = {
            let (meter, sent) = (Arc::clone(&meter), Arc::clone(&sent));
            Box::new(move |bytes: usize| {
                sent.fetch_add(bytes as u64, Ordering::Relaxed);
                if let Ok(mut meter) = meter.lock() {
                    meter.add(bytes);
                }
            })
        };
        let content = Content::pieces(Arc::new(file), [Piece::File(0..length)])
            // Two versions of the file would be stored as one.
            .unchanged_since(Stamp::of(&metadata));
        let reader = Paced::new(Reader::new(content, Arc::clone(&self.inner.pool)), self.inner.limiter.clone());
        let mut request = self.request(Method::PUT, &location, true);
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        request.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/octet-stream"));
        if length > 0 {
            *request.body_mut() = SendBody::file(reader, length, counted);
        }

        let asked = Instant::now();
        let mut exchange = std::pin::pin!(session.request(request));
        // The answer comes when everything is sent, which may take long: silence is when nothing moves.
        let (head, mut body) = loop {
            let before = sent.load(Ordering::Relaxed);
            match self.patiently(exchange.as_mut()).await {
                Ok(Ok(answer)) => break answer,
                Ok(Err(why)) => return Err(self.exchange(&session, why).await),
                Err(Error::Stalled { .. }) if sent.load(Ordering::Relaxed) > before => {}
                Err(error) => return Err(error),
            }
        };
        let first_byte = asked.elapsed();
        let status = head.status().as_u16();
        if !matches!(status, 200 | 201 | 204) {
            body.discard().await;
            return Err(self.status(status));
        }
        self.content_length(head.headers())?;
        loop {
            match self.patiently(body.next()).await? {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(broken) => return Err(self.exchange(&session, broken.why).await),
            }
        }
        if let Ok(mut meter) = meter.lock() {
            meter.finish();
        }
        let elapsed = asked.elapsed();
        Ok(Report {
            url: self.url.clone(),
            final_url: location.uri.to_string(),
            status,
            protocol: session.protocol(),
            remote: session.remote,
            path: None,
            bytes: length,
            content_encoding: None,
            resumed_from: 0,
            resumed: session.resumed(),
            early_data: None,
            retries: 0,
            etag: head.headers().get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned),
            resolve: session.resolve,
            handshake: session.handshake,
            first_byte,
            elapsed,
            goodput_bps: rate_bps(length, elapsed),
            connection: session.report(),
        })
    }
}
