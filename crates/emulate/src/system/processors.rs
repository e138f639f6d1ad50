//! Which processors threads and the kernel's receive processing run on.

use std::fmt::Write as _;
use std::{io, mem};

/// How many a set of the system has room for. A machine with more is treated as one whose processors are not known.
const MOST: usize = libc::CPU_SETSIZE as usize;
/// Processors in a word of a mask in text.
const WORD: usize = 32;

/// The processors of a machine, parted between the emulator and the programs at the ends of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parted {
    /// The one that carries packets.
    pub(crate) carrier: usize,
    /// The others, as the kernel writes sets (cpumask: words of 32 bits in hexadecimal, the highest first).
    pub(crate) others: String,
}

impl Parted {
    /// Parts those that this process may run on. `None` if there is only one.
    pub(crate) fn new() -> Option<Parted> {
        Parted::of(&allowed())
    }

    /// Takes the last: the first is the one that most devices of a machine interrupt.
    fn of(processors: &[usize]) -> Option<Parted> {
        let (carrier, others) = processors.split_last()?;
        let words = others.last()? / WORD + 1;
        let mut text = String::new();
        for word in (0..words).rev() {
            let bits =
                others.iter().filter(|one| **one / WORD == word).fold(0u32, |bits, one| bits | 1 << (one % WORD));
            let _ = write!(text, "{}{bits:08x}", if text.is_empty() { "" } else { "," });
        }
        Some(Parted { carrier: *carrier, others: text })
    }
}

/// The processors that the calling thread may run on, in their order.
fn allowed() -> Vec<usize> {
    // SAFETY: the set lives through the calls, which fill and read it; zeroed it is empty.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        if libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) != 0 {
            return Vec::new();
        }
        (0..MOST).filter(|one| libc::CPU_ISSET(*one, &set)).collect()
    }
}

/// Keeps the calling thread on one processor.
///
/// # Errors
/// What the system says.
pub(crate) fn stay_on(processor: usize) -> io::Result<()> {
    // SAFETY: the set lives through the calls, which fill and read it; zeroed it is empty.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        if processor < MOST {
            libc::CPU_SET(processor, &mut set);
        }
        super::check(libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set)).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_carrier_gets_the_last_and_the_ends_all_others() {
        let parted = |of: &[usize]| Parted::of(of).map(|parted| (parted.carrier, parted.others));
        assert_eq!(parted(&[]), None);
        assert_eq!(parted(&[3]), None, "one processor cannot be parted");
        assert_eq!(parted(&[0, 1]), Some((1, "00000001".into())));
        assert_eq!(parted(&[1, 2, 5]), Some((5, "00000006".into())));
        assert_eq!(parted(&[0, 32, 63, 64]), Some((64, "80000001,00000001".into())));
        assert_eq!(parted(&[0, 70, 71]), Some((71, "00000040,00000000,00000001".into())));
    }

    #[test]
    fn a_thread_stays_where_it_is_told_to() {
        let before = allowed();
        let last = *before.last().expect("this thread runs somewhere");
        let during = std::thread::spawn(move || stay_on(last).map(|()| allowed())).join();
        assert_eq!(during.expect("it ends").expect("it may choose"), [last]);
        assert_eq!(allowed(), before, "others may go on where they will");
        assert!(stay_on(MOST).is_err(), "nowhere");
    }
}
