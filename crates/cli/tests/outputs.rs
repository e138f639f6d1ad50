//! Destinations of data: pipes, devices, links, directories, descriptors, and a stdout that cannot be written.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use crate::common;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Place, Server, finish, run, text, thalweg, until};

/// Larger than the buffer of a pipe and of the program.
const SIZE: u64 = 5_000_000;

/// A site with one file, `big`, and its server.
fn scene() -> (Place, Server) {
    let place = Place::new();
    place.add("big", SIZE);
    let server = Server::start(&place.path("site"), &[]);
    (place, server)
}

/// Makes a special file in the test's own directory; says so when that is not possible here.
fn made(program: &str, path: &Path, arguments: &[&str]) -> bool {
    let made = Command::new(program).arg(path).args(arguments).output().is_ok_and(|made| made.status.success());
    if !made {
        println!("skipped: {program} {} cannot be made here", arguments.join(" "));
    }
    made
}

/// A device of the test's own, with these numbers, that can be written to.
fn device(path: &Path, minor: &str) -> bool {
    if !made("mknod", path, &["c", "1", minor]) {
        return false;
    }
    let opened = File::options().write(true).open(path).is_ok();
    if !opened {
        println!("skipped: device nodes may not be opened here");
    }
    opened
}

fn content(place: &Place, name: &str) -> Vec<u8> {
    fs::read(place.path("site").join(name)).unwrap()
}

fn names(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.directory.path()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_pipe_gets_every_byte_and_stays_a_pipe() {
    let (place, server) = scene();
    let pipe = place.path("pipe");
    if !made("mkfifo", &pipe, &[]) {
        return;
    }
    let reading = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    let done = run(&["get", "--resume", "--pin", &server.pin, "-o", &place.arg("pipe"), &server.url("big")]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(reading.join().unwrap() == content(&place, "big"));
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(names(&place), ["pipe", "site"]);
    let told = text(&done.stderr);
    assert!(told.contains("is a pipe and written from its beginning"), "{told}");
}

#[test]
fn a_device_is_written_in_place() {
    let (place, server) = scene();
    // As null(4) and full(4).
    if !device(&place.path("null"), "3") || !device(&place.path("full"), "7") {
        return;
    }
    let done = run(&["get", "--pin", &server.pin, "-o", &place.arg("null"), &server.url("big")]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let done = run(&["get", "--pin", &server.pin, "-o", &place.arg("full"), &server.url("big")]);
    assert_eq!(done.status.code(), Some(1));
    let told = text(&done.stderr);
    assert!(told.contains("make room") && told.contains("full"), "{told}");
    for name in ["null", "full"] {
        assert!(fs::symlink_metadata(place.path(name)).unwrap().file_type().is_char_device());
    }
    assert_eq!(names(&place), ["full", "null", "site"]);
}

#[test]
fn a_link_stays_a_link() {
    let (place, server) = scene();
    fs::create_dir(place.path("elsewhere")).unwrap();
    symlink("elsewhere/target", place.path("link")).unwrap();
    // First a link to nothing, then one to a file.
    for _ in 0..2 {
        let done = run(&["get", "--pin", &server.pin, "-o", &place.arg("link"), &server.url("big")]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert!(fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
        assert!(fs::read(place.path("elsewhere/target")).unwrap() == content(&place, "big"));
    }
    assert_eq!(names(&place), ["elsewhere", "link", "site"]);
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 1);
}

#[test]
fn descriptors_are_written_where_they_are() {
    let (place, server) = scene();
    let url = server.url("big");
    for name in ["/dev/stdout", "/dev/fd/1", "-"] {
        let done = run(&["get", "--pin", &server.pin, "-o", name, &url]);
        assert!(done.status.success(), "{name}: {}", text(&done.stderr));
        assert!(done.stdout == content(&place, "big"), "{name}");
        // What a shell has written before stays, and what it writes after comes after.
        let mut file = File::create(place.path("all")).unwrap();
        file.write_all(b"before ").unwrap();
        let mut command = thalweg(&["get", "--pin", &server.pin, "-o", name, &url]);
        let child = command.stdout(file.try_clone().unwrap()).stderr(Stdio::null()).spawn();
        assert!(common::wait(&mut child.unwrap()).success());
        file.write_all(b" after").unwrap();
        let expected = [b"before ", content(&place, "big").as_slice(), b" after"].concat();
        assert!(fs::read(place.path("all")).unwrap() == expected, "{name}");
    }
    assert_eq!(names(&place), ["all", "site"]);
}

#[test]
fn a_command_of_the_shell_reads_what_is_fetched() {
    let (place, server) = scene();
    let script = format!(
        "{} get -q --pin {} -o >(cat >{}) {}",
        env!("CARGO_BIN_EXE_thalweg"),
        server.pin,
        place.arg("copy"),
        server.url("big")
    );
    let Ok(child) = Command::new("bash").args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    else {
        println!("skipped: there is no bash here");
        return;
    };
    let done = finish(child);
    assert!(done.status.success(), "{}", text(&done.stderr));
    // The shell does not wait for such a command.
    until("the copy", || place.size("copy") == Some(SIZE));
    assert!(fs::read(place.path("copy")).unwrap() == content(&place, "big"));
}

#[test]
fn a_directory_is_refused_before_anything_is_asked() {
    let place = Place::new();
    // Nobody listens there: whoever asks says that.
    let done = run(&["get", "--insecure", "-o", &place.arg("site"), "https://127.0.0.1:1/x"]);
    assert_eq!(done.status.code(), Some(2));
    let told = text(&done.stderr);
    assert!(told.contains("is a directory") && told.contains("--dir") && !told.contains("connect"), "{told}");
    fs::create_dir_all(place.path("down/x")).unwrap();
    let done = run(&["get", "--insecure", "--dir", &place.arg("down"), "https://127.0.0.1:1/x"]);
    let told = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1));
    assert!(told.contains("is a directory") && !told.contains("connect"), "{told}");
}

#[test]
fn the_directory_for_files_is_made() {
    let place = Place::new();
    place.add("a\\b", 10);
    let server = Server::start(&place.path("site"), &[]);
    // As the listing has it.
    let url = server.url("a%5Cb");
    let done = run(&["get", "--pin", &server.pin, "--dir", &place.arg("new/deep"), &url]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(place.size("new/deep/a\\b"), Some(10));
    let done = run(&["get", "--pin", &server.pin, "--dir", &place.arg("new/deep/a\\b"), &url]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("no directory"), "{}", text(&done.stderr));
}

#[test]
fn a_url_that_cannot_be_used_says_why() {
    for (url, words) in [
        ("http://localhost/x", "write https://"),
        ("http://localhost/", "write https://"),
        ("https://localhost:port/x", "the port must be"),
        ("https://", "the host is missing"),
        ("https://a b/x", "not a URL"),
        ("https://localhost/", "give one with -o"),
    ] {
        let done = run(&["get", url]);
        assert_eq!(done.status.code(), Some(2), "{url}");
        let told = text(&done.stderr);
        assert!(told.contains(words), "{url}: {told}");
        assert_eq!(told.contains("-o"), words.contains("-o"), "{url}: {told}");
    }
}

/// Data that nobody got are a failure, whichever command had them.
#[test]
fn a_full_stdout_is_a_failure() {
    let place = Place::new();
    place.add("page", 10_000);
    let server = Server::start(&place.path("site"), &[]);
    let full = place.path("full");
    if !device(&full, "7") {
        return;
    }
    let (out, url) = (place.arg("page"), server.url("page"));
    let get = ["get", "--json", "--pin", &server.pin, "-o", &out, &url];
    for arguments in
        [&get[..], &["policies"], &["lab", "list", "--keys"], &["completions", "bash"], &["man"], &["--help"]]
    {
        let stdout = File::options().write(true).open(&full).unwrap();
        let mut child = thalweg(arguments).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(common::wait(&mut child).code(), Some(1), "{arguments:?}: {told}");
        assert_eq!(told.matches("cannot write to standard output").count(), 1, "{arguments:?}: {told}");
    }
    // The file itself has arrived.
    assert_eq!(place.size("page"), Some(10_000));
}

#[test]
fn shells_and_man_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = run(&["completions", shell]);
        assert!(done.status.success() && text(&done.stdout).contains("limit-rate"), "{shell}");
    }
    for command in ["", "get", "serve", "lab", "lab run", "perf client"] {
        let mut arguments = vec!["man"];
        arguments.extend(command.split_whitespace());
        let done = run(&arguments);
        assert!(done.status.success(), "{command}: {}", text(&done.stderr));
        let (page, name) = (text(&done.stdout), arguments[1..].join("-"));
        let title = if name.is_empty() { "thalweg".to_owned() } else { format!("thalweg-{name}") };
        assert!(page.contains(&format!(".TH {title} 1")), "{command}: {}", &page[..200.min(page.len())]);
    }
}

#[test]
fn an_interrupt_does_not_wait_for_whoever_reads_a_pipe() {
    use std::os::unix::process::ExitStatusExt as _;
    let (place, server) = scene();
    let pipe = place.path("pipe");
    if !made("mkfifo", &pipe, &[]) {
        return;
    }
    // Nobody opens the pipe in the first round, and nobody reads more than a byte of it in the second.
    for opened in [false, true] {
        // Opening it does not wait for the program, which may fail before.
        let reader = opened.then(|| {
            let mut options = File::options();
            options.read(true).custom_flags(libc::O_NONBLOCK);
            options.open(&pipe).unwrap()
        });
        let arguments = ["get", "--resume", "--pin", &server.pin, "-o", &place.arg("pipe"), &server.url("big")];
        let mut child = thalweg(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut told = String::new();
        // Reported before the pipe is opened.
        while !told.contains("is a pipe") {
            assert!(stderr.read_line(&mut told).unwrap() > 0, "{told}");
        }
        if let Some(mut reader) = reader.as_ref() {
            until("the first byte", || reader.read(&mut [0]).is_ok_and(|read| read == 1));
        }
        common::signal(&child, "INT");
        stderr.read_to_string(&mut told).unwrap();
        assert_eq!(common::wait(&mut child).signal(), Some(2), "{told}");
        assert!(told.contains("stopped"), "{told}");
    }
}
