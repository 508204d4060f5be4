//! The page of this process: a file in the directory that carat names, mapped until the process ends.

use carat_ruby::clock::now_ns;
use carat_wire::page::{FRONT_BYTES, MAGIC, PAGE_BYTES, Page, PageHeader, UNKNOWN, VERSION};
use std::ffi::{CStr, c_int, c_void};
use std::io::{self, Write};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The mapping. Its address never changes: a forked child maps its own file at the same address.
static PAGE: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());
static DIRECTORY: OnceLock<Box<[u8]>> = OnceLock::new();
/// Bytes from the start of the mapping for which the file system is known to have room.
static ROOM: AtomicUsize = AtomicUsize::new(0);
/// The same from the start of the sampled allocations.
static ALLOCATIONS_ROOM: AtomicUsize = AtomicUsize::new(0);
/// Where those are.
const ALLOCATIONS: usize = offset_of!(Page, allocations);
/// The unit in which the file system provides room; larger units are probed more than once.
const UNIT: usize = 4096;

/// The page, if there is one.
pub(crate) fn get() -> Option<&'static Page> {
    // SAFETY: the pointer is null or that of a mapping of `PAGE_BYTES` that is never unmapped, only replaced by another at
    // the same address. A page consists of atomics, and zeros are a valid page.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

/// Creates and maps the page of this process.
pub(crate) fn create(directory: &Path) -> io::Result<&'static Page> {
    let directory = DIRECTORY.get_or_init(|| directory.as_os_str().as_bytes().into());
    let start_time = read_start_time();
    let file = open(directory, start_time).ok_or_else(io::Error::last_os_error)?;
    let mapped = map(ptr::null_mut(), Some(file)).ok_or_else(io::Error::last_os_error)?;
    forget_room();
    if !has_room(mapped, FRONT_BYTES) {
        // SAFETY: the mapping made above, which nothing refers to yet.
        unsafe { libc::munmap(mapped.cast(), PAGE_BYTES) };
        return Err(io::Error::other("the file system is full; free some space in TMPDIR"));
    }
    PAGE.store(mapped, Ordering::Release);
    let page = get().ok_or_else(|| io::Error::other("no page"))?;
    page.header.allocator.store(0, Ordering::Relaxed);
    fill_in(&page.header, start_time, 0);
    Ok(page)
}

/// In a forked child, before `fork` returns: replaces the parent's page by one of its own.
///
/// It calls only functions that are safe there (signal-safety(7)). If no file can be created, private memory takes its
/// place, so that nothing is ever written into the parent's page. Returns whether there is a file.
pub(crate) fn replace_in_child(page: &'static Page) -> bool {
    let inherited = copy_words(&page.header);
    let generation = page.header.fork_generation.load(Ordering::Relaxed);
    let start_time = read_start_time();
    let file = DIRECTORY.get().and_then(|directory| open(directory, start_time));
    let place = ptr::from_ref(page).cast_mut();
    forget_room();
    let in_file = file.is_some() && map(place, file).is_some() && has_room(place, FRONT_BYTES);
    if !in_file && map(place, None).is_none() {
        PAGE.store(ptr::null_mut(), Ordering::Release);
        return false;
    }
    paste_words(&page.header, &inherited);
    fill_in(&page.header, start_time, generation.wrapping_add(1));
    in_file
}

/// Whether this many bytes from the start of the page can be written.
///
/// The file is sparse. If its file system is full, the first write into a hole raises SIGBUS, which would kill the server.
/// A write by the kernel into such a hole fails instead (EFAULT, read(2)). So this has the kernel write zeros into the
/// holes. It calls only functions that are safe in a signal handler.
pub(crate) fn reserve(page: &Page, bytes: usize) -> bool {
    has_room(ptr::from_ref(page).cast_mut(), bytes)
}

/// The same for this many bytes from the start of the sampled allocations.
pub(crate) fn reserve_allocations(page: &Page, bytes: usize) -> bool {
    fill_holes(ptr::from_ref(page).cast_mut(), &ALLOCATIONS_ROOM, ALLOCATIONS, bytes)
}

fn has_room(place: *mut Page, bytes: usize) -> bool {
    fill_holes(place, &ROOM, 0, bytes)
}

fn fill_holes(place: *mut Page, room: &AtomicUsize, start: usize, bytes: usize) -> bool {
    let known = room.load(Ordering::Relaxed);
    let wanted = bytes.min(PAGE_BYTES - start).next_multiple_of(UNIT);
    if wanted <= known {
        return true;
    }
    let mut ends = [0; 2];
    // SAFETY: an array for two descriptors, which are closed below.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return false;
    }
    let written = (known..wanted).step_by(UNIT).all(|offset| {
        // SAFETY: one zero goes into the pipe and from there into a unit of the mapping that was never written.
        unsafe {
            let unit = place.cast::<u8>().add(start + offset).cast::<c_void>();
            libc::write(ends[1], c"".as_ptr().cast(), 1) == 1 && libc::read(ends[0], unit, 1) == 1
        }
    });
    for end in ends {
        // SAFETY: the descriptors made above.
        unsafe { libc::close(end) };
    }
    if written {
        room.store(wanted, Ordering::Relaxed);
    }
    written
}

fn forget_room() {
    ROOM.store(0, Ordering::Relaxed);
    ALLOCATIONS_ROOM.store(0, Ordering::Relaxed);
}

fn fill_in(header: &PageHeader, start_time: Option<u64>, generation: u64) {
    header.version.store(VERSION, Ordering::Relaxed);
    header.bytes.store(PAGE_BYTES as u64, Ordering::Relaxed);
    // SAFETY: these two cannot fail and access no memory.
    let (pid, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    header.pid.store(pid as u64, Ordering::Relaxed);
    header.parent_pid.store(parent as u64, Ordering::Relaxed);
    header.start_time.store(start_time.unwrap_or(UNKNOWN), Ordering::Relaxed);
    header.fork_generation.store(generation, Ordering::Relaxed);
    header.born_ns.store(now_ns(), Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
}

/// Words of the header that a child inherits: allocator, features, Ruby.
const INHERITED: std::ops::Range<usize> = 10..64;

fn copy_words(header: &PageHeader) -> [u64; 64] {
    let words = ptr::from_ref(header).cast::<AtomicU64>();
    // SAFETY: the header has 64 words (asserted in `carat_wire`), all of them atomics.
    std::array::from_fn(|n| unsafe { &*words.add(n) }.load(Ordering::Relaxed))
}

fn paste_words(header: &PageHeader, inherited: &[u64; 64]) {
    let words = ptr::from_ref(header).cast::<AtomicU64>();
    for n in INHERITED {
        // SAFETY: as in `copy_words`.
        unsafe { &*words.add(n) }.store(inherited[n], Ordering::Relaxed);
    }
}

/// Opens a new file of the right size under this process's name.
///
/// A file that already exists was created before this process called `exec(2)`, which keeps its pid and start time.
/// Nothing writes that file any more.
fn open(directory: &[u8], start_time: Option<u64>) -> Option<c_int> {
    let mut path = [0; 4096];
    let mut rest = path.get_mut(..4095)?;
    // SAFETY: cannot fail and accesses no memory.
    let pid = unsafe { libc::getpid() };
    rest.write_all(directory).ok()?;
    write!(rest, "/{pid}-{}.page", start_time.unwrap_or(0)).ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?.as_ptr();
    if !allows_size(PAGE_BYTES) {
        // SAFETY: the errno of this thread.
        unsafe { *libc::__errno_location() = libc::EFBIG };
        return None;
    }
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the path ends with NUL and outlives the calls; the descriptor belongs to this function.
    unsafe {
        let mut file = libc::open(path, flags, 0o600);
        if file < 0 && *libc::__errno_location() == libc::EEXIST {
            libc::unlink(path);
            file = libc::open(path, flags, 0o600);
        }
        if file >= 0 && libc::ftruncate(file, PAGE_BYTES as libc::off_t) != 0 {
            libc::close(file);
            file = -1;
        }
        (file >= 0).then_some(file)
    }
}

/// Whether this process may make a file of this size. Making a larger one would end it (SIGXFSZ, setrlimit(2)).
fn allows_size(bytes: usize) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the limits of this process.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    !read || limit.rlim_cur >= bytes as libc::rlim_t
}

/// Maps the file, or private zeros without one, at `place`, or anywhere if that is null.
fn map(place: *mut Page, file: Option<c_int>) -> Option<*mut Page> {
    let fixed = if place.is_null() { 0 } else { libc::MAP_FIXED };
    let kind =
        if file.is_some() { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
    // SAFETY: a fixed place is the whole mapping that this function made before; the descriptor is open and not used
    // afterwards.
    unsafe {
        let mapped = libc::mmap(
            place.cast::<c_void>(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            kind | fixed,
            file.unwrap_or(-1),
            0,
        );
        if let Some(file) = file {
            libc::close(file);
        }
        (mapped != libc::MAP_FAILED).then_some(mapped.cast())
    }
}

/// Start time of this process in clock ticks since boot; `None` without `/proc`.
fn read_start_time() -> Option<u64> {
    let mut text = [0_u8; 1024];
    // SAFETY: the path ends with NUL, the buffer has the given length, the descriptor is closed here.
    let length = unsafe {
        let file = libc::open(c"/proc/self/stat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    parse_start_time(text.get(..usize::try_from(length).ok()?)?)
}

/// Field 22 of `/proc/PID/stat` (proc(5)). The name in field 2 may contain blanks and brackets.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let field = stat.get(after_name..)?.split(|byte| *byte == b' ').nth(22 - 3)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_after_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        for name in ["ruby", "puma: cluster (a) [b", ") )"] {
            let stat = format!("12 ({name}) {rest}");
            assert_eq!(parse_start_time(stat.as_bytes()), Some(4711), "{name}");
        }
        assert_eq!(parse_start_time(b"12 (ruby) S 1"), None);
        assert_eq!(parse_start_time(b""), None);
    }
}
