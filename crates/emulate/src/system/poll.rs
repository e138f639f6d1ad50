//! Waits for descriptors and for a moment, to the nanosecond.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use thalweg_units::Duration;

/// Descriptors to wait for. It is kept from wait to wait.
#[derive(Default)]
pub(crate) struct Poll {
    list: Vec<libc::pollfd>,
}

impl Poll {
    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds one. It has to be taken out before it is closed, or else whatever gets its number is waited for.
    pub(crate) fn push(&mut self, fd: BorrowedFd<'_>) {
        self.list.push(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    }

    /// Waits for this one no more.
    pub(crate) fn ignore(&mut self, index: usize) {
        if let Some(each) = self.list.get_mut(index) {
            (each.fd, each.revents) = (-1, 0);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the descriptor that was added at this place had something to read at the last wait, be it the end or an
    /// error.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.list.get(index).is_some_and(|each| each.revents != 0)
    }

    /// Waits until one of them is ready, or for so long; for ever if that is `None`. A signal ends it early.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let spec = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
        });
        let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = libc::nfds_t::try_from(self.list.len()).unwrap_or(libc::nfds_t::MAX);
        // SAFETY: the list has `count` descriptors, and the timespec lives through the call or is null.
        let result = unsafe { libc::ppoll(self.list.as_mut_ptr(), count, spec, std::ptr::null()) };
        match super::check(result) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.list.iter_mut().for_each(|each| each.revents = 0);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
