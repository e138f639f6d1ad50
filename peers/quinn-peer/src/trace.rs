//! Evidence that quinn gives only in its trace messages: key updates, and the ECN counts in ACK frames.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use contract::Task;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

static KEY_UPDATES: AtomicU64 = AtomicU64::new(0);
static ECN_ACKED: AtomicU64 = AtomicU64::new(0);

/// Listens in the cases that need it; elsewhere tracing costs nothing and tells nothing.
pub fn install(task: &Task) {
    if listens(task) {
        let _ = tracing::subscriber::set_global_default(Listener);
    }
}

fn listens(task: &Task) -> bool {
    task.is("keyupdate") || task.is("ecn")
}

/// Key updates so far, made or followed.
pub fn key_updates(task: &Task) -> Option<u64> {
    listens(task).then(|| KEY_UPDATES.load(Ordering::Relaxed))
}

/// The largest ECT(0) count that the peer reported.
pub fn ecn_acked(task: &Task) -> Option<u64> {
    listens(task).then(|| ECN_ACKED.load(Ordering::Relaxed))
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("quinn_proto::connection")
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "message" {
            return;
        }
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        if text == "executing key update" {
            KEY_UPDATES.fetch_add(1, Ordering::Relaxed);
        } else if let Some((_, rest)) = text.split_once("ect0: ") {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            ECN_ACKED.fetch_max(digits.parse().unwrap_or(0), Ordering::Relaxed);
        }
    }
}
