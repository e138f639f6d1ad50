//! For quiche, which reads the clock and draws chance by itself: both are led through `virtual_world` when this is
//! linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_QUICHE").is_some() {
        for symbol in ["clock_gettime", "RAND_bytes"] {
            println!("cargo::rustc-link-arg=-Wl,--wrap={symbol}");
        }
    }
}
