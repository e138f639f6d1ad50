//! The registry that finds stacks by name.

use crate::quic::Thalweg;
use crate::raw::Raw;
use crate::stack::{StackFactory, StackInfo};
use crate::tcp::Tcp;

/// The stacks that flows can name.
pub struct Registry {
    stacks: Vec<(StackInfo, Box<dyn StackFactory>)>,
}

impl Default for Registry {
    /// With the stacks that come with the crate: "thalweg", "tcp" and "raw". Flows that name none run the first.
    fn default() -> Self {
        let mut registry = Registry { stacks: Vec::new() };
        let stacks: [Box<dyn StackFactory>; 3] = [Box::new(Thalweg), Box::new(Tcp), Box::new(Raw)];
        stacks.into_iter().for_each(|stack| registry.add(stack));
        registry
    }
}

impl Registry {
    /// Adds a stack; one of the same name is replaced.
    pub fn add(&mut self, stack: Box<dyn StackFactory>) {
        let info = stack.info();
        self.stacks.retain(|(known, _)| known.name != info.name);
        self.stacks.push((info, stack));
    }

    /// Every stack, in the order in which they were added.
    pub fn stacks(&self) -> impl Iterator<Item = &StackInfo> {
        self.stacks.iter().map(|(info, _)| info)
    }

    /// Names of the stacks.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.stacks().map(|info| info.name.as_str())
    }

    /// What is known of a stack.
    pub fn info(&self, name: &str) -> Option<&StackInfo> {
        self.stacks().find(|info| info.name == name)
    }

    /// The stack of this name.
    pub fn get(&self, name: &str) -> Option<&dyn StackFactory> {
        self.stacks.iter().find(|(info, _)| info.name == name).map(|(_, stack)| stack.as_ref())
    }
}
