//! Recordings for the time plots of a page: those of one set as they are, those of two over each other where they are of the
//! same point and seed.

use serde_json::{Value, json};

use super::{ReportError, Results, thin};
use crate::record::Recording;

/// Recordings by name, at most `most`. Series and packets of an overlay say which set they are of.
pub(super) fn recordings(sets: &[&Results], most: usize) -> Result<Vec<(String, Value)>, ReportError> {
    let of = |set: &Results| -> Vec<(String, Recording)> {
        let all = set.recordings().into_iter();
        all.filter(|(_, recording)| !(recording.series.is_empty() && recording.packets.is_empty())).collect()
    };
    let plain = |recording: &Recording| serde_json::to_value(thin::thin(recording));
    let (firsts, seconds) = match sets {
        [a, b] => (of(a), of(b)),
        _ => {
            let all = sets.iter().flat_map(|set| of(set)).take(most);
            return all.map(|(name, recording)| Ok((name, plain(&recording)?))).collect();
        }
    };
    let mut shown = Vec::new();
    for (name, first) in firsts.iter().take(most) {
        match seconds.iter().find(|(other, _)| other == name) {
            Some((_, second)) => shown.push((name.clone(), over(plain(first)?, plain(second)?))),
            None => shown.push((format!("A: {name}"), plain(first)?)),
        }
    }
    for (name, second) in seconds.iter().filter(|(name, _)| !firsts.iter().any(|(other, _)| other == name)) {
        if shown.len() < most {
            shown.push((format!("B: {name}"), plain(second)?));
        }
    }
    Ok(shown)
}

fn over(first: Value, second: Value) -> Value {
    let mark = |mut recording: Value, set: &str, key: &str| -> Vec<Value> {
        let mut list = recording[key].take().as_array_mut().map(std::mem::take).unwrap_or_default();
        for entry in &mut list {
            entry["set"] = json!(set);
        }
        list
    };
    let both = |key: &str| [mark(first.clone(), "A", key), mark(second.clone(), "B", key)].concat();
    json!({ "series": both("series"), "packets": both("packets") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_keeps_both_and_says_which_is_which() {
        let one = json!({ "series": [{ "name": "window", "t": [1.0] }], "packets": [] });
        let other = json!({ "series": [{ "name": "window", "t": [2.0] }], "packets": [{ "subject": "f" }] });
        let both = over(one, other);
        assert_eq!(both["series"][0]["set"], "A");
        assert_eq!((&both["series"][1]["set"], &both["series"][1]["t"][0]), (&json!("B"), &json!(2.0)));
        assert_eq!(both["packets"], json!([{ "subject": "f", "set": "B" }]));
    }
}
