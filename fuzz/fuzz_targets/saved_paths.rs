//! The file of saved paths: what is accepted is written again to a file that is accepted, and no path is taken twice.
#![no_main]

#[path = "../targets/saved_paths.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    target::run(bytes);
});
