//! Thalweg's client with noq's server, and noq's client with Thalweg's server, over two paths
//! (draft-ietf-quic-multipath-21): real sockets on loopback, a relay for each path.
#![allow(clippy::unwrap_used)]

use std::{fmt::Display, future::Future, time::Duration};

use noq_peer::{Ends, Relay, Result, Stack};

/// Longest that a step may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A quarter of a second and more through two relays.
const BYTES: usize = 4_000_000;
/// What each path is to carry, with as many downloads as it takes: noq fills its first one first.
const SHARE: u64 = BYTES as u64 / 20;
/// What a path that nobody uses any more may still carry: acknowledgments, answers, what was under way.
const REMNANTS: u64 = 60_000;

/// Runs a part of a scenario; its failure names it.
async fn step<T>(name: &str, part: impl Future<Output = Result<T>>) -> T {
    match tokio::time::timeout(PATIENCE, part).await {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => panic!("step \"{name}\" fails: {error}"),
        Err(_) => panic!("step \"{name}\" takes longer than {PATIENCE:?}"),
    }
}

/// Waits for something that is to come about.
async fn until(name: &str, mut is_so: impl FnMut() -> bool, state: impl Fn() -> String) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
        panic!("step \"{name}\" takes longer than {PATIENCE:?}: {}", state());
    }
}

/// Fails unless `is_so`.
fn check(name: &str, is_so: bool, found: impl Display) {
    assert!(is_so, "step \"{name}\" finds {found}");
}

/// A connection over two paths, each through a relay.
struct Scene {
    ends: Ends,
    relays: [Relay; 2],
}

impl Scene {
    async fn start(client: Stack, server: Stack) -> Scene {
        let (listening, address) = step("listen", async { Ends::listen(server) }).await;
        let relays = [Relay::start(address).await.unwrap(), Relay::start(address).await.unwrap()];
        let ends = step("handshake", Ends::connect(listening, client, relays[0].address())).await;
        let id = step("open a path", ends.client.open_path(relays[1].address())).await;
        check("open a path", id == 1, id);
        Scene { ends, relays }
    }

    fn down(&self) -> [u64; 2] {
        [self.relays[0].down(), self.relays[1].down()]
    }

    /// A download with something that happens when a third of it is there.
    async fn download(&self, event: impl AsyncFnOnce()) {
        let mut download = step("ask", self.ends.client.download(BYTES)).await;
        step("the first third", download.read_to(33)).await;
        event().await;
        step("the rest of the download", download.read_to(100)).await;
    }

    /// Downloads until each of `paths` has carried its share: how soon a path gets its share is a matter of the
    /// machine's load, as a path that opens or moves begins with an initial window while the other is at full speed.
    async fn use_paths(&self, name: &str, paths: &[usize]) {
        let before = self.down();
        let carried = || -> Vec<u64> { paths.iter().map(|path| self.down()[*path] - before[*path]).collect() };
        let downloads = async {
            while !carried().iter().all(|bytes| *bytes > SHARE) {
                self.download(async || ()).await;
            }
        };
        if tokio::time::timeout(PATIENCE, downloads).await.is_err() {
            panic!("step \"{name}\" takes longer than {PATIENCE:?}: {:?}", carried());
        }
    }

    fn end(self) {
        for (who, end) in [("client", &self.ends.client), ("server", &self.ends.server)] {
            if let Some(why) = end.ended() {
                panic!("step \"end\": the connection of the {who} has ended: {why}");
            }
        }
        self.ends.client.close();
    }
}

async fn download_over_two_paths(client: Stack, server: Stack) {
    let scene = Scene::start(client, server).await;
    scene.use_paths("both paths carry a share", &[0, 1]).await;
    let up = [scene.relays[0].up(), scene.relays[1].up()];
    check("both paths carry something back", up.iter().all(|bytes| *bytes > 1200), format!("{up:?}"));
    scene.end();
}

/// `by_client`: who gives the path up.
async fn abandon(client: Stack, server: Stack, by_client: bool) {
    for gone in 0..2 {
        let scene = Scene::start(client, server).await;
        let [who, peer] = match by_client {
            true => [&scene.ends.client, &scene.ends.server],
            false => [&scene.ends.server, &scene.ends.client],
        };
        scene.download(async || step("abandon", async { who.close_path(gone) }).await).await;
        for end in [who, peer] {
            let known = || end.paths().iter().map(|path| path.0).collect::<Vec<_>>();
            until("both ends forget the path", || known() == [1 - gone], || format!("{:?}", known())).await;
        }
        let before = scene.down();
        scene.download(async || ()).await;
        let carried = scene.down()[gone as usize] - before[gone as usize];
        check("nothing takes the abandoned path", carried < REMNANTS, carried);
        scene.end();
    }
}

async fn by_client(client: Stack, server: Stack) {
    abandon(client, server, true).await;
}

async fn by_server(client: Stack, server: Stack) {
    abandon(client, server, false).await;
}

async fn cut(client: Stack, server: Stack) {
    for gone in 0..2 {
        let scene = Scene::start(client, server).await;
        scene.download(async || scene.relays[gone].cut()).await;
        scene.download(async || ()).await;
        scene.end();
    }
}

async fn rebinding(client: Stack, server: Stack) {
    for moved in 0..2 {
        let scene = Scene::start(client, server).await;
        let mut now_at = None;
        scene.download(async || now_at = Some(scene.relays[moved].rebind().await.unwrap())).await;
        let known = || scene.ends.server.paths();
        let is_followed = || known().contains(&(moved as u32, now_at.unwrap()));
        until("the server follows the path", is_followed, || format!("{:?} without {now_at:?}", known())).await;
        scene.use_paths("the path carries a share from its new address", &[moved]).await;
        check("no path was lost", known().len() == 2, format!("{:?}", known()));
        scene.end();
    }
}

/// Of the ends that count.
fn key_updates(scene: &Scene) -> u64 {
    [&scene.ends.client, &scene.ends.server].into_iter().filter_map(|end| end.key_updates()).sum()
}

async fn key_update(client: Stack, server: Stack) {
    let scene = Scene::start(client, server).await;
    for end in [&scene.ends.client, &scene.ends.server] {
        // The peer has to have answered with the keys in use before there can be others (RFC 9001 section 6.1).
        scene.download(async || ()).await;
        let before = key_updates(&scene);
        scene.download(async || step("update the keys", async { end.update_keys() }).await).await;
        // noq changes its keys now and then without being asked.
        let updates = key_updates(&scene) - before;
        check("keys were updated", updates > 0, updates);
        scene.use_paths("both paths carry a share with the new keys", &[0, 1]).await;
    }
    scene.end();
}

/// A test for each role.
macro_rules! in_both_roles {
    ($($name:ident = $scenario:expr;)*) => {
        mod noq_client_thalweg_server {
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                $scenario(Stack::Noq, Stack::Thalweg).await;
            })*
        }
        mod thalweg_client_noq_server {
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                $scenario(Stack::Thalweg, Stack::Noq).await;
            })*
        }
    };
}

in_both_roles! {
    a_download_takes_both_paths = download_over_two_paths;
    the_client_abandons_a_path = by_client;
    the_server_abandons_a_path = by_server;
    one_path_is_cut = cut;
    one_path_is_rebound = rebinding;
    keys_are_updated_on_both_paths = key_update;
}
