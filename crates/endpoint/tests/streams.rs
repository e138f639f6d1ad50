//! Streams over real sockets on loopback.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use common::{Pair, digest, echo, pattern, within};
use thalweg::{ConnectionError, ReadError, ReadExactError, ReadToEndError, TransportConfig, WriteError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn echo_over_a_bidirectional_stream() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"hello");
        assert_eq!(send.stopped().await.unwrap(), None);
        assert_eq!(client.alpn().unwrap(), b"test");
        assert_eq!(client.remote_address(), pair.address);
        assert!(client.peer_certificates().is_some());
    })
    .await;
}

#[tokio::test]
async fn echo_over_ipv6() {
    within(async {
        let pair = Pair::on("[::1]:0", 1, |server| server, |client| client);
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"six").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"six");
        assert!(client.remote_address().is_ipv6());
    })
    .await;
}

#[tokio::test]
async fn a_dual_stack_client_reaches_an_ipv4_server() {
    within(async {
        let pair = Pair::new();
        let client = thalweg::Endpoint::client("[::]:0".parse().unwrap()).unwrap();
        let identity = common::Identity::new();
        pair.server.set_server_config(Some(&identity.server()));
        let connecting = client.connect_with(&identity.client(), pair.address, "localhost").unwrap();
        let (ours, theirs) = tokio::join!(connecting, async { pair.server.accept().await.unwrap().await });
        let (ours, _theirs) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(ours.remote_address(), pair.address);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_megabytes_arrive_unchanged_in_both_directions() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = Bytes::from(pattern(50_000_000));
        let expected = digest(&data);
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let writer = tokio::spawn(async move {
            let mut rest = data;
            while !rest.is_empty() {
                let mut chunk = rest.split_to(rest.len().min(256 * 1024));
                while !chunk.is_empty() {
                    send.write_chunk(&mut chunk).await.unwrap();
                }
            }
            send.finish().unwrap();
            send.stopped().await.unwrap()
        });
        let received = recv.read_to_end(50_000_000).await.unwrap();
        assert_eq!(received.len(), 50_000_000);
        assert_eq!(digest(&received), expected);
        assert_eq!(writer.await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn ecn_marks_survive_coalesced_receive() {
    within(async {
        for bind in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let pair = Pair::on(bind, 1, |server| server, |client| client);
            let address = match pair.address.ip().is_unspecified() {
                true => (std::net::Ipv6Addr::LOCALHOST, pair.address.port()).into(),
                false => pair.address,
            };
            let (client, server) = pair.connect_to(address).await;
            tokio::spawn(echo(server.clone()));
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            let writer = tokio::spawn(async move {
                send.write_all(&pattern(2_000_000)).await.unwrap();
                send.finish().unwrap();
            });
            recv.read_to_end(2_000_000).await.unwrap();
            writer.await.unwrap();
            for stats in [client.stats(), server.stats()] {
                let [ect0, _, ce] = stats.ecn_received;
                // The counts leave out the handshake's packets.
                assert!(ect0 + ce + 10 >= stats.packets_received, "{bind}: {stats:?}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_wait_for_their_turn() {
    within(async {
        let mut transport = TransportConfig::default();
        transport.streams.max_concurrent_bidi = 10;
        let pair = Pair::transport(transport);
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let tasks: Vec<_> = (0..1000u32)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    let (mut send, mut recv) = client.open_bi().await.unwrap();
                    let data = vec![number as u8; number as usize + 1];
                    send.write_all(&data).await.unwrap();
                    send.finish().unwrap();
                    assert_eq!(recv.read_to_end(2000).await.unwrap(), data);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn unidirectional_streams_go_both_ways() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut up = client.open_uni().await.unwrap();
        up.write_all(b"up").await.unwrap();
        up.finish().unwrap();
        let mut down = server.open_uni().await.unwrap();
        down.write_all(b"down").await.unwrap();
        down.finish().unwrap();
        assert_eq!(server.accept_uni().await.unwrap().read_to_end(10).await.unwrap(), b"up");
        assert_eq!(client.accept_uni().await.unwrap().read_to_end(10).await.unwrap(), b"down");
    })
    .await;
}

#[tokio::test]
async fn reset_reaches_the_reader() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, _recv) = client.open_bi().await.unwrap();
        send.write_all(b"x").await.unwrap();
        let (_back, mut recv) = server.accept_bi().await.unwrap();
        let mut one = [0; 1];
        recv.read_exact(&mut one).await.unwrap();
        send.reset(77).unwrap();
        assert_eq!(recv.read(&mut one).await, Err(ReadError::Reset(77)));
        // The verdict stays.
        assert_eq!(recv.read(&mut one).await, Err(ReadError::Reset(77)));
        assert!(send.finish().is_err());
    })
    .await;
}

#[tokio::test]
async fn stop_reaches_the_writer() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, _recv) = client.open_bi().await.unwrap();
        send.write_all(b"x").await.unwrap();
        let (_back, mut recv) = server.accept_bi().await.unwrap();
        recv.stop(9).unwrap();
        assert_eq!(send.stopped().await.unwrap(), Some(9));
        assert_eq!(send.write(b"more").await, Err(WriteError::Stopped(9)));
        assert!(recv.stop(9).is_err());
        assert_eq!(recv.read_chunk(10).await, Err(ReadError::ClosedStream));
    })
    .await;
}

#[tokio::test]
async fn a_stop_is_told_however_late_the_writer_asks() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"x").await.unwrap();
        recv.stop(9).unwrap();
        // Not before the server's reset was acknowledged is the stream accepted, and not before the server's
        // driver has taken everything is it written to.
        let settled = || tokio::time::sleep(Duration::from_millis(100));
        settled().await;
        let (mut back, _asked) = server.accept_bi().await.unwrap();
        assert_eq!(back.write(b"answer").await, Err(WriteError::Stopped(9)));
        settled().await;
        assert_eq!(back.write(b"answer").await, Err(WriteError::Stopped(9)));
        let told = tokio::time::timeout(Duration::from_secs(5), back.stopped()).await;
        assert_eq!(told.expect("long before the idle timeout").unwrap(), Some(9));
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_stream_that_is_dropped_is_reset_not_finished() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, _recv) = client.open_bi().await.unwrap();
        send.write_all(b"half of").await.unwrap();
        let (_back, mut recv) = server.accept_bi().await.unwrap();
        let mut seven = [0; 7];
        recv.read_exact(&mut seven).await.unwrap();
        drop(send);
        assert_eq!(recv.read_to_end(10).await, Err(ReadToEndError::Read(ReadError::Reset(0))));
    })
    .await;
}

#[tokio::test]
async fn a_receiver_that_is_dropped_stops_the_sender() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, _recv) = client.open_bi().await.unwrap();
        send.write_all(b"unwanted").await.unwrap();
        let (_back, recv) = server.accept_bi().await.unwrap();
        drop(recv);
        assert_eq!(send.stopped().await.unwrap(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn reading_too_much_or_too_little_is_an_error() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        for _ in 0..2 {
            let mut send = client.open_uni().await.unwrap();
            send.write_all(b"12345").await.unwrap();
            send.finish().unwrap();
        }
        let mut first = server.accept_uni().await.unwrap();
        assert_eq!(first.read_exact(&mut [0; 6]).await, Err(ReadExactError::FinishedEarly(5)));
        let mut second = server.accept_uni().await.unwrap();
        assert_eq!(second.read_to_end(4).await, Err(ReadToEndError::TooLong(4)));
    })
    .await;
}

#[tokio::test]
async fn tokio_traits_work() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        AsyncWriteExt::write_all(&mut send, b"through tokio").await.unwrap();
        send.shutdown().await.unwrap();
        let mut text = String::new();
        recv.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "through tokio");
    })
    .await;
}

/// Polls `future` once and drops it unless it is ready.
async fn poll_and_drop<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn dropped_futures_lose_nothing() {
    within(async {
        let mut transport = TransportConfig::default();
        // Little room, so that writes block.
        transport.streams.stream_receive_window = 16 * 1024;
        transport.streams.max_stream_receive_window = 16 * 1024;
        transport.streams.send_backlog = 16 * 1024;
        transport.streams.max_concurrent_uni = 2;
        let pair = Pair::transport(transport);
        let (client, server) = pair.connect().await;
        let data = pattern(1_000_000);
        let expected = data.clone();

        let writer = tokio::spawn(async move {
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            let mut rest = &data[..];
            let mut dropped = 0;
            while !rest.is_empty() {
                let piece = &rest[..rest.len().min(3000)];
                // A write is given up whenever it is not ready at once, then made again.
                match poll_and_drop(send.write(piece)).await {
                    Some(written) => rest = &rest[written.unwrap()..],
                    None => {
                        dropped += 1;
                        let written = send.write(piece).await.unwrap();
                        rest = &rest[written..];
                    }
                }
            }
            send.finish().unwrap();
            assert!(dropped > 0, "no write ever blocked: the test tests nothing");
            // Opening and accepting, given up and repeated, neither lose nor duplicate streams.
            let mut opened = Vec::new();
            for _ in 0..6 {
                loop {
                    if let Some(stream) = poll_and_drop(client.open_uni()).await {
                        let mut stream = stream.unwrap();
                        stream.write_all(&[7]).await.unwrap();
                        stream.finish().unwrap();
                        opened.push(stream.id());
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(recv.read_to_end(10).await.unwrap(), b"done");
            opened
        });

        let (mut back, mut recv) = server.accept_bi().await.unwrap();
        let mut received = Vec::new();
        loop {
            let chunk = match poll_and_drop(recv.read_chunk(5000)).await {
                Some(chunk) => chunk,
                None => recv.read_chunk(5000).await,
            };
            match chunk.unwrap() {
                Some(chunk) => received.extend_from_slice(&chunk),
                None => break,
            }
        }
        assert!(received == expected);
        let mut accepted = Vec::new();
        while accepted.len() < 6 {
            if let Some(stream) = poll_and_drop(server.accept_uni()).await {
                let mut stream = stream.unwrap();
                accepted.push(stream.id());
                assert_eq!(stream.read_to_end(10).await.unwrap(), [7]);
            }
            tokio::task::yield_now().await;
        }
        back.write_all(b"done").await.unwrap();
        back.finish().unwrap();
        assert_eq!(writer.await.unwrap(), accepted);
    })
    .await;
}

#[tokio::test]
async fn select_between_streams_and_time_is_safe() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let mut received = Vec::new();
        let mut sent = 0u32;
        let mut tick = tokio::time::interval(Duration::from_micros(200));
        while received.len() < 400 {
            tokio::select! {
                chunk = recv.read_chunk(3) => received.extend_from_slice(&chunk.unwrap().unwrap()),
                _ = tick.tick(), if sent < 100 => {
                    send.write_all(&sent.to_be_bytes()).await.unwrap();
                    sent += 1;
                }
            }
        }
        let expected: Vec<u8> = (0..100u32).flat_map(u32::to_be_bytes).collect();
        assert_eq!(received, expected);
    })
    .await;
}

#[tokio::test]
async fn a_memory_budget_slows_senders_down_and_closes_nothing() {
    within(async {
        let budget = 2 << 20;
        let identity = common::Identity::new();
        let server = thalweg::EndpointBuilder::new()
            .server(identity.server())
            .memory_budget(budget)
            .workers(1)
            .bind("127.0.0.1:0".parse().unwrap())
            .unwrap();
        let client = thalweg::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.local_addr().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..3 {
            let connecting = client.connect_with(&identity.client(), address, "localhost").unwrap();
            let (ours, theirs) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
            pairs.push((ours.unwrap(), theirs.unwrap()));
        }
        let data = Bytes::from(pattern(40_000_000));
        let mut writers = Vec::new();
        for (ours, _) in &pairs {
            let mut send = ours.open_uni().await.unwrap();
            let mut data = [data.clone()];
            writers.push(tokio::spawn(async move {
                send.write_all_chunks(&mut data).await.unwrap();
                send.finish().unwrap();
                send.stopped().await.unwrap();
            }));
        }
        // Everybody is stuck for lack of credit before anybody reads; then all of it arrives.
        for (_, theirs) in &pairs {
            let mut recv = theirs.accept_uni().await.unwrap();
            let received = recv.read_to_end(data.len()).await.unwrap();
            assert!(received == data);
        }
        for writer in writers {
            writer.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_send_budget_makes_writers_wait_and_capacity_says_when_they_need_not() {
    within(async {
        let identity = common::Identity::new();
        let server = thalweg::EndpointBuilder::new()
            .server(identity.server())
            .send_budget(1 << 20)
            .workers(1)
            .bind("127.0.0.1:0".parse().unwrap())
            .unwrap();
        let client = thalweg::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.local_addr().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..4 {
            let connecting = client.connect_with(&identity.client(), address, "localhost").unwrap();
            let (ours, theirs) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
            pairs.push((ours.unwrap(), theirs.unwrap()));
        }
        let mut sends = Vec::new();
        for (_, theirs) in &pairs {
            sends.push(theirs.open_uni().await.unwrap());
        }
        // Without a pause in which anything could be sent: each gets half of what is left.
        let mut taken = Vec::new();
        for send in &mut sends {
            let mut bytes = 0;
            while let Some(written) = poll_and_drop(send.write(&[0; 10_000])).await {
                bytes += written.unwrap();
            }
            taken.push(bytes);
        }
        assert!(taken.iter().sum::<usize>() <= 1 << 20, "{taken:?}");
        assert!(taken.iter().all(|bytes| *bytes > 40_000), "{taken:?}");
        for ((ours, _), (mut send, taken)) in pairs.iter().zip(sends.into_iter().zip(taken)) {
            let mut left = 3_000_000 - taken;
            let writing = tokio::spawn(async move {
                while left > 0 {
                    let capacity = send.capacity(left.min(100_000)).await.unwrap();
                    assert!(capacity > 0);
                    send.write_all(&vec![0; capacity]).await.unwrap();
                    left -= capacity;
                }
                send.finish().unwrap();
                send.stopped().await.unwrap();
            });
            let received = ours.accept_uni().await.unwrap().read_to_end(3_000_000).await.unwrap();
            assert_eq!(received.len(), 3_000_000);
            writing.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_higher_priority_goes_first() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut slow = client.open_uni().await.unwrap();
        let mut urgent = client.open_uni().await.unwrap();
        urgent.set_priority(10).unwrap();
        let bulk = pattern(20_000_000);
        let writer = tokio::spawn(async move {
            let result = slow.write_all(&bulk).await;
            (slow, result)
        });
        let mut bulk_in = server.accept_uni().await.unwrap();
        let mut first = [0; 1];
        bulk_in.read_exact(&mut first).await.unwrap();
        urgent.write_all(b"now").await.unwrap();
        urgent.finish().unwrap();
        let mut urgent_in = server.accept_uni().await.unwrap();
        assert_eq!(urgent_in.read_to_end(10).await.unwrap(), b"now");
        server.close(5, b"enough");
        let (_slow, result) = writer.await.unwrap();
        assert!(
            matches!(
                result,
                Err(WriteError::ConnectionLost(ConnectionError::PeerApplication { code: 5, .. })) | Ok(())
            ),
            "{result:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_reset_is_noticed_without_reading() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"never read").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        // A future that is dropped has taken nothing.
        assert!(poll_and_drop(recv.received_reset()).await.is_none());
        let (code, ()) = tokio::join!(recv.received_reset(), async { send.reset(7).unwrap() });
        assert_eq!(code, Ok(Some(7)));
        assert_eq!(recv.received_reset().await, Ok(Some(7)), "told again");
        assert_eq!(recv.read(&mut [0; 10]).await, Err(ReadError::Reset(7)));
        // What is complete can no longer be reset, and can still be read.
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"complete").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        let (code, ()) = tokio::join!(recv.received_reset(), async { send.finish().unwrap() });
        assert_eq!(code, Ok(None));
        assert_eq!(recv.read_to_end(100).await.unwrap(), b"complete");
        assert_eq!(recv.received_reset().await, Ok(None));
        // One that is stopped.
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"stopped").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        recv.stop(1).unwrap();
        assert_eq!(recv.received_reset().await, Ok(None));
        // One whose connection ends.
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"lost").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        let (lost, ()) = tokio::join!(recv.received_reset(), async { client.close(3, b"") });
        assert!(matches!(lost, Err(ConnectionError::PeerApplication { code: 3, .. })), "{lost:?}");
    })
    .await;
}

#[tokio::test]
async fn chunks_are_read_by_the_array() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = pattern(1_000_000);
        let mut send = client.open_uni().await.unwrap();
        let writing = async {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        };
        let reading = async {
            let mut recv = server.accept_uni().await.unwrap();
            assert_eq!(recv.read_chunks(&mut []).await, Ok(Some(0)));
            let mut all = Vec::new();
            let mut most = 0;
            loop {
                let mut chunks = [const { bytes::Bytes::new() }; 8];
                let Some(count) = recv.read_chunks(&mut chunks).await.unwrap() else { break };
                assert!(count > 0 && chunks[..count].iter().all(|chunk| !chunk.is_empty()));
                assert!(chunks[count..].iter().all(|chunk| chunk.is_empty()));
                most = most.max(count);
                chunks[..count].iter().for_each(|chunk| all.extend_from_slice(chunk));
            }
            assert!(most > 1, "several at a time");
            assert_eq!(recv.read_chunks(&mut [const { bytes::Bytes::new() }]).await, Ok(None), "the end remains");
            all
        };
        let (received, ()) = tokio::join!(reading, writing);
        assert!(received == data);
    })
    .await;
}

#[tokio::test]
async fn what_came_before_a_reset_or_the_end_of_the_connection_is_read_by_the_array_first() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"before").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        let mut chunks = [const { bytes::Bytes::new() }; 2];
        assert_eq!(recv.read_chunks(&mut chunks).await, Ok(Some(1)));
        assert_eq!(&chunks[0][..], b"before");
        send.reset(5).unwrap();
        assert_eq!(recv.read_chunks(&mut chunks).await, Err(ReadError::Reset(5)));
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"last words").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        client.close(3, b"");
        server.closed().await;
        assert_eq!(recv.read_chunks(&mut chunks).await, Ok(Some(1)));
        assert_eq!(&chunks[0][..], b"last words");
        assert!(matches!(recv.read_chunks(&mut chunks).await, Err(ReadError::ConnectionLost(_))));
    })
    .await;
}
