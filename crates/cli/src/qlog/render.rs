//! A trace's summary as a page of text.

use std::fmt::Write;

use thalweg_units::human_bytes;

use super::summary::{Loss, Mtu, Share, Summary, Traffic};
use crate::text::{bits_per_second, count, milliseconds, sparkline};

/// The page.
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, summary);
    out
}

fn write(out: &mut String, s: &Summary) -> std::fmt::Result {
    writeln!(out, "{}", s.file)?;
    let mut who = Vec::new();
    who.extend(s.vantage_point.clone());
    who.extend(s.alpn.as_ref().map(|alpn| format!("ALPN {alpn}")));
    who.extend(s.version.as_ref().map(|version| format!("version {}", version_name(version))));
    who.extend(s.odcid.as_ref().map(|odcid| format!("ODCID {odcid}")));
    if !who.is_empty() {
        line(out, "connection", &who.join(", "))?;
    }
    let mut time = milliseconds(s.duration_ms);
    if let Some(handshake) = s.handshake_ms {
        write!(time, ", handshake done after {}", milliseconds(handshake))?;
    }
    line(out, "time", &time)?;
    // TCP of a kernel tells of no packets.
    let has_packets = s.sent.packets + s.received.packets > 0;
    if has_packets {
        traffic(out, "sent", &s.sent)?;
        traffic(out, "received", &s.received)?;
    }
    if let Some(rtt) = &s.rtt {
        line(
            out,
            "RTT",
            &format!(
                "min {}, median {}, max {} ({} samples)",
                milliseconds(rtt.min_ms),
                milliseconds(rtt.median_ms),
                milliseconds(rtt.max_ms),
                rtt.samples
            ),
        )?;
    }
    if has_packets || s.loss != Loss::default() {
        losses(out, s)?;
    }
    if let Some(window) = &s.congestion_window {
        line(
            out,
            "window",
            &format!(
                "first {}, largest {}, last {}",
                human_bytes(window.first),
                human_bytes(window.max),
                human_bytes(window.last)
            ),
        )?;
    }
    if has_packets || s.mtu.changes > 0 {
        mtu(out, &s.mtu)?;
    }
    shares(out, "phases", &s.phases)?;
    shares(out, "where the sender waited", &s.limits)?;
    let mut notes = Vec::new();
    notes.extend(s.ecn.as_ref().map(|ecn| format!("ECN {ecn}")));
    if s.key_updates > 0 {
        notes.push(count(s.key_updates, "key update"));
    }
    if s.path_changes > 0 {
        notes.push(count(s.path_changes, "path change"));
    }
    for (reason, dropped) in &s.dropped_on_arrival {
        notes.push(format!("{} dropped on arrival ({reason})", count(*dropped, "packet")));
    }
    if !notes.is_empty() {
        line(out, "also", &notes.join(", "))?;
    }
    line(out, "end", s.closed.as_deref().unwrap_or("not in the trace"))?;
    if s.damaged_records > 0 {
        line(out, "damaged", &format!("{} (a last one is normal after a kill)", count(s.damaged_records, "record")))?;
    }
    plots(out, s)
}

fn mtu(out: &mut String, mtu: &Mtu) -> std::fmt::Result {
    let changes = match mtu.last {
        Some(last) => format!("{last} bytes after {}", count(mtu.changes, "change")),
        None => "no changes".into(),
    };
    line(
        out,
        "MTU",
        &format!(
            "{changes}; largest packet sent {}, received {}",
            mtu.largest_packet_sent, mtu.largest_packet_received
        ),
    )
}

fn line(out: &mut String, name: &str, text: &str) -> std::fmt::Result {
    writeln!(out, "  {name:<13} {text}")
}

fn version_name(version: &str) -> &str {
    match version.trim_start_matches('0') {
        "1" => "1",
        "6b3343cf" => "2",
        _ => version,
    }
}

fn traffic(out: &mut String, name: &str, traffic: &Traffic) -> std::fmt::Result {
    let mut text = format!("{} in {}", human_bytes(traffic.bytes), count(traffic.packets, "packet"));
    if traffic.stream_bytes > 0 {
        write!(text, ", {} of stream data", human_bytes(traffic.stream_bytes))?;
        if traffic.streams > 1 {
            write!(text, " on {}", count(traffic.streams, "stream"))?;
        }
        if let Some(goodput) = traffic.goodput_bps {
            write!(text, " at {}", bits_per_second(goodput))?;
        }
        if traffic.repeated_stream_bytes > 0 {
            let share = traffic.repeated_stream_bytes as f64 / traffic.stream_bytes as f64 * 100.0;
            let repeated = human_bytes(traffic.repeated_stream_bytes);
            write!(text, ", {repeated} repeated ({share:.2} %)")?;
        }
    }
    line(out, name, &text)
}

fn losses(out: &mut String, s: &Summary) -> std::fmt::Result {
    let loss = &s.loss;
    let mut text = count(loss.packets, "packet");
    if s.sent.packets > 0 && loss.packets > 0 {
        write!(text, " ({:.2} % of those sent)", loss.packets as f64 / s.sent.packets as f64 * 100.0)?;
    }
    if !loss.by_trigger.is_empty() {
        let triggers: Vec<_> = loss.by_trigger.iter().map(|(name, count)| format!("{count} by {name}")).collect();
        write!(text, ": {}", triggers.join(", "))?;
    }
    write!(text, "; spurious {}", loss.spurious)?;
    for (number, name) in [
        (loss.congestion_events, "congestion event"),
        (loss.undone, "undone reduction"),
        (loss.probe_timeouts, "probe timeout"),
        (loss.persistent_congestion, "persistent congestion episode"),
        (loss.mtu_probes, "lost MTU probe"),
    ] {
        if number > 0 {
            write!(text, "; {}", count(number, name))?;
        }
    }
    line(out, "lost", &text)
}

fn shares(out: &mut String, name: &str, shares: &[Share]) -> std::fmt::Result {
    for (index, share) in shares.iter().enumerate() {
        let title = if index == 0 { name } else { "" };
        let times = if share.times == 1 { String::new() } else { format!(", {} times", share.times) };
        line(
            out,
            title,
            &format!(
                "{:<22} {:>5.1} %  {}, first at {}{times}",
                share.name,
                share.share * 100.0,
                milliseconds(share.total_ms),
                milliseconds(share.first_at_ms)
            ),
        )?;
    }
    Ok(())
}

fn plots(out: &mut String, s: &Summary) -> std::fmt::Result {
    let goodput: Vec<_> = s.series.goodput_bps.iter().copied().map(Some).collect();
    plot(out, "goodput", &goodput, &bits_per_second)?;
    plot(out, "window", &s.series.window, &|bytes| human_bytes(bytes as u64))?;
    plot(out, "RTT", &s.series.rtt_ms, &milliseconds)
}

fn plot(out: &mut String, name: &str, values: &[Option<f64>], unit: &dyn Fn(f64) -> String) -> std::fmt::Result {
    let top = values.iter().flatten().copied().fold(0.0, f64::max);
    if top <= 0.0 {
        return Ok(());
    }
    line(out, name, &format!("{} 0 to {}", sparkline(values, top), unit(top)))
}
