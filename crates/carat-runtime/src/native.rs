//! The functions that the Ruby half calls, as module functions of `CaratRuntime`.

use crate::calloc::Hindrance;
use crate::kernel::{
    allow_merging, is_listening, resident, set_huge_pages, start_ticks, stop_ticks,
};
use crate::trim::TrimMode;
use crate::{call_caches, calloc, gc_limits, guarded, malloc, report, seal, trim};
use carat_ruby::api::{loaded, running_version};
use carat_ruby::extension::{UNFIT_EXTENSIONS, UnfitExtension};
use carat_ruby::version::REWRITES_EMPTY_CALL_CACHES;
use carat_ruby::{RubyApi, Value};
use carat_wire::page::{Runtime, Word};
use std::ffi::CString;

/// Defines the functions, and the constants with the words of the report and the unfit extensions.
pub(crate) fn define(ruby: &RubyApi) {
    let module = ruby.module(c"CaratRuntime");
    ruby.define_0(module, c"listening", listening);
    ruby.define_0(module, c"purge", purge);
    ruby.define_0(module, c"trim_after_full_gc", trim_after_full_gc);
    ruby.define_0(module, c"trim_when_idle", trim_when_idle);
    ruby.define_0(module, c"trim_in_gc", trim_in_gc);
    ruby.define_0(module, c"fill_holes", fill_holes);
    ruby.define_0(module, c"bind_new_threads", bind_new_threads);
    ruby.define_0(module, c"leave_shared_arena", leave_shared_arena);
    ruby.define_0(module, c"separate_calloc", separate_calloc);
    ruby.define_0(module, c"join_calloc", join_calloc);
    ruby.define_2(module, c"learn_call_sites", learn_call_sites);
    ruby.define_1(module, c"fill_call_caches", fill_call_caches);
    ruby.define_1(module, c"limit_growth", limit_growth);
    ruby.define_2(module, c"let_grow", let_grow);
    ruby.define_0(module, c"restore_growth", restore_growth);
    ruby.define_0(module, c"return_all_pages", return_all_pages);
    ruby.define_0(module, c"return_usual_pages", return_usual_pages);
    ruby.define_0(module, c"rewrites_call_caches", rewrites_call_caches);
    ruby.define_0(module, c"allow_merging", merging);
    ruby.define_0(module, c"allow_huge_pages", allow_huge_pages);
    ruby.define_0(module, c"forbid_huge_pages", forbid_huge_pages);
    ruby.define_0(module, c"stop_ticks", end_ticks);
    ruby.define_1(module, c"start_ticks", begin_ticks);
    ruby.define_1(module, c"pin", pin);
    ruby.define_2(module, c"add", add);
    ruby.define_2(module, c"write", write);
    ruby.define_1(module, c"read", read);
    let words: Vec<&str> = Runtime::ALL.iter().map(|word| word.name()).collect();
    let words = format!("module CaratRuntime; WORDS = %i[{}].freeze; end", words.join(" "));
    for constant in [words, unfit_extensions()] {
        if let Ok(constant) = CString::new(constant) {
            ruby.evaluate(&constant);
        }
    }
}

/// The constant with the gems that compaction can crash; extensions.rb has the meaning of its columns.
fn unfit_extensions() -> String {
    let rows = UNFIT_EXTENSIONS.iter().map(|extension| {
        let [fixed, hidden] = [extension.fixed_in, extension.hidden_class]
            .map(|text| text.map_or("nil".to_owned(), |text| format!("'{text}'")));
        let UnfitExtension { gem, library, since_ruby, .. } = extension;
        format!("['{gem}', '{library}', '{since_ruby}', {fixed}, {hidden}]")
    });
    let rows: Vec<String> = rows.collect();
    format!("module CaratRuntime; UNFIT_EXTENSIONS = [{}].freeze; end", rows.join(", "))
}

/// Runs a native function and returns its number to Ruby; -1 if it panicked.
fn answer(receiver: Value, number: impl FnOnce() -> i64) -> Value {
    let number = guarded(-1, number);
    loaded().map_or(receiver, |ruby| ruby.integer(number))
}

/// 1 if this process has a listening socket, otherwise 0.
extern "C" fn listening(receiver: Value) -> Value {
    answer(receiver, || i64::from(is_listening()))
}

/// Purges malloc; the bytes that it returned, or -1 if that is unknown.
extern "C" fn purge(receiver: Value) -> Value {
    answer(receiver, || {
        let before = resident();
        let purged = malloc::purge();
        match before.zip(resident()) {
            Some((before, after)) if purged => before.saturating_sub(after) as i64,
            _ => -1,
        }
    })
}

extern "C" fn trim_after_full_gc(receiver: Value) -> Value {
    answer(receiver, || start_trimming(TrimMode::AfterFullGc))
}

extern "C" fn trim_when_idle(receiver: Value) -> Value {
    answer(receiver, || start_trimming(TrimMode::Idle))
}

extern "C" fn trim_in_gc(receiver: Value) -> Value {
    answer(receiver, || start_trimming(TrimMode::InGc))
}

/// 1 if trims will follow, 0 if carat cannot trim this malloc.
fn start_trimming(mode: TrimMode) -> i64 {
    match loaded() {
        Some(ruby) if malloc::can_purge() => {
            trim::start(ruby, mode);
            1
        }
        _ => 0,
    }
}

/// Fills malloc's small holes; the bytes of the blocks.
extern "C" fn fill_holes(receiver: Value) -> Value {
    answer(receiver, || seal::fill_holes() as i64)
}

extern "C" fn bind_new_threads(receiver: Value) -> Value {
    answer(receiver, || {
        loaded().map_or(0, |ruby| {
            seal::bind_new_threads(ruby);
            1
        })
    })
}

/// 1 if this process now allocates from its own arena or heap, 0 if this malloc has no such function.
extern "C" fn leave_shared_arena(receiver: Value) -> Value {
    answer(receiver, || i64::from(seal::leave_shared_arena()))
}

/// 1 if Ruby's calloc now has an arena of its own, 0 if malloc is not jemalloc, -1 if its calls cannot be redirected.
extern "C" fn separate_calloc(receiver: Value) -> Value {
    answer(receiver, || match calloc::separate() {
        Ok(()) => 1,
        Err(Hindrance::OtherMalloc) => 0,
        Err(Hindrance::Fixed) => -1,
    })
}

/// Ends that; the bytes in use of the arena, 0 if they are not known or the calls were not redirected.
extern "C" fn join_calloc(receiver: Value) -> Value {
    answer(receiver, || calloc::join().unwrap_or(0) as i64)
}

/// Makes a method of ours known by its compiled form and the number of its call sites.
extern "C" fn learn_call_sites(receiver: Value, method: Value, sites: Value) -> Value {
    let Some(ruby) = loaded() else { return receiver };
    let sites = ruby.number(sites);
    guarded((), || call_caches::learn(method, usize::try_from(sites).unwrap_or(0)));
    receiver
}

/// The number of call sites whose empty cache was filled with one of the class; -1 if it is unknown where they are.
extern "C" fn fill_call_caches(receiver: Value, class: Value) -> Value {
    answer(receiver, || {
        let filled = loaded().and_then(|ruby| call_caches::fill(ruby, class));
        filled.map_or(-1, |filled| filled as i64)
    })
}

/// Limits how far the heap may grow; the free slots that a full collection leaves, or -1 if it is unknown where Ruby keeps
/// its limits.
extern "C" fn limit_growth(receiver: Value, slots: Value) -> Value {
    answer(receiver, || {
        let slots = loaded().and_then(|ruby| u64::try_from(ruby.number(slots)).ok());
        slots.and_then(gc_limits::limit).map_or(-1, |free| free as i64)
    })
}

/// Lets the heap of this number grow up to so many slots where a minor collection leaves it full.
extern "C" fn let_grow(receiver: Value, heap: Value, slots: Value) -> Value {
    let Some(ruby) = loaded() else { return receiver };
    let (heap, slots) = (ruby.number(heap), ruby.number(slots));
    if let (Ok(heap), Ok(slots)) = (usize::try_from(heap), u64::try_from(slots)) {
        guarded((), || gc_limits::let_grow(heap, slots));
    }
    receiver
}

/// Gives the heap the limits of before.
extern "C" fn restore_growth(receiver: Value) -> Value {
    guarded((), gc_limits::restore);
    receiver
}

extern "C" fn return_all_pages(receiver: Value) -> Value {
    guarded((), gc_limits::return_all_pages);
    receiver
}

extern "C" fn return_usual_pages(receiver: Value) -> Value {
    guarded((), gc_limits::return_usual_pages);
    receiver
}

/// 1 if a full GC of this Ruby writes to call sites without a cache, otherwise 0.
extern "C" fn rewrites_call_caches(receiver: Value) -> Value {
    answer(receiver, || {
        i64::from(running_version().is_some_and(|ruby| REWRITES_EMPTY_CALL_CACHES.contains(ruby)))
    })
}

extern "C" fn merging(receiver: Value) -> Value {
    answer(receiver, || i64::from(allow_merging()))
}

extern "C" fn allow_huge_pages(receiver: Value) -> Value {
    answer(receiver, || i64::from(set_huge_pages(true)))
}

extern "C" fn forbid_huge_pages(receiver: Value) -> Value {
    answer(receiver, || i64::from(set_huge_pages(false)))
}

/// 1 if this process now gets the signal of this number some times per second.
extern "C" fn begin_ticks(receiver: Value, signal: Value) -> Value {
    answer(receiver, || {
        let signal = loaded().and_then(|ruby| i32::try_from(ruby.number(signal)).ok());
        i64::from(signal.is_some_and(start_ticks))
    })
}

extern "C" fn end_ticks(receiver: Value) -> Value {
    answer(receiver, || {
        stop_ticks();
        1
    })
}

/// Keeps an object where it is; see `RubyApi::pin`.
extern "C" fn pin(receiver: Value, object: Value) -> Value {
    if let Some(ruby) = loaded() {
        ruby.pin(object);
    }
    receiver
}

/// Adds to a word of the report, given by its index.
extern "C" fn add(receiver: Value, index: Value, amount: Value) -> Value {
    let Some(ruby) = loaded() else { return receiver };
    let (index, amount) = (ruby.number(index), ruby.number(amount));
    if let Some(word) = word(index) {
        report::add(word, amount.max(0) as u64);
    }
    receiver
}

/// Replaces a word of the report, given by its index.
extern "C" fn write(receiver: Value, index: Value, value: Value) -> Value {
    let Some(ruby) = loaded() else { return receiver };
    if let Some(word) = word(ruby.number(index)) {
        report::write(word, ruby.number(value) as u64);
    }
    receiver
}

/// Reads a word of the report, given by its index; -1 if there is none.
extern "C" fn read(receiver: Value, index: Value) -> Value {
    let Some(ruby) = loaded() else { return receiver };
    let value = word(ruby.number(index)).map_or(-1, |word| report::read(word) as i64);
    ruby.integer(value)
}

fn word(index: i64) -> Option<Runtime> {
    Runtime::ALL.get(usize::try_from(index).ok()?).copied()
}
