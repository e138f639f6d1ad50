//! The frames of a packet's payload: what is read is written again to the same meaning.
#![no_main]

#[path = "../targets/frames.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    target::run(bytes);
});
