//! Cleanup after a panic: its message, and the locks that it held.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a panic said.
pub(crate) fn message(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

/// The value, also after a panic of whoever held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
