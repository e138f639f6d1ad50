//! Bodies of messages as they come in, at either end and over any transport.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

/// A body as it comes in.
pub(crate) trait ReadBody {
    /// Why a body ends before its end.
    type Error;

    /// The next bytes; `None` at a regular end. An error means that the body was cut off.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Self::Error>> + Send;
}

/// Reads a body that is of no use: to its end, up to so many bytes, or for so long.
pub(crate) async fn discard<B: ReadBody>(body: &mut B, most: u64, longest: Duration) -> Result<(), B::Error> {
    let mut left = most;
    let reading = async {
        while let Some(bytes) = body.next().await? {
            left = left.saturating_sub(bytes.len() as u64);
            if left == 0 {
                break;
            }
        }
        Ok(())
    };
    tokio::time::timeout(longest, reading).await.unwrap_or(Ok(()))
}
