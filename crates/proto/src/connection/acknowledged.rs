//! Consequences of packets that recovery reports as acknowledged or lost.

use std::time::Duration;

use thalweg_recovery::{AckFrame, Acked, DataSpace, Lost, Outcome, ReceiveTime, SpaceId};
use thalweg_units::Instant;

use super::{
    Connection, PathEvent,
    sent::{Control, SentFrames},
};
use crate::{Side, error::TransportError, frame};

impl Connection {
    /// Processes an ACK frame of `space` that came `at` a time that is now or in the past, `by` a path.
    pub(super) fn on_ack_frame(
        &mut self,
        now: Instant,
        at: Instant,
        space: SpaceId,
        by: DataSpace,
        ack: &frame::Ack<'_>,
    ) -> Result<(), TransportError> {
        // Initial and Handshake packets are acknowledged at once and carry no meaningful delay (RFC 9000 section
        // 13.2.1).
        let delay = match space {
            SpaceId::Data(_) => ack.delay(self.handshake.peer_params.ack_delay_exponent),
            SpaceId::Initial | SpaceId::Handshake => Duration::ZERO,
        };
        self.read_timestamps(ack)?;
        let mut outcome = std::mem::take(&mut self.spaces.outcome);
        outcome.clear();
        let way_back = self.way_back(space, by);
        let arrivals = &self.spaces.receive_times;
        let frame = AckFrame { ranges: ack.ranges(), arrived: at, delay, ecn: ack.ecn, arrivals, way_back };
        let result = self.recovery.on_ack(now, space, frame, &mut outcome);
        if result.is_err() {
            self.spaces.outcome = outcome;
            return Err(TransportError::protocol_violation("acknowledgement of a packet that was never sent"));
        }
        self.note_way_back(now, space, by, &outcome);
        if !outcome.acked.is_empty() {
            self.on_progress(now, space);
            if let SpaceId::Data(path) = space
                && self.paths.has_choice()
            {
                self.on_path_acked(path, by, delay, &outcome.acked);
            }
        }
        let has_news = !outcome.acked.is_empty() || !outcome.lost.is_empty();
        self.on_outcome(now, &mut outcome);
        self.spaces.outcome = outcome;
        if has_news && space.is_data() {
            let policy = self.recovery.policies().ack_rate;
            if self.paths.has_choice() {
                let open = self.paths.sets().filter(|set| set.is_open());
                let known = open.filter_map(|set| self.recovery.path(set.active().id));
                self.ack_requests.consider_all(policy, &self.handshake, known);
            } else {
                let active = self.recovery.path(self.paths.active().id);
                self.ack_requests.consider(policy, &self.handshake, active);
            }
        }
        if self.handshake.confirmed && self.handshake.tokens.may_tell() {
            let active = self.paths.active();
            let (known, ip) = (self.recovery.path(active.id), active.remote.ip());
            self.handshake.tokens.tell_path(now, ip, known, &mut self.rng);
        }
        self.finish_close_when_done(now);
        Ok(())
    }

    /// Decodes the timestamps of an ACK, by descending packet number, into `receive_times`.
    fn read_timestamps(&mut self, ack: &frame::Ack<'_>) -> Result<(), TransportError> {
        self.spaces.receive_times.clear();
        let Some(times) = ack.times else { return Ok(()) };
        match self.config.timestamps_asked_for() {
            // To who has not asked for any this is a frame of an unknown type (RFC 9000 section 12.4).
            0 => Err(TransportError::frame_encoding(
                "frame of an extension that was not negotiated: max_receive_timestamps_per_ack",
            )),
            most if times.count() > most => {
                Err(TransportError::frame_encoding("more timestamps than max_receive_timestamps_per_ack"))
            }
            _ => {
                // Ours is the default exponent: microseconds.
                let times = ack
                    .timestamps()
                    .map(|time| ReceiveTime { number: time.number, at: Duration::from_micros(time.units) });
                self.spaces.receive_times.extend(times);
                self.spaces.receive_times.sort_by_key(|time| std::cmp::Reverse(time.number));
                self.spaces.receive_times.dedup_by_key(|time| time.number);
                Ok(())
            }
        }
    }

    /// Something of ours arrived.
    fn on_progress(&mut self, now: Instant, space: SpaceId) {
        self.repeat.on_progress(space);
        if space.is_data() && self.side == Side::Server && self.handshake.complete {
            self.repeat.end_copies();
        }
        if let Some(since) = self.lifecycle.idle.suspended.take() {
            let silence = now.saturating_since(since);
            self.reports.tell_path(PathEvent::Resumed { silence });
        }
    }

    /// Reports to all parts what was acknowledged and what was lost.
    pub(super) fn on_outcome(&mut self, now: Instant, outcome: &mut Outcome<Box<SentFrames>>) {
        // Room for the packets of a burst is given back when recovery gives back its own.
        let capacity = match self.paths.has_choice() {
            true => self.spaces.data().map(|(space, _)| self.recovery.capacity(SpaceId::Data(space))).sum(),
            false => self.recovery.capacity(SpaceId::DATA),
        };
        self.spaces.spare.limit(capacity);
        for acked in outcome.acked.drain(..) {
            self.on_packet_acked(now, &acked);
            self.spaces.spare.give_back(acked.data);
        }
        let mut lost = outcome.lost.drain(..).peekable();
        while let Some(packet) = lost.next() {
            self.on_packet_lost(now, &packet);
            if lost.peek().is_none_or(|next| next.path != packet.path) {
                let (recovery, reports) = (&mut self.recovery, &mut self.reports);
                self.paths.tell_mtu_discovery(now, packet.path, recovery, reports, |mtu| mtu.on_losses_end(now));
            }
            self.spaces.spare.give_back(packet.data);
        }
    }

    fn on_packet_acked(&mut self, now: Instant, packet: &Acked<Box<SentFrames>>) {
        let frames = &packet.data;
        let space = frames.space;
        if !frames.streams.is_empty() {
            self.streams.on_acked(&frames.streams);
        }
        for range in &frames.crypto {
            self.spaces.crypto_mut(space).on_acked(range);
        }
        if let Some(reported) = frames.acked {
            self.spaces[space].acks.on_ack_acked(reported);
        }
        for control in &frames.control {
            match *control {
                Control::RetireConnectionId(sequence) => self.cids.remote.on_retire_acked(sequence),
                Control::AckFrequency(sequence) => {
                    if let Some((delay, packets)) = self.ack_requests.on_acked(sequence) {
                        self.recovery.set_ack_rate(delay, packets);
                    }
                }
                Control::Path(control) => self.on_path_control_acked(control),
                _ => {}
            }
        }
        if space.is_data() {
            let three_pto = || self.recovery.largest_pto() * 3;
            self.keys.on_acked(now, space, packet.number, three_pto);
        }
        self.paths.tell_mtu_discovery(now, packet.path, &mut self.recovery, &mut self.reports, |mtu| {
            match packet.mtu_probe {
                true => mtu.on_probe_acked(now, packet.number),
                false => mtu.on_acked(now, packet.size as u16, packet.number),
            }
        });
    }

    fn on_packet_lost(&mut self, now: Instant, packet: &Lost<Box<SentFrames>>) {
        self.send_again(&packet.data);
        if packet.trigger == thalweg_recovery::LossTrigger::Withdrawn {
            return;
        }
        self.repeat.on_loss(packet.data.space, &self.spaces);
        self.paths.tell_mtu_discovery(now, packet.path, &mut self.recovery, &mut self.reports, |mtu| {
            if packet.mtu_probe {
                mtu.on_probe_lost(now, packet.number);
                return None;
            }
            mtu.on_lost(now, packet.size as u16, packet.number)
        });
    }

    /// Queues what a packet carried once more, as far as it still matters.
    pub(super) fn send_again(&mut self, frames: &SentFrames) {
        if !frames.streams.is_empty() {
            self.streams.on_lost(&frames.streams);
        }
        for range in &frames.crypto {
            self.spaces.crypto_mut(frames.space).on_lost(range);
        }
        for &control in &frames.control {
            match control {
                Control::HandshakeDone => self.handshake.done_pending = true,
                Control::NewToken => self.handshake.tokens.is_pending = true,
                Control::NewConnectionId(sequence) => self.cids.local.on_lost(sequence),
                Control::RetireConnectionId(sequence) => self.cids.remote.on_retire_lost(sequence),
                Control::AckFrequency(sequence) => self.ack_requests.on_lost(sequence),
                Control::Path(control) => self.on_path_control_lost(control),
            }
        }
    }
}
