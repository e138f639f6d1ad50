//! Lists limited to the room of a page, with the number of entries left out.

/// The first of what there is.
pub(super) struct Limited<T> {
    /// Those that are shown.
    pub(super) shown: Vec<T>,
    /// How many are not.
    pub(super) more: usize,
}

impl<T> Limited<T> {
    /// At most so many.
    pub(super) fn new(all: impl IntoIterator<Item = T>, most: usize) -> Limited<T> {
        let mut all = all.into_iter();
        Limited { shown: all.by_ref().take(most).collect(), more: all.count() }
    }
}

/// " The first 8 of 11 choices are shown."; empty if all are.
pub(super) fn first_of(most: usize, all: usize, what: &str) -> String {
    if all > most { format!(" The first {most} of {all} {what}s are shown.") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_counted() {
        let some = Limited::new(0..5, 3);
        assert_eq!((some.shown, some.more), (vec![0, 1, 2], 2));
        assert_eq!(Limited::new(0..3, 3).more, 0);
        assert_eq!(first_of(8, 11, "choice"), " The first 8 of 11 choices are shown.");
        assert_eq!(first_of(8, 8, "choice"), "");
    }
}
