//! Calls over QUIC: streams by group, priorities, and groups that the receiver cancels.
#![allow(clippy::unwrap_used)]

use thalweg_link::{DirectionConfig, LossModel, Probability, RateModel};
use thalweg_sim::*;
use thalweg_units::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn link(rate: &str) -> DirectionConfig {
    DirectionConfig {
        rate: RateModel::Constant(rate.parse().unwrap()),
        delay: ms(15).into(),
        queue: "100 ms".parse().unwrap(),
        ..DirectionConfig::default()
    }
}

fn plan(rate: &str, call: Call) -> Plan {
    Plan {
        paths: vec![PathPlan::new("p", link(rate), link(rate))],
        flows: vec![FlowPlan::new("call", Traffic::Call(call))],
        time_limit: Duration::from_secs(120),
        crypto: Crypto::Null,
        ..Plan::default()
    }
}

fn tracks(plan: &Plan) -> Vec<TrackResult> {
    let result = run(plan).unwrap();
    assert_eq!(result.failed, None);
    result.flows[0].tracks.clone()
}

#[test]
fn on_a_path_with_room_every_frame_arrives_within_its_own_time() {
    for up in [false, true] {
        let call = Call::new(up, ms(5_000));
        let result = run(&plan("100 Mbps", call.clone())).unwrap();
        assert_eq!(result.failed, None);
        let flow = &result.flows[0];
        assert_eq!((flow.frames.due, flow.frames.never(), flow.bytes), (550, 0, call.bytes()));
        for (track, due) in flow.tracks.iter().zip([250, 150, 150]) {
            assert_eq!((track.due, track.captured, track.arrived), (due, due, due));
            assert!(track.delay.min() >= ms(15) && track.delay.mean() < ms(22), "{:?}", track.delay);
            assert_eq!(track.delay, track.wait);
        }
        // It ends a second after the last frame was due, not ten.
        assert!(result.virtual_time < ms(6_300), "{:?}", result.virtual_time);
    }
}

#[test]
fn a_path_that_is_too_narrow_costs_the_last_track_its_groups_and_the_others_nothing() {
    // The first video needs 1.2 Mbps, the second 2.
    let narrow = tracks(&plan("2 Mbps", Call::new(false, ms(20_000))));
    // One in a hundred may be canceled with its group: it was lost, and the next group came before it was sent again.
    assert!(narrow[0].arrived >= 990, "{}", narrow[0].arrived);
    assert_eq!(narrow[1].arrived, 600);
    assert!(narrow[1].delay.max() < ms(400), "{:?}", narrow[1].delay.max());
    let last = &narrow[2];
    assert!(last.arrived >= 20 && last.arrived < 500, "{}", last.arrived);
    // What was canceled counts until the next group's first frame.
    assert!(last.wait.max() > ms(900) && last.wait.max() > last.delay.max(), "{:?}", last.wait.max());
    assert!(last.wait.mean() > last.delay.mean());
}

#[test]
fn the_first_video_of_the_list_goes_before_the_second() {
    // Together they need 3.2 Mbps.
    let mut call = Call::new(false, ms(10_000));
    call.video.iter_mut().for_each(|video| video.cancel_after = None);
    for _ in 0..2 {
        let narrow = tracks(&plan("2.6 Mbps", call.clone()));
        assert_eq!(narrow[1].arrived, 300);
        assert!(narrow[1].delay.max() < ms(500), "{:?}", narrow[1].delay.max());
        assert!(narrow[2].delay.max() > ms(1_000), "{:?}", narrow[2].delay.max());
        call.video.reverse();
    }
}

#[test]
fn canceled_streams_make_room_for_others() {
    // Ten groups per second of each track for 30 s: far more than the 128 streams that may be open at a time.
    let mut call = Call::new(false, ms(30_000));
    call.video.iter_mut().for_each(|video| video.group = 3);
    call.video[0] = Video { key: 1_000, delta: 100, ..call.video[0] };
    call.video[1] = Video { key: 20_000, delta: 10_000, cancel_after: Some(ms(60)), ..call.video[1] };
    let narrow = tracks(&plan("2 Mbps", call));
    assert_eq!((narrow[1].due, narrow[1].arrived), (900, 900));
    assert!(narrow[2].arrived < 400, "most groups are canceled: {}", narrow[2].arrived);
    assert!(narrow[2].arrived >= 300, "and every group begins: {}", narrow[2].arrived);
    // The end of the last group counts until a second after the last frame was due.
    assert!(narrow[2].wait.max() < ms(1_100), "{:?}", narrow[2].wait.max());
}

#[test]
fn losses_cost_audio_frames_and_video_time() {
    let mut lost = 0;
    for seed in 1..=10 {
        let mut plan = plan("20 Mbps", Call::new(seed % 2 == 0, ms(5_000)));
        plan.seed = seed;
        let path = &mut plan.paths[0];
        for direction in [&mut path.up, &mut path.down] {
            direction.loss.push(LossModel::Random(Probability::new(0.02).unwrap()));
        }
        let [audio, first, second] = tracks(&plan).try_into().unwrap();
        lost += audio.due - audio.arrived;
        assert_eq!((first.due, first.arrived), (150, 150), "seed {seed}");
        for track in [audio, first, second] {
            assert_eq!((track.wait.count(), track.delay.count()), (track.due, track.arrived), "seed {seed}");
            assert!(track.delay.min() >= ms(15) && track.wait.max() >= track.delay.max(), "seed {seed}");
        }
    }
    // 2 % of 2,500 datagrams.
    assert!((25..=80).contains(&lost), "{lost}");
}

#[test]
fn only_frames_captured_within_the_window_count() {
    let mut plan = plan("100 Mbps", Call::new(false, ms(5_000)));
    plan.measure = Some((ms(2_000), ms(4_000)));
    let window = tracks(&plan);
    assert_eq!([window[0].due, window[1].due, window[2].due], [100, 60, 60]);
    plan.measure = Some((ms(3_000), ms(100_000)));
    let end = tracks(&plan);
    // The call began some 50 ms after the run.
    assert!(end[0].due > 100 && end[0].due <= 104, "{}", end[0].due);
    assert_eq!(end[0].due, end[0].arrived);
}

#[test]
fn a_call_that_dies_counts_what_was_never_sent() {
    let mut plan = plan("100 Mbps", Call::new(false, ms(20_000)));
    let path = &mut plan.paths[0];
    for direction in [&mut path.up, &mut path.down] {
        direction.outages.push(thalweg_link::Windows::once(ms(1_000), Duration::from_secs(100)));
    }
    let flow = &mut plan.flows[0];
    for config in [&mut flow.client, &mut flow.server] {
        config.max_idle_timeout = Some(Duration::from_secs(2));
    }
    let flow = run(&plan).unwrap().flows.remove(0);
    assert!(flow.failed.is_some());
    assert_eq!((flow.frames.due, flow.tracks[0].due), (2_200, 1_000));
    assert!(flow.frames.sent < 400 && flow.frames.never() > 2_050, "{:?}", flow.frames.never());
    assert!(flow.tracks[0].wait.max() > ms(19_900), "{:?}", flow.tracks[0].wait.max());
}

#[test]
fn stacks_without_ranked_streams_and_calls_that_cannot_be_are_refused() {
    for stack in ["tcp", "raw"] {
        let mut plan = plan("100 Mbps", Call::new(false, ms(1_000)));
        plan.flows[0].stack = stack.to_owned();
        let error = run(&plan).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "flow \"call\": its traffic is a call, and the stack \"{stack}\" offers no streams with priorities \
                 that their receiver can cancel"
            )
        );
    }
    let error = run(&plan("100 Mbps", Call::new(false, ms(0)))).unwrap_err().to_string();
    assert_eq!(error, "flow \"call\": its traffic needs a duration above zero and at most an hour");
}

#[test]
fn a_download_begins_when_its_request_has_come_and_ends_after_its_last_frames() {
    let mut call = Call::new(false, ms(2_000));
    call.video.clear();
    let mut plan = plan("10 Mbps", call);
    let path = &mut plan.paths[0];
    for way in [&mut path.up, &mut path.down] {
        way.delay = ms(700).into();
    }
    let on_time = tracks(&plan);
    assert_eq!((on_time[0].captured, on_time[0].arrived), (100, 100));
    // With losses the request comes late; audio is not repaired, and nothing is cut off.
    plan.paths[0].up.loss.push(LossModel::Random(Probability::new(0.4).unwrap()));
    for seed in 1..=8 {
        plan.seed = seed;
        assert_eq!(tracks(&plan)[0].arrived, 100, "seed {seed}");
    }
}

#[test]
fn a_call_of_more_than_a_million_frames_is_refused() {
    let mut call = Call::new(false, Call::LONGEST);
    call.video[0].fps = 1_000;
    let error = run(&plan("10 Mbps", call)).unwrap_err().to_string();
    assert!(error.contains("a million frames"), "{error}");
}
