//! The runtime library inside Ruby.

/// Called by Ruby when the library is required; the name follows from the file's name.
#[unsafe(no_mangle)]
pub extern "C" fn Init_carat_runtime() {}
