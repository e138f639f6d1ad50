//! Figures as people read them: rates, times, small plots.

/// `12.3 Mbps`.
pub fn bits_per_second(bps: f64) -> String {
    let (value, unit) = match bps {
        bps if bps >= 1e9 => (bps / 1e9, "Gbps"),
        bps if bps >= 1e6 => (bps / 1e6, "Mbps"),
        bps if bps >= 1e3 => (bps / 1e3, "kbps"),
        bps => (bps, "bps"),
    };
    format!("{} {unit}", three_digits(value))
}

/// `1.23 s`, `45.6 ms`, `0.789 ms`.
pub fn milliseconds(ms: f64) -> String {
    if ms >= 1000.0 { format!("{} s", three_digits(ms / 1000.0)) } else { format!("{} ms", three_digits(ms)) }
}

/// Three significant digits, as far as that makes sense for values below 1000.
fn three_digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// One character per value, from 0 to `top`; a blank where there is none or nothing.
pub fn sparkline(values: &[Option<f64>], top: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    values
        .iter()
        .map(|value| match value {
            Some(value) if top > 0.0 && *value > 0.0 => {
                let level = (value / top * BARS.len() as f64) as usize;
                BARS[level.min(BARS.len() - 1)]
            }
            _ => ' ',
        })
        .collect()
}

/// `1 packet`, `2 packets`.
pub fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Lowercase hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!(bits_per_second(12_345_678.0), "12.3 Mbps");
        assert_eq!(bits_per_second(999.0), "999 bps");
        assert_eq!(milliseconds(1234.0), "1.23 s");
        assert_eq!(milliseconds(0.25), "0.250 ms");
    }

    #[test]
    fn a_sparkline_spans_its_values() {
        assert_eq!(sparkline(&[None, Some(0.0), Some(5.0), Some(10.0)], 10.0), "  ▅█");
        assert_eq!(sparkline(&[Some(1.0)], 0.0), " ");
    }
}
