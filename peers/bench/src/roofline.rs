//! The roofline: sealed datagrams of full size through GSO and GRO, and nothing else. No QUIC stack on the same socket
//! calls and the same AES-128-GCM can need less.
//!
//! The sender copies the payload into place and seals it, the receiver opens it in place. There is no header
//! protection, no loss recovery, no stream. A receipt for every 256 KiB keeps the sender from overrunning the socket
//! buffer.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::job::{CHUNK, Direction, Failure, Job, MAX_DATAGRAM, Outcome};
use crate::stack::Stack;

/// First byte, eight bytes of connection ID, four of packet number: the short header of a QUIC packet.
const HEADER: usize = 13;
const TAG: usize = 16;
const DATAGRAM: usize = MAX_DATAGRAM as usize;
const PAYLOAD: usize = DATAGRAM - HEADER - TAG;

/// Bytes on the way at most. Well below the socket buffer, because the kernel charges more than the payload.
const IN_FLIGHT: u64 = 1 << 20;
/// Bytes between receipts.
const RECEIPT_EVERY: u64 = 256 << 10;
/// Silence after which the sender takes what is on the way for lost.
const PATIENCE: Duration = Duration::from_millis(50);
/// The largest UDP payload that one GSO send can carry.
const MAX_BATCH: usize = 65_507;

pub struct Roofline;

impl Stack for Roofline {
    fn name(&self) -> &'static str {
        "roofline"
    }

    fn options(&self) -> String {
        format!("no QUIC: {DATAGRAM}-byte datagrams, copied, sealed, sent with GSO; received with GRO, opened")
    }

    fn has_handshake(&self) -> bool {
        false
    }

    fn serve(&self, job: &Job, ready: &dyn Fn(SocketAddr)) -> Result<Outcome, Failure> {
        let link = Link::new(job.socket()?)?;
        ready(link.socket.local_addr()?);
        let mut hello = [0; 16];
        let peer = loop {
            match link.socket.recv_from(&mut hello) {
                Ok((_, peer)) => break peer,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => link.wait(libc::POLLIN, None),
                Err(error) => return Err(error.into()),
            };
        };
        link.socket.connect(peer)?;
        match job.direction {
            Direction::Download => link.send(job.size),
            Direction::Upload => link.receive(job.size),
        }
    }

    fn fetch(&self, job: &Job) -> Result<Outcome, Failure> {
        let link = Link::new(job.socket()?)?;
        link.socket.connect(job.server()?)?;
        link.socket.send(b"hello")?;
        match job.direction {
            Direction::Download => link.receive(job.size),
            Direction::Upload => link.send(job.size),
        }
    }
}

struct Link {
    socket: UdpSocket,
    state: UdpSocketState,
    key: LessSafeKey,
}

impl Link {
    fn new(socket: UdpSocket) -> Result<Self, Failure> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        socket.set_nonblocking(true)?;
        let key = UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(|_| "ring refuses the key")?;
        Ok(Self { socket, state, key: LessSafeKey::new(key) })
    }

    /// Waits until the socket is ready; returns whether it is.
    fn wait(&self, events: libc::c_short, timeout: Option<Duration>) -> bool {
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events, revents: 0 };
        let timeout = timeout.map_or(-1, |timeout| timeout.as_millis() as libc::c_int);
        // SAFETY: one valid pollfd on the stack, as the count says.
        unsafe { libc::poll(&mut poll, 1, timeout) > 0 }
    }

    fn send(&self, size: u64) -> Result<Outcome, Failure> {
        let source = vec![0x5a_u8; CHUNK];
        let segments = self.state.max_gso_segments().clamp(1, MAX_BATCH / DATAGRAM);
        let mut buffer = vec![0; segments * DATAGRAM];
        let destination = self.socket.peer_addr()?;
        let (mut number, mut sent, mut received, mut lost, mut offset) = (0_u64, 0_u64, 0_u64, 0_u64, 0);
        let mut heard = Instant::now();
        while received < size {
            let mut receipt = [0; 8];
            while let Ok(8) = self.socket.recv(&mut receipt) {
                received = received.max(u64::from_be_bytes(receipt));
                heard = Instant::now();
            }
            if sent - lost - received >= IN_FLIGHT || received >= size {
                if !self.wait(libc::POLLIN, Some(PATIENCE)) && heard.elapsed() >= PATIENCE {
                    lost = sent - received;
                }
                continue;
            }
            for segment in buffer.chunks_exact_mut(DATAGRAM) {
                segment[0] = 0x43;
                segment[1..9].fill(0x11);
                segment[9..HEADER].copy_from_slice(&(number as u32).to_be_bytes());
                let (header, rest) = segment.split_at_mut(HEADER);
                let (payload, tag) = rest.split_at_mut(PAYLOAD);
                if offset + PAYLOAD > source.len() {
                    offset = 0;
                }
                payload.copy_from_slice(&source[offset..offset + PAYLOAD]);
                offset += PAYLOAD;
                let sealed = self
                    .key
                    .seal_in_place_separate_tag(nonce(number as u32), Aad::from(&*header), payload)
                    .map_err(|_| "cannot seal")?;
                tag.copy_from_slice(sealed.as_ref());
                number += 1;
            }
            let transmit = Transmit {
                destination,
                ecn: None,
                contents: &buffer,
                segment_size: (segments > 1).then_some(DATAGRAM),
                src_ip: None,
            };
            while let Err(error) = self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Err(error.into());
                }
                self.wait(libc::POLLOUT, None);
            }
            sent += (segments * PAYLOAD) as u64;
        }
        Ok(Outcome { datagram: DATAGRAM as u64, sent: number, lost: lost / PAYLOAD as u64 })
    }

    fn receive(&self, size: u64) -> Result<Outcome, Failure> {
        let capacity = self.state.gro_segments() * DATAGRAM.max(1500);
        let mut storage = vec![vec![0; capacity]; BATCH_SIZE];
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let (mut received, mut receipted) = (0_u64, 0_u64);
        while received < size {
            let count = {
                let mut slices = storage.iter_mut().map(|one| io::IoSliceMut::new(one)).collect::<Vec<_>>();
                match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.wait(libc::POLLIN, None);
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            };
            for (meta, buffer) in metas.iter().zip(&mut storage).take(count) {
                for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                    let Some((header, rest)) = datagram.split_at_mut_checked(HEADER) else { continue };
                    let number = u32::from_be_bytes([header[9], header[10], header[11], header[12]]);
                    let plain = self
                        .key
                        .open_in_place(nonce(number), Aad::from(&*header), rest)
                        .map_err(|_| "a datagram does not open")?;
                    received += plain.len() as u64;
                }
            }
            if received - receipted >= RECEIPT_EVERY || received >= size {
                receipted = received;
                self.socket.send(&received.to_be_bytes())?;
            }
        }
        Ok(Outcome { datagram: DATAGRAM as u64, ..Outcome::default() })
    }
}

fn nonce(number: u32) -> Nonce {
    let mut bytes = [0; 12];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}
