//! Settings of a flow's stack: the policies of its recovery, and those that no other stack has.

use thalweg_recovery::{Policies, PolicyError};
use thalweg_sim::{Accepts, SettingValue, Settings, StackInfo, SupportedPolicies};

use crate::scenario::policy_choice::choice_text;
use crate::scenario::read::{Field, Reader};
use crate::scenario::tree::Value;

/// Reads the settings that only the flow's stack has, by the stack's own schema; complains about those of other stacks.
pub(super) fn settings(reader: &Reader<'_>, stack: Option<&StackInfo>, stacks: &[StackInfo]) -> Settings {
    let mut settings = Settings::default();
    let mut seen: Vec<&str> = Vec::new();
    for (known, schema) in stacks.iter().filter_map(|known| Some((known, known.schema?))) {
        if seen.contains(&schema.table) {
            continue;
        }
        seen.push(schema.table);
        let Some(field) = reader.get(schema.table) else { continue };
        if stack.is_some_and(|stack| stack.schema.is_none_or(|own| own.table != schema.table)) {
            field.complain(format!("has the settings of the stack \"{}\", which this flow does not run", known.name));
        }
        let Some(table) = field.table(&format!("a table such as {}", schema.example)) else { continue };
        for setting in schema.settings {
            if let Some(value) = table.get(setting.name).and_then(|field| setting_value(&field, setting.accepts)) {
                settings.set(setting.name, value);
            }
        }
        table.finish();
    }
    settings
}

/// A value of one of these kinds: of the first that it looks like, or of the first.
fn setting_value(field: &Field<'_>, accepts: &[Accepts]) -> Option<SettingValue> {
    let is_quantity = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let looks_like = |kind: &&Accepts| match (kind, &field.node.value) {
        (Accepts::Boolean, Value::Boolean(_)) | (Accepts::Count(_), Value::Integer(_)) => true,
        (Accepts::Word(_), Value::Text(text)) => !is_quantity(text),
        (Accepts::Bytes(_) | Accepts::Duration | Accepts::Span, Value::Text(text)) => is_quantity(text),
        _ => false,
    };
    match accepts.iter().find(looks_like).or_else(|| accepts.first())? {
        Accepts::Boolean => field.boolean().map(SettingValue::Boolean),
        Accepts::Word(words) => {
            let choices: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
            field.choice(&choices).map(SettingValue::Word)
        }
        Accepts::Count(range) => field.count(range.clone()).map(SettingValue::Number),
        Accepts::Bytes(range) => field.bytes_in(range.clone()).map(SettingValue::Number),
        Accepts::Duration => field.duration().map(SettingValue::Duration),
        Accepts::Span => field.span().map(SettingValue::Duration),
        _ => None,
    }
}

/// Refuses a policy that would change nothing.
fn refuse_ignored(field: &Field<'_>, stack: &StackInfo, policy: &str) {
    if stack.supports(policy) {
        return;
    }
    let supported = Policies::catalogue().iter().map(|known| known.name).filter(|name| stack.supports(name));
    let supported: Vec<&str> = supported.collect();
    let instead = match stack.supported_policies {
        SupportedPolicies::AllBut { instead, .. } => instead,
        _ => "its recovery is its own",
    };
    field.complain(format!(
        "sets {policy}, which the stack \"{}\" does not have: {instead}; leave it out, or write one of {}",
        stack.name,
        supported.join(", ")
    ));
}

/// A string as on the command line, or a table of the same fields; `named` makes the whole of it.
pub(super) fn policies(
    field: &Field<'_>,
    stack: Option<&StackInfo>,
    named: impl Fn(&str) -> Result<Policies, PolicyError>,
) -> Option<Policies> {
    let refuse = |field: &Field<'_>, policy: &str| {
        if let Some(stack) = stack {
            refuse_ignored(field, stack, policy);
        }
    };
    if let Some(stack) = stack.filter(|stack| stack.supported_policies == SupportedPolicies::Only { policies: &[] }) {
        field.complain(format!(
            "sets policies of recovery, which the stack \"{}\" does not have; leave it out",
            stack.name
        ));
        return None;
    }
    if let Value::Text(text) = &field.node.value {
        for (policy, _) in Policies::items(text).filter_map(|item| item.split_once('=')) {
            refuse(field, policy.trim());
        }
        return named(text).map_err(|error| field.complain(error)).ok();
    }
    let reader =
        field.table("\"controller=cubic, start=hystart++\" or { controller = \"cubic\", start = \"hystart++\" }")?;
    let mut items = Vec::new();
    let mut fine = true;
    for (key, _, value) in reader.all() {
        let text = match choice_text(value.node) {
            Ok(text) => text,
            Err(why) => {
                value.complain(why);
                fine = false;
                continue;
            }
        };
        refuse(&value, key);
        if let Err(error) = Policies::default().set(key, &text) {
            value.complain(error);
            fine = false;
        }
        items.push(format!("{key}={text}"));
    }
    if !fine {
        return None;
    }
    // Only the whole shows whether the parts go together.
    named(&items.join(", ")).map_err(|error| field.complain(error)).ok()
}
