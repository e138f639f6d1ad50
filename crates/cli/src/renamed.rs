//! Former names of options, which are accepted with a warning.

use std::ffi::{OsStr, OsString};

/// An option's former name, and the one that it has now.
pub type Renamed = (&'static str, &'static str);

/// Options that have another name in this version.
const OPTIONS: [Renamed; 1] = [("--known-paths", "--saved-paths")];

/// The arguments with options under the names that they have now, and those that had to be renamed, in the order of the
/// command line. What stands behind `--` is no option.
pub fn options(args: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<Renamed>) {
    let (mut found, mut are_options) = (Vec::new(), true);
    let renamed = args.into_iter().map(|arg| {
        are_options &= arg != "--";
        let of = |(former, now): Renamed| {
            // A value need not be UTF-8.
            let value = match arg.as_encoded_bytes().strip_prefix(former.as_bytes())? {
                [] => "".into(),
                [b'=', ..] => after(&arg, former.len()),
                _ => return None,
            };
            let mut anew = OsString::from(now);
            anew.push(value);
            Some(((former, now), anew))
        };
        let Some((option, anew)) = OPTIONS.into_iter().filter(|_| are_options).find_map(of) else { return arg };
        found.push(option);
        anew
    });
    (renamed.collect(), found)
}

/// What stands in an argument from a place on, before which there is ASCII only.
fn after(arg: &OsStr, at: usize) -> OsString {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        OsStr::from_bytes(&arg.as_bytes()[at..]).to_owned()
    }
    #[cfg(not(unix))]
    {
        arg.to_string_lossy()[at..].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_name_becomes_the_present_one_where_options_are() {
        let line = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (before, after, count) in [
            ("thalweg get --known-paths f url", "thalweg get --saved-paths f url", 1),
            ("thalweg get --known-paths=f url", "thalweg get --saved-paths=f url", 1),
            ("thalweg get --saved-paths f url", "thalweg get --saved-paths f url", 0),
            ("thalweg get --known-pathsf url", "thalweg get --known-pathsf url", 0),
            ("thalweg put -- --known-paths url", "thalweg put -- --known-paths url", 0),
        ] {
            let (args, renamed) = options(line(before));
            assert_eq!((args, renamed.len()), (line(after), count), "{before}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_no_utf_8_stays() {
        use std::os::unix::ffi::OsStrExt as _;
        let arg = |text: &[u8]| OsStr::from_bytes(text).to_owned();
        let (args, renamed) = options([arg(b"--known-paths=\xff")]);
        assert_eq!((args, renamed.len()), (vec![arg(b"--saved-paths=\xff")], 1));
    }
}
