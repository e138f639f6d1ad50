//! A call as it is meant to be: its tracks of audio and video, and when their frames are captured.

use thalweg_units::Duration;

/// Bytes at the head of every frame, counted in its size: track (1), number (4), size (4), time of capture (8).
pub(crate) const FRAME_HEAD: usize = 17;

/// Time after the end of a call for which late frames are awaited.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(1);

/// Audio and video in one direction. The defaults are those of draft-huitema-ccwg-c4-test-04.
///
/// Each frame of audio is a QUIC datagram. Frames of video travel in order on streams, one stream for each group of
/// frames. The sender opens it when the group begins. Audio goes before video, and each video track before those after
/// it in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// From the client to the server.
    pub up: bool,
    /// For how long frames are captured; at most an hour.
    pub duration: Duration,
    /// The audio track.
    pub audio: Audio,
    /// The video tracks, the most important first; at most eight.
    pub video: Vec<Video>,
}

/// The audio of a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Audio {
    /// Bytes of a frame, from 17 (its head) to 1,000, so that it fits into a datagram of any path.
    pub size: u64,
    /// From frame to frame, 1 ms to 10 s.
    pub every: Duration,
}

/// A video track of a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Video {
    /// Frames per second, 1 to 1,000.
    pub fps: u64,
    /// Bytes of the first frame of a group, which needs no other (I-frame); from 17 to 16 MiB.
    pub key: u64,
    /// Bytes of the others, which need the frames before them (P-frames); from 17 to 16 MiB.
    pub delta: u64,
    /// Frames of a group, 1 to 100,000.
    pub group: u64,
    /// The receiver cancels the rest of a group (STOP_SENDING) when a frame arrives later than this after its capture.
    /// The next group begins as if nothing had happened. `None`: the receiver takes every frame.
    pub cancel_after: Option<Duration>,
}

impl Audio {
    /// 80 bytes every 20 ms.
    pub const DEFAULT: Audio = Audio { size: 80, every: Duration::from_millis(20) };
}

impl Video {
    /// Two tracks of 30 frames per second in groups of 30: one of 37,500 and 3,750 bytes, and one of 62,500 and 6,250
    /// bytes that is canceled when its frames are 250 ms late.
    pub const DEFAULTS: [Video; 2] = {
        let base = Video { fps: 30, key: 37_500, delta: 3_750, group: 30, cancel_after: None };
        [base, Video { key: 62_500, delta: 6_250, cancel_after: Some(Duration::from_millis(250)), ..base }]
    };

    /// The most tracks of a call.
    pub const MOST: usize = 8;
}

impl Call {
    /// The longest call: what is kept of each frame until the end of a run is bounded by it.
    pub const LONGEST: Duration = Duration::from_secs(3600);
    /// Frames of all tracks together: what became of each is kept until the end.
    pub const MOST_FRAMES: u64 = 1_000_000;
    /// Bytes of an audio frame.
    pub const AUDIO_SIZES: core::ops::RangeInclusive<u64> = FRAME_HEAD as u64..=1_000;
    /// Bytes of a video frame.
    pub const VIDEO_SIZES: core::ops::RangeInclusive<u64> = FRAME_HEAD as u64..=16 << 20;
    /// Time from one audio frame to the next.
    pub const AUDIO_EVERY: core::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
    /// Frames of video per second.
    pub const FPS: core::ops::RangeInclusive<u64> = 1..=1_000;
    /// Frames of a group.
    pub const GROUPS: core::ops::RangeInclusive<u64> = 1..=100_000;

    /// A call with the default tracks.
    pub fn new(up: bool, duration: Duration) -> Call {
        Call { up, duration, audio: Audio::DEFAULT, video: Video::DEFAULTS.to_vec() }
    }

    /// How many tracks it has: number 0 is audio, the others are video.
    pub fn tracks(&self) -> usize {
        1 + self.video.len()
    }

    /// The video track of that number; none of audio.
    pub(crate) fn video(&self, track: usize) -> Option<&Video> {
        self.video.get(track.checked_sub(1)?)
    }

    /// How many frames of a track are due in all.
    pub fn frames(&self, track: usize) -> u64 {
        let span = self.duration.as_nanos();
        let frames = match self.video(track) {
            None => span.div_ceil(self.audio.every.as_nanos().max(1)),
            Some(video) => (span * u128::from(video.fps)).div_ceil(SECOND),
        };
        u64::try_from(frames).unwrap_or(u64::MAX)
    }

    /// When a frame is captured, after the first one.
    pub(crate) fn offset(&self, track: usize, number: u64) -> Duration {
        let nanos = match self.video(track) {
            None => self.audio.every.as_nanos() * u128::from(number),
            Some(video) => u128::from(number) * SECOND / u128::from(video.fps.max(1)),
        };
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes of a frame.
    pub(crate) fn size(&self, track: usize, number: u64) -> u64 {
        match self.video(track) {
            None => self.audio.size,
            Some(video) if number.is_multiple_of(video.group.max(1)) => video.key,
            Some(video) => video.delta,
        }
    }

    /// Whether a frame is the last of its group.
    pub(crate) fn ends_group(&self, track: usize, number: u64) -> bool {
        let after = number + 1;
        self.video(track).is_none_or(|video| after.is_multiple_of(video.group.max(1)) || after == self.frames(track))
    }

    /// Groups of all video tracks.
    pub(crate) fn groups(&self) -> u64 {
        (1..self.tracks()).filter_map(|track| Some(self.frames(track).div_ceil(self.video(track)?.group.max(1)))).sum()
    }

    /// Bytes of all frames that are due.
    pub fn bytes(&self) -> u64 {
        let of_track = |track: usize| {
            let frames = self.frames(track);
            let Some(video) = self.video(track) else { return frames.saturating_mul(self.audio.size) };
            let groups = frames.div_ceil(video.group.max(1));
            groups.saturating_mul(video.key).saturating_add((frames - groups).saturating_mul(video.delta))
        };
        (0..self.tracks()).map(of_track).fold(0, u64::saturating_add)
    }

    /// Why the call is invalid, if it is.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let sizes = |video: &Video| [video.key, video.delta].iter().all(|size| Call::VIDEO_SIZES.contains(size));
        if self.duration == Duration::ZERO || self.duration > Call::LONGEST {
            Err("needs a duration above zero and at most an hour")
        } else if !Call::AUDIO_SIZES.contains(&self.audio.size) || !Call::AUDIO_EVERY.contains(&self.audio.every) {
            Err("needs audio frames of 17 B to 1000 B, every 1 ms to 10 s")
        } else if self.video.len() > Video::MOST {
            Err("needs at most eight video tracks")
        } else if !self.video.iter().all(sizes) {
            Err("needs video frames of 17 B to 16 MiB")
        } else if !self.video.iter().all(|video| Call::FPS.contains(&video.fps) && Call::GROUPS.contains(&video.group))
        {
            Err("needs video of 1 to 1000 frames per second, in groups of 1 to 100000 frames")
        } else if (0..self.tracks()).map(|track| self.frames(track)).sum::<u64>() > Call::MOST_FRAMES {
            Err("needs at most a million frames of all tracks together; write a shorter duration or fewer frames")
        } else {
            Ok(())
        }
    }
}

const SECOND: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn plain(duration: Duration) -> Call {
        Call::new(false, duration)
    }

    #[test]
    fn the_default_tracks_are_those_of_the_draft() {
        let call = plain(MS * 5_000);
        assert_eq!((0..3).map(|track| call.frames(track)).collect::<Vec<_>>(), [250, 150, 150]);
        assert_eq!(
            (call.size(1, 0), call.size(1, 29), call.size(1, 30), call.size(2, 31)),
            (37_500, 3_750, 37_500, 6_250)
        );
        assert_eq!(call.groups(), 10);
        assert_eq!(call.bytes(), 250 * 80 + 5 * (37_500 + 29 * 3_750) + 5 * (62_500 + 29 * 6_250));
        // Frames fall neither behind nor on the end of the call, and groups end with the call.
        assert_eq!(call.offset(1, 30), MS * 1_000);
        assert!(call.ends_group(1, 29) && !call.ends_group(1, 30) && call.ends_group(2, 149));
        let odd = plain(MS * 1_010);
        assert_eq!((odd.frames(0), odd.frames(1), odd.groups()), (51, 31, 4));
        assert!(odd.offset(1, 30) < odd.duration && odd.offset(1, 31) >= odd.duration && odd.ends_group(1, 30));
    }

    #[test]
    fn calls_that_cannot_be_are_refused() {
        assert_eq!(plain(MS).check(), Ok(()));
        assert_eq!(Call { video: Vec::new(), ..plain(MS) }.check(), Ok(()));
        let video = Video::DEFAULTS[0];
        for (wrong, why) in [
            (plain(Duration::ZERO), "duration"),
            (plain(MS * 3_600_001), "an hour"),
            (Call { audio: Audio { size: 16, ..Audio::DEFAULT }, ..plain(MS) }, "17 B"),
            (Call { audio: Audio { every: Duration::ZERO, ..Audio::DEFAULT }, ..plain(MS) }, "1 ms"),
            (Call { video: vec![Video { key: 16, ..video }], ..plain(MS) }, "17 B"),
            (Call { video: vec![Video { delta: 1 << 30, ..video }], ..plain(MS) }, "16 MiB"),
            (Call { video: vec![Video { fps: 0, ..video }], ..plain(MS) }, "per second"),
            (Call { video: vec![Video { group: 0, ..video }], ..plain(MS) }, "groups"),
            (Call { video: vec![video; 9], ..plain(MS) }, "eight"),
        ] {
            assert!(wrong.check().unwrap_err().contains(why), "{wrong:?}");
        }
    }
}
