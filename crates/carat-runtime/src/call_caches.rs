//! Before the first fork: a cache that no call matches, for the call sites that have none.
//!
//! A full GC of Ruby 3.3 stores the empty call cache over itself in each of them
//! ([`carat_ruby::version::REWRITES_EMPTY_CALL_CACHES`]), which copies the page in a forked child. A call site whose cache is
//! valid is not written to. So the empty ones get the cache of a call to an object of ours, which is the only one of its
//! class and is gone: the next call misses, as with an empty one, and Ruby looks its method up.
//!
//! Ruby has no function for that. Where it keeps the call sites of a method is found in two methods of ours whose call sites
//! are known. Unless all that is read of both agrees, nothing is written.

use carat_ruby::symbol::find;
use carat_ruby::{RubyApi, Value};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Mutex;

/// `RUBY_T_MASK` and `RUBY_T_IMEMO` of ruby/internal/value_type.h: the type of an object in its flags.
const TYPE_MASK: usize = 0x1f;
const IMEMO: usize = 0x1a;
/// Where the kind of an internal object is in its flags (`FL_USHIFT`, internal/imemo.h), and two kinds (`enum imemo_type`).
const KIND_SHIFT: usize = 12;
const KIND_MASK: usize = 0xf;
const ISEQ: usize = 7;
const CALL_CACHE: usize = 12;

/// Words of a compiled method's body in which the list of its call sites is looked for; it has about 45 (vm_core.h).
const BODY_WORDS: usize = 64;

/// `struct rb_call_data` of vm_callinfo.h: what is called, and the cache.
type CallSite = [usize; 2];

/// A method of ours whose call sites are known.
#[derive(Debug, Clone, Copy)]
struct Specimen {
    /// The `RubyVM::InstructionSequence` of it.
    wrapper: Value,
    sites: usize,
}

/// Of the first one only the first call site has been called, of the second one none.
static SPECIMENS: Mutex<Vec<Specimen>> = Mutex::new(Vec::new());

/// Adds a method of ours. The wrapper must stay where it is.
pub(crate) fn learn(wrapper: Value, sites: usize) {
    if let Ok(mut specimens) = SPECIMENS.lock() {
        specimens.push(Specimen { wrapper, sites });
    }
}

/// Fills every empty cache with that of the first method's first call site, which belongs to `class`; how many, or `None`
/// if this Ruby keeps its call sites in another way.
pub(crate) fn fill(ruby: &RubyApi, class: Value) -> Option<u64> {
    let specimens: [Specimen; 2] = SPECIMENS.lock().ok()?.as_slice().try_into().ok()?;
    let mut search = SpecimenSearch { wrappers: specimens.map(|one| one.wrapper), found: [0; 2] };
    // SAFETY: `find_on_page` expects a `SpecimenSearch`.
    unsafe { ruby.each_heap_page(find_on_page, (&raw mut search).cast()) };
    let [called, idle] = search.found.map(compiled_body);
    let layout = Layout::of((&called?, specimens[0].sites), (&idle?, specimens[1].sites))?;
    if !is_cache_of(layout.cache, class) {
        return None;
    }
    ruby.pin(layout.cache);
    // SAFETY: the signature is that of ruby/internal/gc.h.
    let remember = unsafe { find(c"rb_gc_writebarrier") }?;
    let mut filling = Filling { layout, remember, filled: 0 };
    // SAFETY: `fill_page` expects a `Filling`.
    unsafe { ruby.each_heap_page(fill_page, (&raw mut filling).cast()) };
    Some(filling.filled)
}

/// Whether the flags of an object are those of an internal one of this kind.
fn is_internal(flags: usize, kind: usize) -> bool {
    flags & TYPE_MASK == IMEMO && flags >> KIND_SHIFT & KIND_MASK == kind
}

/// The first words of a compiled method (`struct rb_iseq_struct`, vm_core.h): flags, wrapper, body.
///
/// # Safety
/// `slot` must be one of Ruby's heap.
unsafe fn compiled_method(slot: usize) -> Option<[usize; 3]> {
    // SAFETY: a slot has at least five words.
    let head = unsafe { *(slot as *const [usize; 3]) };
    is_internal(head[0], ISEQ).then_some(head)
}

/// The slots of a heap page.
fn slots(start: *mut c_void, end: *mut c_void, stride: usize) -> impl Iterator<Item = usize> {
    (start as usize..end as usize).step_by(stride.max(1))
}

/// Looks for the compiled methods with these wrappers.
struct SpecimenSearch {
    wrappers: [Value; 2],
    /// Their slots; 0 until they are found.
    found: [usize; 2],
}

unsafe extern "C" fn find_on_page(
    start: *mut c_void,
    end: *mut c_void,
    stride: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: `fill` passes it, and Ruby the slots of a page.
    let search = unsafe { &mut *search.cast::<SpecimenSearch>() };
    for slot in slots(start, end, stride) {
        // SAFETY: as above.
        let Some([_, wrapper, _]) = (unsafe { compiled_method(slot) }) else { continue };
        for (wanted, found) in search.wrappers.iter().zip(&mut search.found) {
            if wrapper == *wanted {
                *found = slot;
            }
        }
    }
    0
}

/// The body of the compiled method in a slot, as far as it can be read.
fn compiled_body(slot: usize) -> Option<[usize; BODY_WORDS]> {
    let [_, _, body]: [usize; 3] = words(slot, 3)?.try_into().ok()?;
    let mut found = [0; BODY_WORDS];
    (read(body, &mut found) > 0).then_some(found)
}

/// Reads words of this process; returns how many bytes were readable. An address that is none gives 0.
fn read(address: usize, into: &mut [usize]) -> usize {
    let bytes = size_of_val(into);
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: ptr::without_provenance_mut(address), iov_len: bytes };
    // SAFETY: the kernel writes at most `bytes` into the slice; it checks the other address.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(read).unwrap_or(0)
}

/// Words at an address; `None` unless all are readable.
fn words(address: usize, number: usize) -> Option<Vec<usize>> {
    let mut found = vec![0; number];
    (read(address, &mut found) == number * size_of::<usize>()).then_some(found)
}

/// Call sites at an address; `None` unless it can be a list of this many.
fn call_sites(address: usize, number: usize) -> Option<Vec<CallSite>> {
    if address == 0 || !address.is_multiple_of(align_of::<CallSite>()) {
        return None;
    }
    let words = words(address, number * 2)?;
    let sites: Vec<CallSite> = words.chunks_exact(2).map(|site| [site[0], site[1]]).collect();
    // What is called without a block and without keywords is packed into a number (`vm_ci_packed_p`, vm_callinfo.h).
    sites.iter().all(|site| site[0] & 1 == 1).then_some(sites)
}

fn is_cache_of(cache: usize, class: Value) -> bool {
    words(cache, 2).is_some_and(|head| is_internal(head[0], CALL_CACHE) && head[1] == class)
}

/// Where a compiled method has its call sites, and the two caches.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Layout {
    /// The word of the body with the address of the list.
    list: usize,
    /// The half word of the body with the number of call sites.
    number: usize,
    /// The cache of call sites that have none.
    empty: usize,
    /// The cache of the call site that was called.
    cache: usize,
}

/// A body and the number of its call sites.
type Known<'a> = (&'a [usize; BODY_WORDS], usize);

impl Layout {
    /// What two bodies have in common; `None` unless there is exactly one such place for each.
    fn of(called: Known<'_>, idle: Known<'_>) -> Option<Self> {
        let caches = |list: usize| {
            let [first, rest @ ..] = &call_sites(called.0[list], called.1)?[..] else {
                return None;
            };
            let [cache, empty] = [first[1], rest.first()?[1]];
            let of_idle = call_sites(idle.0[list], idle.1)?;
            let are_empty = rest.iter().chain(&of_idle).all(|site| site[1] == empty);
            (are_empty && empty != 0 && cache != empty).then_some((list, empty, cache))
        };
        let (list, empty, cache) = only((0..BODY_WORDS).filter_map(caches))?;
        let halves =
            |body: &[usize; BODY_WORDS]| body.map(|word| [word as u32, (word >> 32) as u32]);
        let [of_called, of_idle] = [called, idle].map(|(body, sites)| (halves(body), sites as u32));
        let is_number = |&half: &usize| {
            [&of_called, &of_idle].iter().all(|(body, sites)| body[half / 2][half % 2] == *sites)
        };
        let number = only((0..BODY_WORDS * 2).filter(is_number))?;
        Some(Self { list, number, empty, cache })
    }
}

/// The item of an iterator that has exactly one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let item = items.next()?;
    items.next().is_none().then_some(item)
}

/// Fills the caches of all compiled methods.
struct Filling {
    layout: Layout,
    /// `rb_gc_writebarrier`: tells the collector that the first object refers to the second.
    remember: unsafe extern "C" fn(Value, Value),
    filled: u64,
}

impl Filling {
    /// # Safety
    /// `slot` must be one of Ruby's heap, with the GVL held, and the layout that of this Ruby.
    unsafe fn fill(&mut self, slot: usize) {
        // SAFETY: a compiled method has a body, or none yet; a body has a list of this many call sites, or none yet.
        let sites = unsafe {
            let Some([_, _, body]) = compiled_method(slot) else { return };
            if body == 0 {
                return;
            }
            let list = *(body as *const *mut CallSite).add(self.layout.list);
            let number = *(body as *const u32).add(self.layout.number);
            if list.is_null() || number == 0 {
                return;
            }
            std::slice::from_raw_parts_mut(list, number as usize)
        };
        let empty = sites.iter_mut().filter(|site| site[1] == self.layout.empty);
        let filled = empty.map(|site| site[1] = self.layout.cache).count();
        if filled > 0 {
            // SAFETY: both are objects of Ruby's heap.
            unsafe { (self.remember)(slot, self.layout.cache) };
            self.filled += filled as u64;
        }
    }
}

unsafe extern "C" fn fill_page(
    start: *mut c_void,
    end: *mut c_void,
    stride: usize,
    filling: *mut c_void,
) -> c_int {
    // SAFETY: `fill` passes it, and Ruby the slots of a page.
    unsafe {
        let filling = &mut *filling.cast::<Filling>();
        for slot in slots(start, end, stride) {
            filling.fill(slot);
        }
    }
    0
}
