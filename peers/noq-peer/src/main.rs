//! The server role of the interop contract (`tests/interop/README.md`) on noq, for downloads over HTTP/3.
//!
//! No library carries HTTP/3 over noq, so that this says the least that a client needs: settings, and for each request
//! a head and a body. It reads no request, and answers each with the same file: `file` of `WWW`.

use std::process::ExitCode;
use std::sync::Arc;

use contract::{Failure, Role, Task, tls};
use noq::{Connection, Endpoint, Incoming, RecvStream, SendStream, ServerConfig};

/// A control stream (RFC 9114, section 6.2.1) with empty settings (section 7.2.4).
const SETTINGS: [u8; 3] = [0x00, 0x04, 0x00];
/// The types of frames (RFC 9114, section 7.2).
const DATA: u64 = 0x00;
const HEADERS: u64 = 0x01;
/// A field section (RFC 9204, section 4.5) that refers to no dynamic table: `:status: 200`, which is entry 25 of the
/// static table.
const FOUND: [u8; 3] = [0x00, 0x00, 0xc0 | 25];
/// A literal value for the name of entry 4, `content-length`.
const CONTENT_LENGTH: u8 = 0x50 | 4;
/// The head of a request is not longer.
const LONGEST_HEAD: usize = 1 << 14;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let task = match Task::from_env(&["http3"]) {
        Ok(task) => task,
        Err(code) => return code,
    };
    contract::finish(match task.role {
        Role::Server => run(&task).await,
        Role::Client => Err("there is no client here".into()),
    })
}

async fn run(task: &Task) -> Result<(), Failure> {
    let (tls, _) = tls::server(task)?;
    let crypto = noq::crypto::rustls::QuicServerConfig::try_from(tls)?;
    let config = ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = Endpoint::server(config, contract::address("LISTEN")?)?;
    contract::announce(endpoint.local_addr()?);
    let ended = contract::terminated();
    tokio::pin!(ended);
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = &mut ended => None,
        };
        let Some(incoming) = incoming else { return Ok(()) };
        tokio::spawn(async move {
            if let Err(error) = connection(incoming).await {
                eprintln!("connection failed: {error}");
            }
        });
    }
}

async fn connection(incoming: Incoming) -> Result<(), Failure> {
    let connection: Connection = incoming.await?;
    let mut control = connection.open_uni().await?;
    control.write_all(&SETTINGS).await?;
    // The client's own control streams stay unread: their credit is small.
    while let Ok((send, recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            if let Err(error) = answer(send, recv).await {
                eprintln!("request failed: {error}");
            }
        });
    }
    // The client has closed; a control stream must not end before.
    drop(control);
    Ok(())
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> Result<(), Failure> {
    recv.read_to_end(LONGEST_HEAD).await?;
    let body = contract::read_for_path("/file")?;
    let length = body.len().to_string();
    let mut fields = FOUND.to_vec();
    fields.push(CONTENT_LENGTH);
    fields.push(u8::try_from(length.len())?);
    fields.extend_from_slice(length.as_bytes());
    let mut head = Vec::new();
    frame(&mut head, HEADERS, fields.len());
    head.extend_from_slice(&fields);
    frame(&mut head, DATA, body.len());
    send.write_all(&head).await?;
    send.write_chunk(body.into()).await?;
    send.finish()?;
    send.stopped().await?;
    Ok(())
}

/// Type and length of a frame.
fn frame(out: &mut Vec<u8>, kind: u64, length: usize) {
    for number in [kind, length as u64] {
        match number {
            0..0x40 => out.push(number as u8),
            0x40..0x4000 => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
            0x4000..0x4000_0000 => out.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes()),
            _ => out.extend_from_slice(&(number | 0xc000_0000_0000_0000).to_be_bytes()),
        }
    }
}
