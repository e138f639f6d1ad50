//! The stacks `quinn…`: quinn-proto.

#[path = "driver.rs"]
#[allow(clippy::duplicate_mod)] // compiled against noq-proto as well
mod driver;

use quinn_proto as proto;
use thalweg_sim::{FlowPlan, Hosts, PlanError, StackContext, StackFactory, StackInfo};

use crate::settings::{self, Variant};

/// quinn-proto in one of its variants.
#[derive(Debug)]
pub(crate) struct Quinn(pub(crate) Variant);

impl Quinn {
    fn name(&self) -> &'static str {
        match self.0 {
            Variant::Tuned => "quinn",
            Variant::Shipped => "quinn-shipped",
            Variant::Bbr => "quinn-bbr",
        }
    }
}

impl StackFactory for Quinn {
    fn info(&self) -> StackInfo {
        StackInfo {
            // Its BBR draws from the system.
            is_repeatable: self.0 != Variant::Bbr,
            hears_of_moves: true,
            ..settings::info(self.name())
        }
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        driver::hosts(self.name(), self.0, context)
    }

    fn settings(&self, flow: &FlowPlan) -> String {
        driver::describe(self.name(), "quinn-proto", self.0, flow)
    }
}

/// Where quinn-proto and noq-proto have parted.
mod bridge {
    use std::net::{IpAddr, SocketAddr};
    use std::sync::Arc;
    use std::time::Instant;

    use bytes::{Bytes, BytesMut};
    use thalweg_proto::connection::ConnectionStats;
    use thalweg_sim::{Figure, LogFile, WayResult};

    use super::proto::congestion::{Bbr, BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
    use super::proto::{
        Connection, ConnectionIdGenerator, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, QlogConfig,
        SendStream, ServerConfig, Transmit, TransportConfig,
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
            Controller::Bbr => with(|config: &mut BbrConfig| {
                window.map(|window| config.initial_window(window));
            }),
        }
    }

    pub(super) fn cid_generator(
        config: &mut EndpointConfig,
        make: impl Fn() -> Box<dyn ConnectionIdGenerator> + Send + Sync + 'static,
    ) {
        config.cid_generator(make);
    }

    pub(super) fn endpoint(config: EndpointConfig, server: Option<ServerConfig>) -> Endpoint {
        Endpoint::new(Arc::new(config), server.map(Arc::new), true, None)
    }

    pub(super) fn handle(
        endpoint: &mut Endpoint,
        now: Instant,
        (remote, local): (SocketAddr, Option<IpAddr>),
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
        buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, remote, local, ecn, data, buf)
    }

    pub(super) fn poll_transmit(
        connection: &mut Connection,
        now: Instant,
        batch: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        connection.poll_transmit(now, batch.max(1), buf)
    }

    /// Lets a connection with this configuration write a log whose times are counted from `start`.
    pub(super) fn log(config: &mut TransportConfig, file: LogFile, start: Instant) {
        let mut log = QlogConfig::default();
        log.writer(file).title(Some("quinn".to_owned())).start_time(start);
        config.qlog_stream(log.into_stream());
    }

    /// It has one path at a time.
    pub(super) fn negotiate_paths(_: &mut TransportConfig, _: usize) {}

    pub(super) fn open_path(_: &mut Connection, _: SocketAddr, _: IpAddr, _: Instant) -> bool {
        false
    }

    pub(super) fn ways(_: &mut Connection, _: &[IpAddr]) -> Vec<WayResult> {
        Vec::new()
    }

    pub(super) fn window(connection: &Connection) -> u64 {
        connection.congestion_state().window()
    }

    pub(super) fn write(stream: &mut SendStream<'_>, data: &mut Bytes) -> usize {
        // Takes what there is room for off the front.
        stream.write_chunks(std::slice::from_mut(data)).map_or(0, |written| written.bytes)
    }

    pub(super) fn address_changed(connection: &mut Connection, _: Instant) {
        connection.local_address_changed();
    }

    /// What its BBR does. It is version 1: the gain says where in its cycle it is, and nothing refills.
    pub(super) fn look(connection: &mut Connection) -> Option<Look> {
        let controller = connection.congestion_state().clone_box().into_any().downcast::<Bbr>().ok()?;
        let lost = connection.stats().path.lost_packets;
        let shown = Shown::of(&controller, "ack_aggregation");
        let gain: f64 = shown.field("pacing_gain")?.parse().ok()?;
        let phase = match shown.field("mode")? {
            "Startup" => Phase::Startup,
            "Drain" => Phase::Drain,
            "ProbeBw" if gain > 1.0 => Phase::Up,
            "ProbeBw" if gain < 1.0 => Phase::Down,
            "ProbeBw" => Phase::Cruise,
            "ProbeRtt" => Phase::ProbeRtt,
            _ => return None,
        };
        // The largest of the samples in its filter comes first, in bytes per second.
        let bandwidth = rate(shown.number("value")?);
        Some(Look { phase, bandwidth, current: bandwidth, lost, in_flight: None, is_full: None, extra: 0, bound: None })
    }

    /// What [`stats`] and [`look`] fill.
    pub(super) const MEASURED: &[Figure] = &[
        Figure::Datagrams,
        Figure::Packets,
        Figure::Rtt,
        Figure::MinRtt,
        Figure::MaxWindow,
        Figure::CongestionEvents,
        Figure::ModelBandwidth,
        Figure::ModelPhases,
    ];

    pub(super) fn stats(connection: &mut Connection) -> ConnectionStats {
        let (from, mut to) = (connection.stats(), ConnectionStats::default());
        for (from, to) in [(&from.udp_tx, &mut to.udp_sent), (&from.udp_rx, &mut to.udp_received)] {
            (to.datagrams, to.bytes) = (from.datagrams, from.bytes);
        }
        (to.rtt, to.min_rtt, to.latest_rtt) = (from.path.rtt, connection.min_rtt(), from.path.rtt);
        (to.window, to.mtu) = (from.path.cwnd, from.path.current_mtu);
        to.path.packets_sent = from.path.sent_packets;
        to.path.bytes_sent = from.udp_tx.bytes;
        to.path.packets_lost = from.path.lost_packets;
        to.path.bytes_lost = from.path.lost_bytes;
        to.path.mtu_probes_lost = from.path.lost_plpmtud_probes;
        to.path.congestion_events = from.path.congestion_events;
        to
    }
}
