//! Client and server over loopback, and either of them with an end that follows a script.
//!
//! One program: each of these files links the whole stack, which takes half a minute.
#![allow(clippy::unwrap_used)]

mod answers;
#[cfg(unix)]
mod changing;
mod common;
mod early;
#[cfg(target_os = "linux")]
mod floods;
mod http2_answers;
mod http3_answers;
#[cfg(target_os = "linux")]
mod memory;
mod messages;
mod network;
mod own_certificate;
mod saved_paths;
mod script;
mod strict;
mod surviving;
mod transfers;

#[cfg(target_os = "linux")]
#[test]
#[ignore = "the server process of other tests"]
fn server_process() {
    common::child::serve_until_stdin_ends();
}
