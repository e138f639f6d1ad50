//! Transport parameters: what is accepted keeps its meaning when it is written again.
#![no_main]

#[path = "../targets/parameters.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    target::run(bytes);
});
