//! The stacks `noq…`: noq-proto.

#[path = "driver.rs"]
#[allow(clippy::duplicate_mod)] // compiled against quinn-proto as well
mod driver;

use noq_proto as proto;
use thalweg_sim::{FlowPlan, Hosts, PlanError, StackContext, StackFactory, StackInfo};

use crate::settings::{self, Variant};

/// noq-proto in one of its variants.
#[derive(Debug)]
pub(crate) struct Noq(pub(crate) Variant);

impl Noq {
    fn name(&self) -> &'static str {
        match self.0 {
            Variant::Tuned => "noq",
            Variant::Shipped => "noq-shipped",
            Variant::Bbr => "noq-bbr",
        }
    }
}

impl StackFactory for Noq {
    fn info(&self) -> StackInfo {
        StackInfo {
            // Its BBR draws from the system.
            is_repeatable: self.0 != Variant::Bbr,
            hears_of_moves: true,
            uses_several_paths: true,
            ..settings::info(self.name())
        }
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        driver::hosts(self.name(), self.0, context)
    }

    fn settings(&self, flow: &FlowPlan) -> String {
        driver::describe(self.name(), "noq-proto", self.0, flow)
    }
}

/// Where noq-proto and quinn-proto have parted.
mod bridge {
    use std::net::{IpAddr, SocketAddr};
    use std::num::NonZeroUsize;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    use bytes::{Bytes, BytesMut};
    use thalweg_proto::connection::ConnectionStats;
    use thalweg_sim::{Figure, LogFile, WayResult};

    use super::proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
    use super::proto::{
        Connection, ConnectionId, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
        FourTuple, PathId, PathStatus, QlogConfig, QlogFactory, SendStream, ServerConfig, Side, Transmit,
        TransportConfig,
    };
    use crate::model::{Look, Phase, Shown, rate};
    use crate::settings::Controller;

    /// A controller, with the first window in bytes if it is not its own.
    pub(super) fn controller(which: Controller, window: Option<u64>) -> Arc<dyn ControllerFactory + Send + Sync> {
        fn with<T: Default>(set: impl FnOnce(&mut T)) -> Arc<T> {
            let mut config = T::default();
            set(&mut config);
            Arc::new(config)
        }
        match which {
            Controller::Cubic => with(|config: &mut CubicConfig| {
                window.map(|window| config.initial_window(window));
            }),
            Controller::NewReno => with(|config: &mut NewRenoConfig| {
                window.map(|window| config.initial_window(window));
            }),
            Controller::Bbr => with(|config: &mut Bbr3Config| {
                window.map(|window| config.initial_window(window));
            }),
        }
    }

    pub(super) fn cid_generator(
        config: &mut EndpointConfig,
        make: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) {
        config.cid_generator(Arc::new(make));
    }

    pub(super) fn endpoint(config: EndpointConfig, server: Option<ServerConfig>) -> Endpoint {
        Endpoint::new(Arc::new(config), server.map(Arc::new), true)
    }

    pub(super) fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        (remote, local): (SocketAddr, Option<IpAddr>),
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, FourTuple::new(remote, local), ecn, data, buf)
    }

    pub(super) fn poll_transmit(
        connection: &mut Connection,
        now: Instant,
        batch: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, NonZeroUsize::new(batch).unwrap_or(NonZeroUsize::MIN), buf)
    }

    /// Lets connections with this configuration write a log whose times are counted from `start`.
    pub(super) fn log(config: &mut TransportConfig, file: LogFile, start: Instant) {
        config.qlog_factory(Arc::new(OneLog { file: Mutex::new(Some(file)), start }));
    }

    /// The log of a connection.
    struct OneLog {
        file: Mutex<Option<LogFile>>,
        start: Instant,
    }

    impl QlogFactory for OneLog {
        fn for_connection(&self, _: Side, _: SocketAddr, _: ConnectionId, _: Instant) -> Option<QlogConfig> {
            let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take()?;
            let mut config = QlogConfig::new(file);
            config.title(Some("noq".to_owned())).start_time(self.start);
            Some(config)
        }
    }

    /// Its paths end after a silence only where that is asked for. The times are those of iroh 1.0, for which noq is
    /// made.
    pub(super) fn negotiate_paths(config: &mut TransportConfig, paths: usize) {
        config
            .max_concurrent_multipath_paths(u32::try_from(paths).unwrap_or(u32::MAX))
            .default_path_max_idle_timeout(Some(Duration::from_secs(15)))
            .default_path_keep_alive_interval(Some(Duration::from_secs(5)));
    }

    /// Whether it is open now; it fails until the server has announced connection IDs for it.
    pub(super) fn open_path(connection: &mut Connection, server: SocketAddr, local: IpAddr, now: Instant) -> bool {
        connection.is_multipath_negotiated()
            && connection.open_path(FourTuple::new(server, Some(local)), PathStatus::Available, now).is_ok()
    }

    /// What each path did that is there at the end, by the client's addresses.
    pub(super) fn ways(connection: &mut Connection, clients: &[IpAddr]) -> Vec<WayResult> {
        let mut ways = vec![WayResult::default(); clients.len()];
        for path in connection.paths() {
            let Ok(pair) = connection.network_path(path) else { continue };
            // The path of the handshake may not know its own address.
            let at = clients.iter().position(|own| *own == pair.remote().ip() || Some(*own) == pair.local_ip());
            let way = ways.get_mut(at.unwrap_or_default());
            if let Some((way, from)) = way.zip(connection.path_stats(path)) {
                (way.stats.packets_sent, way.stats.bytes_sent) = (from.sent_packets, from.sent_bytes);
                (way.stats.packets_lost, way.stats.bytes_lost) = (from.lost_packets, from.lost_bytes);
                way.rtt = Some(from.rtt);
            }
        }
        ways
    }

    pub(super) fn window(connection: &Connection) -> u64 {
        connection.congestion_state(PathId::ZERO).map_or(0, |controller| controller.window())
    }

    pub(super) fn write(stream: &mut SendStream<'_>, data: &mut Bytes) -> usize {
        // Takes what there is room for off the front.
        stream.write_chunks(&mut std::slice::from_mut(data)).unwrap_or(0)
    }

    pub(super) fn address_changed(connection: &mut Connection, now: Instant) {
        connection.handle_network_change(None, now);
    }

    /// What its BBR does, by the names of draft-ietf-ccwg-bbr.
    pub(super) fn look(connection: &mut Connection) -> Option<Look> {
        let lost = connection.stats().lost_packets;
        let shown = Shown::of(&connection.congestion_state(PathId::ZERO)?, "packets");
        let phase = match shown.field("state")? {
            "Startup" => Phase::Startup,
            "Drain" => Phase::Drain,
            "ProbeBw(Down)" => Phase::Down,
            "ProbeBw(Cruise)" => Phase::Cruise,
            "ProbeBw(Refill)" => Phase::Refill,
            "ProbeBw(Up)" => Phase::Up,
            "ProbeRtt" => Phase::ProbeRtt,
            _ => return None,
        };
        Some(Look {
            phase,
            bandwidth: rate(shown.number("max_bw")?),
            current: rate(shown.number("bw")?),
            lost,
            in_flight: Some((shown.number("inflight")?, shown.number("bdp")?)),
            is_full: Some(shown.field("full_bw_now")? == "true"),
            extra: shown.number("extra_acked")?,
            bound: shown.number("inflight_longterm").filter(|bound| *bound < u64::MAX / 2),
        })
    }

    /// What [`stats`] and [`look`] fill.
    pub(super) const MEASURED: &[Figure] = &[
        Figure::Datagrams,
        Figure::Packets,
        Figure::Rtt,
        Figure::MaxWindow,
        Figure::CongestionEvents,
        Figure::Undos,
        Figure::ModelBandwidth,
        Figure::ModelPhases,
        Figure::ModelExits,
        Figure::ModelExtra,
        Figure::ModelBound,
    ];

    pub(super) fn stats(connection: &mut Connection) -> ConnectionStats {
        let (from, mut to) = (connection.stats(), ConnectionStats::default());
        for (from, to) in [(&from.udp_tx, &mut to.udp_sent), (&from.udp_rx, &mut to.udp_received)] {
            (to.datagrams, to.bytes) = (from.datagrams, from.bytes);
        }
        to.path.packets_sent = from.sent_packets;
        to.path.bytes_sent = from.sent_bytes;
        to.path.packets_lost = from.lost_packets;
        to.path.bytes_lost = from.lost_bytes;
        if let Some(path) = connection.path_stats(PathId::ZERO) {
            (to.rtt, to.latest_rtt) = (path.rtt, path.rtt);
            (to.window, to.mtu) = (path.cwnd, path.current_mtu);
            to.path.mtu_probes_lost = path.lost_plpmtud_probes;
            to.path.congestion_events = path.congestion_events;
            to.path.undos = path.spurious_congestion_events;
        }
        to
    }
}
