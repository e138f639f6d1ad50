//! Metrics of a model of the path: its phases and its estimates.

use thalweg_link::RateModel;
use thalweg_recovery::ModelStats;
use thalweg_sim::{Figure, FlowPlan, FlowResult, Plan, SideResult};
use thalweg_units::{Duration, Rate};

use crate::record::Part;

/// Bytes of the headers of IPv4 and UDP, which the sender's figures leave out.
const HEADERS: f64 = 28.0;
/// Over what the rate of a link is taken.
const SPAN: Duration = Duration::from_secs(1);

/// Sets the metrics of a sender that works from a model, as far as its stack shows them; nothing for others.
pub(super) fn model(part: &mut Part, plan: &Plan, flow: &FlowResult, flow_plan: &FlowPlan, sender: &SideResult) {
    let Some(model) = sender.stats.path.model else { return };
    counters(part, sender, &model);
    if sender.measures(Figure::ModelExtra) {
        part.set("model_extra", model.most_extra as f64);
    }
    if model.inflight_bound > 0 && sender.measures(Figure::ModelBound) {
        part.set("model_bound", model.inflight_bound as f64);
    }
    if !sender.measures(Figure::ModelBandwidth) {
        return;
    }
    part.set("model_bandwidth", model.bandwidth.bps() as f64);
    let datagram = f64::from(sender.stats.mtu);
    let share = datagram / (datagram + HEADERS);
    let end = flow.start + flow.completion.unwrap_or_default();
    let at = |time: Duration| slowest(plan, flow_plan, time).map(|rate| rate * share);
    let mut ratio = |name: &str, bandwidth: Rate, link: Option<f64>| {
        if let Some(link) = link.filter(|link| *link > 0.0 && bandwidth > Rate::ZERO) {
            part.set(name, bandwidth.bps() as f64 / link);
        }
    };
    ratio("model_bandwidth_over_link", model.bandwidth, at(end));
    ratio("model_start_bandwidth_over_link", model.start_bandwidth, at(flow.start));
    ratio("model_least_bandwidth_over_link", model.least_bandwidth, at(end));
}

fn counters(part: &mut Part, sender: &SideResult, model: &ModelStats) {
    for (figure, name, count) in [
        (Figure::ModelPhases, "model_startups", model.startups),
        (Figure::ModelExits, "model_startups_ended_by_loss", model.startups_ended_by_loss),
        (Figure::ModelPhases, "model_drains", model.drains),
        (Figure::ModelExits, "model_drains_ended_by_time", model.drains_ended_by_time),
        (Figure::ModelPhases, "model_downs", model.downs),
        (Figure::ModelExits, "model_downs_ended_by_time", model.downs_ended_by_time),
        (Figure::ModelPhases, "model_cruises", model.cruises),
        (Figure::ModelPhases, "model_refills", model.refills),
        (Figure::ModelPhases, "model_ups", model.ups),
        (Figure::ModelExits, "model_ups_ended_by_plateau", model.ups_ended_by_plateau),
        (Figure::ModelExits, "model_ups_ended_by_loss", model.ups_ended_by_loss),
        (Figure::ModelCare, "model_ups_ended_by_care", model.ups_ended_by_care),
        (Figure::ModelPhases, "model_rtt_probes", model.rtt_probes),
        (Figure::ModelCare, "model_rtt_probes_skipped", model.rtt_probes_skipped),
    ] {
        if sender.measures(figure) {
            part.set(name, count as f64);
        }
    }
}

/// Bits per second on the wire of the slowest link that a flow's data cross, in the second that ends at `time`, or in
/// the first of the run.
fn slowest(plan: &Plan, flow: &FlowPlan, time: Duration) -> Option<f64> {
    let to = time.max(SPAN);
    let rate = |path: usize| {
        let path = plan.paths.get(path)?;
        let rate: &RateModel = if flow.traffic.sends_up() { &path.up.rate } else { &path.down.rate };
        let bytes = rate.capacity(to).saturating_sub(rate.capacity(to - SPAN));
        (rate.nominal().bps() < u64::MAX).then(|| bytes as f64 * 8.0 / SPAN.as_secs_f64())
    };
    flow.route.iter().filter_map(|path| rate(*path)).reduce(f64::min)
}
