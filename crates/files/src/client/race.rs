//! Happy Eyeballs (RFC 8305): several addresses, started one after the other, and the first that answers wins.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;

/// Head start of each address before the next is tried (RFC 8305 section 5, Connection Attempt Delay).
pub(super) const STAGGER: Duration = Duration::from_millis(250);

/// Alternates the address families, beginning with that of the first address (RFC 8305 section 4). The order within a
/// family is the resolver's, which has sorted by RFC 6724.
pub(super) fn interleave(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut unique: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    let Some(first) = unique.first().map(SocketAddr::is_ipv6) else {
        return unique;
    };
    let (mut preferred, mut others): (Vec<_>, Vec<_>) =
        unique.into_iter().partition(|address| address.is_ipv6() == first);
    preferred.reverse();
    others.reverse();
    let mut out = Vec::new();
    while !preferred.is_empty() || !others.is_empty() {
        out.extend(preferred.pop());
        out.extend(others.pop());
    }
    out
}

/// Tries the addresses, or whatever else leads there, in order, the next one when the head start is over or an attempt
/// has failed; the first success wins and the others are dropped.
///
/// # Errors
/// Every attempt's failure, when all have failed.
pub(super) async fn race<K, T, E, F, Fut>(
    ways: &[K],
    head_start: Duration,
    mut attempt: F,
) -> Result<(K, T), Vec<(K, E)>>
where
    K: Copy + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
    F: FnMut(K) -> Fut,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
{
    let mut waiting = ways.iter().copied();
    let mut running: JoinSet<(K, Result<T, E>)> = JoinSet::new();
    let mut failures = Vec::new();
    let mut more = true;
    loop {
        if more {
            match waiting.next() {
                Some(way) => {
                    let future = attempt(way);
                    running.spawn(async move { (way, future.await) });
                }
                None => more = false,
            }
        }
        let ended = tokio::select! {
            ended = running.join_next() => ended,
            () = tokio::time::sleep(head_start), if more => continue,
        };
        match ended {
            Some(Ok((way, Ok(winner)))) => return Ok((way, winner)),
            Some(Ok((way, Err(error)))) => failures.push((way, error)),
            Some(Err(_)) => {} // a cancelled or broken attempt counts as none
            None if !more => return Err(failures),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_alternate_from_the_first() {
        let (a, b, c) = (address("[::1]:1"), address("[::2]:1"), address("1.1.1.1:1"));
        let d = address("1.1.1.2:1");
        assert_eq!(interleave([a, b, c, d]), [a, c, b, d]);
        assert_eq!(interleave([c, a, b, a]), [c, a, b]);
        assert_eq!(interleave([]), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_costs_250_ms_and_no_more() {
        let began = Instant::now();
        let (slow, fast) = (address("[::1]:1"), address("127.0.0.1:1"));
        let won = race(&[slow, fast], STAGGER, |a| async move {
            sleep(Duration::from_millis(if a == slow { 60_000 } else { 10 })).await;
            Ok::<_, ()>(a)
        })
        .await
        .unwrap();
        assert_eq!(won.0, fast);
        assert_eq!(began.elapsed().as_millis(), 260);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_address_costs_nothing() {
        let began = Instant::now();
        let (bad, good) = (address("[::1]:1"), address("127.0.0.1:1"));
        let won = race(&[bad, good], STAGGER, |a| async move { if a == bad { Err("refused") } else { Ok(()) } })
            .await
            .unwrap();
        assert_eq!(won.0, good);
        assert_eq!(began.elapsed().as_millis(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_address_that_is_merely_slow_may_still_win() {
        let (first, second) = (address("[::1]:1"), address("127.0.0.1:1"));
        let won = race(&[first, second], STAGGER, |a| async move {
            sleep(Duration::from_millis(if a == first { 300 } else { 200 })).await;
            Ok::<_, ()>(())
        })
        .await
        .unwrap();
        assert_eq!(won.0, first);
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_fail_every_reason_is_told() {
        let list = [address("[::1]:1"), address("127.0.0.1:1")];
        let failed = race(&list, STAGGER, |a| async move { Err::<(), _>(a.port()) }).await.unwrap_err();
        assert_eq!(failed.len(), 2);
        assert!(race(&[0; 0], STAGGER, |_| async { Ok::<(), ()>(()) }).await.unwrap_err().is_empty());
    }
}
