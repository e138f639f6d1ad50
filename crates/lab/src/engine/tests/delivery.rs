//! Delivery curves and the best that paths allow.

use super::*;

fn shares(record: &RunRecord) -> (u64, Vec<f64>, Vec<f64>) {
    match record.flows[0].delivery.clone() {
        Some(Delivery::Shares { whole, times, floor }) => (whole, times, floor),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_delivery_curve_ends_with_its_transfer_and_stays_behind_the_floor() {
    for transfer in ["download = \"2 MB\"", "upload = \"300 kB\"", "download = \"10 B\""] {
        let record = run(HOME, &format!("transfer = {{ {transfer} }}"));
        let (whole, times, floor) = shares(&record);
        assert!(whole >= 10 && times.len() == DELIVERY_SHARES && times.is_sorted(), "{transfer}");
        let late = times[DELIVERY_SHARES - 1] - value(&record, "completion");
        assert!((0.0..2e-6).contains(&late), "{transfer}: {late}");
        // At constant rates the best curve is a line.
        let [first, last] = floor[..] else { panic!("{transfer}: {floor:?}") };
        assert!((last * value(&record, "completion_over_floor") - value(&record, "completion")).abs() < 1e-4);
        for (share, at) in (1..).zip(&times) {
            assert!(*at >= first + (last - first) * f64::from(share) / DELIVERY_SHARES as f64, "{transfer}: {share}");
        }
    }
}

#[test]
fn a_delivery_curve_tells_how_far_a_transfer_came() {
    let cut = format!("{HOME}\noutage = {{ at = \"1 s\", for = \"90 s\" }}");
    let record = run(&cut, "transfer = { download = \"4 MB\" }");
    assert_eq!(value(&record, "completed"), 0.0);
    let (whole, times, _) = shares(&record);
    assert_eq!(whole, 4_000_000);
    // A second of 20 Mbps is 2.5 MB at most; half of that is there at least.
    assert!((12..=25).contains(&times.len()) && times.iter().all(|at| *at < 1.1), "{times:?}");
}

#[test]
fn a_rate_that_changes_bends_the_best_curve() {
    let path = "up = { rate = \"5 Mbps\", delay = \"10 ms\" }\n\
        down = { rate = \"2 Mbps\", delay = \"10 ms\", changes = [{ at = \"1 s\", rate = \"20 Mbps\" }] }";
    let record = run(path, "phase = false\ntransfer = { download = \"2 MB\" }");
    let (_, times, floor) = shares(&record);
    assert!(floor.len() == DELIVERY_SHARES + 1 && floor.is_sorted(), "{floor:?}");
    assert!(times.iter().zip(&floor[1..]).all(|(at, best)| at >= best));
}

#[test]
fn an_endless_flow_is_cut_by_time() {
    let record = run(HOME, "transfer = { download = \"endless\" }");
    let Some(Delivery::Steps { lasted, bytes }) = record.flows[0].delivery.clone() else { panic!() };
    assert!(bytes.len() == DELIVERY_SHARES && bytes.is_sorted(), "{bytes:?}");
    let goodput = value(&record, "goodput");
    assert!((bytes[DELIVERY_SHARES - 1] as f64 * 8.0 / lasted / goodput - 1.0).abs() < 0.01, "{goodput}");
}

#[test]
fn requests_have_a_curve_too() {
    let record = run(HOME, "requests = { count = 5, response = \"100 kB\", think = \"100 ms\" }");
    let (whole, times, floor) = shares(&record);
    assert!((500_000..510_000).contains(&whole) && floor.is_empty(), "{whole}");
    assert!(times.len() == DELIVERY_SHARES && times.is_sorted());
}
