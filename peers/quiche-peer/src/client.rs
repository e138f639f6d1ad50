//! The client role: fetches `REQUESTS` into `DOWNLOADS`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use contract::{Failure, Request, Task};
use quiche::h3::{self, NameValue};
use quiche::{Connection, ConnectionId};

use crate::{config, ending, exchange, log_keys};

/// How long a session ticket may take to arrive after the first connection's files.
const TICKET_WAIT: Duration = Duration::from_millis(500);

pub fn run(task: &Task) -> Result<(), Failure> {
    let ending = ending()?;
    let mut config = config(task)?;
    config.verify_peer(true);
    config.load_verify_locations_from_file(&contract::variable("CA")?)?;
    let server = contract::address("SERVER")?;
    let groups = task.requests()?;
    let mut session: Option<Vec<u8>> = None;
    for (index, requests) in groups.iter().enumerate() {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let local = socket.local_addr()?;
        // Unpredictable enough among processes on loopback.
        let id = [std::process::id().to_be_bytes(), (local.port() as u32).to_be_bytes()].concat();
        let id = ConnectionId::from_ref(&id);
        let mut connection = quiche::connect(Some("localhost"), &id, local, server, &mut config)?;
        log_keys(&mut connection)?;
        if let Some(session) = &session {
            connection.set_session(session)?;
        }
        let mut fetch = Fetch::new(requests);
        let mut complete = None;
        exchange::flush(&socket, &mut connection)?;
        while !connection.is_closed() {
            let arrived = exchange::receive(&socket, connection.timeout())?;
            if connection.timeout().is_some_and(|left| left.is_zero()) {
                connection.on_timeout();
            }
            for (mut data, from) in arrived {
                // A packet that cannot be used says nothing about the connection; its end shows in `is_closed`.
                let _ = connection.recv(&mut data, quiche::RecvInfo { from, to: local });
            }
            if connection.is_established() {
                if task.is("http3") {
                    fetch.http3(&mut connection)?;
                } else {
                    fetch.hq(&mut connection)?;
                }
            }
            if fetch.left == 0 {
                let since = complete.get_or_insert_with(Instant::now);
                session = connection.session().map(<[u8]>::to_vec);
                if index + 1 == groups.len() || session.is_some() || since.elapsed() > TICKET_WAIT {
                    let _ = connection.close(true, if task.is("http3") { 0x100 } else { 0 }, b"");
                    exchange::flush(&socket, &mut connection)?;
                    break;
                }
            }
            if ending.load(Ordering::Relaxed) {
                return Err("told to end before the files were here".into());
            }
            exchange::flush(&socket, &mut connection)?;
        }
        println!("{}", exchange::evidence(&connection, task, index + 1, fetch.asked));
        if fetch.left > 0 {
            let why = connection.peer_error().or(connection.local_error());
            return Err(format!("the connection ended with {} files missing: {why:?}", fetch.left).into());
        }
    }
    Ok(())
}

/// Downloads under way on a connection.
struct Fetch<'a> {
    requests: &'a [Request],
    asked: usize,
    left: usize,
    files: BTreeMap<u64, File>,
    http: Option<h3::Connection>,
    buffer: Vec<u8>,
}

impl<'a> Fetch<'a> {
    fn new(requests: &'a [Request]) -> Self {
        let left = requests.len();
        Self { requests, asked: 0, left, files: BTreeMap::new(), http: None, buffer: vec![0; 65_536] }
    }

    /// One round of HTTP/0.9: new requests as far as the server allows, then whatever can be read.
    fn hq(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        while self.asked < self.requests.len() && connection.peer_streams_left_bidi() > 0 {
            let (id, request) = (4 * self.asked as u64, &self.requests[self.asked]);
            let line = request.line();
            if connection.stream_send(id, line.as_bytes(), true)? < line.len() {
                return Err(format!("{}: the request does not fit into the stream", request.url).into());
            }
            self.files.insert(id, File::create(request.target()?)?);
            self.asked += 1;
        }
        for id in connection.readable().collect::<Vec<_>>() {
            loop {
                match connection.stream_recv(id, &mut self.buffer) {
                    Ok((length, last)) => {
                        if let Some(file) = self.files.get_mut(&id) {
                            file.write_all(&self.buffer[..length])?;
                        }
                        if last {
                            self.left -= usize::from(self.files.remove(&id).is_some());
                            break;
                        }
                    }
                    Err(quiche::Error::Done) => break,
                    Err(error) => return Err(format!("stream {id}: {error}").into()),
                }
            }
        }
        Ok(())
    }

    /// The same over HTTP/3.
    fn http3(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        if self.http.is_none() {
            self.http = Some(h3::Connection::with_transport(connection, &h3::Config::new()?)?);
        }
        let Some(http) = &mut self.http else { return Ok(()) };
        while self.asked < self.requests.len() {
            let request = &self.requests[self.asked];
            let authority = request.url["https://".len()..].split('/').next().unwrap_or_default();
            let headers = [
                h3::Header::new(b":method", b"GET"),
                h3::Header::new(b":scheme", b"https"),
                h3::Header::new(b":authority", authority.as_bytes()),
                h3::Header::new(b":path", request.path.as_bytes()),
            ];
            let id = match http.send_request(connection, &headers, true) {
                Ok(id) => id,
                Err(h3::Error::StreamBlocked | h3::Error::TransportError(quiche::Error::StreamLimit)) => break,
                Err(error) => return Err(format!("{}: {error}", request.url).into()),
            };
            self.files.insert(id, File::create(request.target()?)?);
            self.asked += 1;
        }
        loop {
            match http.poll(connection) {
                Ok((id, h3::Event::Headers { list, .. })) => {
                    let status = list.iter().find(|header| header.name() == b":status").map(|header| header.value());
                    if status != Some(b"200") {
                        return Err(format!("stream {id}: status {status:?}").into());
                    }
                }
                Ok((id, h3::Event::Data)) => {
                    while let Ok(length) = http.recv_body(connection, id, &mut self.buffer) {
                        if let Some(file) = self.files.get_mut(&id) {
                            file.write_all(&self.buffer[..length])?;
                        }
                    }
                }
                Ok((id, h3::Event::Finished)) => self.left -= usize::from(self.files.remove(&id).is_some()),
                Ok((id, h3::Event::Reset(code))) => return Err(format!("stream {id} was reset: 0x{code:x}").into()),
                Ok(_) => {}
                Err(h3::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
