//! What losses count for, and what they are taken for until more is known.

use super::*;

#[test]
fn more_than_two_percent_lost_is_congestion() {
    for (lost, is_chance) in [(20_000, true), (20_001, false)] {
        let mut regain = regain(lost);
        regain.reduce(view(1_000_000, 100), Signal::Loss);
        assert_eq!(regain.prior.is_some(), is_chance, "{lost} of a million");
    }
}

#[test]
fn losses_of_the_start_are_not_by_chance_and_do_not_count() {
    let mut regain = Regain::new(Box::new(Cubic::default()));
    let mut scene = Scene::new();
    let event = AckEvent { lost: 500_000, ..scene.ack(500_000, Some(ms(100)), false) };
    regain.observe(view(1_000_000, 100), &event, false);
    regain.reduce(view(1_000_000, 100), Signal::Loss);
    assert_eq!((regain.prior, regain.share.lost), (None, 0));
    round(&mut regain, &[100]);
    round(&mut regain, &[100]);
    regain.reduce(view(700_000, 100), Signal::Loss);
    assert_eq!(regain.prior, Some(700_000));
}

#[test]
fn what_the_start_has_sent_does_not_count_when_it_turns_out_to_be_lost_later() {
    for (sent_ms, lost) in [(5, 0), (6, 500_000)] {
        let mut regain = Regain::new(Box::new(Cubic::default()));
        let mut scene = path();
        regain.reduce(View { now: at(5), ..view(1_000_000, 100) }, Signal::Loss);
        let losses = [LossSample { sent: at(sent_ms), ..loss(500_000) }];
        let sent = Some(SentSpan { oldest: at(1), newest: at(sent_ms) });
        let event = AckEvent { losses: &losses, lost: 500_000, sent, ..scene.ack(500_000, Some(ms(100)), false) };
        regain.observe(view(700_000, 100), &event, true);
        assert_eq!((regain.share.lost, regain.share.judged), (lost, 2 * lost), "sent at {sent_ms} ms");
    }
}

#[test]
fn it_forgets_by_an_eighth_per_reduction() {
    let mut regain = regain(80_000);
    regain.reduce(view(1_000_000, 100), Signal::Loss);
    assert_eq!((regain.share.lost, regain.share.judged), (70_000, 875_000));
}

#[test]
fn what_was_sent_before_a_reduction_was_taken_back_counts_neither_as_lost_nor_as_arrived() {
    let mut regain = regain(1_000);
    let counted = (regain.share.lost, regain.share.judged);
    regain.on_return(at(5));
    let mut scene = Scene::new();
    let mut observe = |sent: u64| {
        let losses = [LossSample { sent: at(sent), ..loss(1_200) }];
        let sent = Some(SentSpan { oldest: at(sent), newest: at(sent) });
        let event = AckEvent { losses: &losses, lost: 1_200, sent, ..scene.ack(2_400, Some(ms(100)), false) };
        regain.observe(view(1_000_000, 100), &event, false);
        (regain.share.lost, regain.share.judged)
    };
    assert_eq!(observe(5), counted);
    assert_eq!(observe(6), (counted.0 + 1_200, counted.1 + 3_600));
}

#[test]
fn a_window_that_was_reduced_in_doubt_is_the_one_to_come_back_to_once_losses_follow_nothing() {
    let independent = |regain: &mut Regain| regain.evidence.show(40, 40);
    // Losses seemed to follow the flight, or were too many for chance.
    for doubt in [|regain: &mut Regain| regain.evidence.show(0, 40), |regain: &mut Regain| regain.share.lost = 30_000] {
        let mut regain = regain(1_000);
        doubt(&mut regain);
        regain.reduce(view(1_000_000, 100), Signal::Loss);
        regain.reduce(view(700_000, 100), Signal::Loss);
        assert_eq!((regain.prior, regain.doubted), (None, Some(875_000)), "7/8 for the second");
        independent(&mut regain);
        regain.share.lost = 1_000;
        regain.reduce(view(490_000, 100), Signal::Loss);
        assert_eq!((regain.prior, regain.doubted), (Some(765_625), None));
    }
    // A mark is no doubt, nor is a fifth of all packets lost.
    for (signal, lost) in [(Signal::Mark, 1_000), (Signal::Loss, 250_000)] {
        let mut regain = regain(lost);
        regain.evidence.show(0, 40);
        regain.reduce(view(1_000_000, 100), signal);
        assert_eq!(regain.doubted, None);
    }
}
