//! Samples of allocations, by bytes of slots, while carat asks for them.
//!
//! Ruby calls the hook for each object. The hook subtracts the bytes of its slot from what is left to the next sample, and does
//! nothing else until nothing is left. The distances are exponential, so every byte has the same chance whatever the
//! program's rhythm is (a Poisson process), and a place's share of the samples estimates its share of the bytes. A hook that
//! is switched on only now and then would cost less, but it can be switched on only where Ruby takes interrupts: samples
//! would gather behind waits. The hook allocates nothing. Outside the time that carat asked for there is none.

use crate::stat::Counts;
use crate::{constants, fault, jobs, own_page};
use carat_ruby::allocation::{self, AllocationApi};
use carat_ruby::api::{loaded, running_version};
use carat_ruby::clock::{now_ns, read, thread_cpu_ns};
use carat_ruby::version::{SLOT_BYTES_IN_PAGE, SLOT_SIZES};
use carat_ruby::{RubyApi, Value};
use carat_wire::page::{
    Allocations, END_SAMPLES, Feature, FeatureState, Gc, Page, SAMPLE_BYTES, Sites,
};
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Objects that are allocated to measure what the hook adds to one, and how often with it and without.
const TRIAL_OBJECTS: u32 = 250;
const TRIALS: u32 = 20;

/// Bytes of slots that are left to the next sample.
static LEFT: AtomicI64 = AtomicI64::new(0);
/// When to end, on the monotonic clock; 0 while nothing is sampled.
static UNTIL: AtomicU64 = AtomicU64::new(0);
/// Whether the page of this process has the beginning of its samples; a forked child has a new page.
static BEGUN: AtomicBool = AtomicBool::new(false);
/// Objects and processor time of this process before that, and what the hook adds to an allocation.
static OBJECTS_BEFORE: AtomicU64 = AtomicU64::new(0);
static CPU_BEFORE: AtomicU64 = AtomicU64::new(0);
static HOOK_PS: AtomicU64 = AtomicU64::new(0);
static RANDOM: AtomicU64 = AtomicU64::new(1);

/// Bytes of every slot, or 0 where slots have several sizes;
static SLOT_BYTES: AtomicUsize = AtomicUsize::new(0);
/// then each heap page has an address that is a multiple of this, and in its description the bytes stand here.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
static BYTES_AT: AtomicUsize = AtomicUsize::new(0);

/// Begins or goes on sampling if carat asked for it, ends it if its time is over, and writes how far it is. Must be called with
/// Ruby's lock held, outside a collection.
pub(crate) fn follow_request(ruby: &RubyApi, page: &Page) {
    let asked = page.header.allocation_ns.swap(0, Relaxed);
    let now = now_ns();
    // A requested end must not begin anew what has ended by itself: that would clear what was sampled.
    if asked == END_SAMPLES || asked == 0 && is_over(now) {
        stop();
    } else if asked != 0 && UNTIL.swap(now.saturating_add(asked), Relaxed) == 0 {
        let state = start(ruby, page);
        page.header.set_feature(Feature::Allocations, state);
    }
    if UNTIL.load(Relaxed) != 0 {
        if !BEGUN.load(Relaxed) {
            BEGUN.store(begin(ruby, page), Relaxed);
        }
        if BEGUN.load(Relaxed) {
            write_progress(ruby, page);
        }
    }
}

/// Whether the time is over and the hook is still there.
pub(crate) fn is_over(now: u64) -> bool {
    (1..=now).contains(&UNTIL.load(Relaxed))
}

/// In a forked child: its page has no samples yet. The hook and its time are inherited.
pub(crate) fn forget() {
    BEGUN.store(false, Relaxed);
}

/// Removes the hook. Must be called with Ruby's lock held, outside the hook.
pub(crate) fn stop() {
    if UNTIL.swap(0, Relaxed) == 0 {
        return;
    }
    if let (Some(ruby), Some(api), Some(page)) = (loaded(), allocation::loaded(), own_page::get()) {
        api.remove_hook(on_new_object);
        if BEGUN.swap(false, Relaxed) {
            write_progress(ruby, page);
            page.allocations.set(Allocations::EndedNs, now_ns());
        }
    }
}

/// Sets the hook; what is not on afterwards says why not.
fn start(ruby: &RubyApi, page: &Page) -> FeatureState {
    let state = prepare(ruby, page);
    match allocation::loaded().filter(|_| state == FeatureState::On) {
        Some(api) => {
            LEFT.store(i64::MAX, Relaxed);
            HOOK_PS.store(hook_ps(api), Relaxed);
            RANDOM.store(now_ns() | 1, Relaxed);
            LEFT.store(distance(), Relaxed);
            api.add_hook(on_new_object);
        }
        None => UNTIL.store(0, Relaxed),
    }
    state
}

fn prepare(ruby: &RubyApi, page: &Page) -> FeatureState {
    if constants::get().other_collector {
        return FeatureState::OtherCollector;
    }
    if allocation::load().is_none() || !ruby.has_heap_page_list() {
        return FeatureState::NoFunction;
    }
    if !find_slot_bytes(ruby) {
        return FeatureState::UnknownRuby;
    }
    if !own_page::reserve_allocations(page, FIRST_SITE_AT) {
        return FeatureState::Refused;
    }
    page.sites.clear();
    for word in [Allocations::Samples, Allocations::Unplaced, Allocations::SampleNs] {
        page.allocations.set(word, 0);
    }
    FeatureState::On
}

/// Where the sites are, from the start of the sampled allocations, and where the first of them is.
const SITES_AT: usize = offset_of!(Page, sites) - offset_of!(Page, allocations);
const FIRST_SITE_AT: usize = SITES_AT + Sites::HEAD_BYTES;

/// Writes the beginning of this process's samples; `false` without room.
fn begin(ruby: &RubyApi, page: &Page) -> bool {
    if !own_page::reserve_allocations(page, FIRST_SITE_AT) {
        return false;
    }
    OBJECTS_BEFORE.store(objects(ruby), Relaxed);
    CPU_BEFORE.store(cpu_ns(), Relaxed);
    page.allocations.set(Allocations::SampleBytes, SAMPLE_BYTES);
    let hook_ps = HOOK_PS.load(Relaxed);
    if hook_ps > 0 {
        page.allocations.set(Allocations::HookPs, hook_ps);
    }
    page.allocations.set(Allocations::StartedNs, now_ns());
    // A child would otherwise sample at the same distances as its parent and its siblings.
    RANDOM.store(now_ns() ^ u64::from(std::process::id()) << 32 | 1, Relaxed);
    true
}

fn write_progress(ruby: &RubyApi, page: &Page) {
    let objects = objects(ruby).saturating_sub(OBJECTS_BEFORE.load(Relaxed));
    page.allocations.set(Allocations::Objects, objects);
    let cpu_ns = cpu_ns().saturating_sub(CPU_BEFORE.load(Relaxed));
    page.allocations.set(Allocations::CpuNs, cpu_ns);
    page.allocations.set(Allocations::WrittenNs, now_ns());
}

fn objects(ruby: &RubyApi) -> u64 {
    Counts::read(ruby).get(Gc::AllocatedObjects).unwrap_or(0)
}

fn cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID).as_nanos() as u64
}

/// Picoseconds that the hook adds to an allocation: the shortest of several times with it, less the shortest without. 0 if that
/// is no time, as on a machine that is too busy to measure it.
fn hook_ps(api: &AllocationApi) -> u64 {
    let time = || {
        let before = thread_cpu_ns();
        api.allocate(TRIAL_OBJECTS);
        thread_cpu_ns().saturating_sub(before)
    };
    let (mut without, mut with) = (u64::MAX, u64::MAX);
    for _ in 0..TRIALS {
        without = without.min(time());
        api.add_hook(on_new_object);
        with = with.min(time());
        api.remove_hook(on_new_object);
    }
    with.saturating_sub(without) * 1000 / u64::from(TRIAL_OBJECTS)
}

/// Called by Ruby for each object, between two instructions: nothing may be allocated here, and no method called.
unsafe extern "C" fn on_new_object(_: Value, event: *const c_void) {
    let Some(api) = allocation::loaded() else { return };
    // SAFETY: Ruby passed the event to this hook.
    let object = unsafe { api.object(event) };
    // Ruby calls the hook with its lock held, so no other thread subtracts meanwhile.
    let left = LEFT.load(Relaxed).wrapping_sub(slot_bytes(object) as i64);
    LEFT.store(left, Relaxed);
    if left <= 0 {
        fault::guarded(|| sample(api, object, left));
    }
}

/// Bytes of the slot of a new object.
fn slot_bytes(object: Value) -> usize {
    let only = SLOT_BYTES.load(Relaxed);
    if only != 0 {
        return only;
    }
    let page = object & !(PAGE_BYTES.load(Relaxed) - 1);
    // SAFETY: an object lies in a heap page, and every heap page was found to have the bytes of its slots there.
    unsafe {
        let description = *(page as *const usize) + BYTES_AT.load(Relaxed);
        usize::from(*(description as *const u16))
    }
}

fn sample(api: &AllocationApi, object: Value, mut left: i64) {
    let (Some(ruby), Some(page)) = (loaded(), own_page::get()) else { return };
    let before = now_ns();
    let mut samples = 0;
    while left <= 0 {
        left += distance();
        samples += 1;
    }
    LEFT.store(left, Relaxed);
    if is_over(before) {
        jobs::request_reading(ruby);
        return;
    }
    // SAFETY: the hook was called for this object.
    let class = unsafe { api.class_name(ruby, object) };
    let place = api.place(ruby).unwrap_or_default();
    // Before the first word is touched: the page of a forked child has no room yet.
    if !own_page::reserve_allocations(page, FIRST_SITE_AT) {
        return;
    }
    let has_room = |end| own_page::reserve_allocations(page, SITES_AT + end);
    if !page.sites.add(class, place, samples, has_room) {
        page.allocations.add(Allocations::Unplaced, samples);
    }
    page.allocations.add(Allocations::Samples, samples);
    page.allocations.add(Allocations::SampleNs, now_ns().saturating_sub(before));
}

/// Bytes to the next sample: exponential with a mean of [`SAMPLE_BYTES`].
///
/// Without a logarithm, which a library inside musl's Ruby may not have (J. von Neumann, "Various techniques used in connection
/// with random digits", 1951): the length of a falling run of uniform numbers decides whether the first one is taken.
fn distance() -> i64 {
    let mut whole = 0.0;
    loop {
        let first = uniform();
        let (mut last, mut falling) = (first, 1);
        loop {
            let next = uniform();
            if next > last {
                break;
            }
            (last, falling) = (next, falling + 1);
        }
        if falling % 2 == 1 {
            return ((whole + first) * SAMPLE_BYTES as f64) as i64 + 1;
        }
        whole += 1.0;
    }
}

/// At least 0 and below 1 (G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8, 2003).
fn uniform() -> f64 {
    let mut random = RANDOM.load(Relaxed);
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    RANDOM.store(random, Relaxed);
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// Offsets that may have the bytes of a slot: even ones in the first words of a page's description.
const PLACES: usize = 16;

/// What all heap pages have in common.
struct PageVote {
    page_bytes: usize,
    /// The bytes of a slot, if all pages have the same.
    only: Option<usize>,
    is_mixed: bool,
    /// A bit for each offset at which every page had the bytes of its slots.
    places: u32,
    /// Whether descriptions are read.
    looks: bool,
}

/// Finds where the bytes of a slot stand; `false` if that is not known beyond doubt.
fn find_slot_bytes(ruby: &RubyApi) -> bool {
    let (Some(version), Some(bytes)) = (running_version(), constants::get().page_bytes) else {
        return false;
    };
    let page_bytes = bytes as usize;
    let looks = SLOT_BYTES_IN_PAGE.contains(version) && page_bytes.is_power_of_two();
    let several = SLOT_SIZES.contains(version);
    let mut vote = PageVote { page_bytes, only: None, is_mixed: false, places: u32::MAX, looks };
    // SAFETY: `vote` outlives the walk, which passes its address to `on_page` only.
    unsafe { ruby.each_heap_page(on_page, (&raw mut vote).cast()) };
    match vote.only.filter(|_| !several && !vote.is_mixed) {
        Some(only) => SLOT_BYTES.store(only, Relaxed),
        None if looks && vote.is_mixed && vote.places.count_ones() == 1 => {
            PAGE_BYTES.store(page_bytes, Relaxed);
            BYTES_AT.store(vote.places.trailing_zeros() as usize * 2, Relaxed);
        }
        None => return false,
    }
    true
}

unsafe extern "C" fn on_page(
    first: *mut c_void,
    _: *mut c_void,
    stride: usize,
    vote: *mut c_void,
) -> c_int {
    // SAFETY: the address is that of the `PageVote` of the current walk. The first word of a heap page is the address of its
    // description in the versions where `looks` is set, and a description is longer than what is read.
    unsafe {
        let vote = &mut *vote.cast::<PageVote>();
        vote.is_mixed |= vote.only.is_some_and(|only| only != stride);
        vote.only = Some(stride);
        if vote.looks {
            let page = first as usize & !(vote.page_bytes - 1);
            let description = *(page as *const *const [u16; PLACES]);
            let same = (0..PLACES).filter(|n| usize::from((*description)[*n]) == stride);
            vote.places &= same.fold(0, |places, n| places | 1 << n);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_between_samples_are_exponential() {
        RANDOM.store(0x9e37_79b9_7f4a_7c15, Relaxed);
        let mean = SAMPLE_BYTES as f64;
        let all: Vec<f64> = (0..100_000).map(|_| distance() as f64 / mean).collect();
        let share =
            |beyond: f64| all.iter().filter(|one| **one > beyond).count() as f64 / all.len() as f64;
        // Five standard errors of a share are at most 0.8 %.
        for beyond in [0.1_f64, 0.5, 1.0, 2.0, 4.0] {
            assert!((share(beyond) - (-beyond).exp()).abs() < 0.008, "{beyond}: {}", share(beyond));
        }
        let average = all.iter().sum::<f64>() / all.len() as f64;
        assert!((average - 1.0).abs() < 0.016, "{average}");
    }
}
