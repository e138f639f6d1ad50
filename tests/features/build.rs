//! Nothing to do: it is here so that what it depends on is built.

fn main() {}
