//! A web page: objects that depend on others.

use std::collections::BTreeMap;

use thalweg_link::Streams;
use thalweg_link::read::Field;
use thalweg_units::{Duration, Instant};

use super::kind::{Clients, Described, Needs, TrafficKey, TrafficKind, one};
use super::requests::RESPONSE;
use crate::app::{Client, Job, Jobs};

/// A web page: objects that depend on others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page(pub Vec<PageObject>);

/// An object of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageObject {
    /// Bytes.
    pub size: u64,
    /// Objects that must have arrived before it is asked for, by their place in the list; earlier ones only.
    pub after: Vec<usize>,
    /// Time from then to the request.
    pub delay: Duration,
}

impl TrafficKind for Page {
    fn check(&self) -> Result<(), &'static str> {
        let forward = |(n, object): (usize, &PageObject)| object.after.iter().all(|before| *before < n);
        if self.0.is_empty() {
            Err("needs at least one object")
        } else if self.0.iter().enumerate().all(forward) {
            Ok(())
        } else {
            Err("has an object that depends on itself or on a later one; objects may depend on earlier ones only")
        }
    }

    fn responses(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.0.iter().map(|object| object.size).fold(0, u64::saturating_add))
    }

    fn metrics(&self) -> &'static [&'static str] {
        RESPONSE
    }

    fn main_metric(&self) -> &'static str {
        "response"
    }

    fn clients(&self, _: &Streams) -> Clients {
        let page = self.clone();
        one(move || Client::new(Objects::new(&page.0)))
    }
}

impl Described for Page {
    const NEEDS: Needs = Needs::Streams;
    const KEYS: &'static [TrafficKey<Self>] = &[TrafficKey {
        name: "page",
        example: r#"{ objects = [{ size = "30 kB" }, { size = "100 kB", after = [0] }] }"#,
        doc: "objects = [{ size, after, delay, times }]: an object is asked for delay after all that after names are \
              there; times stands for so many of it, each delay later than the one before",
        metrics: RESPONSE,
        read: |table, _| table.need("objects", "[{ size = \"30 kB\" }]").and_then(|field| read(&*field)),
    }];
}

fn read(field: &dyn Field) -> Option<Vec<Page>> {
    if !field.is_list() {
        field.complain(&"is no list; write [{ size = \"30 kB\" }, { size = \"100 kB\", after = [0] }]");
        return None;
    }
    let mut objects = Vec::new();
    for item in field.items() {
        let index = objects.len();
        let Some(table) = item.table("{ size = \"100 kB\", after = [0] }") else { continue };
        let size = table.need("size", "\"30 kB\"").and_then(|field| field.size());
        let after = table.get("after").map_or_else(Vec::new, |field| field.list(|item| earlier(item, index)));
        let delay = table.get("delay").map_or(Some(Duration::ZERO), |field| field.duration()).unwrap_or_default();
        let times = table.get("times").map_or(Some(1), |field| field.count(1..=10_000)).unwrap_or(1);
        table.finish();
        let mut object = PageObject { size: size.unwrap_or(1), after, delay };
        for _ in 0..times {
            objects.push(object.clone());
            object.delay += delay;
        }
    }
    if objects.is_empty() {
        field.complain(&"is empty; a page needs at least one object, { size = \"30 kB\" }");
    }
    Some(vec![Page(objects)])
}

/// An object that another one waits for: one before it.
fn earlier(item: &dyn Field, index: usize) -> Option<usize> {
    let at = item.count(0..=100_000)?;
    if at >= index as u64 {
        item.complain(&format_args!(
            "object {index} cannot wait for object {at}; only objects before it, counted from 0, can be named"
        ));
        return None;
    }
    usize::try_from(at).ok()
}

/// The objects of a page that are not asked for yet.
struct Objects {
    objects: Vec<Waiting>,
    ready: BTreeMap<(Instant, usize), u64>,
}

/// An object of a page and how many others it still waits for.
struct Waiting {
    object: PageObject,
    missing: usize,
}

impl Objects {
    fn new(objects: &[PageObject]) -> Objects {
        let objects: Vec<Waiting> =
            objects.iter().map(|object| Waiting { missing: object.after.len(), object: object.clone() }).collect();
        let ready = objects.iter().enumerate().filter(|(_, waiting)| waiting.missing == 0);
        let ready =
            ready.map(|(n, waiting)| ((Instant::ZERO + waiting.object.delay, n), waiting.object.size)).collect();
        Objects { objects, ready }
    }
}

impl Jobs for Objects {
    fn begin(&mut self, now: Instant) {
        let shift = now - Instant::ZERO;
        self.ready = self.ready.iter().map(|((at, n), size)| ((*at + shift, *n), *size)).collect();
    }

    fn take(&mut self, now: Instant) -> Option<Job> {
        let (at, _) = *self.ready.first_key_value()?.0;
        if at > now {
            return None;
        }
        let ((_, number), response) = self.ready.pop_first()?;
        Some(Job { number, request: 0, response })
    }

    fn done(&mut self, now: Instant, job: Job) {
        for (n, waiting) in self.objects.iter_mut().enumerate() {
            if waiting.object.after.contains(&job.number) {
                waiting.missing -= waiting.object.after.iter().filter(|before| **before == job.number).count();
                if waiting.missing == 0 {
                    self.ready.insert((now + waiting.object.delay, n), waiting.object.size);
                }
            }
        }
    }

    fn next(&self) -> Option<Instant> {
        self.ready.first_key_value().map(|((at, _), _)| *at)
    }

    fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }
}
