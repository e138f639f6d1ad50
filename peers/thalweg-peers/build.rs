//! The same as that of `nodes`: what is linked is decided where the program is made.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_QUICHE").is_some() {
        for symbol in ["clock_gettime", "RAND_bytes"] {
            println!("cargo::rustc-link-arg-bins=-Wl,--wrap={symbol}");
        }
    }
}
