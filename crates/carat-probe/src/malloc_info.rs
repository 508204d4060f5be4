//! glibc's `malloc_info`: its only figures per arena, written as XML into a C stream.
//!
//! The stream is created once, on the loading thread, and passes its text to a parser without storing it, because
//! allocating on the probe's own thread would make glibc create an arena for that thread.

use carat_ruby::symbol::find;
use carat_wire::page::ARENAS;
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Figures of one arena, or of all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ArenaTotals {
    pub(crate) number: u64,
    pub(crate) system: u64,
    pub(crate) most_system: u64,
    pub(crate) free: u64,
    pub(crate) free_whole_pages: u64,
    pub(crate) accessible: u64,
    pub(crate) subheaps: u64,
}

impl ArenaTotals {
    const ZERO: Self = Self {
        number: 0,
        system: 0,
        most_system: 0,
        free: 0,
        free_whole_pages: 0,
        accessible: 0,
        subheaps: 0,
    };
}

/// The figures of `malloc_info`.
#[derive(Debug)]
pub(crate) struct MallocInfo {
    /// Over all arenas.
    pub(crate) sum: ArenaTotals,
    /// Number of arenas; more may exist than are listed.
    pub(crate) arenas: u64,
    /// Bytes of allocations with a mapping of their own, and their number.
    pub(crate) mapped: u64,
    pub(crate) mapped_count: u64,
    list: [ArenaTotals; ARENAS],
    current: ArenaTotals,
    /// Bytes of the current arena's free chunks in bins; the rest of `free` is its top chunk.
    in_bins: u64,
    in_arena: bool,
    /// Bytes of a page of the kernel, which can be 16 or 64 KiB on aarch64.
    os_page: u64,
}

const LINE: usize = 256;

struct Parser {
    info: MallocInfo,
    line: [u8; LINE],
    length: usize,
}

impl Parser {
    const fn new(os_page: u64) -> Self {
        let info = MallocInfo {
            sum: ArenaTotals::ZERO,
            arenas: 0,
            mapped: 0,
            mapped_count: 0,
            list: [ArenaTotals::ZERO; ARENAS],
            current: ArenaTotals::ZERO,
            in_bins: 0,
            in_arena: false,
            os_page,
        };
        Self { info, line: [0; LINE], length: 0 }
    }

    fn feed(&mut self, text: &[u8]) {
        for &byte in text {
            if byte == b'\n' {
                self.info.line(&self.line[..self.length]);
                self.length = 0;
            } else if let Some(place) = self.line.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
    }
}

impl MallocInfo {
    /// As many arenas as there is room for.
    pub(crate) fn listed(&self) -> &[ArenaTotals] {
        &self.list[..(self.arenas as usize).min(ARENAS)]
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(number) = attribute(line, b"<heap nr=\"") {
            self.current = ArenaTotals { number, ..ArenaTotals::ZERO };
            self.in_bins = 0;
            self.in_arena = true;
        } else if line.starts_with(b"</heap>") {
            self.end_arena();
        } else if self.in_arena {
            self.arena_line(line);
        } else if line.starts_with(b"<total type=\"mmap\"") {
            self.mapped = attribute(line, b" size=\"").unwrap_or(0);
            self.mapped_count = attribute(line, b" count=\"").unwrap_or(0);
        }
    }

    fn arena_line(&mut self, line: &[u8]) {
        let size = attribute(line, b" size=\"").unwrap_or(0);
        if contains(line, b"<size from") || contains(line, b"<unsorted from") {
            let total = attribute(line, b" total=\"").unwrap_or(0);
            let count = attribute(line, b" count=\"").unwrap_or(0);
            self.in_bins += total;
            self.current.free_whole_pages += whole_pages(total, count, self.os_page);
        } else if line.starts_with(b"<total type=\"fast\"")
            || line.starts_with(b"<total type=\"rest\"")
        {
            self.current.free += size;
        } else if line.starts_with(b"<system type=\"current\"") {
            self.current.system = size;
        } else if line.starts_with(b"<system type=\"max\"") {
            self.current.most_system = size;
        } else if line.starts_with(b"<aspace type=\"mprotect\"") {
            self.current.accessible = size;
        } else if line.starts_with(b"<aspace type=\"subheaps\"") {
            self.current.subheaps = size;
        }
    }

    fn end_arena(&mut self) {
        let mut arena = self.current;
        // Fast chunks are in the bins' lines too, so the rest is the one top chunk.
        let top = arena.free.saturating_sub(self.in_bins);
        arena.free_whole_pages += whole_pages(top, 1, self.os_page);
        if let Some(place) = self.list.get_mut(self.arenas as usize) {
            *place = arena;
        }
        self.arenas += 1;
        self.sum.system += arena.system;
        self.sum.free += arena.free;
        self.sum.free_whole_pages += arena.free_whole_pages;
        self.in_arena = false;
    }
}

/// Expected bytes of whole pages of `os_page` bytes inside `count` free chunks of `total` bytes.
///
/// A span of `s` pages with a random start contains `s - 1` whole pages on average, and none below 1. A chunk's header
/// (two words) and its links (four) stay in memory (malloc.c, `mtrim`).
fn whole_pages(total: u64, count: u64, os_page: u64) -> u64 {
    total.saturating_sub(count.saturating_mul(os_page + 48))
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// The number that follows `name` in the line.
fn attribute(line: &[u8], name: &[u8]) -> Option<u64> {
    let at = line.windows(name.len()).position(|window| window == name)? + name.len();
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(None, |sum: Option<u64>, digit| {
        Some(sum.unwrap_or(0).wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    });
    number.filter(|_| line.get(at).is_some_and(u8::is_ascii_digit))
}

/// Filled by the one thread that reads; see [`read`].
struct SharedParser(UnsafeCell<Parser>);

// SAFETY: one thread at a time uses it: the loading thread, then the probe's own, of which a process has one.
unsafe impl Sync for SharedParser {}

static PARSER: SharedParser = SharedParser(UnsafeCell::new(Parser::new(0)));
static STREAM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static MALLOC_INFO: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type MallocInfoFunction = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;
type Write = extern "C" fn(*mut c_void, *const c_char, usize) -> isize;

/// `cookie_io_functions_t` of stdio.h.
#[repr(C)]
struct CookieFunctions {
    read: *mut c_void,
    write: Write,
    seek: *mut c_void,
    close: *mut c_void,
}

/// Creates the stream; `false` if this C library lacks a function for it.
pub(crate) fn open_stream() -> bool {
    type OpenCookie =
        unsafe extern "C" fn(*mut c_void, *const c_char, CookieFunctions) -> *mut c_void;
    type Flush = unsafe extern "C" fn(*mut c_void) -> c_int;
    // SAFETY: the types are those of malloc.h and stdio.h of glibc.
    let found = unsafe {
        find::<*mut c_void>(c"malloc_info")
            .zip(find::<OpenCookie>(c"fopencookie"))
            .zip(find::<Flush>(c"fflush"))
    };
    let Some(((malloc_info, open), _)) = found else { return false };
    let none = ptr::null_mut();
    let functions = CookieFunctions { read: none, write: on_text, seek: none, close: none };
    // SAFETY: the mode ends with NUL; the stream may call the function at any time.
    let stream = unsafe { open(none, c"w".as_ptr(), functions) };
    if stream.is_null() {
        return false;
    }
    MALLOC_INFO.store(malloc_info, Ordering::Relaxed);
    STREAM.store(stream, Ordering::Release);
    // The first text makes the stream allocate its buffer, which must happen here and not on the probe's thread.
    read().is_some()
}

/// Calls `malloc_info`. Only one thread may do so: the probe's own, or the loading thread before that exists.
///
/// `None` if [`prepare`] failed.
pub(crate) fn read() -> Option<&'static MallocInfo> {
    let stream = STREAM.load(Ordering::Acquire);
    let malloc_info = MALLOC_INFO.load(Ordering::Relaxed);
    if stream.is_null() || malloc_info.is_null() {
        return None;
    }
    let parser = PARSER.0.get();
    // SAFETY: sysconf accesses no memory of ours.
    let os_page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    // SAFETY: one thread at a time calls this, and `on_text` runs only inside these two calls; the pointer is that of
    // `malloc_info`, found by name.
    unsafe {
        *parser = Parser::new(os_page);
        let malloc_info: MallocInfoFunction = std::mem::transmute(malloc_info);
        malloc_info(0, stream);
        libc::fflush(stream.cast());
        Some(&(*parser).info)
    }
}

extern "C" fn on_text(_: *mut c_void, text: *const c_char, length: usize) -> isize {
    // SAFETY: the C library passes as many bytes as it says, and only inside `read`.
    unsafe { (*PARSER.0.get()).feed(std::slice::from_raw_parts(text.cast(), length)) };
    length as isize
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<malloc version="1">
<heap nr="0">
<sizes>
  <size from="17" to="32" total="64" count="2"/>
  <size from="65553" to="65553" total="131106" count="2"/>
  <unsorted from="33" to="20000" total="20000" count="1"/>
</sizes>
<total type="fast" count="2" size="64"/>
<total type="rest" count="4" size="251106"/>
<system type="current" size="1000000"/>
<system type="max" size="1200000"/>
<aspace type="total" size="1000000"/>
<aspace type="mprotect" size="1000000"/>
</heap>
<heap nr="1">
<sizes>
</sizes>
<total type="fast" count="0" size="0"/>
<total type="rest" count="1" size="130000"/>
<system type="current" size="135168"/>
<system type="max" size="135168"/>
<aspace type="total" size="135168"/>
<aspace type="mprotect" size="135168"/>
<aspace type="subheaps" size="1"/>
</heap>
<total type="fast" count="2" size="64"/>
<total type="rest" count="5" size="381106"/>
<total type="mmap" count="3" size="9000000"/>
<system type="current" size="1135168"/>
</malloc>
"#;

    #[test]
    fn arenas_and_totals_are_parsed_from_pieces_of_any_size() {
        for piece in [1, 7, 4096] {
            let mut parser = Parser::new(4096);
            TEXT.as_bytes().chunks(piece).for_each(|text| parser.feed(text));
            let info = &parser.info;
            assert_eq!((info.arenas, info.mapped, info.mapped_count), (2, 9_000_000, 3));
            assert_eq!((info.sum.system, info.sum.free), (1_135_168, 381_170));
            assert_eq!(info.listed()[1].subheaps, 1);
            assert_eq!(info.listed()[1].free_whole_pages, 130_000 - 4144);
            assert_eq!(info.listed()[0].most_system, 1_200_000);
        }
    }

    #[test]
    fn arenas_beyond_the_room_are_counted() {
        let mut parser = Parser::new(4096);
        for n in 0..ARENAS + 3 {
            parser.feed(format!("<heap nr=\"{n}\">\n</heap>\n").as_bytes());
        }
        assert_eq!(parser.info.arenas, ARENAS as u64 + 3);
        assert_eq!(parser.info.listed().len(), ARENAS);
    }

    #[test]
    fn small_free_chunks_contain_no_whole_page() {
        for (total, count, os_page, whole) in [
            (64, 2, 4096, 0),
            (8192, 1, 4096, 4048),
            (2 * 65_553, 2, 4096, 122_818),
            (2 * 65_553, 2, 65_536, 0),
        ] {
            let found = whole_pages(total, count, os_page);
            assert_eq!(found, whole, "{count} chunks of {total} bytes, pages of {os_page}");
        }
    }

    #[test]
    fn the_figures_of_this_process_are_plausible() {
        assert!(open_stream());
        let held: Vec<u8> = vec![1; 1 << 20];
        let info = read().unwrap();
        assert!(info.arenas >= 1 && info.sum.system + info.mapped >= held.len() as u64);
    }
}
