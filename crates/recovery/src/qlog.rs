//! The qlog form of trace events: the `data` object of each, as JSON (draft-ietf-quic-qlog-quic-events).
//!
//! Times are milliseconds with six decimals, sizes bytes, rates bits per second. Events that the draft does not know are in a
//! namespace of our own, `thalweg:`.

use core::fmt::Write;

use thalweg_units::{Duration, DurationExt};

use crate::trace::{Event, Metrics};
use crate::types::{LossTrigger, SpaceId};

/// Appends the JSON `data` object of `event` to `out` and returns the event's qlog name.
///
/// `None`, with nothing appended, for an event that qlog has no place for.
pub fn write(event: &Event, out: &mut String) -> Option<&'static str> {
    // Writing to a String cannot fail, so results of `write!` carry no information here.
    let name = match *event {
        Event::Metrics(ref metrics) => {
            write_metrics(metrics, out);
            "quic:recovery_metrics_updated"
        }
        Event::CongestionState { old, new } => {
            let _ = write!(
                out,
                r#"{{"old":"{}","new":"{}"}}"#,
                old.label(),
                new.label()
            );
            "quic:congestion_state_updated"
        }
        Event::PacketLost {
            space,
            number,
            size,
            trigger,
        } => {
            let _ = write!(
                out,
                r#"{{"header":{{"packet_type":"{}","packet_number":{number}}},"raw":{{"length":{size}}},"trigger":"{}"}}"#,
                packet_type(space),
                trigger_name(trigger)
            );
            "quic:packet_lost"
        }
        Event::SpuriousLoss {
            space,
            number,
            size,
            late_by,
        } => {
            let _ = write!(
                out,
                r#"{{"header":{{"packet_type":"{}","packet_number":{number}}},"raw":{{"length":{size}}},"late_by":{}}}"#,
                packet_type(space),
                Millis(late_by)
            );
            "thalweg:spurious_loss"
        }
        Event::CongestionEvent {
            cause,
            episode,
            window,
            ssthresh,
        } => {
            let _ = write!(
                out,
                r#"{{"cause":"{}","episode":{episode},"congestion_window":{window}"#,
                cause.label()
            );
            if let Some(ssthresh) = ssthresh {
                let _ = write!(out, r#","ssthresh":{ssthresh}"#);
            }
            out.push('}');
            "thalweg:congestion_event"
        }
        Event::Undo { episode, window } => {
            let _ = write!(
                out,
                r#"{{"episode":{episode},"congestion_window":{window}}}"#
            );
            "thalweg:congestion_undone"
        }
        Event::PersistentCongestion { window } => {
            let _ = write!(out, r#"{{"congestion_window":{window}}}"#);
            "thalweg:persistent_congestion"
        }
        Event::PtoExpired { space, count } => {
            let _ = write!(
                out,
                r#"{{"event_type":"expired","timer_type":"pto","packet_number_space":"{}","pto_count":{count}}}"#,
                space.name()
            );
            "quic:timer_updated"
        }
        Event::TimerSet { kind, space, delay } => {
            let _ = write!(
                out,
                r#"{{"event_type":"set","timer_type":"{}","packet_number_space":"{}","delta":{}}}"#,
                kind.label(),
                space.name(),
                Millis(delay)
            );
            "quic:timer_updated"
        }
        Event::TimerCancelled => {
            out.push_str(r#"{"event_type":"cancelled"}"#);
            "quic:timer_updated"
        }
        Event::EcnState { old, new } => {
            let _ = write!(
                out,
                r#"{{"old":"{}","new":"{}"}}"#,
                old.label(),
                new.label()
            );
            "quic:ecn_state_updated"
        }
        Event::StartExit { reason, window } => {
            let _ = write!(
                out,
                r#"{{"reason":"{}","congestion_window":{window}}}"#,
                reason.label()
            );
            "thalweg:start_exited"
        }
        Event::AppLimited { limited } => {
            let _ = write!(out, r#"{{"limited":{limited}}}"#);
            "thalweg:application_limited"
        }
    };
    Some(name)
}

fn write_metrics(metrics: &Metrics, out: &mut String) {
    let _ = write!(
        out,
        r#"{{"min_rtt":{},"smoothed_rtt":{},"latest_rtt":{},"rtt_variance":{},"pto_count":{},"congestion_window":{},"bytes_in_flight":{}"#,
        Millis(metrics.min_rtt),
        Millis(metrics.smoothed_rtt),
        Millis(metrics.latest_rtt),
        Millis(metrics.rtt_variation),
        metrics.pto_count,
        metrics.window,
        metrics.bytes_in_flight,
    );
    if let Some(ssthresh) = metrics.ssthresh {
        let _ = write!(out, r#","ssthresh":{ssthresh}"#);
    }
    if let Some(rate) = metrics.pacing_rate {
        let _ = write!(out, r#","pacing_rate":{}"#, rate.bps());
    }
    let _ = write!(out, r#","state":"{}"}}"#, metrics.state.label());
}

/// The packet type that stands for a space where the exact one is not known here: 0-RTT packets show as "1RTT".
fn packet_type(space: SpaceId) -> &'static str {
    match space {
        SpaceId::Initial => "initial",
        SpaceId::Handshake => "handshake",
        SpaceId::Data => "1RTT",
    }
}

fn trigger_name(trigger: LossTrigger) -> &'static str {
    match trigger {
        LossTrigger::PacketThreshold => "reordering_threshold",
        LossTrigger::TimeThreshold => "time_threshold",
        LossTrigger::Withdrawn => "withdrawn",
    }
}

/// Milliseconds as an exact decimal, without going through floating point.
struct Millis(Duration);

impl core::fmt::Display for Millis {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let nanos = self.0.nanos();
        write!(f, "{}.{:06}", nanos / 1_000_000, nanos % 1_000_000)
    }
}
