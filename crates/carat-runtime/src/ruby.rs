//! The few functions of Ruby's C API that the runtime calls, looked up by name.
//!
//! Their signatures are those of Ruby's public headers and have been the same since 2.7.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::OnceLock;

/// A Ruby object: a machine word (`VALUE` of ruby/internal/value.h).
pub(crate) type Value = usize;

/// Called by Ruby while it marks the object around some data, or to free that.
pub(crate) type OnData = unsafe extern "C" fn(*mut c_void);

/// Called by Ruby at an event inside it.
pub(crate) type EventHook = unsafe extern "C" fn(Value, *mut c_void);

/// `RUBY_INTERNAL_EVENT_GC_END_SWEEP` of ruby/internal/event.h: a sweep has finished.
pub(crate) const GC_END_SWEEP: u32 = 0x0100_0000;

/// `RUBY_EVENT_THREAD_BEGIN` of ruby/internal/event.h: a new thread has begun.
pub(crate) const THREAD_BEGIN: u32 = 0x0400;

/// The functions that were found.
pub(crate) struct Ruby {
    define_module: unsafe extern "C" fn(*const c_char) -> Value,
    define_module_function: unsafe extern "C" fn(Value, *const c_char, *const c_void, c_int),
    eval_string_protect: unsafe extern "C" fn(*const c_char, *mut c_int) -> Value,
    set_errinfo: unsafe extern "C" fn(Value),
    intern: unsafe extern "C" fn(*const c_char) -> usize,
    id2sym: unsafe extern "C" fn(usize) -> Value,
    gc_stat: unsafe extern "C" fn(Value) -> usize,
    tracepoint_new: unsafe extern "C" fn(Value, u32, EventHook, *mut c_void) -> Value,
    tracepoint_enable: unsafe extern "C" fn(Value) -> Value,
    gc_register_mark_object: unsafe extern "C" fn(Value),
    data_object_wrap: unsafe extern "C" fn(Value, *mut c_void, OnData, Option<OnData>) -> Value,
    add_event_hook: unsafe extern "C" fn(*const c_void, u32, Value),
    num2long: unsafe extern "C" fn(Value) -> c_long,
    int2inum: unsafe extern "C" fn(isize) -> Value,
}

static RUBY: OnceLock<Option<Ruby>> = OnceLock::new();

/// The functions of the Ruby that this process runs; `None` where one is missing.
pub(crate) fn look_up() -> Option<&'static Ruby> {
    RUBY.get_or_init(find_all).as_ref()
}

fn find_all() -> Option<Ruby> {
    // SAFETY: each name is given the signature that Ruby's public headers declare for it.
    unsafe {
        Some(Ruby {
            define_module: find(c"rb_define_module")?,
            define_module_function: find(c"rb_define_module_function")?,
            eval_string_protect: find(c"rb_eval_string_protect")?,
            set_errinfo: find(c"rb_set_errinfo")?,
            intern: find(c"rb_intern")?,
            id2sym: find(c"rb_id2sym")?,
            gc_stat: find(c"rb_gc_stat")?,
            tracepoint_new: find(c"rb_tracepoint_new")?,
            tracepoint_enable: find(c"rb_tracepoint_enable")?,
            gc_register_mark_object: find(c"rb_gc_register_mark_object")?,
            data_object_wrap: find(c"rb_data_object_wrap")?,
            add_event_hook: find(c"rb_add_event_hook")?,
            num2long: find(c"rb_num2long")?,
            int2inum: find(c"rb_int2inum")?,
        })
    }
}

/// The function of that name among everything loaded into this process; `None` where there is none.
///
/// # Safety
/// `F` must be a pointer to a function of the signature that the name stands for.
pub(crate) unsafe fn find<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the name ends with NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: the caller vouches for the signature; the size was checked above.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

/// A symbol of `GC.stat` that was asked for once, so that asking again makes no object.
#[derive(Clone, Copy)]
pub(crate) struct StatKey(Value);

impl Ruby {
    /// Evaluates Ruby code; `None` where it raised, and the error is dropped.
    pub(crate) fn evaluate(&self, code: &CStr) -> Option<Value> {
        let mut state: c_int = 0;
        // SAFETY: called with the GVL, from `Init`; both pointers are valid.
        let value = unsafe { (self.eval_string_protect)(code.as_ptr(), &raw mut state) };
        if state == 0 {
            return Some(value);
        }
        let mut ignored: c_int = 0;
        // SAFETY: as above; the value of `nil` differs between versions, so Ruby is asked for it.
        unsafe {
            (self.set_errinfo)((self.eval_string_protect)(c"nil".as_ptr(), &raw mut ignored));
        }
        None
    }

    /// Makes `CaratRuntime` or finds it.
    pub(crate) fn module(&self) -> Value {
        // SAFETY: called with the GVL, from `Init`.
        unsafe { (self.define_module)(c"CaratRuntime".as_ptr()) }
    }

    /// Gives the module a function without arguments.
    pub(crate) fn define_0(
        &self,
        module: Value,
        name: &CStr,
        function: extern "C" fn(Value) -> Value,
    ) {
        // SAFETY: the function takes the receiver alone, as arity 0 demands.
        unsafe {
            (self.define_module_function)(module, name.as_ptr(), function as *const c_void, 0);
        }
    }

    /// Gives the module a function with one argument.
    pub(crate) fn define_1(
        &self,
        module: Value,
        name: &CStr,
        function: extern "C" fn(Value, Value) -> Value,
    ) {
        // SAFETY: the function takes the receiver and one argument, as arity 1 demands.
        unsafe {
            (self.define_module_function)(module, name.as_ptr(), function as *const c_void, 1);
        }
    }

    /// Gives the module a function with two arguments.
    pub(crate) fn define_2(
        &self,
        module: Value,
        name: &CStr,
        function: extern "C" fn(Value, Value, Value) -> Value,
    ) {
        // SAFETY: the function takes the receiver and two arguments, as arity 2 demands.
        unsafe {
            (self.define_module_function)(module, name.as_ptr(), function as *const c_void, 2);
        }
    }

    /// The number in a Ruby integer; raises in Ruby where it is none.
    pub(crate) fn number(&self, value: Value) -> i64 {
        // SAFETY: called with the GVL, from a method; no Rust value is alive that a raise would leak.
        unsafe { (self.num2long)(value) }
    }

    /// A Ruby integer.
    pub(crate) fn integer(&self, number: i64) -> Value {
        // SAFETY: called with the GVL, from a method.
        unsafe { (self.int2inum)(number as isize) }
    }

    /// Asks `GC.stat` for a key once: the first time inside a hook would make symbols and abort Ruby.
    pub(crate) fn stat_key(&self, name: &CStr) -> StatKey {
        // SAFETY: called with the GVL, outside any hook.
        unsafe {
            let symbol = (self.id2sym)((self.intern)(name.as_ptr()));
            (self.gc_stat)(symbol);
            StatKey(symbol)
        }
    }

    /// A figure of `GC.stat`; allowed inside a GC hook.
    pub(crate) fn stat(&self, key: StatKey) -> usize {
        // SAFETY: the key was asked for before, so this call makes no object.
        unsafe { (self.gc_stat)(key.0) }
    }

    /// Calls `hook` while objects are marked in every collection from now on, for the life of the process.
    ///
    /// Through an object around data: Ruby has no write barrier for it and therefore marks it in minor collections too.
    pub(crate) fn on_mark(&self, hook: OnData) {
        static DATA: u8 = 0;
        let data = std::ptr::from_ref(&DATA).cast_mut().cast::<c_void>();
        // SAFETY: called with the GVL; the data is a static that nobody writes or frees; class 0 hides the object.
        unsafe { (self.gc_register_mark_object)((self.data_object_wrap)(0, data, hook, None)) };
    }

    /// Calls `hook` at every internal `event` from now on, for the life of the process.
    pub(crate) fn on_internal_event(&self, event: u32, hook: EventHook) {
        // SAFETY: called with the GVL; internal events take no thread (0 is false, as nil, for RTEST).
        unsafe {
            let tracepoint = (self.tracepoint_new)(0, event, hook, std::ptr::null_mut());
            (self.gc_register_mark_object)(tracepoint);
            (self.tracepoint_enable)(tracepoint);
        }
    }

    /// Calls `hook` on every thread that begins from now on.
    pub(crate) fn on_thread_begin(
        &self,
        hook: unsafe extern "C" fn(u32, Value, Value, usize, Value),
    ) {
        // SAFETY: called with the GVL; the signature is that of `rb_event_hook_func_t`.
        unsafe { (self.add_event_hook)(hook as *const c_void, THREAD_BEGIN, 0) };
    }
}
