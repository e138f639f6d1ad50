//! A client that trusts the platform: with the platform's certificates replaced, in a process of its own.
#![cfg(all(feature = "native-roots", unix))]
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{ALPN, Identity, within};
use thalweg::{ClientConfig, ConfigError, ConnectionError, Endpoint};

/// The variable that makes the process the client or the server, and with what.
const ROLE: &str = "THALWEG_TEST_ROLE";

/// Runs the test `name` of this file in another process, whose platform trusts what `certificates` (PEM) says.
fn in_process(name: &str, certificates: &std::path::Path) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ROLE, certificates)
        .env("SSL_CERT_FILE", certificates)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

/// A file for the process of test `name`.
fn certificates(name: &str, contents: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.pem", std::process::id()));
    std::fs::write(&path, contents).unwrap();
    path
}

#[tokio::test]
async fn a_client_with_native_roots_trusts_the_certificates_of_the_platform() {
    let Some(path) = std::env::var_os(ROLE) else {
        let path = certificates("trusted", "");
        in_process("a_client_with_native_roots_trusts_the_certificates_of_the_platform", &path);
        std::fs::remove_file(path).unwrap();
        return;
    };
    within(async {
        let trusted = Identity::new();
        std::fs::write(path, trusted.pem()).unwrap();
        let server = Endpoint::server(trusted.server(), "127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        client.set_default_client_config(ClientConfig::with_native_roots(ALPN).unwrap());
        let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
        let (connected, accepted) = tokio::join!(connecting, async { server.next_incoming().await.unwrap().await });
        let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
        // Anybody else is not trusted.
        server.set_server_config(Some(&Identity::new().server()));
        let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
        let (refused, _) = tokio::join!(connecting, async { server.next_incoming().await.unwrap().await });
        assert!(matches!(refused, Err(ConnectionError::Transport(_))), "{refused:?}");
        drop((connected, accepted));
    })
    .await;
}

#[test]
fn a_platform_without_certificates_is_an_error_that_says_so() {
    if std::env::var_os(ROLE).is_none() {
        let path = certificates("none", "");
        in_process("a_platform_without_certificates_is_an_error_that_says_so", &path);
        std::fs::remove_file(path).unwrap();
        return;
    }
    let error = ClientConfig::with_native_roots(ALPN).unwrap_err();
    assert!(matches!(error, ConfigError::NoRoots(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("this system has no certificate authorities to trust"), "{text}");
    assert!(text.contains("ca-certificates") && text.contains("with_root_certificates"), "{text}");
    // What is missing in the program itself is said first.
    let error = ClientConfig::with_native_roots(&[]).unwrap_err();
    assert!(matches!(error, ConfigError::NoAlpn), "{error:?}");
}
