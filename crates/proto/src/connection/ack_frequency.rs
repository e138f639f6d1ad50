//! Asking the peer how to acknowledge: ACK_FREQUENCY and IMMEDIATE_ACK (draft-ietf-quic-ack-frequency-12).
//!
//! Recovery says what it wants ([`ack_rate`](thalweg_recovery::ack_rate)). A request leaves with data when it differs
//! noticeably from the one before, and not before that one was acknowledged or lost: at most one per round trip.
//! Recovery gets what the peer may be doing at any time: the larger of what is in force and what is in flight.

use std::time::Duration;

use thalweg_recovery::ack_rate::{self, AckLimits, AckRequest};
use thalweg_recovery::{AckRatePolicy, Path, Recovery};

use super::{handshake::Handshake, sent::SentFrames};
use crate::{
    frame::{AckFrequency, Frame},
    transport_parameters::TransportParameters,
};

/// A window that is so many times as large as it was has jumped: slow start doubles it per round trip.
const JUMP: u64 = 4;

/// The requests of a connection.
#[derive(Debug, Default)]
pub(super) struct AckRequests {
    /// The next request's number.
    next: u64,
    /// What was sent last.
    latest: Option<AckRequest>,
    is_in_flight: bool,
    /// What is to be sent.
    wanted: Option<AckRequest>,
    /// The window in bytes when it was last considered what to ask for.
    window: u64,
    /// The largest of what may be in force: in time, and in packets per ACK.
    most: Option<(Duration, u64)>,
}

/// What a request makes the peer do: the longest delay, and the packets that bring an ACK.
fn rate_of(request: &AckRequest) -> (Duration, u64) {
    (request.max_ack_delay, request.ack_eliciting_threshold.saturating_add(1))
}

impl AckRequests {
    /// Whether a request is to be sent.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// This suits the path now.
    fn want(&mut self, request: AckRequest) {
        // One at a time, except after a jump of the window: within the round trip that an answer takes, ACKs at the old
        // rate would fill the uplink.
        let is_jump = |latest: AckRequest| rate_of(&request).1 >= JUMP * rate_of(&latest).1;
        let may_ask = !self.is_in_flight || self.latest.is_some_and(is_jump);
        if may_ask && self.latest.is_none_or(|latest| request.differs_noticeably(&latest)) {
            self.wanted = Some(request);
        } else if let Some(wanted) = &mut self.wanted {
            // One that was lost is repeated as it is right now.
            *wanted = request;
        }
    }

    /// The frame to send, if it fits into `room` bytes; `most` is what the peer may be doing without it.
    fn take(&mut self, room: usize, most: (Duration, u64)) -> Option<AckFrequency> {
        let request = self.wanted?;
        let frame = AckFrequency {
            sequence: self.next,
            threshold: request.ack_eliciting_threshold,
            max_ack_delay: u64::try_from(request.max_ack_delay.as_micros()).unwrap_or(u64::MAX),
            reordering_threshold: request.reordering_threshold,
        };
        if Frame::AckFrequency(frame).encoded_len() > room {
            return None;
        }
        self.next += 1;
        self.wanted = None;
        (self.latest, self.is_in_flight) = (Some(request), true);
        let (delay, packets) = rate_of(&request);
        self.most = Some((most.0.max(delay), most.1.max(packets)));
        Some(frame)
    }

    fn is_newest(&self, sequence: u64) -> bool {
        sequence.checked_add(1) == Some(self.next)
    }

    /// The peer has this request. Returns what is in force, if it is the newest.
    pub(super) fn on_acked(&mut self, sequence: u64) -> Option<(Duration, u64)> {
        let latest = self.latest.filter(|_| self.is_newest(sequence))?;
        self.is_in_flight = false;
        self.wanted = None;
        self.most = Some(rate_of(&latest));
        self.most
    }

    /// The request was lost, or may have been: if there is no newer one, it is made again.
    pub(super) fn on_lost(&mut self, sequence: u64) {
        if self.is_newest(sequence) && self.is_in_flight {
            self.is_in_flight = false;
            self.wanted = self.latest;
        }
    }
}

impl AckRequests {
    /// An acknowledgment of application data may have changed how we want to be acknowledged on `path`.
    pub(super) fn consider(&mut self, policy: AckRatePolicy, handshake: &Handshake, path: Option<&Path>) {
        self.window = path.map_or(0, Path::window);
        let Some(limits) = limits(policy, handshake) else { return };
        if let Some(path) = path
            && let Some(request) = ack_rate::request(policy, path, limits)
        {
            self.want(request);
        }
    }

    /// The same where several paths are open: the peer acknowledges all of them alike, so the densest wish counts.
    pub(super) fn consider_all<'a>(
        &mut self,
        policy: AckRatePolicy,
        handshake: &Handshake,
        paths: impl Iterator<Item = &'a Path>,
    ) {
        let Some(limits) = limits(policy, handshake) else { return };
        let wishes = paths.filter_map(|path| ack_rate::request(policy, path, limits));
        let densest = wishes.reduce(|one, other| AckRequest {
            ack_eliciting_threshold: one.ack_eliciting_threshold.min(other.ack_eliciting_threshold),
            max_ack_delay: one.max_ack_delay.min(other.max_ack_delay),
            reordering_threshold: one.reordering_threshold.max(other.reordering_threshold),
        });
        densest.into_iter().for_each(|request| self.want(request));
    }

    /// A controller may open its window by far without an acknowledgment.
    pub(super) fn consider_after_jump(&mut self, policy: AckRatePolicy, handshake: &Handshake, path: Option<&Path>) {
        if path.map_or(0, Path::window) / JUMP >= self.window {
            self.consider(policy, handshake, path);
        }
    }

    /// Appends ACK_FREQUENCY if one is wanted and fits. Returns its number.
    pub(super) fn write(
        &mut self,
        buf: &mut Vec<u8>,
        limit: usize,
        peer_params: &TransportParameters,
        recovery: &mut Recovery<Box<SentFrames>>,
    ) -> Option<u64> {
        let unasked = (peer_params.max_ack_delay, 2);
        let most = self.most.unwrap_or(unasked);
        let frame = self.take(limit.saturating_sub(buf.len()), most)?;
        Frame::AckFrequency(frame).encode(buf);
        if let Some((delay, packets)) = self.most {
            recovery.set_ack_rate(delay, packets);
        }
        Some(frame.sequence)
    }
}

/// What we may ask for, if we ask for acknowledgments and the peer takes requests.
fn limits(policy: AckRatePolicy, handshake: &Handshake) -> Option<AckLimits> {
    let TransportParameters { min_ack_delay, max_ack_delay, .. } = handshake.peer_params;
    // Complete, not confirmed: a client's first data leave in between.
    let is_asking = policy != AckRatePolicy::Off && handshake.complete;
    min_ack_delay.filter(|_| is_asking).map(|min_ack_delay| AckLimits { min_ack_delay, max_ack_delay })
}

/// Whether the peer can be asked to acknowledge a packet at once.
pub(super) fn may_ask_at_once(policy: AckRatePolicy, handshake: &Handshake) -> bool {
    limits(policy, handshake).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNASKED: (Duration, u64) = (Duration::from_millis(25), 2);

    fn request(packets: u64, delay: u64) -> AckRequest {
        AckRequest {
            ack_eliciting_threshold: packets - 1,
            max_ack_delay: Duration::from_millis(delay),
            reordering_threshold: 3,
        }
    }

    /// The packets per ACK that are asked for.
    fn sent(requests: &mut AckRequests) -> Option<u64> {
        requests.take(100, requests.most.unwrap_or(UNASKED)).map(|frame| frame.threshold + 1)
    }

    #[test]
    fn a_request_does_not_wait_for_the_last_one_after_a_jump_of_the_window() {
        let mut requests = AckRequests::default();
        requests.want(request(2, 25));
        assert_eq!(sent(&mut requests), Some(2));
        requests.want(request(7, 25));
        assert_eq!(sent(&mut requests), None, "one at a time");
        requests.want(request(8, 25));
        assert_eq!(sent(&mut requests), Some(8));
        requests.want(request(31, 25));
        assert_eq!(sent(&mut requests), None);
        assert_eq!(requests.on_acked(0), None, "what is in force is not known before the newest is acknowledged");
        assert!(requests.on_acked(1).is_some());
    }

    #[test]
    fn one_request_at_a_time_and_only_when_it_has_changed() {
        let mut requests = AckRequests::default();
        requests.want(request(6, 10));
        assert_eq!(sent(&mut requests), Some(6));
        assert_eq!(sent(&mut requests), None);
        requests.want(request(20, 10));
        assert_eq!(sent(&mut requests), None, "the first is in flight");
        assert!(requests.on_acked(0).is_some());
        requests.want(request(6, 10));
        assert_eq!(sent(&mut requests), None, "nothing new");
        requests.want(request(20, 10));
        assert_eq!(sent(&mut requests), Some(20));
    }

    #[test]
    fn a_lost_request_is_made_again_as_it_is_by_then_with_a_higher_number_unless_there_is_a_newer_one() {
        let mut requests = AckRequests::default();
        requests.want(request(4, 10));
        assert_eq!(requests.take(100, UNASKED).map(|frame| frame.sequence), Some(0));
        requests.on_lost(0);
        requests.want(request(8, 10));
        let again = requests.take(100, UNASKED).unwrap();
        assert_eq!((again.sequence, again.threshold), (1, 7));
        requests.on_lost(0);
        assert_eq!(sent(&mut requests), None, "it was replaced");
        // What was declared lost by mistake: the peer may have obeyed it or not.
        assert_eq!(requests.on_acked(0), None);
        assert_eq!(requests.on_acked(1), Some((Duration::from_millis(10), 8)));
        requests.on_lost(1);
        assert_eq!(sent(&mut requests), None, "the peer has it");
    }

    #[test]
    fn the_larger_of_what_is_in_force_and_what_is_in_flight_counts_until_the_newest_is_acknowledged() {
        let mut requests = AckRequests::default();
        requests.want(request(4, 10));
        sent(&mut requests);
        assert_eq!(requests.most, Some((UNASKED.0, 4)), "the peer may not have it yet");
        assert_eq!(requests.on_acked(0), Some((Duration::from_millis(10), 4)));
        requests.want(request(40, 5));
        sent(&mut requests);
        assert_eq!(requests.most, Some((Duration::from_millis(10), 40)));
        requests.on_lost(1);
        requests.want(request(2, 20));
        sent(&mut requests);
        assert_eq!(requests.most, Some((Duration::from_millis(20), 40)), "a lost request may have arrived");
        assert_eq!(requests.on_acked(2), Some((Duration::from_millis(20), 2)));
    }

    #[test]
    fn a_request_waits_for_room() {
        let mut requests = AckRequests::default();
        requests.want(request(4, 10));
        assert_eq!(requests.take(5, UNASKED), None);
        assert_eq!(sent(&mut requests), Some(4));
    }
}
