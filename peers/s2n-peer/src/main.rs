//! The interop peer on s2n-quic. The contract is in `tests/interop/README.md`.

use std::path::Path;
use std::process::ExitCode;

use contract::evidence::{Counter, Evidence, Ledger};
use contract::{ALPN_HQ, Failure, NOT_FOUND, Request, Role, Task};
use s2n_quic::client::Connect;
use s2n_quic::provider::tls::rustls;
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Connection, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// What s2n-quic and this program can do; its HTTP/3 is not published as a crate.
const CASES: &[&str] = &["handshake", "transfer", "multiplexing", "ecn", "transferloss"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let task = match Task::from_env(CASES) {
        Ok(task) => task,
        Err(code) => return code,
    };
    contract::finish(match task.role {
        Role::Client => fetch(&task).await,
        Role::Server => serve().await,
    })
}

/// What is known of a connection.
fn evidence(connection: &s2n_quic::connection::Handle, streams: &Counter) -> Evidence {
    let alpn = connection.application_protocol().ok().map(|alpn| String::from_utf8_lossy(&alpn).into_owned());
    Evidence { alpn, streams: streams.get(), ..Evidence::default() }
}

async fn serve() -> Result<(), Failure> {
    let (cert, key) = (contract::variable("CERT")?, contract::variable("KEY")?);
    let tls = rustls::Server::builder()
        .with_certificate(Path::new(&cert), Path::new(&key))?
        .with_application_protocols([ALPN_HQ].iter())?
        .with_key_logging()?
        .build()?;
    let mut server = Server::builder().with_tls(tls)?.with_io(contract::address("LISTEN")?)?.start()?;
    contract::announce(server.local_addr()?);
    let ledger = Ledger::default();
    let ended = contract::terminated();
    tokio::pin!(ended);
    loop {
        let connection = tokio::select! {
            connection = server.accept() => connection,
            _ = &mut ended => None,
        };
        let Some(connection) = connection else { break };
        let ledger = ledger.clone();
        tokio::spawn(async move { answer_all(connection, &ledger).await });
    }
    ledger.close_all();
    Ok(())
}

async fn answer_all(mut connection: Connection, ledger: &Ledger) {
    let (streams, handle) = (Counter::default(), connection.handle());
    let number = ledger.open({
        let streams = streams.clone();
        move || evidence(&handle, &streams)
    });
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        streams.add();
        tokio::spawn(async move {
            if let Err(error) = answer(stream).await {
                eprintln!("request failed: {error}");
            }
        });
    }
    ledger.close(number);
}

async fn answer(mut stream: BidirectionalStream) -> Result<(), Failure> {
    let mut line = Vec::new();
    (&mut stream).take(4096).read_to_end(&mut line).await?;
    match contract::read_for_line(&line) {
        Ok(body) => {
            stream.send(body.into()).await?;
            stream.finish()?;
            Ok(())
        }
        Err(error) => {
            stream.reset(NOT_FOUND.into())?;
            Err(error)
        }
    }
}

async fn fetch(task: &Task) -> Result<(), Failure> {
    let ca = contract::variable("CA")?;
    let tls = rustls::Client::builder()
        .with_certificate(Path::new(&ca))?
        .with_application_protocols([ALPN_HQ].iter())?
        .with_key_logging()?
        .build()?;
    let client = Client::builder().with_tls(tls)?.with_io("127.0.0.1:0")?.start()?;
    let ledger = Ledger::default();
    for requests in task.requests()? {
        let connect = Connect::new(contract::address("SERVER")?).with_server_name("localhost");
        let connection = client.connect(connect).await?;
        let (streams, handle) = (Counter::default(), connection.handle());
        ledger.open({
            let (streams, handle) = (streams.clone(), handle.clone());
            move || evidence(&handle, &streams)
        });
        let mut running = JoinSet::new();
        for request in requests {
            streams.add();
            running.spawn(download(handle.clone(), request));
        }
        while let Some(result) = running.join_next().await {
            result??;
        }
        ledger.close_all();
        handle.close(0u32.into());
    }
    let mut client = client;
    client.wait_idle().await?;
    Ok(())
}

async fn download(mut connection: s2n_quic::connection::Handle, request: Request) -> Result<(), Failure> {
    let mut stream = connection.open_bidirectional_stream().await?;
    stream.write_all(request.line().as_bytes()).await?;
    stream.finish()?;
    let mut file = std::fs::File::create(request.target()?)?;
    while let Some(chunk) = stream.receive().await? {
        std::io::Write::write_all(&mut file, &chunk)?;
    }
    Ok(())
}
