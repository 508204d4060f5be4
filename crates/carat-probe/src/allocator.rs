//! The figures of the allocator that serves `malloc` ([`carat_ruby::allocator`]); only that one is asked.

use crate::malloc_info::{self, ArenaTotals, MallocInfo};
use carat_ruby::allocator::{Mallctl, detect, mallctl};
use carat_ruby::clock::now_ns;
use carat_ruby::symbol::find;
use carat_wire::page::{AllocatorKind, Feature, FeatureState, Malloc, Page, Writer};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Finds out which allocator it is and prepares reading it, on the thread that loads the library.
pub(crate) fn find_allocator(page: &Page) {
    let (allocator, file) = detect();
    page.header.malloc_file.set(file);
    page.header.allocator.store(allocator as u64 + 1, Ordering::Relaxed);
    let (figures, arenas) = match allocator {
        AllocatorKind::Glibc if malloc_info::open_stream() => (FeatureState::On, FeatureState::On),
        AllocatorKind::Glibc => (FeatureState::NoFunction, FeatureState::NoFunction),
        AllocatorKind::Musl | AllocatorKind::Other => {
            (FeatureState::OtherAllocator, FeatureState::OtherAllocator)
        }
        _ => (FeatureState::On, FeatureState::OtherAllocator),
    };
    page.header.set_feature(Feature::Malloc, figures);
    page.header.set_feature(Feature::Arenas, arenas);
}

static WORST_NS: AtomicU64 = AtomicU64::new(0);

/// Writes the allocator's figures; returns what reading them cost, in nanoseconds.
///
/// Runs on the probe's own thread, because glibc walks every free chunk and holds each arena's lock meanwhile.
pub(crate) fn read(page: &Page) -> u64 {
    let allocator = page.header.allocator.load(Ordering::Relaxed).wrapping_sub(1);
    let before = now_ns();
    let figures: &mut dyn FnMut(&mut Writer<'_, Malloc>) = match allocator {
        n if n == AllocatorKind::Glibc as u64 => {
            let Some(info) = malloc_info::read() else { return 0 };
            write_arenas(page, info);
            &mut |malloc| write_glibc(malloc, info)
        }
        n if n == AllocatorKind::Jemalloc as u64 => &mut write_jemalloc,
        n if n == AllocatorKind::Mimalloc as u64 => &mut write_mimalloc,
        n if n == AllocatorKind::Tcmalloc as u64 => &mut write_tcmalloc,
        _ => return 0,
    };
    page.malloc.update(now_ns(), |malloc| {
        figures(malloc);
        let cost = now_ns().saturating_sub(before);
        malloc.set(Malloc::CostNs, cost);
        malloc.set(Malloc::WorstCostNs, WORST_NS.fetch_max(cost, Ordering::Relaxed).max(cost));
    });
    now_ns().saturating_sub(before)
}

fn write_glibc(malloc: &mut Writer<'_, Malloc>, info: &MallocInfo) {
    let ArenaTotals { system, free, free_whole_pages, .. } = info.sum;
    malloc.set(Malloc::InUse, system.saturating_sub(free) + info.mapped);
    malloc.set(Malloc::Free, free);
    malloc.set(Malloc::System, system + info.mapped);
    malloc.set(Malloc::Mapped, info.mapped);
    malloc.set(Malloc::MappedCount, info.mapped_count);
    malloc.set(Malloc::FreeWholePages, free_whole_pages);
    malloc.set(Malloc::Arenas, info.arenas);
}

fn write_arenas(page: &Page, info: &MallocInfo) {
    let rows = info.listed().iter().map(|arena| {
        let free = Some(arena.free_whole_pages);
        let (system, most) = (Some(arena.system), Some(arena.most_system));
        let (accessible, subheaps) = (Some(arena.accessible), Some(arena.subheaps));
        [Some(arena.number), system, most, Some(arena.free), free, accessible, subheaps]
    });
    page.arenas.replace(now_ns(), info.arenas, rows);
}

fn write_jemalloc(malloc: &mut Writer<'_, Malloc>) {
    let Some(mallctl) = mallctl() else { return };
    renew_statistics(mallctl);
    let in_use = jemalloc_bytes(mallctl, c"stats.allocated");
    let resident = jemalloc_bytes(mallctl, c"stats.resident");
    let metadata = jemalloc_bytes(mallctl, c"stats.metadata");
    malloc.set_known(Malloc::InUse, in_use);
    malloc.set_known(Malloc::Active, jemalloc_bytes(mallctl, c"stats.active"));
    malloc.set_known(Malloc::Metadata, metadata);
    malloc.set_known(Malloc::Resident, resident);
    malloc.set_known(Malloc::System, jemalloc_bytes(mallctl, c"stats.mapped"));
    malloc.set_known(Malloc::Retained, jemalloc_bytes(mallctl, c"stats.retained"));
    let free = resident.zip(in_use).zip(metadata);
    malloc.set_known(
        Malloc::Free,
        free.map(|((resident, in_use), metadata)| resident.saturating_sub(in_use + metadata)),
    );
    malloc.set_known(Malloc::Arenas, jemalloc_arenas(mallctl));
}

/// jemalloc renews its statistics when "epoch" is written.
fn renew_statistics(mallctl: Mallctl) {
    let mut epoch = 1_u64;
    let mut size = size_of::<u64>();
    let place = (&raw mut epoch).cast::<c_void>();
    // SAFETY: writes and reads one 64-bit number, as jemalloc(3) says of "epoch".
    unsafe { mallctl(c"epoch".as_ptr(), place, &raw mut size, place, size_of::<u64>()) };
}

fn jemalloc_bytes(mallctl: Mallctl, name: &CStr) -> Option<u64> {
    let (mut value, mut size) = (0_usize, size_of::<usize>());
    let place = (&raw mut value).cast();
    // SAFETY: reads one number of the given size; jemalloc refuses another size.
    let error = unsafe { mallctl(name.as_ptr(), place, &raw mut size, ptr::null_mut(), 0) };
    (error == 0).then_some(value as u64)
}

fn jemalloc_arenas(mallctl: Mallctl) -> Option<u64> {
    let (mut value, mut size) = (0_u32, size_of::<u32>());
    let place = (&raw mut value).cast();
    let name = c"arenas.narenas".as_ptr();
    // SAFETY: reads one `unsigned`, as jemalloc(3) says of "arenas.narenas".
    let error = unsafe { mallctl(name, place, &raw mut size, ptr::null_mut(), 0) };
    (error == 0).then_some(u64::from(value))
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
    // SAFETY: eight places for eight numbers: elapsed, user, system, resident, its peak, committed, its peak, faults.
    unsafe { process_info(a, b, c, d, e, f, g, h) };
    malloc.set(Malloc::Committed, figures[5] as u64);
}

type TcmallocProperty = unsafe extern "C" fn(*const c_char, *mut usize) -> c_int;

fn write_tcmalloc(malloc: &mut Writer<'_, Malloc>) {
    // SAFETY: the signature is that of gperftools' malloc_extension_c.h.
    let found = unsafe { find::<TcmallocProperty>(c"MallocExtension_GetNumericProperty") };
    let Some(property) = found else { return };
    let in_use = read_property(property, c"generic.current_allocated_bytes");
    let heap = read_property(property, c"generic.heap_size");
    let unmapped = read_property(property, c"tcmalloc.pageheap_unmapped_bytes");
    let system = heap.zip(unmapped).map(|(heap, unmapped)| heap.saturating_sub(unmapped));
    malloc.set_known(Malloc::InUse, in_use);
    malloc.set_known(Malloc::System, system);
    malloc.set_known(Malloc::Unmapped, unmapped);
    let free = system.zip(in_use).map(|(system, in_use)| system.saturating_sub(in_use));
    malloc.set_known(Malloc::Free, free);
}

fn read_property(property: TcmallocProperty, name: &CStr) -> Option<u64> {
    let mut value = 0;
    // SAFETY: the name ends with NUL and the place holds one `size_t`.
    (unsafe { property(name.as_ptr(), &raw mut value) } != 0).then_some(value as u64)
}
