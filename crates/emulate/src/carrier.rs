//! The thread that carries packets: its priority, and what is measured from its start to its end.

use std::io;

use thalweg_units::{Duration, Instant};

use crate::system;
use crate::verdict::{PathReport, Report};
use crate::watcher::WakeUps;

/// Real-time priority of the thread that carries packets.
const PRIORITY: u8 = 20;

/// What is measured of the calling thread, and of the machine meanwhile.
pub(crate) struct Carrier {
    suspended: Duration,
    watcher: io::Result<WakeUps>,
    realtime: Option<Result<(), String>>,
    used: Duration,
}

impl Carrier {
    /// Makes the calling thread one that carries packets, at real-time priority if that is asked for. Programs run at
    /// the priority `watched`, or at the ordinary one.
    pub(crate) fn start(realtime: bool, watched: Option<u8>) -> Carrier {
        system::fine_timers();
        let suspended = system::suspended();
        // Before this thread is raised: a new one has the priority of its maker.
        let watcher = WakeUps::start(watched);
        let realtime = realtime.then(|| {
            let _ = system::lock_memory();
            system::raise(PRIORITY)
        });
        Carrier { suspended, watcher, realtime, used: system::thread_time() }
    }

    /// Whether the thread has real-time priority.
    pub(crate) fn is_realtime(&self) -> bool {
        matches!(self.realtime, Some(Ok(())))
    }

    /// The report of what was done on these paths since `start`; what was ignored and what devices dropped are the
    /// caller's to add.
    pub(crate) fn report(self, paths: Vec<PathReport>, start: Instant) -> Report {
        Report {
            elapsed: system::now().saturating_since(start),
            paths,
            wake_ups: self.watcher.map(WakeUps::stop).unwrap_or_default(),
            suspended: system::suspended().saturating_sub(self.suspended),
            processor: system::thread_time().saturating_sub(self.used),
            realtime: self.realtime,
            ..Report::default()
        }
    }
}
