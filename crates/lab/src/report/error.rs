//! Errors of writing a report.

use crate::store::StoreError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Files.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The template. A bug here, not a mistake of the user.
    #[error("the report's template does not work: {0}")]
    Template(#[from] minijinja::Error),
    /// Data that cannot be written as JSON.
    #[error("results cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}
