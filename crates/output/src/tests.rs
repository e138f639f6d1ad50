use super::*;

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_regular_file_is_replaced_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    write(&path, b"one").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one");
    write(&path, b"2").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"2");
    let failed = write_with(&path, |file| {
        file.write_all(b"half")?;
        Err(io::Error::other("the source ended"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "the source ended");
    assert_eq!(fs::read(&path).unwrap(), b"2");
    assert_eq!(names(directory.path()), ["f"]);
}

#[test]
fn a_name_may_be_as_long_as_the_file_system_allows() {
    let directory = tempfile::tempdir().unwrap();
    let name = "n".repeat(255);
    if fs::write(directory.path().join(&name), "").is_err() {
        println!("skipped: names may not have 255 bytes here");
        return;
    }
    write(&directory.path().join(&name), b"x").unwrap();
    assert_eq!(names(directory.path()), [name]);
}

#[test]
fn a_directory_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("f/");
    for path in [directory.path(), &file] {
        assert_eq!(Place::of(path).unwrap_err().kind(), io::ErrorKind::IsADirectory, "{path:?}");
        assert_eq!(write(path, b"x").unwrap_err().kind(), io::ErrorKind::IsADirectory, "{path:?}");
    }
    assert_eq!(write(&directory.path().join("none/f"), b"x").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(names(directory.path()).is_empty());
}

#[cfg(unix)]
mod unix {
    use std::io::{Read as _, Seek as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
    use std::process::Command;

    use super::*;

    /// Makes a special file with a program of the system; says so when that is not possible here.
    fn made(program: &str, path: &Path, arguments: &[&str]) -> bool {
        let made = Command::new(program).arg(path).args(arguments).output().is_ok_and(|made| made.status.success());
        if !made {
            println!("skipped: {program} {} cannot be made here", arguments.join(" "));
        }
        made
    }

    #[test]
    fn links_stay_links_and_their_target_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("d")).unwrap();
        symlink("d/target", path("to-nothing")).unwrap();
        symlink(path("to-nothing"), path("absolute")).unwrap();
        for content in ["one", "two"] {
            write(&path("absolute"), content.as_bytes()).unwrap();
            assert!(fs::symlink_metadata(path("absolute")).unwrap().is_symlink());
            assert!(fs::symlink_metadata(path("to-nothing")).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(path("d/target")).unwrap(), content);
        }
        assert_eq!(names(&path("d")), ["target"]);
        symlink("d", path("to-directory")).unwrap();
        assert_eq!(Place::of(&path("to-directory")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        symlink("loop", path("loop")).unwrap();
        assert!(write(&path("loop"), b"x").is_err());
        assert!(fs::symlink_metadata(path("loop")).unwrap().is_symlink());
    }

    #[test]
    fn permissions_survive_and_what_is_private_is_the_owner_s() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        write_private(&path, b"secret").unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Nobody else can read it before.
        let replace = |file: &mut File| {
            assert_eq!(file.metadata()?.mode() & 0o777, 0o600);
            file.write_all(b"x")
        };
        write_with(&path, replace).unwrap();
        assert_eq!(mode(), 0o640);
    }

    #[test]
    fn a_pipe_is_written_in_place() {
        let directory = tempfile::tempdir().unwrap();
        // A pipe for each: a program that another test starts at this moment may hold the end that the first reader
        // had, and what is written to it would be lost with it.
        let [pipe, linked, link] = ["pipe", "linked", "link"].map(|name| directory.path().join(name));
        if !made("mkfifo", &pipe, &[]) || !made("mkfifo", &linked, &[]) {
            return;
        }
        symlink("linked", &link).unwrap();
        for (name, pipe) in [(&pipe, &pipe), (&link, &linked)] {
            let reading = std::thread::spawn({
                let pipe = pipe.clone();
                move || fs::read(pipe).unwrap()
            });
            write(name, b"through").unwrap();
            assert_eq!(reading.join().unwrap(), b"through");
        }
        for pipe in [&pipe, &linked] {
            assert!(fs::symlink_metadata(pipe).unwrap().file_type().is_fifo());
        }
        assert_eq!(names(directory.path()), ["link", "linked", "pipe"]);
    }

    #[test]
    fn a_device_stays_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let (null, full) = (directory.path().join("null"), directory.path().join("full"));
        // Nodes of our own with the numbers of null(4) and full(4).
        if !made("mknod", &null, &["c", "1", "3"]) || !made("mknod", &full, &["c", "1", "7"]) {
            return;
        }
        let Ok(Place::InPlace(place)) = Place::of(&null) else { panic!("not in place") };
        assert_eq!(place.kind().to_string(), "a device");
        if place.open().is_err() {
            println!("skipped: device nodes may not be opened in {}", directory.path().display());
            return;
        }
        write(&null, b"gone").unwrap();
        assert_eq!(write(&full, b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        for path in [&null, &full] {
            assert!(fs::symlink_metadata(path).unwrap().file_type().is_char_device());
        }
        assert_eq!(names(directory.path()), ["full", "null"]);
    }

    #[test]
    fn a_socket_is_connected_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        write(&path, b"hello").unwrap();
        let mut heard = String::new();
        listener.accept().unwrap().0.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "hello");
        drop(listener);
        assert_eq!(write(&path, b"x").unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    }

    /// What is in a file that a shell has opened for a command stays.
    #[test]
    #[cfg(target_os = "linux")]
    fn an_open_descriptor_is_written_at_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let mut file =
            File::options().read(true).write(true).create_new(true).open(directory.path().join("f")).unwrap();
        file.write_all(b"head ").unwrap();
        let number = file.as_raw_fd();
        for name in [format!("/dev/fd/{number}"), format!("/proc/self/fd/{number}")] {
            let place = Place::of(name.as_ref()).unwrap();
            let Place::InPlace(place) = place else { panic!("{place:?}") };
            assert_eq!(place.kind(), OutputKind::Descriptor(number as u32));
            write(name.as_ref(), b"tail ").unwrap();
        }
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "head tail tail ");
        let (mut reader, writer) = io::pipe().unwrap();
        write(format!("/dev/fd/{}", writer.as_raw_fd()).as_ref(), b"piped").unwrap();
        drop(writer);
        text.clear();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "piped");
        let (one, _two) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = write(format!("/dev/fd/{}", one.as_raw_fd()).as_ref(), b"x").unwrap_err();
        assert!(error.to_string().contains("/dev/stdout"), "{error}");
        let error = write("/dev/fd/987654".as_ref(), b"x").unwrap_err();
        assert!(error.to_string().contains("no such descriptor"), "{error}");
        assert_eq!(names(directory.path()), ["f"]);
    }
}
