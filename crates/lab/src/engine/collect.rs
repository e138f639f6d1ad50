//! Turns the result of a run into values by metric and series for plots.

use thalweg_link::{DropCause, Quantiles};
use thalweg_proto::observe::Limit;
use thalweg_sim::{
    Figure, Floor, FlowPlan, FlowResult, FlowWindow, LinkResult, PacketFate, PacketPoint, Plan, RunResult, SideResult,
    TrackResult, Traffic, WayResult,
};
use thalweg_units::{Duration, human_duration};

use super::plan::Interruptions;
use super::{Output, delivery, model, shares};
use crate::record::{PacketPlot, Part, Recording, RunRecord, Series, WAIT_SHARES, put, way};
use crate::scenario::world::World;

/// Values that a run keeps of each metric at most; more are thinned to evenly spaced quantiles.
const MOST_VALUES: usize = 1_000;

/// Over what the rate of delivery is taken for plots: long enough to hold some packets at 1 Mbps, short enough to show
/// a gap.
const RATE_STEP: Duration = Duration::from_millis(100);

pub(super) fn output(
    world: &World,
    plan: &Plan,
    result: RunResult,
    interruptions: &Interruptions,
    recording: bool,
) -> Output {
    let mut record = RunRecord {
        failed: result.failed.clone(),
        wire_hash: format!("{:032x}", result.wire_hash),
        decisions_hash: format!("{:032x}", result.decisions_hash),
        ..RunRecord::default()
    };
    let mut complete = result.failed.is_none();
    for ((flow, spec), plan_flow) in result.flows.iter().zip(&world.flows).zip(&plan.flows) {
        let index = record.flows.len();
        let stops = interruptions.spans.get(record.flows.len()).map_or(&[][..], Vec::as_slice);
        let window = result.window.as_ref().and_then(|window| window.flows.get(record.flows.len()));
        let mut part = flow_part(flow, plan, plan_flow, &result, window, stops);
        let queues = result.links.iter().filter_map(|link| link.stats.flows.get(index)).map(|flow| &flow.sojourn);
        let longest = queues.max_by_key(|waits| (waits.max(), waits.count()));
        if let Some(longest) = longest.filter(|waits| waits.count() > 0) {
            set_sojourn(&mut part, longest);
        }
        complete &= part.values.get("completed").is_none_or(|values| values.first() == Some(&1.0));
        debug_assert_eq!(flow.name, spec.name);
        record.flows.push(part);
        let names = std::iter::once(&spec.path).chain(&spec.beside);
        record.ways.extend(ways(flow, &plan_flow.traffic, names.map(|path| way(&flow.name, path))));
    }
    for (index, link) in result.links.iter().enumerate() {
        let path = plan.paths.get(index / 2);
        let rate = path.map(|path| if index % 2 == 0 { &path.up.rate } else { &path.down.rate });
        let mut part = link_part(link, result.virtual_time);
        let waits = match plan.measure {
            Some(_) => result.window.as_ref().and_then(|window| window.links.get(index)).map(|link| &link.sojourn),
            None => Some(&link.stats.sojourn),
        };
        if let Some(waits) = waits.filter(|waits| waits.count() > 0) {
            set_waits(&mut part, waits);
        }
        if let Some(used) = rate.and_then(|rate| shares::link_use(plan, &result, index, rate)) {
            part.set("link_use", used);
        }
        record.links.push(part);
    }
    for (part, shares) in record.flows.iter_mut().zip(shares::of_competitors(plan, &result)) {
        for (name, share) in [("competing_share", shares.of_all), ("competing_share_over_fair", shares.over_fair)] {
            share.into_iter().for_each(|share| part.set(name, share));
        }
    }
    put(&mut record.values, "success", f64::from(u8::from(complete)));
    if let Some(index) = shares::fairness(plan, &result) {
        put(&mut record.values, "fairness", index);
    }
    let completions: Vec<f64> =
        record.flows.iter().filter_map(|flow| flow.values.get("completion")?.first().copied()).collect();
    if complete && !completions.is_empty() {
        put(&mut record.values, "completion_mean", completions.iter().sum::<f64>() / completions.len() as f64);
        put(&mut record.values, "completion_last", completions.iter().copied().fold(0.0, f64::max));
    }
    let waits: Vec<f64> =
        record.flows.iter().filter_map(|flow| flow.values.get("flow_sojourn_max")?.first().copied()).collect();
    if waits.len() > 1 {
        put(&mut record.values, "flow_sojourn_worst", waits.iter().copied().fold(0.0, f64::max));
        put(&mut record.values, "flow_sojourn_best", waits.iter().copied().fold(f64::INFINITY, f64::min));
    }
    put(&mut record.values, "virtual_time", result.virtual_time.as_secs_f64());
    put(&mut record.values, "events", result.events as f64);
    let recording = recording.then(|| record_all(&result, plan));
    Output { record, recording }
}

/// The side that sends the data that matters, and the other one.
fn sender<'r>(flow: &'r FlowResult, traffic: &Traffic) -> (&'r SideResult, &'r SideResult) {
    if traffic.sends_up() { (&flow.client, &flow.server) } else { (&flow.server, &flow.client) }
}

/// How a bulk transfer compares with the best that its path allows.
fn over_floor(part: &mut Part, flow: &FlowResult, floor: &Floor) {
    // Data that leave before a handshake is complete have no cold floor: they could beat it.
    let cold = flow.has_handshake.then_some(floor.cold);
    let Some(completion) = flow.completion else {
        part.never("completion_over_floor");
        if cold.is_some() {
            part.never("completion_over_cold_floor");
            part.never("completion_beyond_cold_floor");
        }
        part.set("auc_delivered", 0.0);
        return;
    };
    part.set("completion_over_floor", completion.as_secs_f64() / floor.total.as_secs_f64());
    if let Some(cold) = cold {
        part.set("completion_over_cold_floor", completion.as_secs_f64() / cold.as_secs_f64());
        part.set("completion_beyond_cold_floor", completion.as_secs_f64() - cold.as_secs_f64());
    }
    let area = |mean: Duration| completion.saturating_sub(mean).as_secs_f64();
    if let Some(mean) = flow.mean_byte.filter(|_| area(floor.mean_byte) > 0.0) {
        part.set("auc_delivered", area(mean) / area(floor.mean_byte));
    }
}

/// What the floor consists of.
fn in_words(floor: &Floor) -> String {
    format!(
        "{}: {} for the request's way, {} for {} packets of {} B payload ({} B on the wire), {} of propagation; the clock \
         starts with the client's first datagram and stops with the last byte; a handshake adds {}",
        human_duration(floor.total),
        human_duration(floor.request),
        human_duration(floor.serialisation),
        floor.packets,
        floor.payload_per_packet,
        floor.packet_size,
        human_duration(floor.propagation),
        human_duration(floor.handshake)
    )
}

/// For what share of the time what limited the sender.
fn limits(part: &mut Part, sender: &SideResult) {
    let total: Duration = sender.limited_by.iter().sum();
    if !total.is_zero() {
        for (name, limit) in [
            ("limited_by_application", Limit::Application),
            ("limited_by_window", Limit::Window),
            ("limited_by_pacing", Limit::Pacing),
            ("limited_by_flow_control", Limit::FlowControl),
            ("limited_by_amplification", Limit::Amplification),
        ] {
            let held = sender.limited_by.get(limit.index()).copied().unwrap_or_default();
            part.set(name, held.as_secs_f64() / total.as_secs_f64());
        }
    }
}

fn flow_part(
    flow: &FlowResult,
    plan: &Plan,
    flow_plan: &FlowPlan,
    result: &RunResult,
    window: Option<&FlowWindow>,
    stops: &[(Duration, Duration)],
) -> Part {
    let mut part = Part { name: flow.name.clone(), ..Part::default() };
    let (traffic, end) = (&flow_plan.traffic, result.virtual_time);
    part.endless = traffic.is_endless();
    part.delivery = delivery::curve(flow, traffic, end);
    let complete = flow.failed.is_none() && (part.endless || flow.completion.is_some());
    part.set("completed", f64::from(u8::from(complete)));
    if let Some(completion) = flow.completion {
        part.set("completion", completion.as_secs_f64());
        let interrupted = interrupted(stops, flow.start, flow.start + completion);
        part.set("completion_less_interruptions", completion.as_secs_f64() - interrupted.as_secs_f64());
    }
    if let Some(goodput) = shares::goodput(flow, flow_plan, plan, result, window) {
        part.set("goodput", goodput);
    }
    if let Some(floor) = &flow.floor {
        over_floor(&mut part, flow, floor);
        part.notes.insert("floor".to_owned(), in_words(floor));
    }
    match flow.handshake {
        Some(handshake) => {
            part.set("handshake", handshake.as_secs_f64());
            if let Some(completion) = flow.completion {
                part.set("completion_after_handshake", completion.saturating_sub(handshake).as_secs_f64());
            }
        }
        // A stack that does not report it has at least delivered something.
        None if flow.failed.is_some() && flow.bytes == 0 && flow.has_handshake => part.never("handshake"),
        None => {}
    }
    let took: Vec<f64> = flow.transfers.iter().map(|transfer| transfer.took.as_secs_f64()).collect();
    if traffic.bulk().is_none() && flow.due.max(took.len() as u64) > 0 {
        let never = flow.due.saturating_sub(took.len() as u64);
        set_many(&mut part, traffic.main_metric(), took, never);
    }
    if flow.frames.due > 0 {
        let (delays, never) = percentiles(&flow.frames.delay, flow.frames.never());
        set_many(&mut part, "frame_delay", delays, never);
        part.set("frames_missing", flow.frames.never() as f64 / flow.frames.due as f64);
        // Neither a call nor datagrams that nobody waits for have a deadline.
        if traffic.metrics().contains(&"deadline_misses") {
            part.set("deadline_misses", flow.frames.missed() as f64 / flow.frames.due as f64);
            set_many(&mut part, "stall", flow.frames.stalls.iter().map(Duration::as_secs_f64).collect(), 0);
        }
    }
    call_delays(&mut part, flow);
    if traffic.bulk().is_some() && flow.completion.is_some() {
        part.set("longest_gap", flow.longest_gap.as_secs_f64());
    }
    let moves: Vec<(Duration, Duration)> = flow_plan.moves.iter().map(|change| (change.at, change.at)).collect();
    for (name, stops) in [("silence_after_repair", stops), ("silence_after_move", &moves)] {
        match silence_after(flow, stops, end) {
            Some(Some(silence)) => part.set(name, silence.as_secs_f64()),
            Some(None) => part.never(name),
            None => {}
        }
    }
    let (sender, receiver) = sender(flow, traffic);
    let round_trip = flow.floor.as_ref().map(|floor| floor.round_trip);
    counters(&mut part, sender, receiver, flow.bytes > 0 || sender.rtt.count() > 0, round_trip);
    let client = if traffic.sends_up() { sender } else { receiver };
    if client.measures(Figure::UnansweredInitials) {
        part.set("unanswered_initials", client.unanswered_initials as f64);
    }
    if flow.failed.is_some() && sender.measures(Figure::Packets) {
        count_unanswered(&mut part, sender);
    }
    if plan.measure.is_some() && part.values.remove("loss_rate").is_some() {
        // That was the whole run's.
        let packets = window.and_then(|window| window.packets[usize::from(!traffic.sends_up())]);
        if let Some(packets) = packets.filter(|packets| packets.sent > 0) {
            part.set("loss_rate", packets.lost as f64 / packets.sent as f64);
        }
    }
    if let Some(rate) = sender.stats.delivery_rate {
        part.set("rate_estimate", rate.bps() as f64);
    }
    recovery(&mut part, sender);
    model::model(&mut part, plan, flow, flow_plan, sender);
    limits(&mut part, sender);
    let mut note = |name: &str, text: String| part.notes.insert(name.to_owned(), text);
    note("stack", flow.stack.clone());
    if !flow.settings.is_empty() {
        note("settings", flow.settings.clone());
    }
    for (subject, text) in &flow.notes {
        note(subject, text.clone());
    }
    if let Some(reason) = &flow.failed {
        note("failed", reason.clone());
    }
    part
}

/// How late the frames of a call were, those that never arrived included: of all tracks, of audio, and of the first
/// video track. Never on time if the call failed.
fn call_delays(part: &mut Part, flow: &FlowResult) {
    let groups: [(&[TrackResult], _, _); 3] = [
        (&flow.tracks, "call_delay_mean", "call_delay_max"),
        (flow.tracks.get(..1).unwrap_or_default(), "audio_delay_mean", "audio_delay_max"),
        (flow.tracks.get(1..2).unwrap_or_default(), "video_delay_mean", "video_delay_max"),
    ];
    for (tracks, mean, max) in groups {
        let mut waits = Quantiles::default();
        tracks.iter().for_each(|track| waits.merge(&track.wait));
        if flow.failed.is_some() && !tracks.is_empty() {
            part.never(mean);
            part.never(max);
        } else if waits.count() > 0 {
            part.set(mean, waits.mean().as_secs_f64());
            part.set(max, waits.max().as_secs_f64());
        }
    }
}

/// What the stack of both ends counts. Of what it does not count there is no value: a zero would be a statement.
///
/// `has_met` states whether anything arrived: before that, round-trip times are assumptions. `round_trip` is the sum of
/// the path's fixed delays, where it is known.
fn counters(part: &mut Part, sender: &SideResult, receiver: &SideResult, has_met: bool, round_trip: Option<Duration>) {
    let (path, back) = (&sender.stats.path, &receiver.stats.path);
    let (sent, returned) = (&sender.stats.udp_sent, &receiver.stats.udp_sent);
    for (figure, name, value) in [
        (Figure::Datagrams, "bytes_sent", sent.bytes),
        (Figure::Retransmitted, "bytes_retransmitted", sender.retransmitted),
        (Figure::Packets, "bytes_lost", path.bytes_lost),
        (Figure::SpuriousBytes, "bytes_spurious", path.bytes_spurious),
        (Figure::Packets, "packets_sent", path.packets_sent),
        (Figure::Packets, "packets_lost", path.packets_lost),
        (Figure::SpuriousPackets, "packets_spurious", path.packets_spurious),
        (Figure::Ptos, "ptos", path.ptos + back.ptos),
        (Figure::Probes, "probes", path.probes),
        (Figure::PersistentCongestions, "persistent_congestions", path.persistent_congestions),
        (Figure::EarlyProbes, "early_probes", sender.early_probes + receiver.early_probes),
        (Figure::CongestionEvents, "congestion_events", path.congestion_events),
        (Figure::Undos, "undos", path.undos),
        (Figure::CeMarks, "ce_marks", path.ce_marks),
        (Figure::ConnectionsLost, "connections_lost", sender.connections_lost.max(receiver.connections_lost)),
        (Figure::MaxWindow, "max_window", path.max_window),
        (Figure::MaxInFlight, "max_in_flight", path.max_bytes_in_flight),
        (Figure::Datagrams, "reverse_bytes", returned.bytes),
        (Figure::Datagrams, "reverse_packets", returned.datagrams),
    ] {
        // Both ends are of one stack, and what is summed over both needs both.
        if sender.measures(figure) && receiver.measures(figure) {
            part.set(name, value as f64);
        }
    }
    let of_packets = |count: u64| count as f64 / path.packets_sent as f64;
    if sender.measures(Figure::Packets) && path.packets_sent > 0 {
        part.set("loss_rate", of_packets(path.packets_lost));
        if sender.measures(Figure::SpuriousPackets) {
            part.set("spurious_rate", of_packets(path.packets_spurious));
        }
        if sender.measures(Figure::Ptos) {
            part.set("probe_share", of_packets(path.ptos));
        }
        if sender.measures(Figure::Rtt) && has_met {
            part.set("rtt", sender.stats.rtt.as_secs_f64());
        }
        if sender.measures(Figure::MinRtt) && has_met {
            part.set("min_rtt", sender.stats.min_rtt.as_secs_f64());
            if let Some(fixed) = round_trip.filter(|fixed| !fixed.is_zero()) {
                part.set("min_rtt_over_path", sender.stats.min_rtt.as_secs_f64() / fixed.as_secs_f64());
            }
        }
    }
    if sender.measures(Figure::Datagrams) && sent.bytes > 0 {
        part.set("reverse_share", returned.bytes as f64 / sent.bytes as f64);
    }
    if sender.rtt.count() > 0 {
        let names = ["rtt_p50", "rtt_p95", "rtt_p99", "rtt_max"];
        let times = sender.rtt.quantiles([(1, 2), (19, 20), (99, 100), (1, 1)].into_iter());
        for (name, value) in names.into_iter().zip(times) {
            part.set(name, value.as_secs_f64());
        }
        part.set("rtt_mean", sender.rtt.mean().as_secs_f64());
    }
}

/// What a flow did on each of several paths, under these names; nothing of a flow that used one.
fn ways(flow: &FlowResult, traffic: &Traffic, names: impl Iterator<Item = String>) -> Vec<Part> {
    let (sender, receiver) = sender(flow, traffic);
    let of_receiver = |at: usize| receiver.ways.get(at).copied().unwrap_or_default();
    let way = |(at, (name, way)): (usize, (String, &WayResult))| {
        let mut part = Part { name, ..Part::default() };
        let stats = &way.stats;
        for (name, value) in [
            ("bytes_sent", stats.bytes_sent),
            ("bytes_lost", stats.bytes_lost),
            ("bytes_spurious", stats.bytes_spurious),
            ("packets_sent", stats.packets_sent),
            ("packets_lost", stats.packets_lost),
            ("packets_spurious", stats.packets_spurious),
            ("ptos", stats.ptos + of_receiver(at).stats.ptos),
            ("probes", stats.probes),
            ("persistent_congestions", stats.persistent_congestions),
            ("congestion_events", stats.congestion_events),
            ("undos", stats.undos),
            ("ce_marks", stats.ce_marks),
            ("max_window", stats.max_window),
            ("max_in_flight", stats.max_bytes_in_flight),
        ] {
            part.set(name, value as f64);
        }
        if stats.packets_sent > 0 {
            part.set("loss_rate", stats.packets_lost as f64 / stats.packets_sent as f64);
            part.set("spurious_rate", stats.packets_spurious as f64 / stats.packets_sent as f64);
        }
        for (name, time) in [("rtt", way.rtt), ("min_rtt", way.min_rtt)] {
            time.into_iter().for_each(|time| part.set(name, time.as_secs_f64()));
        }
        part
    };
    names.zip(&sender.ways).enumerate().map(way).collect()
}

/// Of a flow that failed, what was sent and never acknowledged counts as lost. A sender that receives nothing declares
/// nothing lost, and a dead link is not one without losses.
fn count_unanswered(part: &mut Part, sender: &SideResult) {
    let path = &sender.stats.path;
    // What was declared lost and came after all was both acknowledged and lost.
    let arrived = path.packets_acked.min(path.packets_sent);
    let lost = (path.packets_sent - arrived).max(path.packets_lost);
    for (name, value) in [("packets_lost", lost as f64), ("loss_rate", lost as f64 / path.packets_sent as f64)] {
        if part.values.remove(name).is_some() {
            part.set(name, value);
        }
    }
}

/// How the sender's episodes of repair began and ended, and what only TCP counts.
fn recovery(part: &mut Part, sender: &SideResult) {
    let repairs = &sender.repairs;
    let share = |count: u64, of: u64| count as f64 / of as f64;
    let entries = repairs.entries_above + repairs.entries_at + repairs.entries_below;
    if entries > 0 {
        part.set("recovery_entry_above", share(repairs.entries_above, entries));
        part.set("recovery_entry_at", share(repairs.entries_at, entries));
        part.set("recovery_entry_below", share(repairs.entries_below, entries));
    }
    if repairs.episodes_ended > 0 {
        part.set("recovery_end_window", share(repairs.end_window_datagrams, repairs.episodes_ended));
        part.set("recovery_end_slow_start", share(repairs.ended_in_slow_start, repairs.episodes_ended));
    }
    if let Some(tcp) = &sender.tcp {
        part.set("timeouts", tcp.timeouts as f64);
        part.set("retransmissions", tcp.retransmissions as f64);
        part.set("lost_retransmissions", tcp.lost_retransmissions as f64);
    }
}

/// From the last end of an interruption, or the last move, to the next arrival of new data: no end if nothing arrived
/// any more or the connection was lost. None if the flow was done before the repair, or had not begun.
fn silence_after(flow: &FlowResult, stops: &[(Duration, Duration)], end: Duration) -> Option<Option<Duration>> {
    let done = flow.completion.map_or(end, |completion| flow.start + completion);
    let repaired = stops
        .iter()
        .rev()
        .map(|(_, repaired)| *repaired)
        .find(|repaired| *repaired > flow.start && *repaired < done)?;
    if flow.failed.is_some() {
        return Some(None);
    }
    // The curve has points only so often; a flow that is complete was complete when it says so.
    let arrived = flow.delivered.iter().map(|(at, _)| *at).find(|at| *at >= repaired);
    let next = arrived.or_else(|| flow.completion.map(|_| done));
    Some(next.map(|next| next.saturating_sub(repaired)))
}

/// For how much of the time between two moments the path was out or held; `stops` are sorted by their ends and may
/// overlap.
pub(super) fn interrupted(stops: &[(Duration, Duration)], from: Duration, to: Duration) -> Duration {
    let mut counted_from = to;
    let mut total = Duration::ZERO;
    // From the latest end backwards, so that nothing is counted twice.
    for (start, end) in stops.iter().rev() {
        let end = (*end).min(counted_from);
        let start = (*start).max(from);
        if start < end {
            total += end - start;
            counted_from = start;
        }
    }
    total
}

/// Which of so many sorted values to keep, counted from 1: all, or [`MOST_VALUES`] of them, each the largest of as
/// many. The first is the smallest of all, so that both ends stay what they are; of the rest none is smaller than what
/// it stands for.
fn kept(total: u64) -> impl Iterator<Item = u64> {
    let most = MOST_VALUES as u64;
    let rank = move |at: u64| {
        if at == 0 { 1 } else { (u128::from(at + 1) * u128::from(total)).div_ceil(u128::from(most)) as u64 }
    };
    (0..total.min(most)).map(move |at| if total <= most { at + 1 } else { rank(at) })
}

/// The values to keep of those collected and `never` more without an end, and how many of these have none.
pub(super) fn percentiles(times: &Quantiles, never: u64) -> (Vec<f64>, u64) {
    let count = times.count();
    let (ended, endless): (Vec<u64>, Vec<u64>) = kept(count.saturating_add(never)).partition(|rank| *rank <= count);
    let values = times.quantiles(ended.into_iter().map(|rank| (rank, count)));
    (values.map(|value| value.as_secs_f64()).collect(), endless.len() as u64)
}

/// Sets values and `never` more that have no end, thinned if there are many.
pub(super) fn set_many(part: &mut Part, metric: &str, mut values: Vec<f64>, mut never: u64) {
    let count = values.len() as u64;
    let total = count.saturating_add(never);
    if total > MOST_VALUES as u64 {
        values.sort_unstable_by(f64::total_cmp);
        let (ended, endless): (Vec<u64>, Vec<u64>) = kept(total).partition(|rank| *rank <= count);
        values = ended.iter().filter_map(|rank| values.get(*rank as usize - 1).copied()).collect();
        never = endless.len() as u64;
    }
    for value in values {
        part.set(metric, value);
    }
    part.never_times(metric, never);
}

fn link_part(link: &LinkResult, end: Duration) -> Part {
    let mut part = Part { name: link.name.replace('/', "."), ..Part::default() };
    let stats = &link.stats;
    part.set("link_packets", stats.delivered as f64);
    part.set("link_bytes", stats.delivered_bytes as f64);
    part.set("link_dropped", stats.dropped_total() as f64);
    let queue = stats.dropped_by(DropCause::QueueFull) + stats.dropped_by(DropCause::Aqm);
    part.set("link_queue_dropped", queue as f64);
    part.set("link_early_dropped", stats.dropped_by(DropCause::Aqm) as f64);
    if !end.is_zero() {
        part.set("link_idle", (1.0 - link.busy.as_secs_f64() / end.as_secs_f64()).max(0.0));
        part.set("link_idle_time", end.saturating_sub(link.busy).as_secs_f64());
    }
    part.set("link_marked", stats.marked as f64);
    part.set("link_reordered", stats.reordered as f64);
    part.set("queue_max", stats.max_queue_bytes as f64);
    part
}

const LINK_SOJOURN: [&str; 4] = ["sojourn_p50", "sojourn_p95", "sojourn_p99", "sojourn_max"];
const FLOW_SOJOURN: [&str; 4] = ["flow_sojourn_p50", "flow_sojourn_p95", "flow_sojourn_p99", "flow_sojourn_max"];
/// The quantiles that these name.
const SOJOURN_SHARES: [(u64, u64); 4] = [(1, 2), (19, 20), (99, 100), (1, 1)];

/// How long the packets of a flow waited.
fn set_sojourn(part: &mut Part, times: &Quantiles) {
    for (name, value) in FLOW_SOJOURN.into_iter().zip(times.quantiles(SOJOURN_SHARES.into_iter())) {
        part.set(name, value.as_secs_f64());
    }
}

/// How long the packets of a link waited: the values, and unless none waited the quantiles that are kept, in seconds,
/// rounded up to a microsecond. All are asked for at once, because each question goes through the times of all packets.
fn set_waits(part: &mut Part, times: &Quantiles) {
    let kept = WAIT_SHARES.into_iter().map(|share| (u64::from(share), 1_000));
    let mut values = times.quantiles(SOJOURN_SHARES.into_iter().chain(kept));
    for (name, value) in LINK_SOJOURN.into_iter().zip(values.by_ref()) {
        part.set(name, value.as_secs_f64());
    }
    if !times.max().is_zero() {
        part.waits = values.map(|wait| wait.as_nanos().div_ceil(1_000) as f64 / 1e6).collect();
    }
}

fn record_all(result: &RunResult, plan: &Plan) -> Recording {
    let mut recording = Recording::default();
    for (flow, flow_plan) in result.flows.iter().zip(&plan.flows) {
        record_flow(&mut recording, flow, flow_plan);
    }
    for link in &result.links {
        let subject = link.name.replace('/', ".");
        let t: Vec<f64> = link.queue.iter().map(|(at, ..)| at.as_secs_f64()).collect();
        if t.is_empty() {
            continue;
        }
        let bytes = link.queue.iter().map(|(_, bytes, _)| *bytes as f64).collect();
        let wait = link.queue.iter().map(|(.., sojourn)| sojourn.as_secs_f64()).collect();
        recording.series.push(line(&subject, "queue", "B", t.clone(), bytes));
        recording.series.push(line(&subject, "sojourn", "s", t, wait));
        for signal in &link.signals {
            let (t, v) = signal.points.iter().map(|(at, value)| (at.as_secs_f64(), *value)).unzip();
            recording.series.push(line(&subject, signal.name, "", t, v));
        }
    }
    recording
}

fn line(subject: &str, name: &str, unit: &str, t: Vec<f64>, v: Vec<f64>) -> Series {
    Series { subject: subject.to_owned(), name: name.to_owned(), unit: unit.to_owned(), t, v, states: Vec::new() }
}

/// Bits per second over stretches of [`RATE_STEP`], from a curve of delivered bytes; each value holds from its time on.
fn goodput_over_time(delivered: &[(Duration, u64)]) -> (Vec<f64>, Vec<f64>) {
    let (mut t, mut v) = (Vec::new(), Vec::new());
    let Some((last, _)) = delivered.last() else { return (t, v) };
    let (mut at, mut before, mut rest) = (Duration::ZERO, 0, delivered);
    while at <= *last {
        let arrived = rest.partition_point(|(time, _)| *time < at + RATE_STEP);
        let total = arrived.checked_sub(1).map_or(before, |last| rest[last].1);
        t.push(at.as_secs_f64());
        v.push((total - before) as f64 * 8.0 / RATE_STEP.as_secs_f64());
        (before, rest) = (total, &rest[arrived..]);
        at += RATE_STEP;
    }
    t.push(at.as_secs_f64());
    v.push(0.0);
    (t, v)
}

fn record_flow(recording: &mut Recording, flow: &FlowResult, plan: &FlowPlan) {
    let series = &sender(flow, &plan.traffic).0.series;
    let t: Vec<f64> = series.metrics.iter().map(|(at, _)| at.as_secs_f64()).collect();
    if !t.is_empty() {
        let column = |name: &str, unit: &str, pick: &dyn Fn(&thalweg_recovery::trace::Metrics) -> f64| {
            line(&flow.name, name, unit, t.clone(), series.metrics.iter().map(|(_, metrics)| pick(metrics)).collect())
        };
        let mut window = column("window", "B", &|metrics| metrics.window as f64);
        for (at, metrics) in &series.metrics {
            let state = metrics.state.label().replace('_', " ");
            if window.states.last().is_none_or(|(_, last)| *last != state) {
                window.states.push((at.as_secs_f64(), state));
            }
        }
        recording.series.push(window);
        recording.series.push(column("in_flight", "B", &|metrics| metrics.bytes_in_flight as f64));
        let series_start =
            series.metrics.iter().position(|(_, metrics)| thalweg_sim::is_measured(metrics)).unwrap_or(t.len());
        // Before the first sample there is an assumption, not a measurement.
        for mut series in [
            column("rtt", "s", &|metrics| metrics.latest_rtt.as_secs_f64()),
            column("srtt", "s", &|metrics| metrics.smoothed_rtt.as_secs_f64()),
        ] {
            let first = series_start;
            series.t.drain(..first);
            series.v.drain(..first);
            recording.series.push(series);
        }
        recording.series.push(column("pacing", "bps", &|metrics| {
            // An unlimited rate would press everything else against the axis.
            metrics.pacing_rate.map_or(0.0, |rate| rate.bps() as f64)
        }));
    }
    let t = flow.delivered.iter().map(|(at, _)| at.as_secs_f64()).collect();
    let v = flow.delivered.iter().map(|(_, bytes)| *bytes as f64).collect();
    recording.series.push(line(&flow.name, "delivered", "B", t, v));
    let (t, v) = goodput_over_time(&flow.delivered);
    recording.series.push(line(&flow.name, "rate", "bps", t, v));
    if !series.packets.is_empty() {
        let pick = |fate: PacketFate| {
            series
                .packets
                .iter()
                .filter(|packet| packet.what == fate)
                .map(|packet| (packet.at.as_secs_f64(), packet.number))
                .collect()
        };
        recording.packets.push(PacketPlot {
            subject: flow.name.clone(),
            bytes: bytes_by_packet(&series.packets),
            sent: pick(PacketFate::Sent),
            acked: pick(PacketFate::Acked),
            lost: pick(PacketFate::Lost),
            spurious: pick(PacketFate::Spurious),
        });
    }
}

/// Bytes sent up to and with each packet sent. What is sent again under its old number is where it was.
fn bytes_by_packet(packets: &[PacketPoint]) -> Vec<u64> {
    let mut newest: Vec<(u64, u64)> = Vec::new();
    let sent = packets.iter().filter(|packet| packet.what == PacketFate::Sent);
    sent.map(|packet| {
        let (last, total) = newest.last().copied().map_or((None, 0), |(number, total)| (Some(number), total));
        if last.is_none_or(|last| packet.number > last) {
            newest.push((packet.number, total + u64::from(packet.size)));
            return total + u64::from(packet.size);
        }
        let at = newest.partition_point(|(number, _)| *number < packet.number);
        newest.get(at).map_or(total, |(_, total)| *total)
    })
    .collect()
}
