//! Processes in namespaces of their own: how they are made, told, and waited for.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd};

/// A process that was started here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pid(pub(crate) i32);

/// How a process ended, as a shell says it: its exit code, or 128 and the number of the signal.
fn status_of(raw: i32) -> u8 {
    let code = if libc::WIFSIGNALED(raw) { 128 + libc::WTERMSIG(raw) } else { libc::WEXITSTATUS(raw) };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Starts a process in new namespaces for network, processes and mounts, and if `user` is set for users as well. It
/// runs `child`, as the first process of its namespace, and ends with it.
///
/// The caller must be the only thread of its process: the child has a copy of everything, locks that other threads hold
/// included.
///
/// # Errors
/// When the system does not allow it.
pub(crate) fn start_in_namespaces(user: bool, child: impl FnOnce()) -> io::Result<Pid> {
    let mut flags = libc::CLONE_NEWNET | libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::SIGCHLD;
    if user {
        flags |= libc::CLONE_NEWUSER;
    }
    // SAFETY: without a stack this is a fork, and the caller is the only thread, so that the child finds everything as
    // it was left. Where flags come second (s390x), the call fails.
    let result = unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0, 0, 0, 0) };
    match i32::try_from(result).unwrap_or(-1) {
        0 => {
            // A panic must not run on into the caller's code.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(ended.is_err())) }
        }
        pid => super::check(pid).map(Pid),
    }
}

/// Has the kernel kill the calling process when the thread that started it ends.
pub(crate) fn die_with_parent() {
    // SAFETY: takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
}

/// Closes every descriptor except standard input, output and error, and this one; returns it under its new number.
///
/// # Errors
/// What the system says.
pub(crate) fn close_others(keep: OwnedFd) -> io::Result<OwnedFd> {
    const PLACE: i32 = 3;
    // Not to be dropped: its number is closed with all others below.
    let raw = keep.into_raw_fd();
    if raw != PLACE {
        // SAFETY: whoever owned that number in this process is never used again: the process does nothing but what
        // follows, and ends without dropping anything of its parent's.
        super::check(unsafe { libc::dup3(raw, PLACE, libc::O_CLOEXEC) })?;
    }
    // SAFETY: as above, it is ours now.
    let kept = unsafe { OwnedFd::from_raw_fd(PLACE) };
    // SAFETY: takes no pointer; see above for who owned them.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, PLACE + 1, u32::MAX, 0) };
    if closed != 0 {
        for fd in PLACE + 1..1024 {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        }
    }
    Ok(kept)
}

/// Signals that reach the calling thread through this descriptor from now on, and in no other way.
///
/// # Errors
/// What the system says.
pub(crate) fn catch_signals(signals: &[i32]) -> io::Result<File> {
    // SAFETY: the set lives through the calls, which fill and read it.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        let raw = super::check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(File::from_raw_fd(raw))
    }
}

/// A signal that came.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Signal {
    pub(crate) number: i32,
    /// Whether the terminal sent it, to all that run in the foreground.
    pub(crate) from_terminal: bool,
}

/// The next signal that came, if one did.
pub(crate) fn next_signal(signals: &File) -> Option<Signal> {
    let mut info = mem::MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    let size = mem::size_of::<libc::signalfd_siginfo>();
    // SAFETY: the buffer is as large as it says.
    let read = unsafe { libc::read(signals.as_raw_fd(), info.as_mut_ptr().cast(), size) };
    if usize::try_from(read) != Ok(size) {
        return None;
    }
    // SAFETY: zeroed and then written by the kernel; any bits are valid.
    let info = unsafe { info.assume_init() };
    let number = i32::try_from(info.ssi_signo).ok()?;
    Some(Signal { number, from_terminal: info.ssi_code == libc::SI_KERNEL })
}

/// Sends a signal. That the process has ended is no error.
pub(crate) fn kill(pid: Pid, signal: i32) {
    // SAFETY: takes no pointer.
    unsafe { libc::kill(pid.0, signal) };
}

/// Waits for the end of a process.
pub(crate) fn wait_for(pid: Pid) -> u8 {
    let mut status = 0;
    loop {
        // SAFETY: the status lives through the call.
        let result = unsafe { libc::waitpid(pid.0, &raw mut status, 0) };
        if result == pid.0 {
            return status_of(status);
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return u8::MAX;
        }
    }
}

/// Any child that has ended, and how; `None` if none has.
pub(crate) fn reap() -> Option<(Pid, u8)> {
    let mut status = 0;
    // SAFETY: the status lives through the call.
    let result = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (result > 0).then(|| (Pid(result), status_of(status)))
}

/// Mounts something, or changes a mount: see mount(2).
///
/// # Errors
/// What the system says.
pub(crate) fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let [source, target, kind] = [source, target, kind].map(CString::new);
    let (source, target, kind) = (source?, target?, kind?);
    // SAFETY: the strings live through the call.
    let result = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
    super::check(result).map(|_| ())
}

/// Takes a mount away.
///
/// # Errors
/// What the system says.
pub(crate) fn unmount(target: &str) -> io::Result<()> {
    let target = CString::new(target)?;
    // SAFETY: the string lives through the call.
    super::check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(|_| ())
}

/// Real user and group of the caller.
pub(crate) fn user_and_group() -> (u32, u32) {
    // SAFETY: take no pointer and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Two ends over which processes send each other messages, and descriptors with them.
///
/// # Errors
/// What the system says.
pub(crate) fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array has two places, which are two new descriptors then.
    unsafe {
        super::check(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Sends a message, with a descriptor if there is one.
///
/// # Errors
/// What the system says.
pub(crate) fn send_message(channel: BorrowedFd<'_>, text: &[u8], with: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut piece = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    let mut control = Control([0; 32]);
    // SAFETY: a msghdr of zeros is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    if let Some(with) = with {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: the buffer is aligned for a header and has room for it and for a descriptor.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(mem::size_of::<i32>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<i32>() as u32) as _;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(with.as_raw_fd());
        }
    }
    // SAFETY: everything that the message points to lives through the call, and the kernel only reads it.
    super::check_length(unsafe { libc::sendmsg(channel.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })?;
    Ok(())
}

/// Waits for a message; empty if the other end has been closed.
///
/// # Errors
/// What the system says.
pub(crate) fn receive_message(channel: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut text = vec![0u8; 4096];
    let mut piece = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    let mut control = Control([0; 32]);
    // SAFETY: a msghdr of zeros is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let length = loop {
        // SAFETY: everything that the message points to lives through the call.
        let received = unsafe { libc::recvmsg(channel.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        match super::check_length(received) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The other end has been closed with something unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break 0,
            other => break other?,
        }
    };
    text.truncate(length);
    // SAFETY: the kernel has filled in the message, whose control buffer is still there; a descriptor that came is new
    // and nobody else's.
    let with = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_descriptor =
            !header.is_null() && ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        is_descriptor.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()))
    };
    Ok((text, with))
}

/// Room for a descriptor as ancillary data, aligned for its header.
#[repr(align(8))]
struct Control([u8; 32]);

/// Starts a program in which no signal is blocked.
///
/// # Errors
/// When there is no such program, or it cannot be run.
pub(crate) fn spawn(command: &mut std::process::Command) -> io::Result<Pid> {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: between fork and exec only these two calls are made, which are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let mut none: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            Ok(())
        });
    }
    // It is waited for by `reap`, as all children are.
    let child = command.spawn()?;
    Ok(Pid(i32::try_from(child.id()).unwrap_or(0)))
}

/// Another descriptor of standard error, for what would otherwise write to standard output.
///
/// # Errors
/// What the system says.
pub(crate) fn standard_error() -> io::Result<OwnedFd> {
    use std::os::fd::AsFd as _;
    io::stderr().as_fd().try_clone_to_owned()
}
