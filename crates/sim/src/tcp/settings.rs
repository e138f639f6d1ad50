//! Settings of TCP that are not policies of recovery.

use std::fmt;

use thalweg_recovery::{Flight, InitialWindow, Profile};
use thalweg_units::{Duration, exact_duration};

use crate::stack::{Accepts, Schema, Setting, SettingValue, Settings};

/// How short a retransmission timeout may be.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MinRto {
    /// `smoothed + max(4 variation, 200 ms)`, as Linux does.
    #[default]
    Linux,
    /// A second (RFC 6298 section 2.4).
    Rfc6298,
    /// So much: the timeout is `max(smoothed + 4 variation, this)`.
    At(Duration),
}

impl fmt::Display for MinRto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MinRto::Linux => f.write_str("linux"),
            MinRto::Rfc6298 => f.write_str("rfc6298"),
            MinRto::At(span) => f.write_str(&exact_duration(*span)),
        }
    }
}

/// Settings of both ends of a TCP flow; what recovery does is in the flow's policies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// The first window. Default RFC 6928: ten segments.
    pub initial_window: InitialWindow,
    /// For how long an ACK of a single segment may wait for another; zero: every segment is acknowledged at once. Default 40 ms, as in Linux;
    /// RFC 1122 allows 500 ms.
    pub delayed_ack: Duration,
    /// The shortest retransmission timeout. Default as in Linux.
    pub min_rto: MinRto,
    /// Whether segments are marked and marks responded to (RFC 3168). Default false, as most of the Internet does.
    pub ecn: bool,
    /// Marks are counted one by one (accurate ECN, RFC 9768); follows from the policy `mark = "scalable"`.
    pub counts_marks: bool,
    /// Tail loss probes (RFC 8985 section 7). Default true.
    pub tail_loss_probe: bool,
    /// Whether reordering policies that count segments also lose one by time, once a later one was delivered: 9/8 of the round trip, as in QUIC.
    /// Without it `reordering=fixed` is RFC 6675: three later ones have to be delivered. Policies that work by time (`rack`) do so either
    /// way. Default true.
    pub time_threshold: bool,
    /// Bytes of a full packet, IP header included. Default 1500.
    pub mtu: u16,
    /// Bytes beyond the last one acknowledged that the peer may send. Default 64 MiB: no limit.
    pub receive_window: u64,
    /// What a reduction is a share of. Default the window, as in Linux and RFC 9937.
    pub flight: Flight,
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            initial_window: InitialWindow::Rfc6928,
            delayed_ack: Duration::from_millis(40),
            min_rto: MinRto::Linux,
            ecn: false,
            counts_marks: false,
            tail_loss_probe: true,
            time_threshold: true,
            mtu: 1500,
            receive_window: 64 << 20,
            flight: Flight::Window,
        }
    }
}

/// `tcp = { … }` of a flow.
pub(super) static SCHEMA: Schema = Schema {
    table: "tcp",
    example: "{ initial_window = 10, delayed_ack = \"40 ms\" }",
    settings: &[
        Setting {
            name: "initial_window",
            accepts: &[Accepts::Word(&["rfc6928", "rfc3390", "rfc9002"]), Accepts::Count(1..=MOST_SEGMENTS)],
        },
        Setting { name: "delayed_ack", accepts: &[Accepts::Duration] },
        Setting { name: "min_rto", accepts: &[Accepts::Word(&["linux", "rfc6298"]), Accepts::Span] },
        Setting { name: "ecn", accepts: &[Accepts::Boolean] },
        Setting { name: "tail_loss_probe", accepts: &[Accepts::Boolean] },
        Setting { name: "time_threshold", accepts: &[Accepts::Boolean] },
        Setting { name: "mtu", accepts: &[Accepts::Bytes(100..=65_535)] },
        Setting { name: "receive_window", accepts: &[Accepts::Bytes(1..=1 << 30)] },
        Setting { name: "reduce", accepts: &[Accepts::Word(&["window", "flight-size"])] },
    ],
};

/// The largest initial window that can be asked for, in segments.
const MOST_SEGMENTS: u64 = 10_000;

impl From<&Settings> for TcpConfig {
    /// What a plan gives, and the rest as by default.
    fn from(settings: &Settings) -> TcpConfig {
        let own = TcpConfig::default();
        TcpConfig {
            initial_window: match settings.get("initial_window") {
                Some(SettingValue::Word("rfc3390")) => InitialWindow::Rfc3390,
                Some(SettingValue::Word("rfc9002")) => InitialWindow::Rfc9002,
                Some(SettingValue::Number(count)) => InitialWindow::Datagrams(u16::try_from(count).unwrap_or(u16::MAX)),
                _ => own.initial_window,
            },
            delayed_ack: settings.duration("delayed_ack").unwrap_or(own.delayed_ack),
            min_rto: match settings.get("min_rto") {
                Some(SettingValue::Word("rfc6298")) => MinRto::Rfc6298,
                Some(SettingValue::Duration(span)) => MinRto::At(span),
                _ => own.min_rto,
            },
            ecn: settings.boolean("ecn").unwrap_or(own.ecn),
            counts_marks: own.counts_marks,
            tail_loss_probe: settings.boolean("tail_loss_probe").unwrap_or(own.tail_loss_probe),
            time_threshold: settings.boolean("time_threshold").unwrap_or(own.time_threshold),
            mtu: settings.number("mtu").map_or(own.mtu, |mtu| u16::try_from(mtu).unwrap_or(u16::MAX)),
            receive_window: settings.number("receive_window").unwrap_or(own.receive_window),
            flight: match settings.word("reduce") {
                Some("flight-size") => Flight::Outstanding,
                _ => own.flight,
            },
        }
    }
}

impl From<TcpConfig> for Settings {
    /// The same as a plan gives it.
    fn from(config: TcpConfig) -> Settings {
        let mut settings = Settings::default();
        settings.set(
            "initial_window",
            match config.initial_window {
                InitialWindow::Rfc6928 => SettingValue::Word("rfc6928"),
                InitialWindow::Rfc3390 => SettingValue::Word("rfc3390"),
                InitialWindow::Rfc9002 => SettingValue::Word("rfc9002"),
                InitialWindow::Datagrams(count) => SettingValue::Number(u64::from(count)),
                other => SettingValue::Number(other.bytes(config.segment_size()) / u64::from(config.segment_size())),
            },
        );
        settings.set("delayed_ack", SettingValue::Duration(config.delayed_ack));
        settings.set(
            "min_rto",
            match config.min_rto {
                MinRto::Linux => SettingValue::Word("linux"),
                MinRto::Rfc6298 => SettingValue::Word("rfc6298"),
                MinRto::At(span) => SettingValue::Duration(span),
            },
        );
        settings.set("ecn", SettingValue::Boolean(config.ecn));
        settings.set("tail_loss_probe", SettingValue::Boolean(config.tail_loss_probe));
        settings.set("time_threshold", SettingValue::Boolean(config.time_threshold));
        settings.set("mtu", SettingValue::Number(u64::from(config.mtu)));
        settings.set("receive_window", SettingValue::Number(config.receive_window));
        let reduce = if config.flight == Flight::Outstanding { "flight-size" } else { "window" };
        settings.set("reduce", SettingValue::Word(reduce));
        settings
    }
}

impl TcpConfig {
    /// Policies that say nothing to a TCP flow: its timers are those of RFC 6298 and RFC 8985.
    pub const IGNORED_POLICIES: &[&str] = &["probe", "ack-allowance", "ack-rate", "handshake", "tail", "resume"];

    /// Bytes of data in a full segment.
    pub(crate) fn segment_size(&self) -> u16 {
        self.mtu.saturating_sub(super::HEADERS).max(1)
    }

    pub(crate) fn profile(&self) -> Profile {
        Profile {
            initial_window: self.initial_window,
            has_time_threshold: self.time_threshold,
            flight: self.flight,
            ..Profile::TCP
        }
    }
}

impl fmt::Display for TcpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        let window = self.initial_window.bytes(self.segment_size());
        write!(
            f,
            "segments of {} B, initial window {window} B, ack delay {}, min rto {}, ecn {}, loss by time {}, tail loss probes {}",
            self.segment_size(),
            exact_duration(self.delayed_ack),
            self.min_rto,
            on(self.ecn),
            on(self.time_threshold),
            on(self.tail_loss_probe),
        )
    }
}
