//! Frames of media and of calls: what one end knows of them, and what became of them.

use thalweg_link::Quantiles;
use thalweg_units::{Duration, Instant};

/// Frames of media traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frames {
    /// To be sent: of media with an end all of them, whether or not the connection lived to see it.
    pub due: u64,
    /// Sent.
    pub sent: u64,
    /// Arrived, complete.
    pub received: u64,
    /// Of those, too late.
    pub late: u64,
    /// From sending to arrival of the last piece.
    pub delay: Quantiles,
    /// How long no frame arrived in time, each time that this was longer than the deadline. The first may begin with
    /// the first frame, the last may end only when the last frame was due.
    pub stalls: Vec<Duration>,
}

impl Frames {
    /// Those of all tracks of a call.
    pub(crate) fn of_tracks(tracks: &[TrackResult]) -> Frames {
        let mut frames = Frames::default();
        for track in tracks {
            frames.due += track.due;
            frames.sent += track.captured;
            frames.received += track.arrived;
            frames.delay.merge(&track.delay);
        }
        frames
    }

    /// Frames that were due and never complete.
    pub const fn never(&self) -> u64 {
        self.due.saturating_sub(self.received)
    }

    /// Frames that missed their deadline: late, or never complete.
    pub const fn missed(&self) -> u64 {
        self.never() + self.late
    }
}

/// What one end of a call knows of its frames: when the sender captured them, or when the receiver had them whole.
#[derive(Clone, Debug, Default)]
pub struct FrameLog {
    tracks: Vec<Vec<Option<Instant>>>,
}

impl FrameLog {
    /// Notes a frame, unless it is known already. Returns whether it was not.
    pub(crate) fn note(&mut self, track: usize, number: u64, at: Instant) -> bool {
        let Ok(number) = usize::try_from(number) else { return false };
        if self.tracks.len() <= track {
            self.tracks.resize_with(track + 1, Vec::new);
        }
        let frames = &mut self.tracks[track];
        if frames.len() <= number {
            frames.resize(number + 1, None);
        }
        let is_new = frames[number].is_none();
        frames[number].get_or_insert(at);
        is_new
    }

    pub(crate) fn get(&self, track: usize, number: u64) -> Option<Instant> {
        self.tracks.get(track)?.get(usize::try_from(number).ok()?).copied().flatten()
    }

    pub(crate) fn of(&self, track: usize) -> impl Iterator<Item = Instant> {
        self.tracks.get(track).into_iter().flatten().copied().flatten()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Instant> {
        (0..self.tracks.len()).flat_map(|track| self.of(track))
    }
}

/// What became of the frames of a track that were captured within the measuring window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackResult {
    /// Frames that were due, whether or not the connection lived to see it.
    pub due: u64,
    /// Of these, sent or at least captured.
    pub captured: u64,
    /// Of these, arrived whole.
    pub arrived: u64,
    /// From capture to arrival, of those that arrived.
    pub delay: Quantiles,
    /// The same of all that were due. A frame that never arrived counts from its capture until a later frame of its
    /// track arrived, which is for how long the receiver had nothing newer than an older frame; if none did, until a
    /// second after the end of the call, or the last arrival of the track if that was later.
    pub wait: Quantiles,
}
