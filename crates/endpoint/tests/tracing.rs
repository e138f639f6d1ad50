//! Spans and events that a subscriber of the `tracing` crate receives of a connection.
#![cfg(feature = "tracing")]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use common::{Pair, within};
use tracing::{Event, Metadata, Subscriber, field::Visit, span};

/// Writes one line per span and event.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>, Arc<AtomicU64>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("thalweg")
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let id = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        let mut line = format!("span {id} {}", span.metadata().name());
        span.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
        span::Id::from_u64(id)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = format!("in {}", event.parent().map_or(0, span::Id::into_u64));
        event.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_connection_has_a_span_with_its_beginning_its_resets_and_its_end() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&[0; 100_000]).await.unwrap();
        send.reset(7).unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        while recv.read_chunk(1 << 20).await.is_ok() {}
        client.close(3, b"enough");
        server.closed().await;
    })
    .await;
    let lines = lines.0.lock().unwrap().clone();
    let text = lines.join("\n");
    let client = lines.iter().find(|line| line.contains("side=\"client\"")).expect(&text);
    let id = client.split(' ').nth(1).unwrap();
    let of_client: Vec<_> = lines.iter().filter(|line| line.starts_with(&format!("in {id} "))).collect();
    for part in ["message=connecting", "message=connected", "stream reset stream=2 code=7 by=\"us\"", "message=closed"]
    {
        assert_eq!(of_client.iter().filter(|line| line.contains(part)).count(), 1, "{part}:\n{text}");
    }
    assert!(text.contains("by=\"the peer\"") && text.contains("code 3: \"enough\""), "{text}");
    // Ends, path changes and resets, but nothing per packet: a hundred packets have gone.
    assert!(lines.len() < 20, "{text}");
}
