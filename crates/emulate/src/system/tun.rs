//! TUN devices: network devices whose packets a program reads and writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// Makes a device of this name in the caller's network namespace; returns its descriptor, which does not block, and its
/// number. Offloads are off: every packet is whole and has its checksums.
///
/// # Errors
/// When the system does not allow it.
pub(crate) fn open(name: &str) -> io::Result<(File, u32)> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
    // SAFETY: zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request lives through the call, and is what TUNSETIFF takes.
    super::check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
    // SAFETY: takes an int by value.
    super::check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, 0) })?;
    // SAFETY: the name ends with a zero.
    let index = unsafe { libc::if_nametoindex(request.ifr_name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok((file, index)) }
}
