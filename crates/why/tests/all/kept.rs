//! A writer that keeps everything.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Default)]
pub struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    /// What has been written so far.
    pub fn take(&self) -> Vec<u8> {
        core::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
