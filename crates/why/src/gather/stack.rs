//! Which stack has written a log, by what only its logs have.

use crate::read::{Data, Header};

/// A stack whose logs or rules are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stack {
    /// This project's.
    Ours,
    Quinn,
    Noq,
    Quiche,
    QuicGo,
    Aioquic,
    #[default]
    Other,
}

/// Finds out which stack it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    stack: Stack,
    packets: u64,
}

/// Packets that are looked at.
const LOOKED_AT: u64 = 16;

impl Writer {
    pub(crate) fn stack(&self) -> Stack {
        self.stack
    }

    /// The header says it by its own part, or by the name of the stack in the title.
    pub(super) fn header(&mut self, header: &Header) {
        if header.own.is_some() {
            self.stack = Stack::Ours;
        } else if self.stack == Stack::Other {
            let title = header.title.as_deref().unwrap_or_default().to_ascii_lowercase();
            let names = [
                ("quiche", Stack::Quiche),
                ("quinn", Stack::Quinn),
                ("noq", Stack::Noq),
                ("quic-go", Stack::QuicGo),
                ("aioquic", Stack::Aioquic),
            ];
            self.stack = names.into_iter().find(|(name, _)| title.contains(name)).map_or(Stack::Other, |named| named.1);
        }
    }

    /// A packet that was sent: where the header says nothing, the form of the first packets does.
    pub(super) fn sent(&mut self, data: Data<'_>) {
        if self.stack != Stack::Other || self.packets >= LOOKED_AT {
            return;
        }
        self.packets += 1;
        let of_header = |key: &str| data.get("header").is_some_and(|header| header.get(key).is_some());
        self.stack = match (of_header("length"), of_header("path_id"), data.get("frames").is_some()) {
            _ if data.get("send_at_time").is_some() => Stack::Quiche,
            (true, true, true) => Stack::Noq,
            (true, false, false) => Stack::Quinn,
            _ => Stack::Other,
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::read::Tree;

    #[test]
    fn stacks_are_known_by_their_packets() {
        let stack = |data: serde_json::Value| {
            let mut writer = Writer::default();
            writer.sent(Tree::of(&data).unwrap().root());
            writer.stack()
        };
        assert_eq!(stack(json!({"header": {"length": 40, "path_id": 0}, "frames": []})), Stack::Noq);
        assert_eq!(stack(json!({"header": {"length": 40}})), Stack::Quinn);
        assert_eq!(stack(json!({"header": {}, "raw": {"length": 40}, "send_at_time": 1.0})), Stack::Quiche);
        assert_eq!(stack(json!({"header": {}, "raw": {"length": 40}, "frames": []})), Stack::Other);
    }

    #[test]
    fn the_header_says_it_first() {
        let mut writer = Writer::default();
        writer.header(&Header { title: Some("quiche-server qlog".to_owned()), ..Header::default() });
        writer.sent(Tree::of(json!({"header": {"length": 40}})).unwrap().root());
        assert_eq!(writer.stack(), Stack::Quiche);
        for (title, stack) in [("quic-go qlog", Stack::QuicGo), ("aioquic", Stack::Aioquic), ("other", Stack::Other)] {
            let mut writer = Writer::default();
            writer.header(&Header { title: Some(title.to_owned()), ..Header::default() });
            assert_eq!(writer.stack(), stack);
        }
    }
}
