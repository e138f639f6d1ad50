//! Settings of TCP that are not policies of recovery.

use std::fmt;

use thalweg_recovery::{Congestion, Flight, InitialWindow, Policies, PolicyError, Profile};
use thalweg_units::{Duration, exact_duration};

use super::wire::{HEADERS, STAMPS};
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

/// Whose TCP it is: what `policies` and settings are where a flow does not name them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TcpProfile {
    /// As Linux 6 comes, without a queue discipline that paces: CUBIC with HyStart, nothing paced, segmentation
    /// offload, timestamps, its delayed and compressed ACKs.
    #[default]
    Linux,
    /// CUBIC, and everything else as [`Shipped`](TcpProfile::Shipped): paced, every second segment acknowledged.
    Paced,
    /// The policies that Thalweg ships, paced, over a plain TCP: every second segment acknowledged, no timestamps.
    Shipped,
}

impl TcpProfile {
    /// Every profile.
    pub const ALL: [TcpProfile; 3] = [TcpProfile::Linux, TcpProfile::Paced, TcpProfile::Shipped];
    const NAMES: &[&str] = &["linux", "paced", "shipped"];
    /// What Linux does where our policies have a name for it. CUBIC and HyStart are those of `tcp_cubic.c`, the
    /// reduction that of `tcp_cwnd_reduction`, the restart that of `tcp_cwnd_restart`; a mark is answered as a loss is.
    const LINUX: &str = "controller=cubic, start=hystart, reduction=prr, rtt=classic, reordering=adaptive, undo=episode, restart=decay, mark=reduce";

    /// Its name in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            TcpProfile::Linux => "linux",
            TcpProfile::Paced => "paced",
            TcpProfile::Shipped => "shipped",
        }
    }

    /// The policies of a flow that names these: what they leave out is as the profile has it. A model is paced unless
    /// they say otherwise, as BBR is in Linux.
    ///
    /// # Errors
    /// As of [`Policies::with`].
    pub fn policies(self, named: &str) -> Result<Policies, PolicyError> {
        let is_window = matches!(named.parse::<Policies>()?.congestion, Congestion::Window { .. });
        let own = match self {
            TcpProfile::Linux if is_window => format!("{}, pacing=off", TcpProfile::LINUX),
            TcpProfile::Linux => TcpProfile::LINUX.to_owned(),
            TcpProfile::Paced => "controller=cubic".to_owned(),
            TcpProfile::Shipped => String::new(),
        };
        Policies::default().with(&own)?.with(named)
    }
}

impl From<&Settings> for TcpProfile {
    fn from(settings: &Settings) -> TcpProfile {
        let named = settings.word("profile");
        TcpProfile::ALL.into_iter().find(|profile| Some(profile.name()) == named).unwrap_or_default()
    }
}

/// When a receiver acknowledges.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TcpAcks {
    /// Every second full segment, out of order every one (RFC 9293, RFC 5681).
    #[default]
    EverySecond,
    /// As Linux: each of the first 22, then more than one segment's worth; a delay that follows how often segments
    /// come; from the fourth duplicate on at most one each millisecond, or each twentieth of the round trip if that is
    /// less. The sender takes them as Linux does: the smoothed round trip counts from the oldest segment answered, and
    /// answers to what left before a repair start the retransmission timer anew.
    Linux,
}

/// Settings of both ends of a TCP flow; what recovery does is in the flow's policies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// What the other settings, and the policies, are unless they are named. Default Linux.
    pub profile: TcpProfile,
    /// When segments are acknowledged. Default as the profile.
    pub acks: TcpAcks,
    /// Whether the sender hands its network interface up to 64 kB at once and waits for room for that much (Linux:
    /// `tcp_tso_autosize`, `tcp_tso_should_defer`), and the receiver's interface merges what arrives together (GRO).
    /// The former only where packets are not paced. Default true in Linux's profile, else false.
    pub offload: bool,
    /// Timestamps (RFC 7323): 12 bytes of each segment, and a round-trip sample where a retransmission gives none.
    /// Default true in Linux's profile, else false.
    pub timestamps: bool,
    /// The first window. Default RFC 6928: ten segments.
    pub initial_window: InitialWindow,
    /// For how long an ACK of a single segment may wait for another; zero: every segment is acknowledged at once.
    /// Default 40 ms, as in Linux; RFC 1122 allows 500 ms.
    pub delayed_ack: Duration,
    /// The shortest retransmission timeout. Default as in Linux.
    pub min_rto: MinRto,
    /// Whether segments are marked and marks responded to (RFC 3168). Default false, as most of the Internet does.
    pub ecn: bool,
    /// Marks are counted one by one (accurate ECN, RFC 9768); follows from the policy `mark = "scalable"`.
    pub counts_marks: bool,
    /// Tail loss probes (RFC 8985 section 7). Default true.
    pub tail_loss_probe: bool,
    /// Whether reordering policies that count segments also lose one by time, once a later one was delivered: 9/8 of
    /// the round trip, as in QUIC. Without it `reordering=fixed` is RFC 6675: three later ones have to be delivered.
    /// Policies that work by time (`rack`) do so either way. Linux's profile besides loses what a segment that left a
    /// quarter of the shortest round trip later has outrun. Default true.
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
        TcpConfig::new(TcpProfile::default())
    }
}

impl TcpConfig {
    /// What a profile says.
    pub fn new(profile: TcpProfile) -> Self {
        let is_linux = profile == TcpProfile::Linux;
        TcpConfig {
            profile,
            acks: if is_linux { TcpAcks::Linux } else { TcpAcks::EverySecond },
            offload: is_linux,
            timestamps: is_linux,
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
    example: "{ profile = \"linux\", initial_window = 10 }",
    settings: &[
        Setting { name: "profile", accepts: &[Accepts::Word(TcpProfile::NAMES)] },
        Setting { name: "ack", accepts: &[Accepts::Word(&["linux", "every-second"])] },
        Setting { name: "offload", accepts: &[Accepts::Boolean] },
        Setting { name: "timestamps", accepts: &[Accepts::Boolean] },
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
        let own = TcpConfig::new(settings.into());
        TcpConfig {
            profile: own.profile,
            acks: match settings.word("ack") {
                Some("linux") => TcpAcks::Linux,
                Some(_) => TcpAcks::EverySecond,
                None => own.acks,
            },
            offload: settings.boolean("offload").unwrap_or(own.offload),
            timestamps: settings.boolean("timestamps").unwrap_or(own.timestamps),
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
        settings.set("profile", SettingValue::Word(config.profile.name()));
        let acks = if config.acks == TcpAcks::Linux { "linux" } else { "every-second" };
        settings.set("ack", SettingValue::Word(acks));
        settings.set("offload", SettingValue::Boolean(config.offload));
        settings.set("timestamps", SettingValue::Boolean(config.timestamps));
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
        self.mtu.saturating_sub(self.headers()).max(1)
    }

    /// Bytes of the headers of a segment with data, from IP on.
    pub(crate) fn headers(&self) -> u16 {
        HEADERS + if self.timestamps { STAMPS } else { 0 }
    }

    pub(crate) fn profile(&self) -> Profile {
        let is_linux = self.profile == TcpProfile::Linux;
        Profile {
            initial_window: self.initial_window,
            has_time_threshold: self.time_threshold,
            flight: self.flight,
            reduces_once: is_linux,
            whole_windows: is_linux,
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
            "profile {}, segments of {} B, offload {}, initial window {window} B, acks {}, ack delay {}, min rto {}, ecn {}, loss by time {}, tail loss probes {}",
            self.profile.name(),
            self.segment_size(),
            on(self.offload),
            if self.acks == TcpAcks::Linux { "as linux" } else { "every second" },
            exact_duration(self.delayed_ack),
            self.min_rto,
            on(self.ecn),
            on(self.time_threshold),
            on(self.tail_loss_probe),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(profile: TcpProfile, named: &str) -> String {
        profile.policies(named).map_or_else(|error| error.to_string(), |policies| policies.to_string())
    }

    #[test]
    fn linux_is_cubic_with_hystart_that_nothing_paces() {
        let linux = policies(TcpProfile::Linux, "");
        for part in ["controller=cubic", "start=hystart,", "reduction=prr,", "reordering=adaptive", "pacing=off"] {
            assert!(linux.contains(part), "{part}: {linux}");
        }
        assert_eq!(TcpConfig::default(), TcpConfig::from(&Settings::default()));
        assert_eq!(TcpConfig::default().profile, TcpProfile::Linux);
        assert_eq!(TcpConfig::default().segment_size(), 1_448);
    }

    #[test]
    fn what_is_named_overrides_the_profile_and_nothing_else_does() {
        let regain = policies(TcpProfile::Linux, "controller=regain, start=standard");
        assert_eq!(
            regain,
            policies(TcpProfile::Linux, "").replace("=cubic", "=regain").replace("=hystart,", "=standard,")
        );
        assert!(policies(TcpProfile::Linux, "controller=bbr").contains("pacing=on"), "a model paces");
        assert!(policies(TcpProfile::Linux, "controller=bbr, pacing=off").contains("pacing=off"));
        assert_eq!(policies(TcpProfile::Shipped, "pacing=off"), "pacing=off".parse::<Policies>().unwrap().to_string());
        assert!(TcpProfile::Linux.policies("controller=vegas").is_err());
    }

    #[test]
    fn paced_and_shipped_are_the_plain_tcp() {
        let cubic = "controller=cubic".parse::<Policies>().unwrap();
        assert_eq!(TcpProfile::Paced.policies(""), Ok(cubic));
        assert_eq!(TcpProfile::Shipped.policies(""), Ok(Policies::default()));
        for profile in [TcpProfile::Paced, TcpProfile::Shipped] {
            let config = TcpConfig::new(profile);
            assert_eq!((config.acks, config.offload, config.timestamps), (TcpAcks::EverySecond, false, false));
            assert_eq!(TcpConfig { profile: TcpProfile::Paced, ..config }, TcpConfig::new(TcpProfile::Paced));
        }
    }

    #[test]
    fn settings_are_read_as_they_were_written() {
        for profile in TcpProfile::ALL {
            for offload in [false, true] {
                let config = TcpConfig { offload, timestamps: !offload, ..TcpConfig::new(profile) };
                assert_eq!(TcpConfig::from(&Settings::from(config)), config);
            }
        }
    }
}
