"""The parts of `tests/interop/run`."""
