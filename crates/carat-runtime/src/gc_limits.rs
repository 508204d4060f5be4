//! Ruby's limits for how its heap of slots grows, changed while it runs.
//!
//! Ruby reads them from variables once, when it starts (`ruby_gc_set_params`), and has no function to change them later. In
//! the environment they would hold for the boot too, which would collect all the time, and for workers that load the
//! application themselves. So they are changed where Ruby keeps them, right before a preloaded server forks.
//!
//! That is `gc_params` of gc.c (gc/default/default.c from 3.4 on), where the six words of [`FIELDS`] follow each other in every
//! Ruby from 2.7 to 4.1. They are found by what they contain when nobody has changed them. Unless exactly one place in the data
//! of Ruby's library has that content, nothing is written.

use crate::imports::LoadedObject;
use carat_ruby::api::running_version;
use carat_ruby::symbol::find;
use carat_ruby::version::{
    GROWS_TO_INIT_SLOTS, GROWTH_IN_BYTES, GROWTH_IN_SLOTS_OF_ANY_SIZE, INIT_SLOTS_BY_SIZE,
    RubyVersion, SLOT_SIZES,
};
use std::env;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Mutex, OnceLock};

/// One word: the variable by which a user sets it, and Ruby's own value.
#[derive(Debug, Clone, Copy)]
enum Field {
    Number(&'static str, u64),
    Ratio(&'static str, f64),
}

/// The words in the order in which Ruby keeps them.
const FIELDS: [Field; 6] = [
    Field::Number("RUBY_GC_HEAP_FREE_SLOTS", 4096),
    Field::Ratio("RUBY_GC_HEAP_GROWTH_FACTOR", 1.8),
    Field::Number("RUBY_GC_HEAP_GROWTH_MAX_SLOTS", 0),
    Field::Ratio("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO", 0.20),
    Field::Ratio("RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO", 0.40),
    Field::Ratio("RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO", 0.65),
];
/// The variable of the third word where Ruby counts bytes.
const GROWTH_MAX_BYTES: &str = "RUBY_GC_HEAP_GROWTH_MAX_BYTES";
/// The variable of the word before them, up to Ruby 3.2. Later Rubies have a word and a variable for each size of slots
/// (`RUBY_GC_HEAP_0_INIT_SLOTS` …), 4.1 one word in bytes.
const INIT_SLOTS: Field = Field::Number("RUBY_GC_HEAP_INIT_SLOTS", OWN_INIT_SLOTS);
/// Ruby's own value of each of these words.
const OWN_INIT_SLOTS: u64 = 10_000;

/// Sizes of slots in the Rubies with a word for each of them (`SIZE_POOL_COUNT`, `HEAP_COUNT`).
const HEAPS: usize = 5;

/// Ratios of free slots with which a worker collects before it has grown by a share of what it inherited. Ruby aborts if
/// the lower one is too close to 0 (`gc_sweep_finish_size_pool`, gc.c). With 0.05, workers of Redmine on Ruby 3.3 collected half as
/// often, but as often fully, which seems to take most of the time in GC: five pairs of trials could not tell
/// their processor time apart.
const FREE_SLOTS_MIN_RATIO: f64 = 0.004;
/// A Ruby whose limit is in slots of any size asks each of its heaps for its share, also after a minor collection
/// (`gc_sweep_finish_heap`, gc/default/default.c of 3.4). With the one above, a worker of the blog collected on every third to
/// fifth page (docs/evidence/remedies.md has the trials).
const FREE_SLOTS_MIN_RATIO_OF_ANY_SIZE: f64 = 0.02;
const FREE_SLOTS_GOAL_RATIO: f64 = 0.05;
/// The parent of a Ruby without `Process.warmup` would otherwise keep empty pages from its boot, up to 65 %. Where there is a
/// heap for each size (3.2 and later), collections would take the last pages from those of large slots, which the lower
/// ratio then keeps from growing: a worker would collect in every request.
const FREE_SLOTS_MAX_RATIO: f64 = 0.1;
/// Where there is one heap for all sizes, a full collection gives no page back while there are fewer free slots than
/// `RUBY_GC_HEAP_INIT_SLOTS` (`gc_marks_finish`, gc.c of 3.1). Of what a request holds while a minor collection runs, much
/// stays until the next full one, so that without this floor the workers of a small application would collect fully every
/// 60 pages or so. With 2 a small application still collected fully twice as often as without the setting, with 3 it needed
/// more memory (docs/evidence/remedies.md).
const FREE_AFTER_FULL: f64 = 2.5;
const MOST_FREE_AFTER_FULL: u64 = 200_000;
/// Bytes that a slot counts for a Ruby that limits the growth in bytes.
const SLOT_BYTES: u64 = 40;
/// Slots of 40 bytes that one slot counts for a Ruby whose limit is in slots of any size: those of a request have 40 to 320
/// bytes.
const SLOTS_PER_SLOT: u64 = 2;

/// Where the words are, and what they contained before. Those of the least size of heaps come first.
#[derive(Debug, Clone)]
struct Limits {
    version: RubyVersion,
    first: *mut u64,
    before: Vec<u64>,
    /// The growth that holds now, in slots of 40 bytes; `None` while Ruby's own limits hold.
    growth: Option<u64>,
    /// See [`let_grow`].
    grows_to: [u64; HEAPS],
}

// SAFETY: the address is that of words in Ruby's data, which every thread may read; they are written with the GVL held.
unsafe impl Send for Limits {}

static LIMITS: Mutex<Option<Limits>> = Mutex::new(None);

/// The variables of the words that Ruby was started with, by their names.
static GIVEN: OnceLock<Vec<(&str, String)>> = OnceLock::new();

/// Reads the variables of the words. To be called when the library is loaded, because they may be removed from the environment
/// then, so that programs that the server starts do not inherit them.
pub(crate) fn remember_variables() {
    given();
}

fn given() -> &'static [(&'static str, String)] {
    GIVEN.get_or_init(|| {
        let of_fields = [INIT_SLOTS].into_iter().chain(FIELDS).map(Field::variable);
        let names = of_fields.chain([GROWTH_MAX_BYTES]);
        names.filter_map(|name| Some((name, env::var(name).ok()?))).collect()
    })
}

/// Lets a heap grow by so many slots of 40 bytes before it must be collected. A variable that the user has set keeps its
/// effect. Returns the free slots that a full collection leaves, 0 where Ruby has no such bound; `None` if it is unknown
/// where the limits are. To be called with the GVL held, as the others.
pub(crate) fn limit(slots: u64) -> Option<u64> {
    let version = running_version()?;
    let mut known = LIMITS.lock().ok()?;
    if known.is_none() {
        *known = Limits::find(version);
    }
    let limits = known.as_mut()?;
    limits.growth = Some(slots);
    limits.write_all();
    let has_floor = !SLOT_SIZES.contains(version);
    Some(if has_floor { limits.read(limits.sizes() - 1) } else { 0 })
}

/// Lets the heap of this number grow up to so many slots, if a minor collection leaves it full, before Ruby collects fully. What a
/// request of a large application makes in one size of slots may be more than a worker has free there. Several minor
/// collections then happen in one request and make its objects old, so that later requests end in full collections, each of
/// which frees just enough slots for Ruby not to let the heap grow. Nothing is done on a Ruby that has no
/// such bound, nor where the user has set it.
pub(crate) fn let_grow(heap: usize, slots: u64) {
    let Ok(mut known) = LIMITS.lock() else { return };
    if let Some(limits) = known.as_mut() {
        limits.let_grow(heap, slots);
    }
}

/// From here on collections give back every page without objects, also those of the heap's least size; until
/// [`return_usual_pages`]. The floor of free slots for workers stays.
pub(crate) fn return_all_pages() {
    let Ok(Some(limits)) = LIMITS.lock().map(|limits| limits.clone()) else { return };
    if SLOT_SIZES.contains(limits.version) {
        (0..limits.sizes()).for_each(|place| limits.write(place, 0));
    }
    // Ruby itself does so for a while (`rb_gc_impl_prepare_heap` of 4.1).
    limits.write(limits.before.len() - 1, 0);
}

/// Ends that.
pub(crate) fn return_usual_pages() {
    let Ok(Some(limits)) = LIMITS.lock().map(|limits| limits.clone()) else { return };
    limits.write_all();
}

/// Puts back what was there before.
pub(crate) fn restore() {
    let Ok(mut known) = LIMITS.lock() else { return };
    if let Some(limits) = known.as_mut() {
        limits.restore();
    }
}

impl Limits {
    fn find(version: RubyVersion) -> Option<Self> {
        // SAFETY: only the address is used, of a function that every Ruby has (ruby/internal/gc.h).
        let inside = unsafe { find::<*const c_void>(c"rb_gc_start") }?;
        let contents = FIELDS.map(|field| field.contents(field.given()));
        let object = LoadedObject::around(inside)?;
        let mut found = object.data().flat_map(|range| search(&contents, range));
        let place = found.next().filter(|_| found.next().is_none())?;
        let sizes = if INIT_SLOTS_BY_SIZE.contains(version) { HEAPS } else { 1 };
        let first = std::ptr::with_exposed_provenance_mut::<u64>(place).wrapping_sub(sizes);
        let words = 0..sizes + FIELDS.len();
        // SAFETY: `search` has read the last of these words, and found as many before them.
        let before = words.map(|word| unsafe { first.add(word).read_volatile() }).collect();
        Some(Self { version, first, before, growth: None, grows_to: [0; HEAPS] })
    }

    /// Words of the least size of heaps.
    fn sizes(&self) -> usize {
        self.before.len() - FIELDS.len()
    }

    /// Writes what holds now: Ruby's own limits, or those for a worker where the user has set none.
    fn write_all(&self) {
        let wanted = self.growth.map_or([None; 7], |slots| for_worker(self.version, slots));
        let kept = self.sizes() - 1;
        let fields = [INIT_SLOTS].into_iter().chain(FIELDS);
        let wanted = fields.zip(wanted).map(|(field, value)| value.filter(|_| field.is_free()));
        let all = std::iter::repeat_n(None, kept).chain(wanted);
        for (place, (value, before)) in all.zip(&self.before).enumerate() {
            let grows_to = self.grows_to.get(place).copied().unwrap_or(0);
            self.write(place, value.unwrap_or(*before).max(grows_to));
        }
    }

    fn let_grow(&mut self, heap: usize, slots: u64) {
        let own = self.before[..self.sizes()].get(heap) == Some(&OWN_INIT_SLOTS);
        if own && GROWS_TO_INIT_SLOTS.contains(self.version) {
            self.grows_to[heap] = slots;
            self.write_all();
        }
    }

    fn restore(&mut self) {
        self.growth = None;
        self.grows_to = [0; HEAPS];
        self.write_all();
    }

    fn read(&self, place: usize) -> u64 {
        // SAFETY: as in `write`.
        unsafe { self.first.add(place).read_volatile() }
    }

    fn write(&self, place: usize, value: u64) {
        // SAFETY: `find` has read the words of all places, and Ruby writes to them too.
        unsafe { self.first.add(place).write_volatile(value) };
    }
}

/// The words for a worker of this Ruby, that of `INIT_SLOTS` first; `None` where a word stays as it is.
fn for_worker(version: RubyVersion, slots: u64) -> [Option<u64>; 7] {
    let of_any_size = GROWTH_IN_SLOTS_OF_ANY_SIZE.contains(version);
    let growth = match () {
        () if of_any_size => slots / SLOTS_PER_SLOT,
        () if GROWTH_IN_BYTES.contains(version) => slots.saturating_mul(SLOT_BYTES),
        () => slots,
    };
    let least = if of_any_size { FREE_SLOTS_MIN_RATIO_OF_ANY_SIZE } else { FREE_SLOTS_MIN_RATIO };
    let one_heap = !SLOT_SIZES.contains(version);
    [
        one_heap.then(|| free_after_full(slots)),
        one_heap.then(|| grows_below(slots)),
        None,
        Some(growth),
        Some(least.to_bits()),
        Some(FREE_SLOTS_GOAL_RATIO.to_bits()),
        one_heap.then(|| FREE_SLOTS_MAX_RATIO.to_bits()),
    ]
}

/// Free slots that a worker keeps after a full collection if it may grow by `growth` slots.
fn free_after_full(growth: u64) -> u64 {
    ((growth as f64 * FREE_AFTER_FULL) as u64).min(MOST_FREE_AFTER_FULL)
}

/// With one heap, Ruby lets it grow if a full collection has found fewer free slots than this, 4,096 by default, or than the
/// lower ratio. A worker whose own objects had used up what it started with collected nearly all the time: Redmine's
/// needed half as much processor time again, also with half of the growth here. A minor collection that finds fewer calls
/// for a full one, so a full one leaves one and a half growths more.
fn grows_below(growth: u64) -> u64 {
    growth.min((MOST_FREE_AFTER_FULL as f64 / FREE_AFTER_FULL) as u64)
}

impl Field {
    fn variable(self) -> &'static str {
        let (Self::Number(variable, _) | Self::Ratio(variable, _)) = self;
        variable
    }

    /// The text of the variable that sets this word.
    fn given(self) -> Option<&'static str> {
        let text_of = |name: &str| {
            given().iter().find(|(given, _)| *given == name).map(|(_, text)| text.as_str())
        };
        text_of(self.variable()).or_else(|| {
            let has_other_name = matches!(self, Self::Number("RUBY_GC_HEAP_GROWTH_MAX_SLOTS", _));
            has_other_name.then(|| text_of(GROWTH_MAX_BYTES)).flatten()
        })
    }

    /// Whether the user has left this word to Ruby.
    fn is_free(self) -> bool {
        self.given().is_none()
    }

    /// What the word contains: Ruby's own value, or that of a variable, which Ruby may also have found invalid.
    fn contents(self, given: Option<&str>) -> [u64; 2] {
        let (own, given) = match self {
            Self::Number(_, own) => (own, given.and_then(number)),
            Self::Ratio(_, own) => {
                (own.to_bits(), given.and_then(|text| text.parse().ok()).map(f64::to_bits))
            }
        };
        [own, given.unwrap_or(own)]
    }
}

/// A number as Ruby reads it from a variable (`get_envparam_size`, gc.c).
fn number(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()? {
        b'k' | b'K' => 10,
        b'm' | b'M' => 20,
        b'g' | b'G' => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The addresses at which words with these contents follow each other, behind at least [`HEAPS`] others.
fn search(contents: &[[u64; 2]], range: Range<usize>) -> Vec<usize> {
    let start = range.start.next_multiple_of(size_of::<u64>());
    let number = range.end.saturating_sub(start) / size_of::<u64>();
    let words = std::ptr::with_exposed_provenance::<u64>(start);
    // SAFETY: the dynamic linker has mapped this range of an object that stays loaded, and it is readable.
    let words: Vec<u64> = (0..number).map(|at| unsafe { words.add(at).read_volatile() }).collect();
    let found = places(contents, &words).into_iter();
    found.map(|place| start + place * size_of::<u64>()).collect()
}

fn places(contents: &[[u64; 2]], words: &[u64]) -> Vec<usize> {
    let runs = words.windows(contents.len()).enumerate().skip(HEAPS);
    let found = runs
        .filter(|(_, run)| run.iter().zip(contents).all(|(word, allowed)| allowed.contains(word)));
    found.map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> [u64; 6] {
        FIELDS.map(|field| field.contents(None)[0])
    }

    #[test]
    fn the_limits_are_found_by_ruby_s_own_values_or_by_those_of_variables() {
        let contents = FIELDS.map(|field| field.contents(None));
        let words = [&[10_000; 7], own().as_slice(), &[2]].concat();
        assert_eq!(places(&contents, &words), [7]);
        let twice = [words.as_slice(), &words].concat();
        assert_eq!(places(&contents, &twice).len(), 2);
        assert_eq!(places(&contents, &words[3..]), [0_usize; 0], "too few words precede them");
        let mut given = contents;
        given[2] = FIELDS[2].contents(Some("40k"));
        let mut set = words.clone();
        set[9] = 40 << 10;
        assert_eq!((places(&given, &set), places(&contents, &set)), (vec![7], vec![]));
        // Ruby warns of a value that makes no sense, and keeps its own.
        assert_eq!(places(&given, &words), [7]);
    }

    #[test]
    fn a_number_is_read_as_ruby_reads_it() {
        for (text, expected) in [
            ("40000", Some(40_000)),
            ("64k", Some(65_536)),
            ("2M", Some(2 << 20)),
            ("1g", Some(1 << 30)),
            ("-1", None),
            ("", None),
            ("99999999999999g", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn a_heap_may_grow_unless_the_user_has_set_its_size_until_ruby_s_own_limits_are_back() {
        let own_words = [[10_000, 10_000, 90_000, 5_000, 10_000].as_slice(), &own()].concat();
        let after = |version: &str, end: fn(&mut Limits)| {
            let mut words = own_words.clone();
            let mut limits = Limits {
                version: version.parse().unwrap(),
                first: words.as_mut_ptr(),
                before: own_words.clone(),
                growth: Some(40_000),
                grows_to: [0; HEAPS],
            };
            let all = [(0, 4_000), (1, 70_000), (2, 80_000), (3, 80_000), (5, 1), (usize::MAX, 1)];
            for (heap, slots) in all {
                limits.let_grow(heap, slots);
            }
            end(&mut limits);
            words[..HEAPS].to_vec()
        };
        assert_eq!(after("3.3", |_| ()), [10_000, 70_000, 90_000, 5_000, 10_000]);
        assert_eq!(after("3.3", Limits::restore), own_words[..HEAPS]);
        assert_eq!(after("3.4", |_| ()), own_words[..HEAPS], "no bound of it is changed");
    }

    #[test]
    fn the_growth_is_in_the_unit_of_the_ruby_and_a_half_where_slots_have_any_size() {
        let growth = |version: &str| for_worker(version.parse().unwrap(), 40_000)[3];
        assert_eq!(
            ["2.7", "3.1", "3.3", "3.4", "4.0", "4.1"].map(growth),
            [40_000, 40_000, 40_000, 20_000, 20_000, 1_600_000].map(Some)
        );
    }

    #[test]
    fn only_a_ruby_with_one_heap_keeps_a_floor_of_free_slots() {
        let floor = |version: &str| for_worker(version.parse().unwrap(), 40_000)[0];
        assert_eq!(
            ["2.7", "3.1", "3.2", "3.3", "4.0"].map(floor),
            [Some(100_000), Some(100_000), None, None, None]
        );
        assert_eq!((free_after_full(40_000), grows_below(40_000)), (100_000, 40_000));
        assert_eq!(free_after_full(u64::MAX / SLOT_BYTES), MOST_FREE_AFTER_FULL);
    }
}
