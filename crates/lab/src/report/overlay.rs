//! Recordings for the time plots of a page: those of one set as they are, those of two over each other where they are of the
//! same point and seed.

use serde_json::{Value, json};

use super::{ReportError, Results, thin};
use crate::record::Recording;

/// Recordings by name, at most `most`; no more than these are held at a time. Series and packets of an overlay say which set
/// they are of.
pub(super) fn recordings(sets: &[&Results], most: usize) -> Result<Vec<(String, Value)>, ReportError> {
    let plain = |recording: &Recording| serde_json::to_value(thin::thin(recording));
    let [a, b] = sets else {
        let all = sets.iter().flat_map(|set| kept(set)).take(most);
        return all.map(|(name, recording)| Ok((name, plain(&recording)?))).collect();
    };
    let mut shown = Vec::new();
    for (name, first) in kept(a).take(most) {
        shown.push((name, Some(plain(&first)?), None));
    }
    for (name, second) in kept(b) {
        if let Some(at) = shown.iter().position(|(other, ..)| *other == name) {
            shown[at].2 = Some(plain(&second)?);
        } else if shown.len() < most {
            shown.push((name, None, Some(plain(&second)?)));
        }
    }
    let named = shown.into_iter().filter_map(|(name, first, second)| match (first, second) {
        (Some(first), Some(second)) => Some((name, over(first, second))),
        (Some(first), None) => Some((format!("A: {name}"), first)),
        (None, second) => Some((format!("B: {name}"), second?)),
    });
    Ok(named.collect())
}

/// Recordings that hold something, read one by one.
fn kept(set: &Results) -> impl Iterator<Item = (String, Recording)> + '_ {
    set.recordings().filter(|(_, recording)| !recording.is_empty())
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
