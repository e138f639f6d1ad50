//! Invariants after any history.

use proptest::prelude::*;

use super::*;

/// What may happen next.
#[derive(Clone, Debug)]
enum Event {
    Ack { kbps: u64, rtt: u64, limited: bool, in_flight: Option<u64>, lost: Vec<u64>, ce: u64, persistent: bool },
    Restart(u64),
    Limited(bool),
    Undo,
    Size(u16),
    Validation(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let ack = (
        1u64..20_000_000,
        1u64..5_000,
        any::<bool>(),
        proptest::option::of(0u64..50_000_000),
        proptest::collection::vec(1u64..5, 0..8),
        0u64..2,
        prop::bool::weighted(0.02),
    );
    prop_oneof![
        20 => ack.prop_map(|(kbps, rtt, limited, in_flight, lost, ce, persistent)| {
            Event::Ack { kbps, rtt, limited, in_flight, lost, ce, persistent }
        }),
        1 => (0u64..20_000).prop_map(Event::Restart),
        1 => any::<bool>().prop_map(Event::Limited),
        1 => Just(Event::Undo),
        1 => (1_200u16..9_000).prop_map(Event::Size),
        1 => (0u64..1_000_000).prop_map(Event::Validation),
    ]
}

fn happen(stage: &mut Stage, event: Event) -> bool {
    match event {
        Event::Ack { kbps, rtt, limited, in_flight, lost, ce, persistent } => {
            let losses = stage.losses(&lost, in_flight.unwrap_or(stage.bbr.window));
            let lost_of_sample = losses.iter().map(|loss| loss.bytes).sum();
            let congestion = !losses.is_empty() || ce > 0;
            let (rate, rtt) = (Rate::from_bps(1_000 * kbps), ms(rtt));
            stage.ack(&Ack { rate, rtt, limited, in_flight, losses, lost_of_sample, ce, congestion, persistent });
            return persistent;
        }
        Event::Restart(idle) => {
            stage.now += ms(idle);
            let _ = stage.bbr.on_restart(stage.now, ms(idle));
        }
        Event::Limited(limited) => {
            let _ = stage.bbr.on_application_limited(stage.now, limited);
        }
        Event::Undo => {
            stage.bbr.undo(stage.now, stage.episode);
        }
        Event::Size(size) => stage.bbr.on_datagram_size(size),
        Event::Validation(window) => {
            let _ = stage.bbr.on_validation(stage.now, window);
        }
    }
    false
}

proptest! {
    #[test]
    fn whatever_happens_something_may_leave_and_the_bounds_hold(
        events in proptest::collection::vec(event(), 1..300),
        opens_by_trains in any::<bool>(),
        puts_up_with_loss in any::<bool>(),
    ) {
        let mut stage = Stage::new();
        let context = PathContext::new(Instant::ZERO, DATAGRAM as u16);
        stage.bbr = Bbr::new(&context, Settings { opens_by_trains, puts_up_with_loss });
        let mut has_collapsed = false;
        for event in events {
            has_collapsed = happen(&mut stage, event) || has_collapsed && stage.bbr.window < stage.bbr.min_pipe();
            let (bbr, allowance) = (&stage.bbr, stage.allowance());
            let least = if has_collapsed { 2 * DATAGRAM } else { bbr.min_pipe().min(bbr.initial_window()) };
            prop_assert!(allowance.window >= least, "{} of {least}", allowance.window);
            prop_assert!(allowance.rate > Some(Rate::ZERO));
            prop_assert!(allowance.quantum >= 2 * bbr.datagram);
            prop_assert!(bbr.path.bandwidth <= bbr.path.max_bandwidth.value());
            prop_assert!(bbr.path.bandwidth <= bbr.path.short_term.bandwidth);
            prop_assert!(bbr.repair.saved.len() <= crate::undo::DEPTH);
            let model = bbr.model().unwrap();
            prop_assert!(model.ups >= model.ups_ended_by_loss + model.ups_ended_by_care + model.ups_ended_by_plateau);
            prop_assert!(model.downs >= model.downs_ended_by_time);
            prop_assert!(model.startups > 0);
        }
    }
}
