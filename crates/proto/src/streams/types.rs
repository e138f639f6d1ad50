//! Types of streams: configuration, events to the application, records of each packet.

use std::sync::Arc;

use smallvec::SmallVec;

use super::flow::Budget;
use super::{Dir, StreamId};

/// How many streams, and how much data, a connection accepts and holds.
///
/// Windows are credit, not memory: memory is taken only by bytes that wait behind a hole or for the application.
#[derive(Clone, Debug)]
pub struct StreamsConfig {
    /// Bidirectional streams the peer may have open at a time.
    pub max_concurrent_bidi: u64,
    /// Unidirectional streams the peer may have open at a time.
    pub max_concurrent_uni: u64,
    /// Bytes of credit per stream at the start.
    pub stream_receive_window: u64,
    /// Bytes of credit for the whole connection at the start.
    pub receive_window: u64,
    /// Bytes up to which a stream's window grows by itself.
    pub max_stream_receive_window: u64,
    /// Bytes up to which the connection's window grows by itself.
    pub max_receive_window: u64,
    /// Bytes written but not yet acknowledged that a connection holds before `write` blocks. Every stream may hold
    /// 64 KiB, or as much as the window if that is smaller, beyond it, so that streams the peer does not read cannot
    /// stop the others.
    pub send_window: u64,
    /// Bytes written but never sent that a stream holds before `write` blocks, and no more than 8 KiB beyond the credit
    /// that the peer has given to the stream. What is in flight is bounded by the congestion window and the peer's
    /// credit already, so this, not `send_window`, is what normally applies. Default 1 MiB.
    pub send_backlog: u64,
    /// What all connections of the endpoint may hold of received bytes that their applications have not read, and of
    /// holes between them; `None`, the default: no limit.
    pub budget: Option<Arc<Budget>>,
    /// What all connections of the endpoint may hold of written bytes that are not acknowledged; `None`, the default:
    /// no limit. One connection holds at most as much as is left for all others, and at most `send_backlog` and 16
    /// congestion windows. When nothing is left, writers wait; a connection that has nothing it could send, and less
    /// than 8 KiB on its way, may still take 8 KiB for which the peer has given credit, so that none stands still for
    /// good. With what it has not counted yet, each holds at most 24 KiB beyond the budget. May be the same as `budget`
    /// if it is one [of everything](Budget::of_everything).
    pub send_budget: Option<Arc<Budget>>,
}

impl Default for StreamsConfig {
    fn default() -> StreamsConfig {
        StreamsConfig {
            max_concurrent_bidi: 128,
            max_concurrent_uni: 128,
            stream_receive_window: 16 << 20,
            receive_window: 32 << 20,
            max_stream_receive_window: 256 << 20,
            max_receive_window: 384 << 20,
            send_window: 256 << 20,
            send_backlog: 1 << 20,
            budget: None,
            send_budget: None,
        }
    }
}

/// The six limits on streams among the transport parameters (RFC 9000 section 18.2). `Default`: nothing is allowed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamLimits {
    /// initial_max_data, bytes.
    pub max_data: u64,
    /// initial_max_stream_data_bidi_local, bytes: streams opened by the end that sends the parameter.
    pub stream_data_bidi_local: u64,
    /// initial_max_stream_data_bidi_remote, bytes: streams opened by the end that receives the parameter.
    pub stream_data_bidi_remote: u64,
    /// initial_max_stream_data_uni, bytes.
    pub stream_data_uni: u64,
    /// initial_max_streams_bidi.
    pub streams_bidi: u64,
    /// initial_max_streams_uni.
    pub streams_uni: u64,
}

/// Something the application may want to know about its streams.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer opened at least one stream: [`Streams::accept`](super::Streams::accept) has something.
    Opened {
        /// The direction of the stream.
        dir: Dir,
    },
    /// A read that would have blocked will not block any more. Never before the stream is accepted.
    Readable {
        /// The stream.
        id: StreamId,
    },
    /// A write that blocked has room again.
    Writable {
        /// The stream.
        id: StreamId,
    },
    /// All data and the end of the stream are acknowledged; its sending part is forgotten.
    Finished {
        /// The stream.
        id: StreamId,
    },
    /// The peer asked to stop sending; the stream was reset with its code (RFC 9000 section 3.5).
    Stopped {
        /// The stream.
        id: StreamId,
        /// The peer's application error code.
        code: u64,
    },
    /// The peer allows more streams after [`Streams::open`](super::Streams::open) refused.
    Available {
        /// The direction.
        dir: Dir,
    },
}

/// Why nothing was written.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// No room until [`StreamEvent::Writable`].
    #[error("no room: wait until the stream is writable")]
    Blocked,
    /// The peer asked to stop sending.
    #[error("stopped by the peer with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset, is fully acknowledged, never existed, or only receives.
    #[error("the stream does not take data: it is finished, reset, unknown or receive-only")]
    ClosedStream,
}

/// Why nothing was read.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Nothing in order until [`StreamEvent::Readable`].
    #[error("nothing to read: wait until the stream is readable")]
    Blocked,
    /// The peer reset the stream. The stream is forgotten after this was returned.
    #[error("reset by the peer with code {0}")]
    Reset(u64),
    /// The stream was read to its end, stopped, reset, never existed, or only sends.
    #[error("the stream has no data: it is read to its end, stopped, unknown or send-only")]
    ClosedStream,
    /// The stream was read out of order before: there is no next byte any more.
    #[error("the stream was read out of order before: go on with read_unordered")]
    Unordered,
}

/// The stream is finished, reset, forgotten, unknown or of the wrong direction.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed or unknown")]
pub struct ClosedStream;

/// A piece of a stream in a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SentChunk {
    /// The stream.
    pub id: StreamId,
    /// Where the piece begins in the stream, bytes.
    pub offset: u64,
    /// Its length, bytes.
    pub len: u32,
    /// Whether the frame carried the end of the stream.
    pub fin: bool,
}

/// A frame about streams, other than STREAM, in a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SentControl {
    /// RESET_STREAM.
    ResetStream(StreamId),
    /// STOP_SENDING.
    StopSending(StreamId),
    /// MAX_DATA with its limit.
    MaxData(u64),
    /// MAX_STREAM_DATA with its limit.
    MaxStreamData(StreamId, u64),
    /// MAX_STREAMS with its limit.
    MaxStreams(Dir, u64),
    /// DATA_BLOCKED with its limit.
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED with its limit.
    StreamDataBlocked(StreamId, u64),
    /// STREAMS_BLOCKED with its limit.
    StreamsBlocked(Dir, u64),
}

/// What of the streams a packet carries: to be handed back when the packet is acknowledged or lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentStreams {
    /// STREAM frames.
    pub chunks: SmallVec<[SentChunk; 2]>,
    /// Other frames.
    pub control: SmallVec<[SentControl; 1]>,
}

impl SentStreams {
    /// Whether the packet carries nothing of the streams.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.control.is_empty()
    }

    /// Empties the record for the next packet.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.control.clear();
    }
}
