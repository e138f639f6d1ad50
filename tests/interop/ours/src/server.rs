//! The server role: files of `WWW` over hq-interop or HTTP/3.

use std::sync::Arc;

use contract::evidence::{Counter, Evidence, Ledger};
use contract::{Failure, NOT_FOUND, Task, tls};
use thalweg::{
    Connection, EndpointBuilder, Incoming, RecvStream, RetryPolicy, SendStream, ServerConfig, TransportConfig, Version,
};

use crate::watch::Watch;

pub async fn run(task: &Task) -> Result<(), Failure> {
    let watch = Watch::default();
    let (crypto, _) = tls::server(task)?;
    let transport = TransportConfig { observer: Some(Arc::new(watch.clone())), ..TransportConfig::default() };
    let mut config = ServerConfig::with_rustls(crypto)?.transport(transport);
    if task.is("retry") {
        config = config.retry(RetryPolicy::Always);
    }
    if task.is("v2") {
        config = config.preferred_versions([Version::V2]);
    }
    let endpoint = EndpointBuilder::new().server(config).workers(1).bind(contract::address("LISTEN")?)?;
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
        let (task, watch, ledger) = (task.clone(), watch.clone(), ledger.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(&task, incoming, &watch, &ledger).await {
                eprintln!("connection failed: {error}");
            }
        });
    }
    ledger.close_all();
    Ok(())
}

async fn connection(task: &Task, incoming: Incoming, watch: &Watch, ledger: &Ledger) -> Result<(), Failure> {
    let retry = task.is("retry") && incoming.remote_address_validated();
    let seen = watch.latest();
    let connection = incoming.await?;
    let streams = Counter::default();
    let number = ledger.open({
        let (streams, connection) = (streams.clone(), connection.clone());
        move || Evidence {
            retry: Some(retry),
            early_data: Some(seen.early_packets()),
            streams: streams.get(),
            ..seen.evidence(&connection)
        }
    });
    if task.is("http3") {
        if let Err(error) = contract::http3::serve(thalweg_h3::Connection::new(connection.clone()), streams).await {
            eprintln!("HTTP/3 ends: {error}");
        }
    } else {
        serve_hq(&connection, &streams).await;
    }
    connection.closed().await;
    ledger.close(number);
    Ok(())
}

async fn serve_hq(connection: &Connection, streams: &Counter) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        streams.add();
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
            send.write_all_chunks(&mut [body.into()]).await?;
            send.finish()?;
            Ok(())
        }
        Err(error) => {
            send.reset(NOT_FOUND.into())?;
            Err(error)
        }
    }
}
