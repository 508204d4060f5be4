//! What Ruby says of an object while it is allocated: its class, and the line of code that runs. Nothing here allocates.

use crate::RubyApi;
use crate::api::{Value, running_version};
use crate::symbol::find;
use crate::version::EMBEDDED_LENGTH_IN_FLAGS;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// `rb_event_hook_raw_arg_func_t` of ruby/debug.h: own data, and the event.
pub type AllocationHook = unsafe extern "C" fn(Value, *const c_void);

/// `RUBY_INTERNAL_EVENT_NEWOBJ` of ruby/internal/event.h: an object has its slot, its flags and its class, and is otherwise empty.
const NEW_OBJECT: u32 = 0x0010_0000;
/// `RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG` of ruby/debug.h.
const RAW: u32 = 1 | 4;
/// The type of an object in its flags (ruby/internal/value_type.h), and some of them.
const TYPE: usize = 0x1f;
const CLASS: usize = 0x02;
const STRING: usize = 0x05;
const IMEMO: usize = 0x1a;
const NODE: usize = 0x1b;
const ICLASS: usize = 0x1c;
/// Frames that are searched for one of Ruby code.
const FRAMES: usize = 16;

/// The functions that a sample requires.
#[derive(Debug)]
pub struct AllocationApi {
    add_event_hook2: unsafe extern "C" fn(AllocationHook, u32, Value, u32),
    class_path_cached: unsafe extern "C" fn(Value) -> Value,
    class_real: unsafe extern "C" fn(Value) -> Value,
    obj_alloc: unsafe extern "C" fn(Value) -> Value,
    object_class: *const Value,
    profile_frame_path: unsafe extern "C" fn(Value) -> Value,
    profile_frames: unsafe extern "C" fn(c_int, c_int, *mut Value, *mut c_int) -> c_int,
    remove_event_hook_with_data: unsafe extern "C" fn(AllocationHook, Value) -> c_int,
    string_value_ptr: unsafe extern "C" fn(*mut Value) -> *const c_char,
    tracearg_object: unsafe extern "C" fn(*const c_void) -> Value,
    /// Whether the length of a short string is a part of its flags.
    length_in_flags: bool,
}

// SAFETY: the only pointer is the address of a variable of Ruby that never changes once Ruby has started.
unsafe impl Send for AllocationApi {}
// SAFETY: as above.
unsafe impl Sync for AllocationApi {}

static API: OnceLock<Option<AllocationApi>> = OnceLock::new();

/// The functions; `None` if this Ruby lacks one.
pub fn load() -> Option<&'static AllocationApi> {
    // SAFETY: `find_all` gives each name the signature of Ruby's headers.
    API.get_or_init(|| unsafe { find_all() }).as_ref()
}

/// The functions, if [`load`] found them. May be called anywhere.
pub fn loaded() -> Option<&'static AllocationApi> {
    API.get().and_then(Option::as_ref)
}

/// # Safety
/// The process must run a Ruby of 2.7 or later.
unsafe fn find_all() -> Option<AllocationApi> {
    let version = running_version()?;
    // SAFETY: every field has the signature of Ruby's public headers, or, for the cached path, of its `intern.h`.
    unsafe {
        Some(AllocationApi {
            add_event_hook2: find(c"rb_add_event_hook2")?,
            class_path_cached: find(c"rb_class_path_cached")?,
            class_real: find(c"rb_class_real")?,
            obj_alloc: find(c"rb_obj_alloc")?,
            object_class: find(c"rb_cObject")?,
            profile_frame_path: find(c"rb_profile_frame_path")?,
            profile_frames: find(c"rb_profile_frames")?,
            remove_event_hook_with_data: find(c"rb_remove_event_hook_with_data")?,
            string_value_ptr: find(c"rb_string_value_ptr")?,
            tracearg_object: find(c"rb_tracearg_object")?,
            length_in_flags: EMBEDDED_LENGTH_IN_FLAGS.contains(version),
        })
    }
}

impl AllocationApi {
    /// Calls `hook` for each object that is allocated, until [`AllocationApi::remove_hook`]. Must be called with Ruby's lock
    /// held. Ruby calls it without a tracepoint object, which is the cheapest way it has. The hook must allocate nothing.
    pub fn add_hook(&self, hook: AllocationHook) {
        // SAFETY: the hook lives as long as the process; its data is 0, which is no object.
        unsafe { (self.add_event_hook2)(hook, NEW_OBJECT, 0, RAW) };
    }

    /// Must be called with Ruby's lock held, outside the hook.
    pub fn remove_hook(&self, hook: AllocationHook) {
        // SAFETY: a hook that is not set is not found.
        unsafe { (self.remove_event_hook_with_data)(hook, 0) };
    }

    /// The object that was allocated.
    ///
    /// # Safety
    /// `event` must be what Ruby passed to the hook that is running.
    pub unsafe fn object(&self, event: *const c_void) -> Value {
        // SAFETY: the caller guarantees it.
        unsafe { (self.tracearg_object)(event) }
    }

    /// Allocates that many plain objects and forgets them. Must be called with Ruby's lock held.
    pub fn allocate(&self, objects: u32) {
        for _ in 0..objects {
            // SAFETY: `Object` can be allocated. Without memory Ruby raises, and nothing here needs to be dropped.
            unsafe { (self.obj_alloc)(*self.object_class) };
        }
    }

    /// The name of an object's class, or what it is where it has none.
    ///
    /// # Safety
    /// The object must be the one that the running hook was called for.
    pub unsafe fn class_name<'a>(&self, ruby: &RubyApi, object: Value) -> &'a [u8] {
        // SAFETY: flags and class are the first words of every object and set when the hook is called; the class is alive
        // because the object is.
        unsafe {
            let [flags, class] = *(object as *const [usize; 2]);
            match flags & TYPE {
                IMEMO => return b"(internal) imemo",
                NODE => return b"(internal) node",
                ICLASS => return b"(internal) iclass",
                // Ruby hides an object by leaving out its class.
                _ if class == 0 => return b"(internal) hidden object",
                _ => {}
            }
            if class & 7 != 0 || *(class as *const usize) & TYPE != CLASS {
                return b"(unresolved)";
            }
            let real = Some((self.class_real)(class)).filter(|class| *class != 0);
            let name = real.and_then(|class| ruby.not_nil((self.class_path_cached)(class)));
            name.and_then(|name| self.text(name)).unwrap_or(b"(unresolved)")
        }
    }

    /// The line of Ruby code that runs: its file and number. `None` if none does. Ruby's own code is left out, because
    /// the line that called it tells more.
    pub fn place<'a>(&self, ruby: &RubyApi) -> Option<(&'a [u8], u64)> {
        let (mut frames, mut lines) = ([0; FRAMES], [0; FRAMES]);
        // SAFETY: both arrays have room for so many frames.
        let count = unsafe {
            let room = FRAMES as c_int;
            (self.profile_frames)(0, room, frames.as_mut_ptr(), lines.as_mut_ptr())
        };
        let known = usize::try_from(count).ok()?.min(FRAMES);
        frames[..known].iter().zip(lines).find_map(|(&frame, line)| {
            // SAFETY: the frame is one that Ruby has just returned. A function of C has no path.
            let path = ruby.not_nil(unsafe { (self.profile_frame_path)(frame) })?;
            // SAFETY: the path of code that runs is alive.
            let path = unsafe { self.text(path) }?;
            let is_own = path.starts_with(b"<internal:");
            (!is_own).then_some((path, u64::try_from(line).unwrap_or_default()))
        })
    }

    /// The bytes of a string.
    ///
    /// # Safety
    /// The object must be alive for as long as the bytes are used, and nobody may change it.
    unsafe fn text<'a>(&self, mut string: Value) -> Option<&'a [u8]> {
        if string & 7 != 0 {
            return None;
        }
        // SAFETY: an object of Ruby has these words (`struct RString`).
        unsafe {
            let [flags, _, length] = *(string as *const [usize; 3]);
            if flags & TYPE != STRING {
                return None;
            }
            // `RSTRING_NOEMBED`, and the length behind it in the flags.
            let length = match self.length_in_flags && flags & 1 << 13 == 0 {
                true => flags >> 14 & 0x1f,
                false => length,
            };
            let bytes = (self.string_value_ptr)(&raw mut string);
            Some(std::slice::from_raw_parts(bytes.cast(), length))
        }
    }
}
