//! Errors of reading a trace.

/// Why a trace could not be read. The message names the line and says what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not what it should be.
    #[error("line {line}: \"{text}\" is not {expected}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What it says.
        text: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// Times go back.
    #[error("line {line}: time {time} ms is earlier than {previous} ms on the line before; times must not decrease")]
    Backwards {
        /// Counted from 1.
        line: usize,
        /// Time on this line, ms.
        time: String,
        /// Time on the line before, ms.
        previous: String,
    },
    /// Nothing in it.
    #[error("the trace has no lines; {0}")]
    Empty(&'static str),
    /// It takes no time, so that repeating it would never end.
    #[error("the trace lasts for no time at all; its last line must be later than 0 ms")]
    NoTime,
}
