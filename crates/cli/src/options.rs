//! Options that several commands share: settings of connections, and logs of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use thalweg::{AckPolicy, Policies, TransportConfig};
use thalweg_units::{Rate, parse_bytes, parse_duration};

use crate::failure::{Context, Result};
use crate::qlog_dir::QlogDir;

/// How connections behave.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct TransportArgs {
    /// Which recovery rules run, such as "controller=new-reno, start=standard"; `thalweg policies` lists them
    #[arg(long, value_name = "FIELD=NAME,...", default_value_t, hide_default_value = true)]
    pub policies: Policies,
    /// Write a qlog trace of every connection into DIR (also: environment variable QLOGDIR)
    #[arg(long, value_name = "DIR")]
    pub qlog: Option<PathBuf>,
    /// Give a silent connection up after this long
    #[arg(long, value_name = "TIME", default_value = "30 s", value_parser = duration)]
    pub idle_timeout: Duration,
    /// Round-trip time assumed until the first is measured, 1 ms to 1 h: longer for paths beyond the Earth, where
    /// probes would leave long before any answer can arrive
    #[arg(long, value_name = "TIME", default_value = "333 ms", value_parser = initial_rtt)]
    pub initial_rtt: Duration,
    /// Largest UDP payload that path MTU discovery tries; 1200 turns it off
    #[arg(long, value_name = "BYTES", default_value_t = 1452, value_parser = clap::value_parser!(u16).range(1200..))]
    pub max_mtu: u16,
    /// How densely to acknowledge what arrives, where the peer asks for nothing: every-second, until-loss, thinned
    /// or sparse
    #[arg(long, value_name = "NAME", default_value_t)]
    pub acks: AckPolicy,
    /// Let the peer ask for acknowledgments (ACK_FREQUENCY), held back for this long or more; `off`: it may not
    #[arg(long, value_name = "TIME", default_value = "1 ms", value_parser = duration_or_off)]
    pub min_ack_delay: Switch,
    /// Ask the peer for so many timestamps of arrival per acknowledgment, 128 at most, where the start uses them
    #[arg(long, value_name = "COUNT", default_value_t = 128, value_parser = clap::value_parser!(u16).range(..=128))]
    pub receive_timestamps: u16,
    /// Do not mark packets for congestion notification (ECN)
    #[arg(long)]
    pub no_ecn: bool,
}

impl TransportArgs {
    /// The configuration that these options make of `base`.
    ///
    /// # Errors
    ///
    /// When the directory for traces cannot be made.
    pub fn config(&self, base: TransportConfig) -> Result<TransportConfig> {
        let mut config = TransportConfig {
            policies: self.policies.clone(),
            max_idle_timeout: Some(self.idle_timeout),
            initial_rtt: self.initial_rtt,
            max_mtu: self.max_mtu,
            acks: self.acks,
            receive_timestamps: self.receive_timestamps,
            min_ack_delay: self.min_ack_delay.0,
            ecn: !self.no_ecn,
            ..base
        };
        if let Some(directory) = self.qlog_directory() {
            let traces =
                QlogDir::new(&directory).context(format_args!("cannot write traces into {}", directory.display()))?;
            config.observer = Some(Arc::new(traces));
        }
        Ok(config)
    }

    /// Where traces go: the option, else QLOGDIR.
    pub fn qlog_directory(&self) -> Option<PathBuf> {
        self.qlog.clone().or_else(|| std::env::var_os("QLOGDIR").filter(|value| !value.is_empty()).map(PathBuf::from))
    }
}

/// Reads `100 MB`, `64 KiB`, `1500`.
pub fn bytes(text: &str) -> std::result::Result<u64, String> {
    parse_bytes(text).or_else(|error| text.trim().parse().map_err(|_| error)).map_err(|error| error.to_string())
}

/// Reads `300 ms`, `1.5 s`, `10 min`.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// What can be turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub Option<Duration>);

/// Reads a duration, or `off`.
pub fn duration_or_off(text: &str) -> std::result::Result<Switch, String> {
    match text.trim() {
        "off" => Ok(Switch(None)),
        _ => duration(text).map(|span| Switch(Some(span))).map_err(|error| format!("{error}, or off")),
    }
}

/// Reads a round-trip time to begin with: at least the granularity of timers (RFC 9002 section 6.1.2).
fn initial_rtt(text: &str) -> std::result::Result<Duration, String> {
    let accepted = Duration::from_millis(1)..=Duration::from_secs(3600);
    match duration(text)? {
        rtt if accepted.contains(&rtt) => Ok(rtt),
        _ => Err("is no round-trip time to begin with; write 1 ms to 1 h, such as \"120 s\"".to_owned()),
    }
}

/// Reads `250 Mbps`, `10mbit`, `4 MB/s`, and `4M` as curl and wget have it.
pub fn rate(text: &str) -> std::result::Result<Rate, String> {
    match text.parse::<Rate>().or_else(|error| short_rate(text).ok_or(error)) {
        Ok(rate) if rate.bps() == 0 => Err("a rate of nothing never gets done".into()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads `500k`, `4M`, `1G`: powers of 1024 bytes per second, as `--limit-rate` of curl and wget.
fn short_rate(text: &str) -> Option<Rate> {
    let text = text.trim();
    let unit = match text.chars().last()? {
        'k' | 'K' => "KiB/s",
        'm' | 'M' => "MiB/s",
        'g' | 'G' => "GiB/s",
        _ => return None,
    };
    format!("{} {unit}", &text[..text.len() - 1]).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rates_and_times_are_read() {
        assert_eq!(bytes("100 MB"), Ok(100_000_000));
        assert_eq!(bytes("1500"), Ok(1500));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(rate("2 Mbps").unwrap().bps(), 2_000_000);
        assert_eq!(rate("4 MB/s").unwrap().bps(), 32_000_000);
        assert_eq!(rate("10mbit").unwrap().bps(), 10_000_000);
        assert_eq!(rate("4M").unwrap().bps(), 4 * 8 * 1024 * 1024);
        assert_eq!(rate("500k"), rate("500 KiB/s"));
        assert_eq!(rate(" 1.5G "), rate("1.5 GiB/s"));
        for text in ["0k", "M", "4MM", "4", "ü", "4 €", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(rate("0 bps").is_err());
        assert!(rate("0 B/s").is_err());
        let wrong = rate("4 MB").unwrap_err();
        assert!(wrong.contains("Mbps") && wrong.contains("MB/s"), "{wrong}");
        assert!(bytes("many").is_err());
    }

    #[test]
    fn an_initial_round_trip_time_is_from_a_millisecond_to_an_hour() {
        assert_eq!(initial_rtt("120 s"), Ok(Duration::from_secs(120)));
        assert_eq!(initial_rtt("1 ms"), Ok(Duration::from_millis(1)));
        for text in ["0 s", "999 us", "61 min", "long"] {
            assert!(initial_rtt(text).is_err(), "{text}");
        }
        let wrong = initial_rtt("2 h").unwrap_err();
        assert!(wrong.contains("1 ms to 1 h"), "{wrong}");
    }
}
