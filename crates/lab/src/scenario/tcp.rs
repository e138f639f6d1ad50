//! Reading `tcp = { … }` of a flow: settings that only the stack "tcp" has.

use super::read::Field;
use super::tree::Value;
use super::world::{InitialWindow, MinRto, TcpSpec};

/// The largest initial window that can be asked for, in segments.
const MOST_SEGMENTS: u64 = 10_000;

pub(crate) fn tcp(field: &Field<'_>) -> Option<TcpSpec> {
    let reader = field.table("a table such as { initial_window = 10, delayed_ack = \"40 ms\" }")?;
    let spec = TcpSpec {
        initial_window: reader.get("initial_window").and_then(|field| initial_window(&field)),
        delayed_ack: reader.get("delayed_ack").and_then(|field| field.duration()),
        min_rto: reader.get("min_rto").and_then(|field| min_rto(&field)),
        ecn: reader.get("ecn").and_then(|field| field.boolean()),
        tail_loss_probe: reader.get("tail_loss_probe").and_then(|field| field.boolean()),
        time_threshold: reader.get("time_threshold").and_then(|field| field.boolean()),
        mtu: reader.get("mtu").and_then(|field| field.bytes_in(100..=65_535)),
        receive_window: reader.get("receive_window").and_then(|field| field.bytes_in(1..=1 << 30)),
        reduces_flight_size: reader
            .get("reduce")
            .and_then(|field| field.choice(&[("window", false), ("flight-size", true)])),
    };
    reader.finish();
    Some(spec)
}

/// The name of an RFC, or a number of segments.
fn initial_window(field: &Field<'_>) -> Option<InitialWindow> {
    match &field.node.value {
        Value::Text(_) => field.choice(&[("rfc6928", InitialWindow::Rfc6928), ("rfc3390", InitialWindow::Rfc3390)]),
        _ => field.count(1..=MOST_SEGMENTS).and_then(|count| u16::try_from(count).ok()).map(InitialWindow::Segments),
    }
}

/// A name, or a duration.
fn min_rto(field: &Field<'_>) -> Option<MinRto> {
    match &field.node.value {
        Value::Text(text) if text.starts_with(|first: char| first.is_ascii_digit()) => field.span().map(MinRto::At),
        _ => field.choice(&[("linux", MinRto::Linux), ("rfc6298", MinRto::Rfc6298)]),
    }
}
