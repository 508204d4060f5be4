//! Ruby's C API, looked up by name.
//!
//! The signatures are those of Ruby's public headers and have been the same since 2.7. No literal of a special constant
//! is used, because they differ between versions; of values only small integers are decoded, whose lowest bit is 1 in
//! all of them.

use crate::symbol::find;
use crate::version::RubyVersion;
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// A reference to a Ruby object, or a small integer (`VALUE` of ruby/internal/value.h).
pub type Value = usize;

/// Called by Ruby while it marks the object around some data, or to free that.
pub type DataFunction = unsafe extern "C" fn(*mut c_void);

pub type PostponedJob = extern "C" fn(*mut c_void);

/// A block in C: argument, own data, number and list of arguments, block.
pub type BlockFunction = extern "C" fn(Value, Value, c_int, *const Value, Value) -> Value;

/// Called once per heap page: first slot, end of the last slot, bytes from slot to slot, own data.
pub type HeapPageFunction =
    unsafe extern "C" fn(*mut c_void, *mut c_void, usize, *mut c_void) -> c_int;

/// Called by Ruby at an internal event: the trace point and own data.
pub type InternalEventHook = unsafe extern "C" fn(Value, *mut c_void);

/// `rb_event_hook_func_t`: event, own data, receiver, method, class.
pub type EventHook = unsafe extern "C" fn(u32, Value, Value, usize, Value);

/// `RUBY_INTERNAL_EVENT_GC_END_SWEEP` of ruby/internal/event.h: a sweep has finished.
pub const GC_END_SWEEP: u32 = 0x0100_0000;

/// `RUBY_EVENT_THREAD_BEGIN` of ruby/internal/event.h: a new thread has begun.
pub const THREAD_BEGIN: u32 = 0x0400;

type KeyFunction = unsafe extern "C" fn(Value) -> Value;

/// `rb_data_type_t` of ruby/internal/core/rtypeddata.h: a name, a mark function, and nothing else.
///
/// It has 9 words up to Ruby 4.0 and 16 in 4.1. Name and mark function come first in all of them; every other word may
/// be zero, which means no function to free, to measure or to move, no parent and no write barrier.
#[repr(C)]
struct DataType {
    name: *const c_char,
    mark: DataFunction,
    rest: [usize; 16],
}

/// The functions of the Ruby that this process runs. Functions that some version lacks are `None` there.
///
/// Unless a method says otherwise, it must be called with Ruby's lock (the GVL) held.
#[derive(Debug)]
pub struct RubyApi {
    add_event_hook: unsafe extern "C" fn(*const c_void, u32, Value),
    data_typed_object_wrap: unsafe extern "C" fn(Value, *mut c_void, *const DataType) -> Value,
    define_module: unsafe extern "C" fn(*const c_char) -> Value,
    define_module_function: unsafe extern "C" fn(Value, *const c_char, *const c_void, c_int),
    during_gc: unsafe extern "C" fn() -> c_int,
    eval_string_protect: unsafe extern "C" fn(*const c_char, *mut c_int) -> Value,
    funcallv: unsafe extern "C" fn(Value, usize, c_int, *const Value) -> Value,
    gc_register_mark_object: unsafe extern "C" fn(Value),
    gc_stat: unsafe extern "C" fn(Value) -> usize,
    hash_lookup: unsafe extern "C" fn(Value, Value) -> Value,
    id2sym: unsafe extern "C" fn(usize) -> Value,
    int2inum: unsafe extern "C" fn(isize) -> Value,
    intern: unsafe extern "C" fn(*const c_char) -> usize,
    num2long: unsafe extern "C" fn(Value) -> c_long,
    protect: unsafe extern "C" fn(KeyFunction, Value, *mut c_int) -> Value,
    set_end_proc: unsafe extern "C" fn(extern "C" fn(Value), Value),
    set_errinfo: unsafe extern "C" fn(Value),
    tracepoint_enable: unsafe extern "C" fn(Value) -> Value,
    tracepoint_new: unsafe extern "C" fn(Value, u32, InternalEventHook, *mut c_void) -> Value,
    each_objects: Option<unsafe extern "C" fn(HeapPageFunction, *mut c_void)>,
    latest_gc_info: Option<KeyFunction>,
    postponed_job_preregister:
        Option<unsafe extern "C" fn(c_uint, PostponedJob, *mut c_void) -> c_uint>,
    postponed_job_register_one:
        Option<unsafe extern "C" fn(c_uint, PostponedJob, *mut c_void) -> c_int>,
    postponed_job_trigger: Option<unsafe extern "C" fn(c_uint)>,
    proc_new: Option<unsafe extern "C" fn(BlockFunction, Value) -> Value>,
    nil: Value,
}

static API: OnceLock<Option<RubyApi>> = OnceLock::new();

/// The functions; `None` if one is missing that is needed everywhere. The first call must be made with the GVL held.
pub fn load() -> Option<&'static RubyApi> {
    API.get_or_init(|| {
        // SAFETY: `find_all` gives each name the signature of Ruby's public headers.
        let mut api = unsafe { find_all() }?;
        api.nil = api.evaluate(c"nil")?;
        Some(api)
    })
    .as_ref()
}

/// The number of the running Ruby's binary interface, which it compares with that of each library before it calls the
/// library's `Init_` function (`dln_load_and_init`, dln.c); 0 where Ruby compares nothing.
///
/// Previews and development builds of Ruby compare it. They write it after the `+` of `RbConfig::CONFIG["ruby_version"]`.
/// Carat's libraries look up every function by name, so they fit any number. Must be called with the GVL held.
pub fn abi_version() -> u64 {
    const NUMBER: &CStr =
        c"require 'rbconfig'; RbConfig::CONFIG['ruby_version'][/\\+(\\d+)/, 1].to_i";
    let number = load().and_then(|ruby| ruby.evaluate(NUMBER));
    number.and_then(small_integer).unwrap_or_default()
}

/// The functions, if [`load`] found them. May be called anywhere.
pub fn loaded() -> Option<&'static RubyApi> {
    API.get().and_then(Option::as_ref)
}

/// The version of the Ruby that this process runs; `None` if it is not CRuby.
pub fn running_version() -> Option<RubyVersion> {
    // SAFETY: `ruby_api_version` is an array of three `int` in every Ruby since 1.9 (version.h).
    let [major, minor, _] = unsafe { find::<*const [c_int; 3]>(c"ruby_api_version").map(|v| *v) }?;
    Some(RubyVersion::new(u16::try_from(major).ok()?, u16::try_from(minor).ok()?))
}

/// `RUBY_DESCRIPTION`.
pub fn description() -> &'static [u8] {
    // SAFETY: `ruby_description` is an array of `char` that ends with NUL (version.h).
    unsafe { find::<*const c_char>(c"ruby_description").map(|text| CStr::from_ptr(text)) }
        .map_or(b"", CStr::to_bytes)
}

/// # Safety
/// The process must run a Ruby of 2.7 or later.
unsafe fn find_all() -> Option<RubyApi> {
    // SAFETY: every field has the signature that Ruby's public headers declare for the name.
    unsafe {
        Some(RubyApi {
            add_event_hook: find(c"rb_add_event_hook")?,
            data_typed_object_wrap: find(c"rb_data_typed_object_wrap")?,
            define_module: find(c"rb_define_module")?,
            define_module_function: find(c"rb_define_module_function")?,
            during_gc: find(c"rb_during_gc")?,
            eval_string_protect: find(c"rb_eval_string_protect")?,
            funcallv: find(c"rb_funcallv")?,
            gc_register_mark_object: find(c"rb_gc_register_mark_object")?,
            gc_stat: find(c"rb_gc_stat")?,
            hash_lookup: find(c"rb_hash_lookup")?,
            id2sym: find(c"rb_id2sym")?,
            int2inum: find(c"rb_int2inum")?,
            intern: find(c"rb_intern")?,
            num2long: find(c"rb_num2long")?,
            protect: find(c"rb_protect")?,
            set_end_proc: find(c"rb_set_end_proc")?,
            set_errinfo: find(c"rb_set_errinfo")?,
            tracepoint_enable: find(c"rb_tracepoint_enable")?,
            tracepoint_new: find(c"rb_tracepoint_new")?,
            each_objects: find(c"rb_objspace_each_objects"),
            latest_gc_info: find(c"rb_gc_latest_gc_info"),
            postponed_job_preregister: find(c"rb_postponed_job_preregister"),
            postponed_job_register_one: find(c"rb_postponed_job_register_one"),
            postponed_job_trigger: find(c"rb_postponed_job_trigger"),
            proc_new: find(c"rb_proc_new"),
            nil: 0,
        })
    }
}

/// A key of `GC.stat` that this Ruby has. It was read once outside a collection, so reading it creates no object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatKey(Value);

/// A key of `GC.latest_gc_info` that this Ruby has, likewise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcInfoKey(Value);

/// Evaluating Ruby, and converting values.
impl RubyApi {
    /// Evaluates Ruby code; `None` if it raised. The error is dropped.
    pub fn evaluate(&self, code: &CStr) -> Option<Value> {
        let mut state = 0;
        // SAFETY: the code ends with NUL; whatever it raises ends up in `state`.
        let value = unsafe { (self.eval_string_protect)(code.as_ptr(), &raw mut state) };
        self.unless_raised(value, state)
    }

    /// Evaluates Ruby code and keeps the result from being collected; `None` if it is nil or raised.
    pub fn evaluate_and_keep(&self, code: &CStr) -> Option<Value> {
        let value = self.evaluate(code).and_then(|value| self.not_nil(value))?;
        self.pin(value);
        Some(value)
    }

    /// Keeps an object from being freed, and from being moved by a compaction, for as long as the process lives.
    pub fn pin(&self, object: Value) {
        // SAFETY: the value is an object that Ruby passed to us or just returned.
        unsafe { (self.gc_register_mark_object)(object) };
    }

    /// Calls a method; `None` if it raised.
    pub fn call(&self, receiver: Value, method: &CStr, arguments: &[Value]) -> Option<Value> {
        let call = MethodCall { api: self, receiver, method, arguments };
        let mut state = 0;
        // SAFETY: `call` outlives the protected call, which alone uses its address.
        let value =
            unsafe { (self.protect)(perform_call, ptr::from_ref(&call) as Value, &raw mut state) };
        self.unless_raised(value, state)
    }

    /// Clears the error, so that the server's `$!` stays as it was.
    fn unless_raised(&self, value: Value, state: c_int) -> Option<Value> {
        if state == 0 {
            return Some(value);
        }
        if self.nil != 0 {
            // SAFETY: nil is always allowed there.
            unsafe { (self.set_errinfo)(self.nil) };
        }
        None
    }

    fn call_protected(&self, function: KeyFunction, key: Value) -> Option<Value> {
        let mut state = 0;
        // SAFETY: the function takes one word and returns one; what it raises ends up in `state`.
        let value = unsafe { (self.protect)(function, key, &raw mut state) };
        self.unless_raised(value, state)
    }

    /// The symbol of that name. A symbol made this way is never collected.
    pub fn symbol(&self, name: &CStr) -> Value {
        // SAFETY: the name ends with NUL.
        unsafe { (self.id2sym)((self.intern)(name.as_ptr())) }
    }

    /// `nil`.
    pub fn nil(&self) -> Value {
        self.nil
    }

    /// The value, unless it is nil.
    pub fn not_nil(&self, value: Value) -> Option<Value> {
        (value != self.nil).then_some(value)
    }

    /// What a hash holds under a key; `None` if it is missing or nil.
    pub fn hash_value(&self, hash: Value, key: Value) -> Option<Value> {
        // SAFETY: the receiver is a hash; a missing key gives nil and raises nothing.
        self.not_nil(unsafe { (self.hash_lookup)(hash, key) })
    }

    /// The number in a Ruby integer. Raises in Ruby if it is none, so the caller must hold nothing that needs dropping.
    pub fn number(&self, value: Value) -> i64 {
        // SAFETY: called from a method of ours, into which Ruby may raise.
        unsafe { (self.num2long)(value) }
    }

    /// A Ruby integer.
    pub fn integer(&self, number: i64) -> Value {
        // SAFETY: takes any number.
        unsafe { (self.int2inum)(number as isize) }
    }

    /// A proc that calls `block`; `None` if this Ruby cannot make one.
    pub fn new_proc(&self, block: BlockFunction) -> Option<Value> {
        // SAFETY: the block is a function, which lives as long as the process.
        self.proc_new.map(|proc_new| unsafe { proc_new(block, 0) })
    }
}

struct MethodCall<'a> {
    api: &'a RubyApi,
    receiver: Value,
    method: &'a CStr,
    arguments: &'a [Value],
}

/// Holds nothing that a non-local exit would leak.
unsafe extern "C" fn perform_call(call: Value) -> Value {
    // SAFETY: the word is the address of the `MethodCall` that `RubyApi::call` keeps alive meanwhile.
    unsafe {
        let call = &*(call as *const MethodCall<'_>);
        let method = (call.api.intern)(call.method.as_ptr());
        let count = call.arguments.len() as c_int;
        (call.api.funcallv)(call.receiver, method, count, call.arguments.as_ptr())
    }
}

/// The collector.
impl RubyApi {
    /// Whether a collection is running.
    pub fn is_collecting(&self) -> bool {
        // SAFETY: takes no argument and reads a flag.
        unsafe { (self.during_gc)() != 0 }
    }

    /// The key of that name; `None` if this Ruby's `GC.stat` has no such key.
    ///
    /// Must not be called during a collection: the first read creates the symbols of all keys, and Ruby aborts the
    /// process if objects are created while it collects.
    pub fn stat_key(&self, name: &CStr) -> Option<StatKey> {
        let symbol = self.symbol(name);
        // `rb_gc_stat` takes one word and returns one, so it fits where a function of values is expected.
        self.call_protected(self.gc_stat, symbol).map(|_| StatKey(symbol))
    }

    /// A count of `GC.stat`. Also allowed during a collection, and while all threads of Ruby sleep.
    pub fn stat(&self, key: StatKey) -> usize {
        // SAFETY: this Ruby has the key, so nothing is raised; for a symbol the result is a plain number.
        unsafe { (self.gc_stat)(key.0) }
    }

    /// The key of that name; `None` if this Ruby's `GC.latest_gc_info` has no such key. Not during a collection.
    pub fn gc_info_key(&self, name: &CStr) -> Option<GcInfoKey> {
        let symbol = self.symbol(name);
        self.call_protected(self.latest_gc_info?, symbol).map(|_| GcInfoKey(symbol))
    }

    /// What `GC.latest_gc_info` has under a key. Also allowed during a collection.
    pub fn gc_info(&self, key: GcInfoKey) -> Option<Value> {
        // SAFETY: this Ruby has the key, so nothing is raised and no object is created.
        self.latest_gc_info.map(|latest_gc_info| unsafe { latest_gc_info(key.0) })
    }

    /// Calls `hook` while Ruby marks objects, in every collection from now on, minor ones included.
    ///
    /// It does so through an object around data. Ruby has no write barrier for such an object and therefore marks it in
    /// every collection. Unlike a hook on an event of the collector, it does not slow allocation
    /// ([`crate::version::GC_HOOK_SLOWS_ALLOCATION`]). The hook must not create objects. Other walks over the heap
    /// call it too, and a collection may call it twice.
    pub fn on_mark(&self, hook: DataFunction) {
        // Ruby calls the mark function only if there is data.
        static DATA: u8 = 0;
        let data = ptr::from_ref(&DATA).cast_mut().cast::<c_void>();
        let name = c"carat".as_ptr();
        // Ruby refers to the type for as long as the object lives, which is until the process ends.
        let data_type = Box::leak(Box::new(DataType { name, mark: hook, rest: [0; 16] }));
        // SAFETY: hook and type live as long as the process; the data is a static that is never written or freed. Class
        // 0 hides the object. It is registered before anything can collect it.
        unsafe {
            (self.gc_register_mark_object)((self.data_typed_object_wrap)(0, data, data_type));
        }
    }

    /// Calls `hook` at every internal `event` from now on.
    pub fn on_internal_event(&self, event: u32, hook: InternalEventHook) {
        // SAFETY: the hook lives as long as the process; internal events take no thread (0 is false in C).
        unsafe {
            let tracepoint = (self.tracepoint_new)(0, event, hook, ptr::null_mut());
            (self.gc_register_mark_object)(tracepoint);
            (self.tracepoint_enable)(tracepoint);
        }
    }

    /// Whether this Ruby can list its heap pages.
    pub fn has_heap_page_list(&self) -> bool {
        self.each_objects.is_some()
    }

    /// Calls `on_page` for each heap page, outside a collection; a collection in progress is finished first. Does
    /// nothing if this Ruby has no such function.
    ///
    /// # Safety
    /// `data` must be what `on_page` expects, and stay valid during the call.
    pub unsafe fn each_heap_page(&self, on_page: HeapPageFunction, data: *mut c_void) {
        if let Some(each_objects) = self.each_objects {
            // SAFETY: the caller guarantees it.
            unsafe { each_objects(on_page, data) };
        }
    }
}

/// How postponed jobs are requested in this Ruby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobHandle {
    /// Registered once, triggered by this number ([`crate::version::PREREGISTERED_JOBS`]).
    Preregistered(u32),
    /// Registered each time.
    RegisterEachTime,
}

/// Postponed jobs, threads and the end of the interpreter.
impl RubyApi {
    /// Prepares a postponed job; `None` if this Ruby has none.
    pub fn prepare_job(&self, job: PostponedJob) -> Option<JobHandle> {
        if let (Some(preregister), Some(_)) =
            (self.postponed_job_preregister, self.postponed_job_trigger)
        {
            // SAFETY: the job is a function, which lives as long as the process.
            let handle = unsafe { preregister(0, job, ptr::null_mut()) };
            if handle != c_uint::MAX {
                return Some(JobHandle::Preregistered(handle));
            }
        }
        self.postponed_job_register_one.map(|_| JobHandle::RegisterEachTime)
    }

    /// Requests a postponed job. Allowed on any thread, during a collection and in a signal handler.
    pub fn request_job(&self, handle: JobHandle, job: PostponedJob) {
        match handle {
            JobHandle::Preregistered(handle) => {
                if let Some(trigger) = self.postponed_job_trigger {
                    // SAFETY: the handle is that of a preregistered job.
                    unsafe { trigger(handle) };
                }
            }
            JobHandle::RegisterEachTime => {
                if let Some(register_one) = self.postponed_job_register_one {
                    // SAFETY: the job lives as long as the process. Registering it twice counts once.
                    unsafe { register_one(0, job, ptr::null_mut()) };
                }
            }
        }
    }

    /// Calls `hook` on every thread that begins from now on.
    pub fn on_thread_begin(&self, hook: EventHook) {
        // SAFETY: the hook lives as long as the process and has the signature of `rb_event_hook_func_t`.
        unsafe { (self.add_event_hook)(hook as *const c_void, THREAD_BEGIN, 0) };
    }

    /// Calls `on_end` before the interpreter is torn down.
    pub fn on_end(&self, on_end: extern "C" fn(Value)) {
        // SAFETY: the function lives as long as the process.
        unsafe { (self.set_end_proc)(on_end, 0) };
    }
}

/// Functions that Ruby code can call.
impl RubyApi {
    /// The module of that name, created if it does not exist.
    pub fn module(&self, name: &CStr) -> Value {
        // SAFETY: the name ends with NUL.
        unsafe { (self.define_module)(name.as_ptr()) }
    }

    /// Gives the module a function without arguments.
    pub fn define_0(&self, module: Value, name: &CStr, function: extern "C" fn(Value) -> Value) {
        // SAFETY: the function takes the receiver alone, as arity 0 requires.
        unsafe {
            (self.define_module_function)(module, name.as_ptr(), function as *const c_void, 0);
        }
    }

    /// Gives the module a function with one argument.
    pub fn define_1(
        &self,
        module: Value,
        name: &CStr,
        function: extern "C" fn(Value, Value) -> Value,
    ) {
        // SAFETY: the function takes the receiver and one argument, as arity 1 requires.
        unsafe {
            (self.define_module_function)(module, name.as_ptr(), function as *const c_void, 1);
        }
    }

    /// Gives the module a function with two arguments.
    pub fn define_2(
        &self,
        module: Value,
        name: &CStr,
        function: extern "C" fn(Value, Value, Value) -> Value,
    ) {
        // SAFETY: the function takes the receiver and two arguments, as arity 2 requires.
        unsafe {
            (self.define_module_function)(module, name.as_ptr(), function as *const c_void, 2);
        }
    }
}

/// The small integer in a value; `None` for anything else and for negative numbers.
pub fn small_integer(value: Value) -> Option<u64> {
    (value & 1 == 1).then(|| u64::try_from((value as isize) >> 1).ok()).flatten()
}

/// A value that is a small integer.
pub fn small_integer_value(number: usize) -> Value {
    number << 1 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_integers_are_read_and_everything_else_is_not() {
        assert_eq!(small_integer(small_integer_value(409)), Some(409));
        for other in [0, 4, 8, 20, (-3_isize << 1 | 1) as usize] {
            assert_eq!(small_integer(other), None, "{other}");
        }
    }
}
