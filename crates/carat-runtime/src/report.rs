//! The report of this process: shared memory where a folder for it is given, private memory otherwise.

use carat_wire::env;
use carat_wire::runtime::{Field, RUNTIME_MAGIC, RUNTIME_SUFFIX, RuntimeReport};
use std::ffi::CString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

static PRIVATE: RuntimeReport = RuntimeReport::empty();
static SHARED: AtomicPtr<RuntimeReport> = AtomicPtr::new(std::ptr::null_mut());

/// The folder of reports, kept because the environment may be scrubbed.
static FOLDER: OnceLock<CString> = OnceLock::new();

/// The report of this process.
pub(crate) fn report() -> &'static RuntimeReport {
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: a pointer in SHARED came from a mapping of sufficient size that is never removed.
    unsafe { shared.as_ref() }.unwrap_or(&PRIVATE)
}

/// Begins the report of this process; its children call [`begin`].
pub(crate) fn open() {
    if let Some(folder) = std::env::var_os(env::PAGES).filter(|folder| !folder.is_empty())
        && let Ok(folder) = CString::new(folder.as_bytes())
    {
        let _ = FOLDER.set(folder);
    }
    begin();
}

/// Maps a new file for this process, which starts from what the parent's report says.
///
/// Runs in children of threaded parents: no allocation, no lock.
pub(crate) fn begin() {
    let before = report();
    // SAFETY: getpid cannot fail.
    let pid = unsafe { libc::getpid() };
    let report = map(pid).unwrap_or(&PRIVATE);
    report.copy_from(before);
    report.write(Field::Pid, pid as u64);
    report.write(Field::Magic, RUNTIME_MAGIC);
    let shared = if std::ptr::eq(report, &raw const PRIVATE) {
        std::ptr::null_mut()
    } else {
        std::ptr::from_ref(report).cast_mut()
    };
    SHARED.store(shared, Ordering::Release);
}

fn map(pid: libc::pid_t) -> Option<&'static RuntimeReport> {
    let folder = FOLDER.get()?;
    let mut path = [0u8; 512];
    let mut rest = &mut path[..511];
    rest.write_all(folder.as_bytes()).ok()?;
    write!(rest, "/{pid}{RUNTIME_SUFFIX}").ok()?;
    let size = size_of::<RuntimeReport>();
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the path ends with NUL; the descriptor is closed on every way out; the mapping has the size asked for.
    unsafe {
        let file = libc::open(path.as_ptr().cast(), flags, 0o600);
        if file < 0 {
            return None;
        }
        let mapped = if libc::ftruncate(file, size as libc::off_t) == 0 {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, file, 0)
        } else {
            libc::MAP_FAILED
        };
        libc::close(file);
        (mapped != libc::MAP_FAILED).then(|| &*mapped.cast::<RuntimeReport>())
    }
}

/// Says on stderr, in one line and without allocating, what does not work here.
pub(crate) fn complain(problem: &str) {
    let mut line = [0u8; 200];
    let mut rest = &mut line[..];
    // A line that is cut short is still a line.
    let _ = writeln!(rest, "carat: {problem}");
    let unused = rest.len();
    let length = line.len() - unused;
    // SAFETY: the buffer holds that many bytes.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length) };
}
