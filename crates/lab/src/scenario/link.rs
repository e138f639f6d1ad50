//! Reading `[path.NAME]`: presets, then the description that `thalweg-link` owns.

use thalweg_link::{Chain, Context, PathConfig};

use super::files::Traces;
use super::presets;
use super::read::{Field, Reader};
use super::tree::Node;

/// Replaces `preset = "NAME"` in a path, or in one of its directions, by what the preset says, under what the file
/// says.
pub(crate) fn expand_presets(path: &mut Node) {
    if let Some(preset) = presets::of(path) {
        let whole = std::mem::replace(path, Node { value: super::tree::Value::Boolean(false), span: 0..0 });
        *path = whole.over(preset);
    }
    let super::tree::Value::Table(entries) = &mut path.value else { return };
    for entry in entries.iter_mut().filter(|entry| entry.key == "up" || entry.key == "down") {
        if let Some(preset) = presets::of(&entry.node)
            && let Some(direction) = preset.get(&entry.key)
        {
            entry.node = entry.node.clone().over(direction.node.clone());
        }
    }
}

/// A path; its presets are expanded already.
pub(crate) fn path(name: &str, reader: Reader<'_>, traces: &Traces<'_>) -> Option<PathConfig> {
    let directions = ["up", "down"].map(|key| reader.get(key).filter(|field| field.is_table())?.table(""));
    for table in directions.iter().flatten().chain([&reader]) {
        if let Some(preset) = table.get("preset") {
            presets::check(&preset);
        }
    }
    PathConfig::read(name, Box::new(reader), &Context { traces, also: &["preset"] })
}

/// Complains about queues in BDP that hold nothing: a BDP is that of the longest round trip over a path, of its own
/// one or of a chain that a flow takes. `fields` are where the paths stand.
pub(crate) fn check_queues(paths: &[PathConfig], fields: &[Field<'_>], chains: &[&Chain]) {
    for (path, field) in paths.iter().zip(fields) {
        let through = chains.iter().filter(|chain| chain.hops.contains(&path.name));
        let hops = through.flat_map(|chain| &chain.hops).filter_map(|hop| paths.iter().find(|path| path.name == *hop));
        // Longer than zero is all that matters.
        let round_trip = hops.chain([path]).map(PathConfig::round_trip).max().unwrap_or_default();
        if let Some(complaint) = path.queue_complaint(round_trip) {
            field.complain(complaint);
        }
    }
}

#[cfg(test)]
mod tests;
