//! Calls: audio and video in one direction, in datagrams and in a stream per group of frames.

mod caller;
mod outcome;
mod plan;

use caller::Caller;
use outcome::Outcome;
pub use plan::{Audio, Call, Video};
use thalweg_link::Streams;
use thalweg_link::read::{Field, Table};
use thalweg_units::Duration;

use super::kind::{
    Clients, Datagrams, Described, Ends, Judgement, Needs, ReadContext, TrafficKey, TrafficKind, direction, one,
};
use crate::app::App;
use crate::frames::Frames;

impl TrafficKind for Call {
    fn text(&self) -> String {
        format!("Call({self:?})")
    }

    fn check(&self) -> Result<(), &'static str> {
        Call::check(self)
    }

    fn sends_up(&self) -> bool {
        self.up
    }

    fn bytes(&self) -> Option<u64> {
        Some(Call::bytes(self))
    }

    fn lasts(&self) -> Option<Duration> {
        Some(self.duration)
    }

    fn datagrams(&self) -> Option<Datagrams> {
        Some(Datagrams { interval: self.audio.every, size: self.audio.size, deadline: None })
    }

    fn metrics(&self) -> &'static [&'static str] {
        METRICS
    }

    fn main_metric(&self) -> &'static str {
        "call_delay_mean"
    }

    fn clients(&self, _: &Streams) -> Clients {
        let call = self.clone();
        one(move || Caller::client(&call))
    }

    fn server(&self) -> Box<dyn App> {
        Box::new(Caller::server(self))
    }

    fn judge(&self, ends: &Ends<'_>) -> Judgement {
        let [sender, receiver] = ends.sender_and_receiver(self.up).map(|meter| &meter.call);
        let outcome = Outcome { call: self, sender, receiver, start: ends.start, window: ends.window };
        let tracks = outcome.tracks();
        Judgement { frames: Frames::of_tracks(&tracks), tracks, cut_off: outcome.cut_off() }
    }
}

const METRICS: &[&str] = &[
    "frame_delay",
    "frames_missing",
    "call_delay_mean",
    "call_delay_max",
    "audio_delay_mean",
    "audio_delay_max",
    "video_delay_mean",
    "video_delay_max",
];

impl Described for Call {
    const NEEDS: Needs = Needs::RankedStreams;
    const KEYS: &'static [TrafficKey<Self>] = &[TrafficKey {
        name: "call",
        example: r#"{ duration = "5 s" }"#,
        doc: r#"audio in datagrams and video in a stream per group of frames, for duration ("1 ms" to "1 h"); direction
              is "down" (default) or "up"; audio = { size, every } (default "80 B", "20 ms"); video = [{ fps, key, delta,
              group, cancel_after }], by default two tracks of 30 frames per second"#,
        metrics: METRICS,
        read,
    }];
}

const AUDIO: &str = "{ size = \"80 B\", every = \"20 ms\" }";
const VIDEO: &str = "{ fps = 30, key = \"37500 B\", delta = \"3750 B\", group = 30, cancel_after = \"250 ms\" }";

fn read(table: &dyn Table, _: &ReadContext<'_>) -> Option<Vec<Call>> {
    let span = Duration::from_millis(1)..=Call::LONGEST;
    let up = direction(table);
    let duration = table.need("duration", "\"5 s\"").and_then(|field| field.duration_in(span));
    let audio = table.get("audio").map_or(Some(Audio::DEFAULT), |field| audio(&*field));
    let video = table.get("video").map_or(Some(Video::DEFAULTS.to_vec()), |field| videos(&*field));
    Some(vec![Call { up: up?, duration: duration?, audio: audio?, video: video? }])
}

fn audio(field: &dyn Field) -> Option<Audio> {
    let table = field.table(AUDIO)?;
    let size = table.get("size").map_or(Some(Audio::DEFAULT.size), |field| field.bytes_in(Call::AUDIO_SIZES));
    let every = table.get("every").map_or(Some(Audio::DEFAULT.every), |field| field.duration_in(Call::AUDIO_EVERY));
    table.finish();
    Some(Audio { size: size?, every: every? })
}

fn videos(field: &dyn Field) -> Option<Vec<Video>> {
    if !field.is_list() {
        field.complain(&format_args!("is no list of tracks; write [{VIDEO}], or [] for a call without video"));
        return None;
    }
    let items = field.items();
    if items.len() > Video::MOST {
        field.complain(&format_args!("has {} tracks; write at most {}", items.len(), Video::MOST));
        return None;
    }
    // All of them are read, so that all their mistakes are found.
    let tracks: Vec<Option<Video>> = items.iter().map(|item| video(&**item)).collect();
    tracks.into_iter().collect()
}

/// Reads a track. Nothing of it has a default: the default call has two, and which of them would be meant?
fn video(field: &dyn Field) -> Option<Video> {
    let table = field.table(VIDEO)?;
    let fps = table.need("fps", "30").and_then(|field| field.count(Call::FPS));
    let key = table.need("key", "\"37500 B\"").and_then(|field| field.bytes_in(Call::VIDEO_SIZES));
    let delta = table.need("delta", "\"3750 B\"").and_then(|field| field.bytes_in(Call::VIDEO_SIZES));
    let group = table.need("group", "30").and_then(|field| field.count(Call::GROUPS));
    let cancel_after = table.get("cancel_after").map_or(Some(None), |field| field.span().map(Some));
    table.finish();
    Some(Video { fps: fps?, key: key?, delta: delta?, group: group?, cancel_after: cancel_after? })
}
