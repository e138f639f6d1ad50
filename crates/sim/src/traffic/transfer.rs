//! A transfer: one response as large as it is, or one request.

use core::fmt;

use thalweg_link::QueueLimit;
use thalweg_link::Streams;
use thalweg_link::read::{Field, Table, Value};

use super::kind::{Bulk, Clients, Described, Needs, ReadContext, TrafficKey, TrafficKind, one};
use crate::app::{Client, Once};

/// A download or an upload.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// From the client to the server.
    pub up: bool,
    /// How many bytes; `None`: for ever.
    pub bytes: Option<u64>,
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(if self.up { "Upload" } else { "Download" }).field(&self.bytes).finish()
    }
}

impl TrafficKind for Transfer {
    fn is_endless(&self) -> bool {
        self.bytes.is_none()
    }

    fn sends_up(&self) -> bool {
        self.up
    }

    fn responses(&self) -> u64 {
        u64::from(self.bytes.is_some())
    }

    fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    fn bulk(&self) -> Option<Bulk> {
        Some(Bulk { up: self.up, bytes: self.bytes })
    }

    fn main_metric(&self) -> &'static str {
        if self.is_endless() { "goodput" } else { "completion" }
    }

    fn clients(&self, _: &Streams) -> Clients {
        let bytes = self.bytes.unwrap_or(u64::MAX);
        let (request, response) = if self.up { (bytes, 0) } else { (0, bytes) };
        one(move || Client::new(Once::new(request, response)))
    }
}

impl Described for Transfer {
    const NEEDS: Needs = Needs::Streams;
    const KEYS: &'static [TrafficKey<Self>] = &[TrafficKey {
        name: "transfer",
        example: r#"{ download = "10 MB" }"#,
        doc: r#"download or upload: bytes, "12 BDP" (times the rate of the slowest direction that the data cross, times
              the path's fixed delays), or "endless"; shared = true: the size is that of all count flows together"#,
        metrics: &[],
        read,
    }];
}

fn read(table: &dyn Table, context: &ReadContext<'_>) -> Option<Vec<Transfer>> {
    let shared = table.get("shared");
    let is_shared = shared.as_ref().is_some_and(|field| field.boolean() == Some(true));
    if let Some(field) = shared.as_ref().filter(|_| is_shared && context.count.is_none()) {
        field.complain(&"shares among the flows of a group, and this is one flow; write count, or leave it out");
    }
    let (up, bytes) = match (table.get("download"), table.get("upload")) {
        (Some(download), None) => (false, size(&*download, false, context)?),
        (None, Some(upload)) => (true, size(&*upload, true, context)?),
        (None, None) => {
            table.complain(&"needs download or upload, for example download = \"10 MB\", or \"endless\"");
            return None;
        }
        (Some(_), Some(_)) => {
            table.complain(&"has both download and upload; write one [[flow]] for each");
            return None;
        }
    };
    let (Some(bytes), true) = (bytes, is_shared) else {
        if let Some(field) = shared.filter(|_| is_shared) {
            field.complain(&"shares a transfer without end; leave it out");
        }
        return Some(vec![Transfer { up, bytes }]);
    };
    let count = context.count.unwrap_or(1);
    let share = |number| Some(bytes / count + u64::from(number <= bytes % count));
    Some((1..=count).map(|number| Transfer { up, bytes: share(number) }).collect())
}

/// The size of a transfer: bytes, a multiple of the BDP of the way that it takes, or none without end.
fn size(field: &dyn Field, up: bool, context: &ReadContext<'_>) -> Option<Option<u64>> {
    let Value::Text(text) = field.value() else { return field.size().map(Some) };
    if text == "endless" {
        return Some(None);
    }
    if !text.trim_end().to_ascii_lowercase().ends_with("bdp") {
        return field.size().map(Some);
    }
    let Ok(QueueLimit::Bdp(thousandths)) = text.parse() else {
        field.complain(&format_args!(
            "\"{text}\" is no size; write a multiple with at most three decimals, such as \"12 BDP\""
        ));
        return None;
    };
    (context.bdp)(field, up, thousandths).map(Some)
}
