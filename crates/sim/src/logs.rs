//! Where stacks that write logs of their own put them.

use std::fmt;
use std::io::Write;

/// A log that a stack writes. What cannot be written is lost without an error to the stack.
pub type LogFile = Box<dyn Write + Send + Sync>;

/// Opens the files of a stack that writes its own qlog, as rival stacks do; ours has observers.
///
/// Times in such a log are to be those of the run, in virtual time.
pub trait LogFiles: fmt::Debug + Send + Sync {
    /// Opens the log of a connection at one of its ends; none if that end is not logged. `connection` is the original
    /// destination connection ID, in hexadecimal digits.
    fn open(&self, is_client: bool, connection: &str) -> Option<LogFile>;
}
