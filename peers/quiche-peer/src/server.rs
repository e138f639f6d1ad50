//! The server role: files of `WWW` over hq-interop or HTTP/3.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;

use contract::{Failure, NOT_FOUND, Task};
use quiche::h3::{self, NameValue};
use quiche::{Connection, ConnectionId, Header, Shutdown, Type};

use crate::{MAX_DATAGRAM, config, ending, exchange, log_keys};

/// Length of this server's connection IDs.
const CID: usize = 8;

/// Longest line of a request.
const LINE: usize = 4096;

pub fn run(task: &Task) -> Result<(), Failure> {
    let ending = ending()?;
    let mut config = config(task)?;
    config.load_cert_chain_from_pem_file(&contract::variable("CERT")?)?;
    config.load_priv_key_from_pem_file(&contract::variable("KEY")?)?;
    let socket = UdpSocket::bind(contract::address("LISTEN")?)?;
    let local = socket.local_addr()?;
    contract::announce(local);
    let mut entries: Vec<Entry> = Vec::new();
    let mut by_id = BTreeMap::new();
    while !ending.load(Ordering::Relaxed) {
        let timer = entries.iter().filter(|entry| !entry.closed).filter_map(|entry| entry.connection.timeout()).min();
        for (mut data, from) in exchange::receive(&socket, timer)? {
            let Ok(header) = Header::from_slice(&mut data, CID) else { continue };
            let index = match by_id.get(header.dcid.as_ref()) {
                Some(&index) => index,
                None => {
                    let Some(entry) = accept(task, &socket, &header, from, &mut config, entries.len())? else {
                        continue;
                    };
                    by_id.insert(header.dcid.to_vec(), entries.len());
                    by_id.insert(entry.connection.source_id().to_vec(), entries.len());
                    entries.push(entry);
                    entries.len() - 1
                }
            };
            // A packet that cannot be used says nothing about the connection; its end shows in `is_closed`.
            let _ = entries[index].connection.recv(&mut data, quiche::RecvInfo { from, to: local });
        }
        for (index, entry) in entries.iter_mut().enumerate().filter(|(_, entry)| !entry.closed) {
            entry.turn(task, &socket, index + 1)?;
        }
    }
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.closed) {
        entry.report(task, index + 1);
    }
    Ok(())
}

/// A new connection, or `None` if the datagram begins none; in `retry` only a token does.
fn accept(
    task: &Task,
    socket: &UdpSocket,
    header: &Header<'_>,
    from: SocketAddr,
    config: &mut quiche::Config,
    count: usize,
) -> Result<Option<Entry>, Failure> {
    if header.ty != Type::Initial {
        return Ok(None);
    }
    let mut out = [0; MAX_DATAGRAM];
    if !quiche::version_is_supported(header.version) {
        let length = quiche::negotiate_version(&header.scid, &header.dcid, &mut out)?;
        socket.send_to(&out[..length], from)?;
        return Ok(None);
    }
    let token = header.token.as_deref().unwrap_or_default();
    let prefix = from.to_string().into_bytes();
    let mut id = ConnectionId::from_vec((count as u64 + 1).to_be_bytes().to_vec());
    let mut original = None;
    if task.is("retry") {
        if token.is_empty() {
            let token = [&prefix, &header.dcid[..]].concat();
            let length = quiche::retry(&header.scid, &header.dcid, &id, &token, header.version, &mut out)?;
            socket.send_to(&out[..length], from)?;
            return Ok(None);
        }
        let Some(rest) = token.strip_prefix(&prefix[..]) else { return Ok(None) };
        original = Some(ConnectionId::from_vec(rest.to_vec()));
        id = header.dcid.clone().into_owned();
    }
    let mut connection = quiche::accept(&id, original.as_ref(), socket.local_addr()?, from, config)?;
    log_keys(&mut connection)?;
    Ok(Some(Entry {
        connection,
        http: None,
        lines: BTreeMap::new(),
        answers: BTreeMap::new(),
        streams: 0,
        retried: original.is_some(),
        closed: false,
    }))
}

/// What is left to send on a stream.
struct Unsent {
    /// Over HTTP/3, until they are sent.
    headers: Option<Vec<h3::Header>>,
    body: Vec<u8>,
    sent: usize,
}

/// A connection and its streams.
struct Entry {
    connection: Connection,
    http: Option<h3::Connection>,
    lines: BTreeMap<u64, Vec<u8>>,
    answers: BTreeMap<u64, Unsent>,
    streams: usize,
    retried: bool,
    closed: bool,
}

impl Entry {
    /// Timers, requests, answers, datagrams.
    fn turn(&mut self, task: &Task, socket: &UdpSocket, number: usize) -> Result<(), Failure> {
        if self.connection.timeout().is_some_and(|left| left.is_zero()) {
            self.connection.on_timeout();
        }
        if self.connection.is_established() {
            let result = if task.is("http3") { self.http3() } else { self.hq() };
            if let Err(error) = result {
                eprintln!("connection {number}: {error}");
                let _ = self.connection.close(true, 1, b"");
            }
        }
        exchange::flush(socket, &mut self.connection)?;
        if self.connection.is_closed() || self.connection.is_draining() {
            self.closed = true;
            self.report(task, number);
        }
        Ok(())
    }

    fn report(&self, task: &Task, number: usize) {
        let mut evidence = exchange::evidence(&self.connection, task, number, self.streams);
        evidence.retry = Some(self.retried);
        println!("{evidence}");
    }

    fn hq(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; LINE];
        for id in self.connection.readable().collect::<Vec<_>>() {
            let line = self.lines.entry(id).or_default();
            let mut whole = false;
            while let Ok((length, last)) = self.connection.stream_recv(id, &mut buffer) {
                line.extend_from_slice(&buffer[..length]);
                whole |= last;
                if last || line.len() > LINE {
                    break;
                }
            }
            if whole {
                self.streams += 1;
                match contract::read_for_line(&self.lines.remove(&id).unwrap_or_default()) {
                    Ok(body) => drop(self.answers.insert(id, Unsent { headers: None, body, sent: 0 })),
                    Err(error) => {
                        eprintln!("request failed: {error}");
                        self.connection.stream_shutdown(id, Shutdown::Write, NOT_FOUND.into())?;
                    }
                }
            }
        }
        self.answers.retain(|&id, answer| {
            let rest = &answer.body[answer.sent..];
            match self.connection.stream_send(id, rest, true) {
                Ok(length) => answer.sent += length,
                Err(quiche::Error::Done) => {}
                Err(_) => return false, // stopped by the client
            }
            answer.sent < answer.body.len()
        });
        Ok(())
    }

    fn http3(&mut self) -> Result<(), Failure> {
        if self.http.is_none() {
            self.http = Some(h3::Connection::with_transport(&mut self.connection, &h3::Config::new()?)?);
        }
        let Some(http) = &mut self.http else { return Ok(()) };
        loop {
            match http.poll(&mut self.connection) {
                Ok((id, h3::Event::Headers { list, .. })) => {
                    self.streams += 1;
                    let path = list.iter().find(|header| header.name() == b":path").map(|header| header.value());
                    let path = String::from_utf8_lossy(path.unwrap_or_default()).into_owned();
                    let (status, body) = match contract::read_for_path(&path) {
                        Ok(body) => ("200", body),
                        Err(error) => {
                            eprintln!("{path}: {error}");
                            ("404", Vec::new())
                        }
                    };
                    let headers = vec![
                        h3::Header::new(b":status", status.as_bytes()),
                        h3::Header::new(b"content-length", body.len().to_string().as_bytes()),
                    ];
                    self.answers.insert(id, Unsent { headers: Some(headers), body, sent: 0 });
                }
                Ok(_) => {}
                Err(h3::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.answers.retain(|&id, answer| {
            if let Some(headers) = &answer.headers {
                match http.send_response(&mut self.connection, id, headers, answer.body.is_empty()) {
                    Ok(()) => answer.headers = None,
                    Err(h3::Error::StreamBlocked) => return true,
                    Err(_) => return false, // stopped by the client
                }
            }
            match http.send_body(&mut self.connection, id, &answer.body[answer.sent..], true) {
                Ok(length) => answer.sent += length,
                Err(h3::Error::Done) => {}
                Err(_) => return false,
            }
            answer.sent < answer.body.len()
        });
        Ok(())
    }
}
