//! The `thalweg` program; everything is in the library, so that other programs can offer the same commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    thalweg_cli::main(std::env::args_os())
}
