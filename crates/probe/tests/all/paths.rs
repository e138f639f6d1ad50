//! Faults of a path, one at a time.
