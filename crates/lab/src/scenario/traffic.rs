//! Traffic of a flow: which of the kinds that the simulator knows stands there, and whether its stack carries it.

use thalweg_sim::traffic::{Needs, ReadContext, Traffic, TrafficInfo};
use thalweg_sim::{Carries, StackInfo};

use super::read::Reader;
use super::rivals::OURS;

/// The traffic of a flow that runs `stack`: of the only one, or of each of a group.
pub(super) fn traffic(
    reader: &Reader<'_>,
    stack: Option<&StackInfo>,
    context: &ReadContext<'_>,
) -> Option<Vec<Traffic>> {
    for kind in Traffic::keys() {
        reader.note(kind.name);
    }
    let present: Vec<TrafficInfo> = Traffic::keys().filter(|kind| reader.has(kind.name)).collect();
    for kind in &present {
        if let (Some(stack), Some(field)) = (stack, reader.get(kind.name))
            && let Some(why) = refusal(kind.needs, stack)
        {
            field.complain(why);
        }
    }
    let [kind] = present.as_slice() else {
        let all: Vec<String> = Traffic::keys().map(|kind| format!("{} = {}", kind.name, kind.example)).collect();
        let found = match present.as_slice() {
            [] => "none is there".to_owned(),
            some => format!("found {}", some.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")),
        };
        reader.complain(format!("needs exactly one kind of traffic ({found}); write one of: {}", all.join("; ")));
        return None;
    };
    let table = reader.get(kind.name)?.table(kind.example)?;
    let read = Traffic::read(kind.name, &table, context);
    table.finish();
    read
}

/// Why a stack cannot carry what needs this, if it cannot.
fn refusal(needs: Needs, stack: &StackInfo) -> Option<String> {
    let name = &stack.name;
    match (stack.carries, needs) {
        (Carries::Datagrams, Needs::Streams | Needs::RankedStreams) => {
            Some(format!("needs a transport, which the stack \"{name}\" is not; write media or datagrams"))
        }
        (Carries::Streams, Needs::Datagrams) => {
            Some(format!("is datagrams, which the stack \"{name}\" does not carry"))
        }
        (_, Needs::RankedStreams) if !stack.has_stream_priorities => Some(format!(
            "needs streams with priorities that their receiver can cancel, which the stack \"{name}\" does not offer \
             the lab; write stack = \"{OURS}\", or media"
        )),
        _ => None,
    }
}
