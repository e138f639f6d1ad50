//! Saved paths of a client, from one connection to the next.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Link, Setup, World};
use thalweg_proto::{SavedPathStore, TransportConfig};
use thalweg_recovery::{
    AckEvent, Allowance, Change, Congestion, Controller, ControllerFactory, PathContext, PathView, Policies, SavedPath,
};

const SECOND: Duration = Duration::from_secs(1);

/// What is kept, and all that ever was.
#[derive(Debug, Default)]
struct Store(Mutex<Vec<SavedPath>>, Mutex<Vec<SavedPath>>);

impl SavedPathStore for Store {
    fn insert(&self, server_name: &str, remote: SocketAddr, saved: SavedPath) {
        assert!(remote.port() != 0);
        assert_eq!(server_name, "localhost");
        self.0.lock().unwrap().push(saved);
    }

    fn take(&self, _: &str, _: SocketAddr) -> Option<SavedPath> {
        self.0.lock().unwrap().pop()
    }
}

/// Fifty datagrams, always; and what each path began with.
#[derive(Debug, Default)]
struct Fixed(Arc<Mutex<Vec<PathContext>>>);

impl ControllerFactory for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn build(&self, context: &PathContext) -> Box<dyn Controller> {
        self.0.lock().unwrap().push(*context);
        Box::new(Window(context.datagram_size))
    }
}

#[derive(Debug)]
struct Window(u16);

impl Controller for Window {
    fn on_ack(&mut self, _: &AckEvent<'_>) -> Change {
        Change::None
    }

    fn on_datagram_size(&mut self, size: u16) {
        self.0 = size;
    }

    fn allowance(&self, path: &PathView<'_>) -> Allowance {
        Allowance::spread(50 * u64::from(self.0), path, self.0)
    }
}

#[test]
fn what_an_upload_learned_reaches_the_controller_of_the_next_connection() {
    let (store, contexts) = (Arc::new(Store::default()), Arc::<Mutex<Vec<PathContext>>>::default());
    let congestion = Congestion::Custom(Arc::new(Fixed(contexts.clone())));
    let client =
        TransportConfig { policies: Policies { congestion, ..Policies::default() }, ..TransportConfig::default() };
    let paths = store.clone();
    let mut world = World::new(Setup {
        link: Link { rate: 12_500_000, queue: 500_000, ..Link::new(Duration::from_millis(20)) },
        client,
        tweak_client: Box::new(move |config| config.saved_paths = Some(paths)),
        ..Setup::default()
    });
    // A connection that carries next to nothing learns nothing, and puts back what it took.
    for (bytes, saved_paths) in [(1_000, 0), (1_000_000, 1), (1_000, 1)] {
        let handle = world.handshake();
        assert!(world.transfer(handle, false, bytes, 10 * SECOND).is_some());
        let now = world.now;
        world.client_conn(handle).close(now, 0, bytes::Bytes::new());
        world.pump();
        world.run_for(5 * SECOND);
        world.client.events.clear();
        world.server.events.clear();
        assert_eq!(store.0.lock().unwrap().len(), saved_paths, "after {bytes} bytes");
        store.1.lock().unwrap().extend(store.0.lock().unwrap().first());
    }
    let saved_paths = store.1.lock().unwrap();
    let (saved, put_back) = (saved_paths[0], saved_paths[1]);
    assert_eq!(put_back, SavedPath { age: put_back.age, ..saved });
    assert!(put_back.age > saved.age, "{put_back:?}");
    assert!((50_000..100_000).contains(&saved.window), "about fifty datagrams per round trip: {saved:?}");
    assert!((Duration::from_millis(40)..Duration::from_millis(60)).contains(&saved.min_rtt), "{saved:?}");
    assert!(saved.rate.is_some());
    let contexts = contexts.lock().unwrap();
    assert_eq!(contexts.iter().map(|context| context.saved).collect::<Vec<_>>(), [None, None, Some(saved)]);
    assert!(contexts.iter().all(|context| context.remote.is_some()));
    assert_ne!(contexts[0].seed, contexts[1].seed);
}
