//! The functions of Ruby that the probe calls, looked up by name.
//!
//! A `VALUE` is a machine word. No literal of the special constants is used, because they changed
//! between versions; only small integers are read, whose lowest bit is 1 in all of them.

use carat_wire::page::State;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A reference to a Ruby object, or a small integer.
pub(crate) type Value = usize;
/// Marks what the data of an object refers to, or frees it.
pub(crate) type OnData = extern "C" fn(*mut c_void);
/// What a postponed job looks like.
pub(crate) type Job = extern "C" fn(*mut c_void);
/// A block in C: argument, own data, number and list of arguments, block.
pub(crate) type Block = extern "C" fn(Value, Value, c_int, *const Value, Value) -> Value;
/// Called once per heap page: first slot, end of the last, bytes from slot to slot, own data.
pub(crate) type OnPage = extern "C" fn(*mut c_void, *mut c_void, usize, *mut c_void) -> c_int;

type Protected = unsafe extern "C" fn(Value) -> Value;

/// What must be there for anything inside Ruby to work.
pub(crate) struct Ruby {
    /// Counts of the collector: `GC.stat(symbol)` without an object. Raises for an unknown key.
    pub(crate) gc_stat: unsafe extern "C" fn(Value) -> usize,
    pub(crate) hash_lookup: unsafe extern "C" fn(Value, Value) -> Value,
    pub(crate) gc_register_mark_object: unsafe extern "C" fn(Value),
    /// An object of that class (0 for none, which hides it) around data that is marked and freed by functions.
    pub(crate) data_object_wrap:
        unsafe extern "C" fn(Value, *mut c_void, OnData, Option<OnData>) -> Value,
    /// `GC.latest_gc_info(symbol)`. Raises for an unknown key.
    pub(crate) latest_gc_info: Option<unsafe extern "C" fn(Value) -> Value>,
    during_gc: unsafe extern "C" fn() -> c_int,
    /// Walks over all heap pages. Needs Ruby's lock, and must not run during a collection.
    pub(crate) each_objects: Option<unsafe extern "C" fn(OnPage, *mut c_void)>,
    pub(crate) set_end_proc: unsafe extern "C" fn(extern "C" fn(Value), Value),
    pub(crate) proc_new: Option<unsafe extern "C" fn(Block, Value) -> Value>,
    pub(crate) preregister: Option<unsafe extern "C" fn(c_uint, Job, *mut c_void) -> c_uint>,
    pub(crate) trigger: Option<unsafe extern "C" fn(c_uint)>,
    pub(crate) register_one: Option<unsafe extern "C" fn(c_uint, Job, *mut c_void) -> c_int>,
    intern: unsafe extern "C" fn(*const c_char) -> usize,
    id2sym: unsafe extern "C" fn(usize) -> Value,
    protect: unsafe extern "C" fn(Protected, Value, *mut c_int) -> Value,
    set_errinfo: unsafe extern "C" fn(Value),
    eval_string_protect: unsafe extern "C" fn(*const c_char, *mut c_int) -> Value,
    funcallv: unsafe extern "C" fn(Value, usize, c_int, *const Value) -> Value,
    nil: Value,
}

static RUBY: OnceLock<Ruby> = OnceLock::new();

/// The functions, once loaded.
pub(crate) fn get() -> Option<&'static Ruby> {
    RUBY.get()
}

/// Versions that the probe was made for: 2.7 and every 3.
pub(crate) fn is_known_version((major, minor): (c_int, c_int)) -> bool {
    (major, minor) == (2, 7) || major == 3
}

/// Looks everything up; must be called with Ruby's lock held.
pub(crate) fn load() -> Result<&'static Ruby, State> {
    // SAFETY: `ruby_api_version` is an array of three `int` in every Ruby since 1.9 (version.h).
    let version = unsafe { find::<*const [c_int; 3]>(c"ruby_api_version").map(|found| *found) }
        .ok_or(State::UnknownRuby)?;
    let version = (version[0], version[1]);
    if !is_known_version(version) {
        return Err(State::UnknownRuby);
    }
    // SAFETY: the types are those of Ruby's headers, the same in all known versions.
    let mut ruby = unsafe { look_up() }.ok_or(State::NoFunction)?;
    ruby.nil = ruby.eval(c"nil").ok_or(State::NoFunction)?;
    Ok(RUBY.get_or_init(|| ruby))
}

/// # Safety
/// The version must be a known one.
unsafe fn look_up() -> Option<Ruby> {
    // SAFETY: every field has the type that Ruby's headers give the function of that name.
    unsafe {
        Some(Ruby {
            gc_stat: find(c"rb_gc_stat")?,
            hash_lookup: find(c"rb_hash_lookup")?,
            gc_register_mark_object: find(c"rb_gc_register_mark_object")?,
            data_object_wrap: find(c"rb_data_object_wrap")?,
            latest_gc_info: find(c"rb_gc_latest_gc_info"),
            during_gc: find(c"rb_during_gc")?,
            each_objects: find(c"rb_objspace_each_objects"),
            set_end_proc: find(c"rb_set_end_proc")?,
            proc_new: find(c"rb_proc_new"),
            preregister: find(c"rb_postponed_job_preregister"),
            trigger: find(c"rb_postponed_job_trigger"),
            register_one: find(c"rb_postponed_job_register_one"),
            intern: find(c"rb_intern")?,
            id2sym: find(c"rb_id2sym")?,
            protect: find(c"rb_protect")?,
            set_errinfo: find(c"rb_set_errinfo")?,
            eval_string_protect: find(c"rb_eval_string_protect")?,
            funcallv: find(c"rb_funcallv")?,
            nil: 0,
        })
    }
}

/// Finds a symbol among what the program exports, whether libruby is shared or part of it.
///
/// # Safety
/// `T` must be pointer-sized and fit the symbol.
pub(crate) unsafe fn find<T: Copy>(name: &CStr) -> Option<T> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    // SAFETY: the name ends with a zero; a symbol that is not null is what the caller says it is.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (!symbol.is_null()).then(|| std::mem::transmute_copy(&symbol))
    }
}

impl Ruby {
    /// `RUBY_DESCRIPTION`.
    pub(crate) fn description(&self) -> &'static [u8] {
        // SAFETY: `ruby_description` is an array of `char` that ends with a zero (version.h).
        unsafe { find::<*const c_char>(c"ruby_description").map(|text| CStr::from_ptr(text)) }
            .map_or(b"", CStr::to_bytes)
    }

    /// The symbol of that name; one that is made this way is never collected.
    pub(crate) fn symbol(&self, name: &CStr) -> Value {
        // SAFETY: the name ends with a zero.
        unsafe { (self.id2sym)((self.intern)(name.as_ptr())) }
    }

    /// What a piece of Ruby returns; `None` where it raises.
    pub(crate) fn eval(&self, code: &CStr) -> Option<Value> {
        let mut state = 0;
        // SAFETY: the code ends with a zero; whatever it raises ends in `state`.
        let value = unsafe { (self.eval_string_protect)(code.as_ptr(), &raw mut state) };
        self.unless_raised(value, state)
    }

    /// A small integer that a piece of Ruby returns.
    pub(crate) fn eval_integer(&self, code: &CStr) -> Option<u64> {
        self.eval(code).and_then(integer)
    }

    /// Whether `GC.stat` knows the key. Also makes Ruby set up the keys' symbols: done first
    /// during a collection, that would allocate there and abort the process.
    pub(crate) fn knows_stat(&self, key: Value) -> bool {
        // `rb_gc_stat` takes one word and returns one, so it can stand where a function of values is wanted.
        self.protected(self.gc_stat, key).is_some()
    }

    /// What `GC.latest_gc_info` says under a key; `None` where it raises or is missing.
    pub(crate) fn latest(&self, key: Value) -> Option<Value> {
        self.protected(self.latest_gc_info?, key)
    }

    /// Whether a collection is under way; must be called with Ruby's lock held.
    pub(crate) fn is_collecting(&self) -> bool {
        // SAFETY: has no argument and reads a flag.
        unsafe { (self.during_gc)() != 0 }
    }

    /// What a function of Ruby's returns for a key; `None` where it raises.
    fn protected(&self, function: Protected, key: Value) -> Option<Value> {
        let mut state = 0;
        // SAFETY: the function takes one word and returns one; what it raises ends in `state`.
        let value = unsafe { (self.protect)(function, key, &raw mut state) };
        self.unless_raised(value, state)
    }

    /// Calls a method; `None` where it raises.
    pub(crate) fn call(
        &self,
        receiver: Value,
        method: &CStr,
        arguments: &[Value],
    ) -> Option<Value> {
        let call = Call { ruby: self, receiver, method, arguments };
        let mut state = 0;
        // SAFETY: `call` outlives the protected call, which is the only one to use its address.
        let value =
            unsafe { (self.protect)(perform, std::ptr::from_ref(&call) as Value, &raw mut state) };
        self.unless_raised(value, state)
    }

    /// Keeps what a piece of Ruby returns from being collected, unless it is nil or raises.
    pub(crate) fn keep(&self, place: &AtomicUsize, code: &CStr) {
        if let Some(value) = self.eval(code).and_then(|value| self.not_nil(value)) {
            // SAFETY: the value is an object that Ruby just returned.
            unsafe { (self.gc_register_mark_object)(value) };
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Clears what was raised, so that `$!` of the server stays as it was.
    fn unless_raised(&self, value: Value, state: c_int) -> Option<Value> {
        if state == 0 {
            return Some(value);
        }
        if self.nil != 0 {
            // SAFETY: nil is a value that may always stand there.
            unsafe { (self.set_errinfo)(self.nil) };
        }
        None
    }

    /// The value, unless it is nil.
    pub(crate) fn not_nil(&self, value: Value) -> Option<Value> {
        (value != self.nil).then_some(value)
    }

    /// `nil`.
    pub(crate) fn nil(&self) -> Value {
        self.nil
    }
}

struct Call<'a> {
    ruby: &'a Ruby,
    receiver: Value,
    method: &'a CStr,
    arguments: &'a [Value],
}

/// Holds nothing that a non-local exit would leave behind.
unsafe extern "C" fn perform(call: Value) -> Value {
    // SAFETY: the word is the address of the `Call` that `Ruby::call` keeps alive meanwhile.
    unsafe {
        let call = &*(call as *const Call<'_>);
        let method = (call.ruby.intern)(call.method.as_ptr());
        let count = call.arguments.len() as c_int;
        (call.ruby.funcallv)(call.receiver, method, count, call.arguments.as_ptr())
    }
}

/// The small integer in a value.
pub(crate) fn integer(value: Value) -> Option<u64> {
    (value & 1 == 1).then(|| u64::try_from((value as isize) >> 1).ok()).flatten()
}

/// A value that is a small integer.
pub(crate) fn integer_value(number: usize) -> Value {
    number << 1 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_that_were_looked_at_are_known() {
        for (version, known) in
            [((2, 6), false), ((2, 7), true), ((3, 0), true), ((3, 4), true), ((4, 0), false)]
        {
            assert_eq!(is_known_version(version), known, "{version:?}");
        }
    }

    #[test]
    fn small_integers_are_read_and_everything_else_is_not() {
        assert_eq!(integer(integer_value(409)), Some(409));
        for other in [0, 4, 8, 20, (-3_isize << 1 | 1) as usize] {
            assert_eq!(integer(other), None, "{other}");
        }
    }
}
