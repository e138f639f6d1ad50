//! The handler's rules, one test each, without any transport.

use super::*;
use std::time::{Duration, UNIX_EPOCH};

struct Fixture {
    dir: tempfile::TempDir,
    site: Site,
}

impl Fixture {
    fn new(change: impl FnOnce(&mut SiteOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = SiteOptions::default();
        change(&mut options);
        let site = Site::new(dir.path(), options).unwrap();
        Self { dir, site }
    }

    fn with_upload() -> Self {
        Self::new(|options| {
            options.upload = Some(UploadOptions { max_size: 1000, ..UploadOptions::default() });
        })
    }

    fn file(&self, name: &str, data: impl AsRef<[u8]>) -> &Self {
        fs::write(self.dir.path().join(name), data).unwrap();
        self
    }

    fn dir(&self, name: &str) -> &Self {
        fs::create_dir(self.dir.path().join(name)).unwrap();
        self
    }

    fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> (Answer, Vec<u8>) {
        let parts = parts(method, target, headers);
        let answer = self.site.answer(&parts, SystemTime::now());
        let body = body(&answer);
        if method != "HEAD" && answer.headers.contains_key(CONTENT_LENGTH) {
            assert_eq!(answer.headers[CONTENT_LENGTH], body.len().to_string());
        }
        (answer, body)
    }

    fn get(&self, target: &str, headers: &[(&str, &str)]) -> (Answer, Vec<u8>) {
        self.ask("GET", target, headers)
    }

    fn put(&self, target: &str, headers: &[(&str, &str)], data: &[u8]) -> Answer {
        let now = SystemTime::now();
        match self.site.begin_upload(&parts("PUT", target, headers), now) {
            Err(answer) => *answer,
            Ok(mut upload) => {
                for chunk in data.chunks(7) {
                    if let Err(answer) = upload.write(chunk) {
                        return *answer;
                    }
                }
                upload.finish(now)
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn parts(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = http::Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn body(answer: &Answer) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut reader = crate::content::Reader::new(answer.content.clone(), Arc::default());
        let mut out = Vec::new();
        while let Some(block) = reader.next(usize::MAX).await.unwrap() {
            out.extend_from_slice(&block);
        }
        out
    })
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn a_file_comes_whole_with_its_validators() {
    let f = Fixture::new(|_| {});
    let data = vec![7u8; 300_000];
    f.file("big.bin", &data).file("a.txt", "hello");
    let (answer, body) = f.get("/a.txt", &[]);
    assert_eq!(answer.status, 200);
    assert_eq!(body, b"hello");
    assert_eq!(header(&answer, "content-type"), "text/plain; charset=utf-8");
    assert_eq!(header(&answer, "accept-ranges"), "bytes");
    assert_eq!(header(&answer, "cache-control"), "no-cache");
    assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
    assert!(header(&answer, "etag").starts_with('"'));
    assert!(header(&answer, "last-modified").ends_with("GMT"));
    assert!(header(&answer, "date").ends_with("GMT"));
    let (answer, body) = f.get("/big.bin?v=2", &[]);
    assert_eq!((answer.status.as_u16(), body), (200, data));
    assert_eq!(header(&answer, "content-type"), "application/octet-stream");
}

#[test]
fn head_is_get_without_the_body_and_knows_no_ranges() {
    let f = Fixture::new(|_| {});
    f.file("a.txt", "hello");
    let (answer, body) = f.ask("HEAD", "/a.txt", &[("range", "bytes=1-2")]);
    assert_eq!((answer.status.as_u16(), body.len()), (200, 0));
    assert_eq!(header(&answer, "content-length"), "5");
    let (answer, body) = f.ask("HEAD", "/none", &[]);
    assert_eq!((answer.status.as_u16(), body.len()), (404, 0));
}

#[test]
fn an_empty_file_is_an_empty_body() {
    let f = Fixture::new(|_| {});
    f.file("empty", "");
    let (answer, body) = f.get("/empty", &[]);
    assert_eq!((answer.status.as_u16(), body.len()), (200, 0));
    assert_eq!(header(&answer, "content-length"), "0");
    assert_eq!(f.get("/empty", &[("range", "bytes=0-")]).0.status, 416);
}

#[test]
fn ranges_are_answered_with_206_and_unsatisfiable_ones_with_416() {
    let f = Fixture::new(|_| {});
    let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
    f.file("d", &data);
    let (answer, body) = f.get("/d", &[("range", "bytes=100-199")]);
    assert_eq!(answer.status, 206);
    assert_eq!(header(&answer, "content-range"), "bytes 100-199/200000");
    assert_eq!(body, &data[100..200]);
    let (answer, body) = f.get("/d", &[("range", "bytes=100000-")]);
    assert_eq!(header(&answer, "content-range"), "bytes 100000-199999/200000");
    assert_eq!(body, &data[100_000..]);
    let (answer, _) = f.get("/d", &[("range", "bytes=200000-")]);
    assert_eq!(answer.status, 416);
    assert_eq!(header(&answer, "content-range"), "bytes */200000");
    let (answer, body) = f.get("/d", &[("range", "bytes=9-3")]);
    assert_eq!((answer.status.as_u16(), body.len()), (200, data.len()));
}

#[test]
fn separate_ranges_come_as_multipart() {
    let f = Fixture::new(|_| {});
    f.file("d.txt", "0123456789");
    let (answer, body) = f.get("/d.txt", &[("range", "bytes=-2, 0-1")]);
    assert_eq!(answer.status, 206);
    let kind = header(&answer, "content-type");
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let head = "content-type: text/plain; charset=utf-8\r\ncontent-range: bytes";
    assert_eq!(
        String::from_utf8(body).unwrap(),
        format!(
            "--{boundary}\r\n{head} 0-1/10\r\n\r\n01\r\n--{boundary}\r\n{head} 8-9/10\r\n\r\n89\r\n--{boundary}--\r\n"
        )
    );
    assert!(!answer.headers.contains_key(CONTENT_RANGE));
}

#[test]
fn if_range_with_another_version_gets_the_whole_file() {
    let f = Fixture::new(|_| {});
    f.file("d", "0123456789");
    let tag = header(&f.get("/d", &[]).0, "etag").to_owned();
    let ask = |tag: &str| f.get("/d", &[("range", "bytes=5-"), ("if-range", tag)]);
    assert_eq!(ask(&tag).0.status, 206);
    assert_eq!(ask(&tag).1, b"56789");
    assert_eq!(ask("\"other\"").0.status, 200);
    assert_eq!(ask("\"other\"").1, b"0123456789");
}

#[test]
fn a_known_version_is_answered_304_without_body() {
    let f = Fixture::new(|_| {});
    f.file("d", "0123456789");
    let (first, _) = f.get("/d", &[]);
    let (tag, date) = (header(&first, "etag"), header(&first, "last-modified"));
    for condition in [("if-none-match", tag), ("if-modified-since", date)] {
        let (answer, body) = f.get("/d", &[condition]);
        assert_eq!((answer.status.as_u16(), body.len()), (304, 0));
        assert_eq!(header(&answer, "etag"), tag);
        assert!(!answer.headers.contains_key(CONTENT_LENGTH));
        assert!(!answer.headers.contains_key(CONTENT_TYPE));
    }
    assert_eq!(f.get("/d", &[("if-match", "\"x\"")]).0.status, 412);
    // A range of a known version is still "not modified": the precondition comes first.
    let both = [("if-none-match", tag), ("range", "bytes=0-1")];
    assert_eq!(f.get("/d", &both).0.status, 304);
}

#[test]
fn a_directory_without_slash_is_redirected_on_this_host() {
    let f = Fixture::new(|_| {});
    f.dir("sub dir");
    let (answer, _) = f.get("/sub%20dir?x=1", &[]);
    assert_eq!(answer.status, 308);
    assert_eq!(header(&answer, "location"), "/sub%20dir/?x=1");
    f.dir("evil.example");
    let (answer, _) = f.get("//evil.example", &[]);
    assert_eq!(header(&answer, "location"), "/evil.example/");
}

#[test]
fn a_directory_shows_its_index_or_a_listing() {
    let f = Fixture::new(|_| {});
    f.dir("with").dir("without").file("with/index.html", "<p>me").file("without/f", "x");
    let (answer, body) = f.get("/with/", &[]);
    assert_eq!(body, b"<p>me");
    assert_eq!(header(&answer, "content-type"), "text/html; charset=utf-8");
    assert!(answer.headers.contains_key(ETAG));
    let (answer, body) = f.get("/without/", &[]);
    assert!(String::from_utf8(body).unwrap().contains("href=\"./f\""));
    assert!(header(&answer, "content-security-policy").contains("default-src 'none'"));
    let quiet = Fixture::new(|options| options.listing = false);
    assert_eq!(quiet.get("/", &[]).0.status, 403);
}

#[test]
fn traversal_is_400_and_what_is_not_there_is_404() {
    let f = Fixture::new(|_| {});
    f.file("a", "x").file(".secret", "x");
    for target in ["/../a", "/%2e%2e/a", "/a%00", "/..%2fa", "/%zz"] {
        assert_eq!(f.get(target, &[]).0.status, 400, "{target}");
    }
    // A name that nothing has where a backslash is a letter.
    assert_eq!(f.get("/%5c..%5ca", &[]).0.status, if cfg!(unix) { 404 } else { 400 });
    for target in ["/none", "/a/", "/a/b", "/.secret", "/%2esecret"] {
        assert_eq!(f.get(target, &[]).0.status, 404, "{target}");
    }
    let long = format!("/{}", "a".repeat(300));
    assert_eq!(f.get(&long, &[]).0.status, 404);
    let open = Fixture::new(|options| options.hidden = true);
    open.file(".secret", "x");
    assert_eq!(open.get("/.secret", &[]).0.status, 200);
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_root_is_404() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("index.html"), "secret").unwrap();
    let f = Fixture::new(|_| {});
    std::os::unix::fs::symlink(outside.path(), f.dir.path().join("out")).unwrap();
    f.dir("d");
    std::os::unix::fs::symlink(outside.path().join("index.html"), f.dir.path().join("d/index.html")).unwrap();
    assert_eq!(f.get("/out/index.html", &[]).0.status, 404);
    assert_eq!(f.get("/out/", &[]).0.status, 404);
    // An index that leads out is as good as none.
    let (answer, body) = f.get("/d/", &[]);
    assert_eq!(answer.status, 200);
    assert!(!String::from_utf8(body).unwrap().contains("secret"));
}

#[test]
fn other_methods_are_405_with_allow() {
    let f = Fixture::new(|_| {});
    for method in ["POST", "DELETE", "PUT", "TRACE", "BREW"] {
        let (answer, _) = f.ask(method, "/", &[]);
        assert_eq!(answer.status, 405);
        assert_eq!(header(&answer, "allow"), "GET, HEAD, OPTIONS");
    }
    assert_eq!(f.ask("OPTIONS", "*", &[]).0.status, 204);
    assert_eq!(f.put("/a", &[], b"x").status, 405);
    assert!(header(&Fixture::with_upload().ask("OPTIONS", "/", &[]).0, "allow").contains("PUT"));
}

#[test]
fn an_upload_appears_at_once_and_whole() {
    let f = Fixture::with_upload();
    let now = SystemTime::now();
    let mut upload = f.site.begin_upload(&parts("PUT", "/new.txt", &[]), now).unwrap();
    upload.write(b"half").unwrap();
    assert_eq!(f.get("/new.txt", &[]).0.status, 404);
    assert_eq!(upload.received(), 4);
    upload.write(b" whole").unwrap();
    let answer = upload.finish(now);
    assert_eq!(answer.status, 201);
    let (read, body) = f.get("/new.txt", &[]);
    assert_eq!(body, b"half whole");
    assert_eq!(header(&read, "etag"), header(&answer, "etag"));
    assert_eq!(f.put("/new.txt", &[("content-length", "3")], b"two").status, 204);
    assert_eq!(f.get("/new.txt", &[]).1, b"two");
    assert_eq!(f.names(), ["new.txt"]);
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing() {
    let f = Fixture::with_upload();
    f.file("old", "old");
    let now = SystemTime::now();
    let mut upload = f.site.begin_upload(&parts("PUT", "/old", &[]), now).unwrap();
    upload.write(b"new").unwrap();
    drop(upload);
    assert_eq!(f.get("/old", &[]).1, b"old");
    for (length, data) in [("5", &b"four"[..]), ("3", b"four"), ("2000", b""), ("x", b"")] {
        let answer = f.put("/old", &[("content-length", length)], data);
        assert!(answer.status.is_client_error(), "{length}: {}", answer.status);
    }
    assert_eq!(f.put("/old", &[], &[0; 1001]).status, 413);
    assert_eq!(f.put("/old", &[("content-range", "bytes 0-1/5")], b"ab").status, 400);
    assert_eq!(f.get("/old", &[]).1, b"old");
    assert_eq!(f.names(), ["old"]);
}

#[test]
fn uploads_stay_inside_and_need_a_directory() {
    let f = Fixture::with_upload();
    f.dir("d").file("file", "x");
    for (target, status) in [
        ("/../x", 400),
        ("/%2e%2e%2fx", 400),
        ("/.hidden", 404),
        ("/", 409),
        ("/d", 409),
        ("/d/", 409),
        ("/none/x", 409),
        ("/file/x", 409),
        ("/d/x", 201),
    ] {
        assert_eq!(f.put(target, &[], b"x").status, status, "{target}");
    }
}

#[cfg(unix)]
#[test]
fn uploads_follow_links_only_inside() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().unwrap();
    let f = Fixture::with_upload();
    fs::write(outside.path().join("victim"), "untouched").unwrap();
    symlink(outside.path(), f.dir.path().join("out")).unwrap();
    symlink(outside.path().join("victim"), f.dir.path().join("link")).unwrap();
    symlink("nowhere", f.dir.path().join("dangling")).unwrap();
    // What is beyond the link is not disclosed: it makes no difference whether it exists.
    symlink(outside.path().join("none"), f.dir.path().join("gone")).unwrap();
    for target in ["/out/x", "/out/victim", "/out/none/x", "/link", "/gone"] {
        let answer = f.put(target, &[], b"x");
        assert_eq!(answer.status, 403, "{target}");
        assert!(said(&answer).contains("leads out"), "{target}: {}", said(&answer));
    }
    let answer = f.put("/dangling", &[], b"x");
    assert_eq!(answer.status, 403);
    assert!(said(&answer).contains("a link to nothing"), "{}", said(&answer));
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"untouched");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    f.dir("d").file("d/real", "old");
    symlink("d/real", f.dir.path().join("inside")).unwrap();
    symlink("d", f.dir.path().join("directory")).unwrap();
    assert_eq!(f.put("/inside", &[("if-none-match", "*")], b"x").status, 412);
    assert_eq!(f.put("/inside", &[], b"new").status, 204);
    assert!(fs::symlink_metadata(f.dir.path().join("inside")).unwrap().is_symlink());
    assert_eq!(f.get("/d/real", &[]).1, b"new");
    assert_eq!(f.put("/directory", &[], b"x").status, 409);
    assert_eq!(f.put("/directory/made", &[], b"made").status, 201);
    assert_eq!(f.get("/d/made", &[]).1, b"made");
    assert_eq!(fs::read_dir(f.dir.path().join("d")).unwrap().count(), 2);
}

/// A special file, made with a program of the system; `false`, and a line that says so, where that cannot be done.
#[cfg(unix)]
fn made(f: &Fixture, program: &str, name: &str, arguments: &[&str]) -> bool {
    let made = std::process::Command::new(program).arg(f.dir.path().join(name)).args(arguments).output();
    let made = made.is_ok_and(|made| made.status.success());
    if !made {
        println!("skipped: {program} {} cannot be made here", arguments.join(" "));
    }
    made
}

fn said(answer: &Answer) -> String {
    String::from_utf8(body(answer)).unwrap()
}

/// What comes to the address while an upload is under way is not replaced unless that is what was asked for.
#[test]
fn an_upload_that_finds_its_place_taken_says_by_what() {
    let f = Fixture::with_upload();
    let late = |target: &str, headers: &[(&str, &str)], take: &dyn Fn()| {
        let now = SystemTime::now();
        let mut upload = f.site.begin_upload(&parts("PUT", target, headers), now).unwrap();
        upload.write(b"late").unwrap();
        take();
        upload.finish(now)
    };
    let answer = late("/d", &[], &|| {
        f.dir("d");
    });
    assert_eq!(answer.status, 409);
    assert!(said(&answer).contains("a directory at this address"), "{}", said(&answer));
    for (number, value) in ["*", "\"a\""].into_iter().enumerate() {
        let name = format!("f{number}");
        let answer = late(&format!("/{name}"), &[("if-none-match", value)], &|| {
            f.file(&name, "first");
        });
        let expected = if value == "*" { (412, "first") } else { (201, "late") };
        assert_eq!((answer.status.as_u16(), f.get(&format!("/{name}"), &[]).1), (expected.0, expected.1.into()));
    }
    #[cfg(unix)]
    {
        let link = || std::os::unix::fs::symlink("f0", f.dir.path().join("l")).unwrap();
        let answer = late("/l", &[], &link);
        assert_eq!(answer.status, 409);
        assert!(said(&answer).contains("A link has come"), "{}", said(&answer));
        assert_eq!(f.get("/f0", &[]).1, b"first");
    }
}

#[cfg(unix)]
#[test]
fn uploads_never_go_into_devices_pipes_and_sockets() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    let f = Fixture::with_upload();
    let _listener = std::os::unix::net::UnixListener::bind(f.dir.path().join("socket")).unwrap();
    let mut names = vec!["socket"];
    names.extend(made(&f, "mkfifo", "pipe", &[]).then_some("pipe"));
    names.extend(made(&f, "mknod", "device", &["c", "1", "3"]).then_some("device"));
    for name in names {
        let kind = || fs::symlink_metadata(f.dir.path().join(name)).unwrap().file_type();
        let link = format!("to-{name}");
        symlink(name, f.dir.path().join(&link)).unwrap();
        for target in [name, &link] {
            assert_eq!(f.put(&format!("/{target}"), &[], b"x").status, 403, "{target}");
        }
        assert!(kind().is_socket() || kind().is_fifo() || kind().is_char_device());
        // One that comes while the upload is under way.
        let now = SystemTime::now();
        let late = f.site.begin_upload(&parts("PUT", "/late", &[]), now).unwrap();
        fs::rename(f.dir.path().join(name), f.dir.path().join("late")).unwrap();
        assert_eq!(late.finish(now).status, 403, "{name}");
        fs::rename(f.dir.path().join("late"), f.dir.path().join(name)).unwrap();
        assert!(!kind().is_file());
    }
}

#[test]
fn every_listed_name_can_be_fetched() {
    let f = Fixture::new(|_| {});
    let mut names = vec!["a b", "50%", "q?x", "h#y", "semi;colon", "it's", "new\nline", "ü", "a&b", "~", "%2e%2e"];
    if cfg!(unix) {
        names.extend(["back\\slash", "co:lon", "\"quoted\"", "<tag>", "tab\t", "trailing."]);
    }
    for name in &names {
        f.file(name, name);
    }
    let listing = String::from_utf8(f.get("/", &[]).1).unwrap();
    let links: Vec<&str> = listing.split("href=\"./").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(links.len(), names.len());
    for link in links {
        let (answer, body) = f.get(&format!("/{link}"), &[]);
        assert_eq!(answer.status, 200, "{link}");
        assert!(names.iter().any(|name| name.as_bytes() == body), "{link}");
    }
}

#[test]
fn uploads_honour_preconditions_and_no_overwrite() {
    let f = Fixture::with_upload();
    f.file("a", "1");
    assert_eq!(f.put("/a", &[("if-none-match", "*")], b"2").status, 412);
    assert_eq!(f.put("/b", &[("if-none-match", "*")], b"2").status, 201);
    assert_eq!(f.put("/c", &[("if-match", "*")], b"2").status, 412);
    let tag = header(&f.get("/a", &[]).0, "etag").to_owned();
    assert_eq!(f.put("/a", &[("if-match", &tag)], b"2").status, 204);
    assert_eq!(f.put("/a", &[("if-match", &tag)], b"3").status, 412);
    let f = Fixture::new(|options| {
        options.upload = Some(UploadOptions { overwrite: false, fsync: true, ..UploadOptions::default() });
    });
    f.file("a", "1");
    assert_eq!(f.put("/a", &[], b"2").status, 409);
    assert_eq!(f.put("/b", &[], b"2").status, 201);
    let now = SystemTime::now();
    let mut late = f.site.begin_upload(&parts("PUT", "/c", &[]), now).unwrap();
    late.write(b"late").unwrap();
    f.file("c", "first");
    assert_eq!(late.finish(now).status, 409);
    assert_eq!(f.names(), ["a", "b", "c"]);
    assert_eq!(f.get("/c", &[]).1, b"first");
}

#[test]
fn modification_times_out_of_this_world_do_not_hurt() {
    let f = Fixture::new(|_| {});
    f.file("a", "1");
    for time in [UNIX_EPOCH - Duration::from_secs(1 << 33), UNIX_EPOCH + Duration::from_secs(1 << 37)] {
        let file = fs::File::options().write(true).open(f.dir.path().join("a")).unwrap();
        if file.set_modified(time).is_ok() {
            assert_eq!(f.get("/a", &[]).0.status, 200);
            assert_eq!(f.get("/", &[]).0.status, 200);
        }
    }
}

#[test]
fn only_a_directory_can_be_a_root() {
    let f = Fixture::new(|_| {});
    f.file("a", "1");
    assert!(Site::new(f.dir.path().join("a"), SiteOptions::default()).is_err());
    assert!(Site::new(f.dir.path().join("none"), SiteOptions::default()).is_err());
}
