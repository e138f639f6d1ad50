//! The qlog form of trace events: the `data` object of each, as JSON (draft-ietf-quic-qlog-quic-events).
//!
//! Times are milliseconds with six decimals, sizes bytes, rates bits per second. Events that the draft does not know
//! are in a namespace of our own, `thalweg:`.

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
            let _ = write!(out, r#"{{"old":"{}","new":"{}"}}"#, old.label(), new.label());
            "quic:congestion_state_updated"
        }
        Event::PacketLost { space, number, size, trigger } => {
            let _ = write!(
                out,
                r#"{{"header":{{"packet_type":"{}","packet_number":{number}}},"raw":{{"length":{size}}},"trigger":"{}"}}"#,
                packet_type(space),
                trigger_name(trigger)
            );
            "quic:packet_lost"
        }
        Event::SpuriousLoss { space, number, size, late_by } => {
            let _ = write!(
                out,
                r#"{{"header":{{"packet_type":"{}","packet_number":{number}}},"raw":{{"length":{size}}},"late_by":{}}}"#,
                packet_type(space),
                Millis(late_by)
            );
            "thalweg:spurious_loss"
        }
        Event::CongestionEvent { cause, episode, window, ssthresh } => {
            let _ = write!(out, r#"{{"cause":"{}","episode":{episode},"congestion_window":{window}"#, cause.label());
            if let Some(ssthresh) = ssthresh {
                let _ = write!(out, r#","ssthresh":{ssthresh}"#);
            }
            out.push('}');
            "thalweg:congestion_event"
        }
        Event::Undo { episode, window } => {
            let _ = write!(out, r#"{{"episode":{episode},"congestion_window":{window}}}"#);
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
            let _ = write!(out, r#"{{"old":"{}","new":"{}"}}"#, old.label(), new.label());
            "quic:ecn_state_updated"
        }
        Event::StartExit { reason, window } => {
            let _ = write!(out, r#"{{"reason":"{}","congestion_window":{window}}}"#, reason.label());
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
        SpaceId::Data(_) => "1RTT",
    }
}

fn trigger_name(trigger: LossTrigger) -> &'static str {
    match trigger {
        LossTrigger::PacketThreshold => "reordering_threshold",
        LossTrigger::TimeThreshold => "time_threshold",
        LossTrigger::Withdrawn => "withdrawn",
        LossTrigger::Timeout => "pto_expired",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{CongestionCause, EcnState, StartExit, State, TimerKind};
    use thalweg_units::Rate;

    fn written(event: Event) -> (&'static str, String) {
        let mut out = String::new();
        let name = write(&event, &mut out).unwrap();
        (name, out)
    }

    #[test]
    fn metrics_are_in_milliseconds_bytes_and_bits_per_second() {
        let metrics = Metrics {
            window: 12_000,
            ssthresh: Some(9_000),
            bytes_in_flight: 2_400,
            state: State::SlowStart,
            latest_rtt: Duration::from_micros(100_250),
            smoothed_rtt: Duration::from_millis(100),
            rtt_variation: Duration::from_millis(50),
            min_rtt: Duration::from_nanos(99_000_001),
            pacing_rate: Some(Rate::from_bps(1_920_000)),
            pto_count: 1,
        };
        let (name, data) = written(Event::Metrics(metrics));
        assert_eq!(name, "quic:recovery_metrics_updated");
        assert_eq!(
            data,
            r#"{"min_rtt":99.000001,"smoothed_rtt":100.000000,"latest_rtt":100.250000,"rtt_variance":50.000000,"pto_count":1,"congestion_window":12000,"bytes_in_flight":2400,"ssthresh":9000,"pacing_rate":1920000,"state":"slow_start"}"#
        );
        let bare = Metrics { ssthresh: None, pacing_rate: None, ..metrics };
        let (_, data) = written(Event::Metrics(bare));
        assert!(!data.contains("ssthresh") && !data.contains("pacing_rate"));
    }

    #[test]
    fn every_event_has_a_name_and_a_json_object() {
        let space = SpaceId::DATA;
        let cases = [
            (
                Event::CongestionState { old: State::SlowStart, new: State::Recovery },
                "quic:congestion_state_updated",
                r#"{"old":"slow_start","new":"recovery"}"#,
            ),
            (
                Event::PacketLost { space, number: 7, size: 1_200, trigger: LossTrigger::PacketThreshold },
                "quic:packet_lost",
                r#"{"header":{"packet_type":"1RTT","packet_number":7},"raw":{"length":1200},"trigger":"reordering_threshold"}"#,
            ),
            (
                Event::SpuriousLoss { space, number: 7, size: 1_200, late_by: Duration::from_millis(3) },
                "thalweg:spurious_loss",
                r#"{"header":{"packet_type":"1RTT","packet_number":7},"raw":{"length":1200},"late_by":3.000000}"#,
            ),
            (
                Event::CongestionEvent {
                    cause: CongestionCause::Ecn,
                    episode: 2,
                    window: 8_400,
                    ssthresh: Some(8_400),
                },
                "thalweg:congestion_event",
                r#"{"cause":"ecn","episode":2,"congestion_window":8400,"ssthresh":8400}"#,
            ),
            (
                Event::CongestionEvent { cause: CongestionCause::Loss, episode: 2, window: 8_400, ssthresh: None },
                "thalweg:congestion_event",
                r#"{"cause":"loss","episode":2,"congestion_window":8400}"#,
            ),
            (
                Event::Undo { episode: 2, window: 12_000 },
                "thalweg:congestion_undone",
                r#"{"episode":2,"congestion_window":12000}"#,
            ),
            (
                Event::PersistentCongestion { window: 2_400 },
                "thalweg:persistent_congestion",
                r#"{"congestion_window":2400}"#,
            ),
            (
                Event::PtoExpired { space: SpaceId::Initial, count: 1 },
                "quic:timer_updated",
                r#"{"event_type":"expired","timer_type":"pto","packet_number_space":"initial","pto_count":1}"#,
            ),
            (
                Event::TimerSet { kind: TimerKind::LossTime, space, delay: Duration::from_micros(12_500) },
                "quic:timer_updated",
                r#"{"event_type":"set","timer_type":"loss_timeout","packet_number_space":"application_data","delta":12.500000}"#,
            ),
            (Event::TimerCancelled, "quic:timer_updated", r#"{"event_type":"cancelled"}"#),
            (
                Event::EcnState { old: EcnState::Testing, new: EcnState::Capable },
                "quic:ecn_state_updated",
                r#"{"old":"testing","new":"capable"}"#,
            ),
            (
                Event::StartExit { reason: StartExit::Delay, window: 90_000 },
                "thalweg:start_exited",
                r#"{"reason":"delay","congestion_window":90000}"#,
            ),
            (Event::AppLimited { limited: true }, "thalweg:application_limited", r#"{"limited":true}"#),
        ];
        for (event, name, data) in cases {
            assert_eq!(written(event), (name, data.to_owned()));
        }
    }
}
