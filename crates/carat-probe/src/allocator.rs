//! Which allocator really serves `malloc`, and what it says of itself.
//!
//! An allocator that was asked for is often not the one in use, and the C library's own figures answer
//! plausibly (with zeros) while another allocator serves. So the first question is where the symbol
//! `malloc` leads, and only the allocator found there is asked.

use crate::malloc_info::{Info, Totals};
use crate::ruby::find;
use crate::{clock, malloc_info};
use carat_wire::page::{Allocator, Feature, Malloc, Page, State, Writer};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// A function of which each allocator has one, beside its `malloc`.
const MARKS: [(&CStr, Allocator); 6] = [
    (c"mallctl", Allocator::Jemalloc),
    (c"je_mallctl", Allocator::Jemalloc),
    (c"mi_malloc", Allocator::Mimalloc),
    (c"MallocExtension_GetNumericProperty", Allocator::Tcmalloc),
    (c"tc_version", Allocator::Tcmalloc),
    (c"gnu_get_libc_version", Allocator::Glibc),
];

/// Finds out which allocator it is and prepares reading it, on the thread that loads the library.
pub(crate) fn find_allocator(page: &Page) {
    let (allocator, file) = identify();
    page.header.malloc_file.set(file);
    page.header.allocator.store(allocator as u64 + 1, Ordering::Relaxed);
    let (figures, arenas) = match allocator {
        Allocator::Glibc if malloc_info::prepare() => (State::On, State::On),
        Allocator::Glibc => (State::NoFunction, State::NoFunction),
        Allocator::Musl | Allocator::Other => (State::OtherAllocator, State::OtherAllocator),
        _ => (State::On, State::OtherAllocator),
    };
    page.header.set_feature(Feature::Malloc, figures);
    page.header.set_feature(Feature::Arenas, arenas);
}

fn identify() -> (Allocator, &'static [u8]) {
    let Some((base, file)) = object_of(c"malloc") else { return (Allocator::Other, b"") };
    let same = |name| object_of(name).is_some_and(|(other, _)| other == base);
    let marked = MARKS.iter().find(|(name, _)| same(name)).map(|(_, allocator)| *allocator);
    let allocator = marked.unwrap_or_else(|| {
        let musl = file.windows(7).any(|part| part == b"ld-musl");
        if musl { Allocator::Musl } else { Allocator::Other }
    });
    (allocator, file)
}

/// Where the object that defines a symbol begins, and its file.
fn object_of(symbol: &CStr) -> Option<(usize, &'static [u8])> {
    // SAFETY: all-zero is a valid `Dl_info`; `dladdr` fills it for an address that was just found, and
    // the names of loaded objects stay as long as they are loaded.
    unsafe {
        let address = find::<*const c_void>(symbol)?;
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some((info.dli_fbase as usize, CStr::from_ptr(info.dli_fname).to_bytes()))
    }
}

static WORST_NS: AtomicU64 = AtomicU64::new(0);

/// Asks the allocator and writes its figures; returns what that cost in nanoseconds.
///
/// Runs on the probe's own thread, because glibc walks every free chunk and holds each arena's lock
/// meanwhile.
pub(crate) fn read(page: &Page) -> u64 {
    let allocator = page.header.allocator.load(Ordering::Relaxed).wrapping_sub(1);
    let before = clock::now();
    let figures: &mut dyn FnMut(&mut Writer<'_, Malloc>) = match allocator {
        n if n == Allocator::Glibc as u64 => {
            let Some(info) = malloc_info::read() else { return 0 };
            write_arenas(page, info);
            &mut |malloc| write_glibc(malloc, info)
        }
        n if n == Allocator::Jemalloc as u64 => &mut write_jemalloc,
        n if n == Allocator::Mimalloc as u64 => &mut write_mimalloc,
        n if n == Allocator::Tcmalloc as u64 => &mut write_tcmalloc,
        _ => return 0,
    };
    page.malloc.update(clock::now(), |malloc| {
        figures(malloc);
        let cost = clock::now().saturating_sub(before);
        malloc.set(Malloc::CostNs, cost);
        malloc.set(Malloc::WorstCostNs, WORST_NS.fetch_max(cost, Ordering::Relaxed).max(cost));
    });
    clock::now().saturating_sub(before)
}

fn write_glibc(malloc: &mut Writer<'_, Malloc>, info: &Info) {
    let Totals { system, free, free_whole_pages, .. } = info.sum;
    malloc.set(Malloc::InUse, system.saturating_sub(free) + info.mapped);
    malloc.set(Malloc::Free, free);
    malloc.set(Malloc::System, system + info.mapped);
    malloc.set(Malloc::Mapped, info.mapped);
    malloc.set(Malloc::MappedCount, info.mapped_count);
    malloc.set(Malloc::FreeWholePages, free_whole_pages);
    malloc.set(Malloc::Arenas, info.arenas);
}

fn write_arenas(page: &Page, info: &Info) {
    let rows = info.listed().iter().map(|arena| {
        let free = Some(arena.free_whole_pages);
        let (system, most) = (Some(arena.system), Some(arena.most_system));
        let (accessible, subheaps) = (Some(arena.accessible), Some(arena.subheaps));
        [Some(arena.number), system, most, Some(arena.free), free, accessible, subheaps]
    });
    page.arenas.replace(clock::now(), info.arenas, rows);
}

type Mallctl =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

fn write_jemalloc(malloc: &mut Writer<'_, Malloc>) {
    // SAFETY: `mallctl` has had this type since jemalloc 2 (jemalloc(3)).
    let found = unsafe { find(c"mallctl").or_else(|| find(c"je_mallctl")) };
    let Some(mallctl): Option<Mallctl> = found else { return };
    let mut epoch = 1_u64;
    let mut size = size_of::<u64>();
    let place = (&raw mut epoch).cast::<c_void>();
    // SAFETY: writes and reads one 64-bit number, as jemalloc(3) says of "epoch".
    unsafe { mallctl(c"epoch".as_ptr(), place, &raw mut size, place, size_of::<u64>()) };
    let get = |name: &CStr| {
        let (mut value, mut size) = (0_usize, size_of::<usize>());
        let place = (&raw mut value).cast();
        // SAFETY: reads one number of the size that is given; jemalloc refuses another size.
        let refused =
            unsafe { mallctl(name.as_ptr(), place, &raw mut size, std::ptr::null_mut(), 0) };
        (refused == 0).then_some(value as u64)
    };
    let narenas = || {
        let (mut value, mut size) = (0_u32, size_of::<u32>());
        let place = (&raw mut value).cast();
        let name = c"arenas.narenas".as_ptr();
        // SAFETY: reads one `unsigned`, as jemalloc(3) says of "arenas.narenas".
        let refused = unsafe { mallctl(name, place, &raw mut size, std::ptr::null_mut(), 0) };
        (refused == 0).then_some(u64::from(value))
    };
    let (in_use, resident) = (get(c"stats.allocated"), get(c"stats.resident"));
    let metadata = get(c"stats.metadata");
    let active = get(c"stats.active");
    malloc.set_known(Malloc::InUse, in_use);
    malloc.set_known(Malloc::Active, active);
    malloc.set_known(Malloc::Metadata, metadata);
    malloc.set_known(Malloc::Resident, resident);
    malloc.set_known(Malloc::System, get(c"stats.mapped"));
    malloc.set_known(Malloc::Retained, get(c"stats.retained"));
    let free = resident.zip(in_use).zip(metadata);
    malloc.set_known(
        Malloc::Free,
        free.map(|((resident, in_use), metadata)| resident.saturating_sub(in_use + metadata)),
    );
    malloc.set_known(Malloc::Arenas, narenas());
}

fn write_mimalloc(malloc: &mut Writer<'_, Malloc>) {
    type ProcessInfo = unsafe extern "C" fn(
        *mut usize,
        *mut usize,
        *mut usize,
        *mut usize,
        *mut usize,
        *mut usize,
        *mut usize,
        *mut usize,
    );
    // SAFETY: `mi_process_info` has had this type since mimalloc 1.6 (mimalloc.h).
    let Some(process_info) = (unsafe { find::<ProcessInfo>(c"mi_process_info") }) else { return };
    let mut figures = [0_usize; 8];
    let [a, b, c, d, e, f, g, h] = &mut figures;
    // SAFETY: eight places for eight numbers: elapsed, user, system, resident, its peak, committed, its
    // peak, faults.
    unsafe { process_info(a, b, c, d, e, f, g, h) };
    malloc.set(Malloc::Committed, figures[5] as u64);
}

fn write_tcmalloc(malloc: &mut Writer<'_, Malloc>) {
    type Numeric = unsafe extern "C" fn(*const c_char, *mut usize) -> c_int;
    // SAFETY: the C interface of gperftools (malloc_extension_c.h).
    let found = unsafe { find::<Numeric>(c"MallocExtension_GetNumericProperty") };
    let Some(numeric) = found else { return };
    let get = |name: &CStr| {
        let mut value = 0;
        // SAFETY: the name ends with a zero and the place holds one `size_t`.
        (unsafe { numeric(name.as_ptr(), &raw mut value) } != 0).then_some(value as u64)
    };
    let in_use = get(c"generic.current_allocated_bytes");
    let heap = get(c"generic.heap_size");
    let unmapped = get(c"tcmalloc.pageheap_unmapped_bytes");
    let system = heap.zip(unmapped).map(|(heap, unmapped)| heap.saturating_sub(unmapped));
    malloc.set_known(Malloc::InUse, in_use);
    malloc.set_known(Malloc::System, system);
    malloc.set_known(Malloc::Unmapped, unmapped);
    let free = system.zip(in_use).map(|(system, in_use)| system.saturating_sub(in_use));
    malloc.set_known(Malloc::Free, free);
}
