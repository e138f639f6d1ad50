//! Paths by name: what users of other tools ask for, written as the TOML they could have written themselves.

use crate::document::{Field, Node, Source, Value};
use crate::read::nearest;

/// A path that can be asked for by name.
#[derive(Copy, Clone, Debug)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// One line on what it is.
    pub doc: &'static str,
    /// `up` and `down` in TOML.
    pub toml: &'static str,
}

/// Every preset, in the order in which they are listed.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "broadband",
        doc: "a healthy cable or fibre access: 100/20 Mbps, 20 ms round trip",
        toml: r#"
up   = { rate = "20 Mbps", delay = "10 ms", queue = "1 BDP" }
down = { rate = "100 Mbps", delay = "10 ms", queue = "1 BDP" }"#,
    },
    Preset {
        name: "black-hole",
        doc: "10 Mbps with an outage of both directions from 2 s to 4 s",
        toml: r#"
outage = { at = "2 s", for = "2 s" }
up   = { rate = "10 Mbps", delay = "35 ms", queue = "1 BDP" }
down = { rate = "10 Mbps", delay = "35 ms", queue = "1 BDP" }"#,
    },
    Preset {
        name: "drop-to-half",
        doc: "the rate falls from 10 Mbps to 5 Mbps after 2 s",
        toml: r#"
up   = { rate = "10 Mbps", delay = "35 ms", queue = "1 BDP" }
down = { rate = "10 Mbps", delay = "35 ms", queue = "1 BDP", changes = [{ at = "2 s", rate = "5 Mbps" }] }"#,
    },
    Preset {
        name: "wifi-fade",
        doc: "the rate fades from 50 Mbps to 2 Mbps and back between 1 s and 4 s",
        toml: r#"
up   = { rate = "10 Mbps", delay = "10 ms", queue = "1 BDP" }
down = { rate = "50 Mbps", delay = "10 ms", queue = "100 ms", changes = [
  { at = "1 s", rate = "20 Mbps" }, { at = "1.5 s", rate = "6 Mbps" }, { at = "2 s", rate = "2 Mbps" },
  { at = "3 s", rate = "6 Mbps" }, { at = "3.5 s", rate = "20 Mbps" }, { at = "4 s", rate = "50 Mbps" } ] }"#,
    },
    Preset {
        name: "suspended",
        doc: "both directions are suspended for 200 ms every 2 s; suspended packets then arrive all at once",
        toml: r#"
suspend = { at = "1 s", for = "200 ms", every = "2 s" }
up   = { rate = "10 Mbps", delay = "10 ms", queue = "260 ms" }
down = { rate = "10 Mbps", delay = "10 ms", queue = "260 ms" }"#,
    },
    Preset {
        name: "wifi",
        doc: "a home wireless network: jitter, 0.12 % loss, 18 suspensions of 50-280 ms in 10 minutes",
        toml: r#"
wifi = true
up   = { rate = "20 Mbps", delay = "0 s", queue = "270 ms" }
down = { rate = "20 Mbps", delay = "0 s", queue = "270 ms" }"#,
    },
    Preset {
        name: "wifi-scan",
        doc: "a wireless card that looks for other networks: every 5 s it stops for 60-120 ms",
        toml: r#"
suspend = { at = "1 s", every = "5 s", for = "60 ms..120 ms", held = "before" }
up   = { rate = "20 Mbps", delay = "2 ms", queue = "270 ms" }
down = { rate = "20 Mbps", delay = "2 ms", queue = "270 ms" }"#,
    },
    Preset {
        name: "wifi-sleep",
        doc: "a wireless card that saves power: it sleeps for half of every beacon interval of 102.4 ms",
        toml: r#"
up   = { rate = "20 Mbps", delay = "2 ms", queue = "270 ms" }
down = { rate = "20 Mbps", delay = "2 ms", queue = "270 ms",
         suspend = { every = "102.4 ms", for = "51.2 ms", held = "before" } }"#,
    },
    Preset {
        name: "satellite",
        doc: "a geostationary satellite: 250/3 Mbps, 300 ms one way",
        toml: r#"
up   = { rate = "3 Mbps", delay = "300 ms", queue = "600 ms" }
down = { rate = "250 Mbps", delay = "300 ms", queue = "1 BDP" }"#,
    },
    Preset {
        name: "lte",
        doc: "a mobile network: synthetic capacity trace around 12 Mbps, deep queue",
        toml: r#"
up   = { rate = "5 Mbps", delay = "25 ms", queue = "500 ms" }
down = { trace = "lte", delay = "25 ms", queue = "500 kB" }"#,
    },
    Preset {
        name: "leo",
        doc: "a low-orbit satellite: rate and delay change at a handover every 15 s",
        toml: r#"
up   = { rate = "20 Mbps", delay = "25 ms", queue = "100 ms" }
down = { trace = "leo", delay = "25 ms", queue = "1 MB" }"#,
    },
    Preset {
        name: "bufferbloat",
        doc: "a slow access link with a queue of two seconds",
        toml: r#"
up   = { rate = "1 Mbps", delay = "15 ms", queue = "2 s" }
down = { rate = "8 Mbps", delay = "15 ms", queue = "2 s" }"#,
    },
    Preset {
        name: "policer",
        doc: "a link of 50 Mbps with a policer of 10 Mbps: a token bucket of 100 kB drops the excess",
        toml: r#"
up   = { rate = "50 Mbps", delay = "20 ms", queue = "1 BDP" }
down = { rate = "50 Mbps", delay = "20 ms", queue = "1 BDP", policer = { rate = "10 Mbps", burst = "100 kB" } }"#,
    },
    Preset {
        name: "reordering",
        doc: "5 % of the packets of the data path arrive 5 ms late and are overtaken by others",
        toml: r#"
up   = { rate = "50 Mbps", delay = "25 ms", queue = "1 BDP" }
down = { rate = "50 Mbps", delay = "25 ms", queue = "1 BDP", reorder = { share = "5 %", by = "5 ms" } }"#,
    },
    Preset {
        name: "random-loss",
        doc: "1 % of the packets of the data path are lost at random, independently of load",
        toml: r#"
up   = { rate = "20 Mbps", delay = "25 ms", queue = "1 BDP" }
down = { rate = "20 Mbps", delay = "25 ms", queue = "1 BDP", loss = "1 %" }"#,
    },
    Preset {
        name: "mtu-drop",
        doc: "the path's MTU falls from 1500 to 1394 bytes after 1 s",
        toml: r#"
up   = { rate = "10 Mbps", delay = "25 ms", queue = "1 BDP" }
down = { rate = "10 Mbps", delay = "25 ms", queue = "1 BDP", mtu = "1500 B", changes = [{ at = "1 s", mtu = "1394 B" }] }"#,
    },
    Preset {
        name: "asymmetric",
        doc: "an ACK path a hundred times narrower than the data path: 100/1 Mbps",
        toml: r#"
up   = { rate = "1 Mbps", delay = "20 ms", queue = "200 ms" }
down = { rate = "100 Mbps", delay = "20 ms", queue = "1 BDP" }"#,
    },
];

/// Replaces `preset = "NAME"` in a path, or in one of its directions, by what the preset says, under what the document
/// says.
pub fn expand(path: &mut Node) {
    if let Some(preset) = of(path) {
        let whole = std::mem::replace(path, Node { value: Value::Boolean(false), span: 0..0 });
        *path = whole.over(preset);
    }
    let Value::Table(entries) = &mut path.value else { return };
    for entry in entries.iter_mut().filter(|entry| entry.key == "up" || entry.key == "down") {
        if let Some(preset) = of(&entry.node)
            && let Some(direction) = preset.get(&entry.key)
        {
            entry.node = entry.node.clone().over(direction.node.clone());
        }
    }
}

/// What the `preset` key of a path or direction stands for, as if it were written where that key is.
fn of(node: &Node) -> Option<Node> {
    let entry = node.get("preset")?;
    let Value::Text(name) = &entry.node.value else { return None };
    let preset = PRESETS.iter().find(|preset| preset.name == name)?;
    let source = Source::new(preset.name, preset.toml);
    Some(Node::parse(preset.toml, &source)?.moved_to(&entry.key_span))
}

/// Complains about a preset that does not exist.
pub(crate) fn check(field: &Field<'_>) {
    let names = || PRESETS.iter().map(|preset| preset.name);
    let accepted = names().collect::<Vec<_>>().join(", ");
    let Some(name) = field.text(&format!("one of {accepted}")) else { return };
    if !names().any(|known| known == name) {
        let hint = nearest(name, names()).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
        field.complain(format!("there is no preset \"{name}\"; {hint}write one of {accepted}"));
    }
}
