//! Nothing but dependencies and their features.
