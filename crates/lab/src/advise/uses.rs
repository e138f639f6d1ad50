//! What people use a path for, as worlds: a download, a page, a call, and a download beside somebody else's.

use core::fmt::Write as _;
use std::path::Path;

use thalweg_link::{Chain, PathConfig};
use thalweg_units::{Duration, Rate};

use super::Choice;
use crate::engine::Engine;
use crate::scenario::world::World;
use crate::scenario::{Scenario, ScenarioError};

/// A use of the path.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// A download.
    Download,
    /// A web page of twenty objects.
    Page,
    /// A call: audio and video, one way.
    Call,
    /// A download beside one of the same size by another sender. What counts is the other.
    Beside,
}

impl Use {
    /// Those that a choice is judged by.
    pub const ALL: [Use; 3] = [Use::Download, Use::Page, Use::Call];

    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Use::Download => "download",
            Use::Page => "page",
            Use::Call => "call",
            Use::Beside => "beside",
        }
    }

    /// What is measured, as the object of "it shortens".
    pub const fn measures(self) -> &'static str {
        match self {
            Use::Download => "a download",
            Use::Page => "the time to a whole page",
            Use::Call => "the delay of a call",
            Use::Beside => "a download of another",
        }
    }

    /// The metric, of the last flow.
    pub(super) const fn metric(self) -> &'static str {
        match self {
            Use::Download | Use::Page | Use::Beside => "completion",
            Use::Call => "call_delay_mean",
        }
    }
}

/// What the path is called in the worlds: no file can have a path of this name by chance and mean another.
const PATH: &str = "the path to advise on";
/// A download takes about so long at the rate of the path, unless that is more than [`MOST_BYTES`].
const DOWNLOAD: Duration = Duration::from_secs(4);
/// The largest download, which bounds the work of a run.
const MOST_BYTES: u64 = 6_000_000;
/// The smallest.
const LEAST_BYTES: u64 = 300_000;
/// How long a call is.
const CALL_SECONDS: u64 = 15;
/// What a video has where there is room, in bytes a second.
const VIDEO: u64 = 150_000;
/// Virtual time after which a run counts as one that never ends, seconds.
const TIME_LIMIT: u64 = 300;

/// Every use with the shipped policies and with every choice.
pub(super) struct Worlds {
    /// Bytes of the download.
    pub(super) download: u64,
    choices: Vec<Choice>,
    uses: Vec<(Use, Scenario)>,
}

impl Worlds {
    /// Those over a path.
    pub(super) fn of(hops: &[PathConfig], engine: &dyn Engine) -> Result<Worlds, ScenarioError> {
        let rates = hops.iter().map(|hop| hop.down.rate.nominal()).filter(|rate| *rate > Rate::ZERO);
        let rate = rates.min().unwrap_or(Rate::MAX);
        let download = rate.bytes_in(DOWNLOAD).clamp(LEAST_BYTES, MOST_BYTES);
        let choices = Choice::all();
        let mut uses = Vec::new();
        for of_use in [Use::Download, Use::Page, Use::Call, Use::Beside] {
            let text = text(of_use, download, rate, &choices);
            let mut scenario = Scenario::parse("advice.toml", &text, Path::new(""), &engine.stacks())?;
            for point in &mut scenario.points {
                put(&mut point.world, hops);
            }
            uses.push((of_use, scenario));
        }
        Ok(Worlds { download, choices, uses })
    }

    /// The choices that the shipped controller has.
    pub(super) fn choices(&self) -> Vec<Choice> {
        let has = |choice: &&Choice| self.world(Use::Download, Some(choice)).is_some();
        self.choices.iter().filter(has).cloned().collect()
    }

    /// A use with a choice, or with the shipped policies.
    pub(super) fn world(&self, of_use: Use, choice: Option<&Choice>) -> Option<&World> {
        let (_, scenario) = self.uses.iter().find(|(other, _)| *other == of_use)?;
        let label = choice.map_or_else(|| SHIPPED.to_owned(), Choice::to_string);
        scenario.points.iter().find(|point| point.labels.contains(&label)).map(|point| &point.world)
    }
}

const SHIPPED: &str = "shipped";

/// Replaces the path of a world.
fn put(world: &mut World, hops: &[PathConfig]) {
    world.paths = hops.to_vec();
    match world.paths.as_mut_slice() {
        [only] => PATH.clone_into(&mut only.name),
        many => {
            // A hop may be on the way twice.
            many.iter_mut().enumerate().for_each(|(at, hop)| hop.name = format!("{} {at}", hop.name));
            let hops = world.paths.iter().map(|hop| hop.name.clone()).collect();
            world.chains = vec![Chain { name: PATH.to_owned(), hops }];
        }
    }
}

/// The scenario of a use, over a path that stands for the one to come.
fn text(of_use: Use, download: u64, rate: Rate, choices: &[Choice]) -> String {
    let mut text = format!(
        "title = \"{}\"\nquestion = \"Which rules serve this path?\"\ntime_limit = \"{TIME_LIMIT} s\"\n\
         crypto = \"null\"\nrecord = \"none\"\n[path.\"{PATH}\"]\nup = {{ rate = \"1 Gbps\", delay = \"1 ms\" }}\n\
         down = {{ rate = \"1 Gbps\", delay = \"1 ms\" }}\n",
        of_use.name()
    );
    let bulk = format!("transfer = {{ download = \"{download} B\" }}");
    let traffic = match of_use {
        Use::Download | Use::Beside => bulk.clone(),
        Use::Page => "page = { objects = [{ size = \"30 kB\" }, { size = \"60 kB\", after = [0], times = 4 }, \
                      { size = \"40 kB\", after = [1], delay = \"2 ms\", times = 15 }] }"
            .to_owned(),
        Use::Call => {
            // A call takes what there is: at most half of the path.
            let bytes = (rate.bps() / 16).min(VIDEO);
            let delta = (bytes / 40).max(100);
            format!(
                "call = {{ duration = \"{CALL_SECONDS} s\", video = [{{ fps = 30, key = \"{} B\", delta = \"{delta} B\", \
                 group = 30 }}] }}",
                delta * 10
            )
        }
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "[[flow]]\nname = \"ours\"\npath = \"{PATH}\"\n{traffic}");
    if of_use == Use::Beside {
        let _ = writeln!(
            text,
            "[[flow]]\nname = \"other\"\npath = \"{PATH}\"\npolicies = {{ controller = \"cubic\", start = \"hystart++\" }}\n\
             {bulk}"
        );
    }
    text += "[vary]\n\"flow.ours.policies\" = [\n";
    let _ = writeln!(text, "{{ label = \"{SHIPPED}\" }},");
    for choice in choices {
        let _ = writeln!(text, "{{ label = \"{choice}\", {} = \"{}\" }},", choice.field, choice.name);
    }
    text + "]\n"
}
