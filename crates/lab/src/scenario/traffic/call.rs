//! Calls: audio and video in one direction, and the tracks that they are made of.

use thalweg_sim::{Audio, Call, Video};
use thalweg_units::Duration;

use super::super::read::{Field, Reader};

/// A call as scenarios write it.
pub(super) const EXAMPLE: &str = "{ duration = \"5 s\" }";

const AUDIO: &str = "{ size = \"80 B\", every = \"20 ms\" }";
const VIDEO: &str = "{ fps = 30, key = \"37500 B\", delta = \"3750 B\", group = 30, cancel_after = \"250 ms\" }";

/// Reads a call that goes `up`.
pub(super) fn call(table: &Reader<'_>, up: Option<bool>) -> Option<Call> {
    let span = Duration::from_millis(1)..=Call::LONGEST;
    let duration = table.need("duration", "\"5 s\"").and_then(|field| field.duration_in(span));
    let audio = table.get("audio").map_or(Some(Audio::DEFAULT), |field| audio(&field));
    let video = table.get("video").map_or(Some(Video::DEFAULTS.to_vec()), |field| videos(&field));
    Some(Call { up: up?, duration: duration?, audio: audio?, video: video? })
}

fn audio(field: &Field<'_>) -> Option<Audio> {
    let table = field.table(AUDIO)?;
    let size = table.get("size").map_or(Some(Audio::DEFAULT.size), |field| field.bytes_in(Call::AUDIO_SIZES));
    let every = table.get("every").map_or(Some(Audio::DEFAULT.every), |field| field.duration_in(Call::AUDIO_EVERY));
    table.finish();
    Some(Audio { size: size?, every: every? })
}

fn videos(field: &Field<'_>) -> Option<Vec<Video>> {
    if !field.is_list() {
        field.complain(format!("is no list of tracks; write [{VIDEO}], or [] for a call without video"));
        return None;
    }
    let items = field.items();
    if items.len() > Video::MOST {
        field.complain(format!("has {} tracks; write at most {}", items.len(), Video::MOST));
        return None;
    }
    // All of them are read, so that all their mistakes are found.
    let tracks: Vec<Option<Video>> = items.iter().map(video).collect();
    tracks.into_iter().collect()
}

/// Reads a track. Nothing of it has a default: the default call has two, and which of them would be meant?
fn video(field: &Field<'_>) -> Option<Video> {
    let table = field.table(VIDEO)?;
    let fps = table.need("fps", "30").and_then(|field| field.count(Call::FPS));
    let key = table.need("key", "\"37500 B\"").and_then(|field| field.bytes_in(Call::VIDEO_SIZES));
    let delta = table.need("delta", "\"3750 B\"").and_then(|field| field.bytes_in(Call::VIDEO_SIZES));
    let group = table.need("group", "30").and_then(|field| field.count(Call::GROUPS));
    let cancel_after = table.get("cancel_after").map_or(Some(None), |field| field.span().map(Some));
    table.finish();
    Some(Video { fps: fps?, key: key?, delta: delta?, group: group?, cancel_after: cancel_after? })
}
