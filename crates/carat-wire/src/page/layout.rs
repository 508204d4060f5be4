//! Where everything is in the file. Assertions check the offsets at compile time.

use crate::page::section::{Section, Table};
use crate::page::sites::Sites;
use crate::page::word::{Word, set_text};
use crate::page::words::{Allocations, Arena, Gc, Malloc, Own, Pool, Runtime};
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// First word of a page that is ready: "CARATPG1" as little-endian bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CARATPG1");

/// Version of the layout.
pub const VERSION: u64 = 3;

/// The probe's function that returns its page, `extern "C" fn() -> *const Page`, or null if there is none.
///
/// The runtime library finds it with `dlopen(CARAT_PROBE, RTLD_NOW | RTLD_NOLOAD)` and `dlsym`. The address never
/// changes: after a fork the child's own page is mapped in place of its parent's.
pub const ENTRY: &std::ffi::CStr = c"carat_probe_page";

/// Room for size pools.
pub const POOLS: usize = 16;

/// Room for arenas of glibc.
pub const ARENAS: usize = 64;

/// Room for ranges of heap pages.
pub const RANGES: usize = 16_380;

/// Bytes of the file. It is sparse: ranges and sites that were never written take no memory.
pub const PAGE_BYTES: usize = 675_840;

/// Bytes before the heap page ranges.
pub const FRONT_BYTES: usize = 8192;

/// A text of at most 128 bytes of UTF-8, padded with zeros.
#[repr(C)]
#[derive(Debug)]
pub struct PageText([AtomicU64; 16]);

/// Which process this is, and which features are on.
#[repr(C)]
#[derive(Debug)]
pub struct PageHeader {
    /// [`MAGIC`], stored last: before that the page is not ready.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// [`PAGE_BYTES`].
    pub bytes: AtomicU64,
    /// The process id as the process sees it; outside a container it may differ.
    pub pid: AtomicU64,
    /// Start of the process in clock ticks since boot (proc(5), `starttime`), or [`UNKNOWN`].
    pub start_time: AtomicU64,
    /// The parent's process id when the page was created (`getppid(2)`).
    pub parent_pid: AtomicU64,
    /// Forks since the Ruby that was started: 0 in that process, 1 in its children.
    pub fork_generation: AtomicU64,
    /// Monotonic clock when the page was created, in nanoseconds.
    pub born_ns: AtomicU64,
    /// Raised by one by carat to request fresh figures; a futex that the probe's thread waits on.
    pub requested: AtomicU32,
    /// The latest request after which the figures that need no lock of Ruby's were renewed: malloc and threads. Raised
    /// when Ruby has answered too, or after half a second.
    pub served: AtomicU32,
    /// The latest request after which the figures that need Ruby's lock were renewed: counts, pools, heap pages,
    /// compiler. It lags while a C extension holds that lock.
    pub served_by_ruby: AtomicU32,
    pub(crate) unused: AtomicU32,
    /// A [`crate::page::AllocatorKind`] as its index plus 1; 0 if it is not detected yet.
    pub allocator: AtomicU64,
    /// For how many nanoseconds carat asks for samples of allocations, or [`END_SAMPLES`](crate::page::END_SAMPLES); the probe takes the request by
    /// writing 0.
    pub allocation_ns: AtomicU64,
    pub(crate) reserved: [AtomicU64; 4],
    /// A [`FeatureState`] per [`Feature`].
    pub features: [AtomicU64; 16],
    /// `RUBY_DESCRIPTION`.
    pub ruby: PageText,
    /// The file from which `malloc` comes.
    pub malloc_file: PageText,
}

/// Rows of [`Pool`].
pub type Pools = Table<8, POOLS>;
/// Rows of [`Arena`].
pub type Arenas = Table<7, ARENAS>;
/// Rows of start address and bytes, ascending, with neighbours joined; the sum counts heap pages.
pub type Ranges = Table<2, RANGES>;

/// The whole file.
#[repr(C)]
#[derive(Debug)]
pub struct Page {
    /// Process and features.
    pub header: PageHeader,
    /// Collector and slots.
    pub gc: Section<Gc>,
    /// The allocator's own figures.
    pub malloc: Section<Malloc>,
    /// Process, compiler, cost of the probe.
    pub own: Section<Own>,
    /// What the runtime library did.
    pub runtime: Section<Runtime>,
    /// Size pools.
    pub pools: Pools,
    pub(crate) after_pools: [AtomicU64; 56],
    /// Arenas of glibc.
    pub arenas: Arenas,
    pub(crate) after_arenas: [AtomicU64; 56],
    /// Where Ruby's heap pages are.
    pub ranges: Ranges,
    /// How many allocations were sampled.
    pub allocations: Section<Allocations>,
    /// Where they were.
    pub sites: Sites,
    pub(crate) after_sites: [AtomicU64; 440],
}

const _: () = {
    assert!(size_of::<PageHeader>() == 512);
    assert!(offset_of!(PageHeader, requested) == 64);
    assert!(offset_of!(PageHeader, allocator) == 80);
    assert!(offset_of!(PageHeader, features) == 128);
    assert!(offset_of!(PageHeader, ruby) == 256);
    assert!(size_of::<Section<Gc>>() == 512);
    assert!(offset_of!(Page, gc) == 512);
    assert!(offset_of!(Page, malloc) == 1024);
    assert!(offset_of!(Page, own) == 1536);
    assert!(offset_of!(Page, runtime) == 2048);
    assert!(offset_of!(Page, pools) == 2560);
    assert!(offset_of!(Page, arenas) == 4096);
    assert!(offset_of!(Page, ranges) == FRONT_BYTES);
    assert!(offset_of!(Page, allocations) == 270_336);
    assert!(offset_of!(Page, allocations).is_multiple_of(4096));
    assert!(size_of::<Page>() == PAGE_BYTES);
    assert!(PAGE_BYTES.is_multiple_of(4096));
    assert!(Pool::ALL.len() == 8 && Arena::ALL.len() == 7);
    assert!(Feature::ALL.len() <= 16);
};

/// Something that the probe can do. Each feature is on or off by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Feature {
    /// Everything that needs Ruby's C API.
    Ruby,
    /// Counts of the collector and of slots.
    Gc,
    /// Size pools.
    Pools,
    /// Heap page ranges.
    HeapPages,
    /// The allocator's figures.
    Malloc,
    /// Arenas of glibc.
    Arenas,
    /// Figures of YJIT.
    Yjit,
    /// The probe's own thread, which answers requests.
    Thread,
    /// Readings with Ruby's lock held.
    PostponedJobs,
    /// Waking Ruby for a reading when all its threads sleep.
    Wake,
    /// A page of its own for every forked child.
    Forks,
    /// Samples of allocations, where carat asks for them.
    Allocations,
}

impl Feature {
    /// Every feature in the order of the page.
    pub const ALL: &'static [Self] = &[
        Self::Ruby,
        Self::Gc,
        Self::Pools,
        Self::HeapPages,
        Self::Malloc,
        Self::Arenas,
        Self::Yjit,
        Self::Thread,
        Self::PostponedJobs,
        Self::Wake,
        Self::Forks,
        Self::Allocations,
    ];
}

/// Whether a feature is on, and if not, why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum FeatureState {
    /// Not tried yet.
    NotYet = 0,
    On = 1,
    /// A function of Ruby or of the C library is missing here.
    NoFunction = 2,
    /// Carat does not support this Ruby or this version of it.
    UnknownRuby = 3,
    /// The allocator in use does not offer it.
    OtherAllocator = 4,
    /// This Ruby does not have it, or has it disabled.
    Absent = 5,
    /// The system refused.
    Refused = 6,
    /// An internal error of the probe, which switched itself off.
    Fault = 7,
    /// Ruby's collector is another than its own, such as MMTk, whose heap the probe does not know.
    OtherCollector = 8,
}

impl FeatureState {
    /// The state of that number; a number from a later version counts as [`FeatureState::NotYet`].
    // A later library may be in a server that still runs; its states are no error.
    pub fn from_word(word: u64) -> Self {
        [
            Self::On,
            Self::NoFunction,
            Self::UnknownRuby,
            Self::OtherAllocator,
            Self::Absent,
            Self::Refused,
            Self::Fault,
            Self::OtherCollector,
        ]
        .into_iter()
        .find(|state| *state as u64 == word)
        .unwrap_or(Self::NotYet)
    }
}

impl PageText {
    /// Writes as many bytes as there is room for.
    pub fn set(&self, text: &[u8]) {
        set_text(&self.0, text);
    }
}

impl PageHeader {
    pub fn set_feature(&self, feature: Feature, state: FeatureState) {
        self.features[feature as usize].store(state as u64, Ordering::Relaxed);
    }

    pub fn feature(&self, feature: Feature) -> FeatureState {
        FeatureState::from_word(self.features[feature as usize].load(Ordering::Relaxed))
    }
}

impl Page {
    /// A page of zeros on the heap, for tests.
    #[cfg(test)]
    pub(crate) fn new_boxed() -> Box<Self> {
        // SAFETY: a page is made of atomic integers only, and zero is a value of each.
        unsafe { Box::<Self>::new_zeroed().assume_init() }
    }
}

/// Name of the file of one process within the directory of pages.
pub fn file_name(pid: u32, start_time: Option<u64>) -> String {
    format!("{pid}-{}.page", start_time.unwrap_or(0))
}
