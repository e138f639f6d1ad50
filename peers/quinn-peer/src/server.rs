//! The server role: files of `WWW` over hq-interop or HTTP/3.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::evidence::{Counter, Evidence, Ledger};
use contract::{Failure, NOT_FOUND, Task, tls};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, TokioRuntime, VarInt,
};

use crate::wire::{self, Seen};
use crate::{client, trace};

pub async fn run(task: &Task) -> Result<(), Failure> {
    let (crypto, resumed) = tls::server(task)?;
    let crypto = QuicServerConfig::with_initial(Arc::new(crypto), client::initial_suite()?)?;
    let config = ServerConfig::with_crypto(Arc::new(crypto));
    let (socket, seen) = wire::bind(contract::address("LISTEN")?)?;
    let endpoint =
        Endpoint::new_with_abstract_socket(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))?;
    contract::announce(endpoint.local_addr()?);

    let ledger = Ledger::default();
    let ended = contract::terminated();
    tokio::pin!(ended);
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = &mut ended => None,
        };
        let Some(incoming) = incoming else { break };
        if task.is("retry") && !incoming.remote_address_validated() {
            incoming.retry()?;
            continue;
        }
        let (task, seen, ledger, resumed) = (task.clone(), seen.clone(), ledger.clone(), resumed.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(task, incoming, seen, ledger, resumed).await {
                eprintln!("connection failed: {error}");
            }
        });
    }
    ledger.close_all();
    Ok(())
}

async fn connection(
    task: Task,
    incoming: Incoming,
    seen: Arc<Seen>,
    ledger: Ledger,
    resumed_sessions: Counter,
) -> Result<(), Failure> {
    let retry = incoming.remote_address_validated();
    let resumed_before = resumed_sessions.get();
    let connecting = incoming.accept()?;
    let resumed = Arc::new(AtomicBool::new(false));
    let early = Arc::new(AtomicBool::new(false));
    let connection = if task.is("zerortt") {
        let Ok((connection, complete)) = connecting.into_0rtt() else {
            return Err("no half-open connection".into());
        };
        let resumed = resumed.clone();
        tokio::spawn(async move {
            complete.await;
            resumed.store(resumed_sessions.get() > resumed_before, Ordering::Relaxed);
        });
        connection
    } else {
        let connection = connecting.await?;
        resumed.store(resumed_sessions.get() > resumed_before, Ordering::Relaxed);
        connection
    };
    let streams = Counter::default();
    let number = ledger.open({
        let (task, streams, early, connection) = (task.clone(), streams.clone(), early.clone(), connection.clone());
        move || Evidence {
            version: Some(seen.version.load(Ordering::Relaxed)),
            cipher: client::only_cipher(&task),
            alpn: client::alpn(&connection),
            resumed: Some(resumed.load(Ordering::Relaxed)),
            // quinn tells early data by whether the handshake still goes on when the program takes the stream. On a
            // busy machine it may be over by then, so that only a yes says something.
            early_data: early.load(Ordering::Relaxed).then_some(true),
            retry: Some(retry),
            key_updates: trace::key_updates(&task),
            ecn_sent: Some(seen.ecn_sent.load(Ordering::Relaxed)),
            ecn_received: Some(seen.ecn_received.load(Ordering::Relaxed)),
            ecn_acked: trace::ecn_acked(&task),
            streams: streams.get(),
            ..Evidence::default()
        }
    });
    if task.is("http3") {
        if let Err(error) = contract::http3::serve(h3_quinn::Connection::new(connection.clone()), streams).await {
            eprintln!("HTTP/3 ends: {error}");
        }
    } else {
        serve_hq(&connection, &streams, &early).await;
    }
    connection.closed().await;
    ledger.close(number);
    Ok(())
}

async fn serve_hq(connection: &Connection, streams: &Counter, early: &AtomicBool) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        streams.add();
        early.fetch_or(recv.is_0rtt(), Ordering::Relaxed);
        tokio::spawn(async move {
            if let Err(error) = answer(send, recv).await {
                eprintln!("request failed: {error}");
            }
        });
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> Result<(), Failure> {
    let line = recv.read_to_end(4096).await?;
    match contract::read_for_line(&line) {
        Ok(body) => {
            send.write_chunk(body.into()).await?;
            send.finish()?;
            send.stopped().await?;
            Ok(())
        }
        Err(error) => {
            send.reset(VarInt::from_u32(NOT_FOUND))?;
            Err(error)
        }
    }
}
