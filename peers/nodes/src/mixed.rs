//! The stacks `…-to-thalweg`: a server of a rival stack and a client of ours, for what our receiver does to a foreign
//! sender.

use thalweg_sim::{Crypto, FlowPlan, Framing, Hosts, PlanError, Registry, StackContext, StackFactory, StackInfo};

/// A server of another stack; its client is ours.
pub(crate) struct ToThalweg(pub(crate) Box<dyn StackFactory>);

fn refuse(flow: &FlowPlan, reason: String) -> PlanError {
    PlanError::Setup { flow: flow.name.clone(), reason }
}

impl StackFactory for ToThalweg {
    fn info(&self) -> StackInfo {
        let info = self.0.info();
        StackInfo { name: format!("{}-to-thalweg", info.name), resumes: false, ..info }
    }

    /// # Errors
    /// What the rival refuses; and the null cipher, which it does not have.
    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        if context.crypto == Crypto::Null {
            return Err(refuse(context.flow, "a foreign server has no null cipher: say crypto = \"real\"".to_owned()));
        }
        let registry = Registry::default();
        let ours =
            registry.get("thalweg").ok_or_else(|| refuse(context.flow, "there is no stack thalweg".to_owned()))?;
        let (client, _) = ours.hosts(context)?;
        let (_, server) = self.0.hosts(context)?;
        Ok((client, server))
    }

    fn framing(&self, flow: &FlowPlan, up: bool) -> Framing {
        self.0.framing(flow, up)
    }

    fn settings(&self, flow: &FlowPlan) -> String {
        format!("client: thalweg, ACKs {}; server: {}", flow.client.acks.name(), self.0.settings(flow))
    }
}
