//! The end of a run: what was counted in the measuring window, what became of each flow, why the run failed.

use thalweg_link::{DirectionStats, DropCause, Pipe};
use thalweg_proto::observe::EventHash;
use thalweg_units::{Duration, Instant};

use super::{Link, ORIGIN, World};
use crate::datagram::Datagram;
use crate::host::Status;
use crate::result::{FlowResult, FlowWindow, LinkResult, LinkWindow, PacketCounts, RunResult, WindowResult};
use crate::traffic::{Ends, Judgement};

/// Round trips within which a connection that works has delivered something: two for the handshake and the request, and
/// one to spare.
const FIRST_ROUND_TRIPS: u32 = 3;

/// What has been counted at a moment.
pub(super) struct Snapshot {
    at: Instant,
    flows: Vec<FlowWindow>,
    links: Vec<DirectionStats>,
}

/// What the paths dropped and why, for the reason of a run that failed: "; path "p" down dropped 31 of 40 packets:
/// queue full (limit 3 kB) 31". Empty if they dropped nothing.
fn drops(links: &[Link], pipe: &Pipe<Box<Datagram>>) -> String {
    /// Directions that are named one by one.
    const NAMED: usize = 4;
    let mut text = String::new();
    let of_paths = || links.iter().zip(pipe.links()).filter(|(link, _)| link.is_path);
    let dropping = || of_paths().filter(|(_, direction)| direction.stats().dropped_total() > 0);
    for (link, direction) in dropping().take(NAMED) {
        let stats = direction.stats();
        let (path, name) = link.name.rsplit_once('/').unwrap_or((&link.name, ""));
        let causes = DropCause::ALL.into_iter().filter(|cause| stats.dropped_by(*cause) > 0).map(|cause| {
            let limit = match cause {
                DropCause::QueueFull => format!(" (limit {})", link.limit),
                _ => String::new(),
            };
            format!("{}{limit} {}", cause.name().replace('-', " "), stats.dropped_by(cause))
        });
        let causes = causes.collect::<Vec<_>>().join(", ");
        let (dropped, offered) = (stats.dropped_total(), stats.offered);
        text += &format!("; path \"{path}\" {name} dropped {dropped} of {offered} packets: {causes}");
    }
    let more = dropping().count().saturating_sub(NAMED);
    if more > 0 {
        text += &format!("; {more} more directions dropped packets");
    }
    text
}

impl World<'_> {
    /// Takes note of what has been counted when the measuring window begins and ends, before anything happens `at` that
    /// time or later.
    #[inline]
    pub(super) fn count_before(&mut self, at: Instant) {
        while self.window.marks.last().is_some_and(|mark| *mark <= at)
            && let Some(mark) = self.window.marks.pop()
        {
            let snapshot = self.snapshot(mark);
            self.window.counted.push(snapshot);
        }
    }

    fn snapshot(&self, at: Instant) -> Snapshot {
        let flows = self.machines.chunks(2).map(|ends| FlowWindow {
            bytes: ends.iter().map(|machine| machine.host.meter().bytes()).sum(),
            packets: [0, 1].map(|end| ends.get(end).and_then(|machine| machine.host.packets())),
        });
        let links = self.links.iter().zip(self.pipe.links()).filter(|(link, _)| link.is_path);
        let links = links.map(|(_, direction)| direction.stats().clone());
        Snapshot { at, flows: flows.collect(), links: links.collect() }
    }

    /// What was counted in the measuring window; it ends with the run if that was earlier.
    fn window(&mut self) -> Option<WindowResult> {
        let mut counted = std::mem::take(&mut self.window.counted).into_iter();
        let before = counted.next()?;
        let after = counted.next().unwrap_or_else(|| self.snapshot(self.now));
        let flows = before.flows.iter().zip(&after.flows).map(|(before, after)| FlowWindow {
            bytes: after.bytes - before.bytes,
            packets: [0, 1].map(|end| {
                let (before, after) = (before.packets[end]?, after.packets[end]?);
                Some(PacketCounts {
                    sent: after.sent.saturating_sub(before.sent),
                    lost: after.lost.saturating_sub(before.lost),
                })
            }),
        });
        let links = before.links.iter().zip(&after.links).map(|(before, after)| LinkWindow {
            served_bytes: after.served_bytes - before.served_bytes,
            sojourn: after.sojourn.since(&before.sojourn),
        });
        let [from, to] = [before.at, after.at].map(|at| at.saturating_since(ORIGIN));
        (to > from).then(|| WindowResult { from, to, flows: flows.collect(), links: links.collect() })
    }

    pub(super) fn unfinished_names(&self) -> String {
        let flows = self.plan.flows.iter().zip(&self.progress.over);
        let names: Vec<String> = flows
            .filter(|(flow, over)| !**over && !flow.traffic.is_endless())
            .map(|(flow, _)| format!("\"{}\"", flow.name))
            .collect();
        format!(
            "{} {} {}",
            if names.len() == 1 { "flow" } else { "flows" },
            names.join(", "),
            if names.len() == 1 { "has" } else { "have" }
        )
    }

    pub(super) fn finish(mut self, failed: Option<String>) -> RunResult {
        let now = self.now;
        let window = self.window();
        let since_origin = |at: Instant| at.saturating_since(ORIGIN);
        let mut flows = Vec::new();
        let mut failed = failed;
        let flows_and_ends = self.plan.flows.iter().zip(self.machines.chunks_mut(2));
        for ((flow, ends), (stack, routes)) in flows_and_ends.zip(self.stacks.iter().zip(&self.routes)) {
            let [client, server] = ends else { continue };
            let status = client.host.status();
            let start = client.first_sent.unwrap_or(now);
            let meters = [client.host.meter(), server.host.meter()];
            let bytes: u64 = meters.iter().map(|meter| meter.bytes()).sum();
            let longest_gap = meters.iter().map(|meter| meter.longest_gap()).max().unwrap_or_default();
            let byte_time: u128 = meters.iter().map(|meter| meter.byte_time()).sum();
            let mean = byte_time.checked_div(u128::from(bytes)).and_then(|mean| u64::try_from(mean).ok());
            let mean = mean.map(|mean| (ORIGIN + Duration::from_nanos(mean)).saturating_since(start));
            // The receiver of the larger part records when the last byte came: requests and acknowledgments do not
            // count.
            let receiver = meters.iter().max_by_key(|meter| (meter.bytes(), meter.last()));
            let last = receiver.and_then(|meter| meter.last()).filter(|_| status == Status::Finished);
            let window = self.plan.measure.map(|(from, to)| (ORIGIN + from, ORIGIN + to));
            let Judgement { frames, tracks, cut_off } =
                flow.traffic.judge(&Ends { meters, start, now, limit: self.end, window });
            let delivered = receiver.map(|meter| meter.curve()).unwrap_or_default();
            let shares = receiver.map(|meter| meter.shares()).unwrap_or_default();
            let transfers = meters[0].transfers.clone();
            let is_silent = || {
                let round_trip = flow.routes().map(|route| self.plan.round_trip(route)).max().unwrap_or_default();
                let in_vain = now.saturating_since(start) > round_trip * FIRST_ROUND_TRIPS;
                (bytes == 0 && client.first_sent.is_some() && in_vain)
                    .then(|| "nothing had arrived at the end".to_owned())
            };
            let reason = match &status {
                Status::Failed(reason) => Some(reason.clone()),
                Status::Finished => cut_off,
                // Who only receives may never learn that the other end has given up.
                Status::Running if flow.traffic.is_endless() => match server.host.status() {
                    Status::Failed(reason) => Some(format!("at the server, {reason}")),
                    Status::Running | Status::Finished => is_silent(),
                },
                Status::Running => Some(match server.host.status() {
                    Status::Failed(reason) => format!("it was not finished; at the server, {reason}"),
                    Status::Running | Status::Finished => "it was not finished".to_owned(),
                }),
            };
            if let Some(reason) = &reason {
                failed.get_or_insert_with(|| format!("flow \"{}\": {reason}", flow.name));
            }
            let (client_side, server_side) = (client.host.report(now), server.host.report(now));
            let sends_up = flow.traffic.sends_up();
            let framing = stack.framing(flow, sends_up);
            flows.push(FlowResult {
                name: flow.name.clone(),
                stack: flow.stack.clone(),
                settings: stack.settings(flow),
                notes: stack.notes(flow, if sends_up { &client_side } else { &server_side }),
                has_handshake: framing.handshake > 0,
                floor: self.plan.floor(flow, since_origin(start), &framing),
                astray: routes.astray,
                start: since_origin(start),
                handshake: client_side.stats.handshake_time,
                completion: last.filter(|_| reason.is_none()).map(|last| last.saturating_since(start)),
                bytes,
                mean_byte: mean.filter(|_| bytes > 0),
                longest_gap,
                transfers,
                due: flow.traffic.responses(),
                delivered,
                shares,
                frames,
                tracks,
                client: client_side,
                server: server_side,
                failed: reason,
            });
        }
        if let Some(reason) = &mut failed {
            reason.push_str(&drops(&self.links, &self.pipe));
            let astray: u64 = self.routes.iter().map(|routes| routes.astray).sum();
            if astray > 0 {
                reason.push_str(&format!("; {astray} datagrams were for an address that their client no longer had"));
            }
        }
        let events = self.pipe.links().iter().map(|direction| direction.stats().events()).sum();
        let links = self.links.into_iter().zip(self.pipe.links()).filter(|(link, _)| link.is_path);
        let links = links.map(|(link, direction)| LinkResult {
            busy: direction.busy_until(now),
            stats: direction.stats().clone(),
            name: link.name,
            queue: link.series,
            signals: link.signals,
        });
        RunResult {
            links: links.collect(),
            flows,
            wire_hash: self.account.hash.value(self.account.log.as_ref().map(EventHash::wire)),
            decisions_hash: self.account.log.as_ref().map_or(0, EventHash::decisions),
            events,
            datagrams: self.account.datagrams,
            virtual_time: since_origin(now),
            window,
            failed,
        }
    }
}
