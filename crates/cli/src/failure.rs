//! Failures of commands, and their exit codes.

use std::fmt;
use std::process::ExitCode;

/// A command's failure: the message, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It was understood and tried, and went wrong: exit code 1.
    Failed(String),
    /// It cannot be done as it was asked: exit code 2.
    Usage(String),
    /// Ctrl-C ended it: the program ends by that signal, which a shell shows as 130.
    Interrupted(String),
    /// The exit code says it all, such as that of a program that was run. Nothing is said if the text is empty.
    Status(u8, String),
}

/// What commands return.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Tried and gone wrong.
    pub fn failed(message: impl fmt::Display) -> Self {
        Failure::Failed(message.to_string())
    }

    /// Asked wrongly.
    pub fn usage(message: impl fmt::Display) -> Self {
        Failure::Usage(message.to_string())
    }

    /// 1, 2 or 130, or that of a program.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Failed(_) => ExitCode::from(1),
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Interrupted(_) => ExitCode::from(130),
            Failure::Status(status, _) => ExitCode::from(*status),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(message)
            | Failure::Usage(message)
            | Failure::Interrupted(message)
            | Failure::Status(_, message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Failure {}

/// Puts what was being done in front of an error.
pub trait Context<T> {
    /// `what: error`, exit code 1.
    ///
    /// # Errors
    ///
    /// Whatever was wrong before, with `what` in front.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure::Failed(format!("{what}: {error}")))
    }
}
