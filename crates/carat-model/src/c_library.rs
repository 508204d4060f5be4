//! The C libraries of Linux.

/// A C library. A process has exactly one: musl's loader exits when a preloaded library requires glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CLibrary {
    /// The C library of most distributions.
    Glibc,
    /// The C library of Alpine.
    Musl,
}

impl CLibrary {
    /// The C library that a loader or a library of this name or path belongs to; `None` for any other file.
    pub fn of(path: &str) -> Option<Self> {
        let file = path.rsplit('/').next()?;
        // The loader and the library of musl are one file. Before 2.34 the file name of glibc contained the version.
        // A prefix, because musl's loader has its architecture in its name.
        if file == "libc.so" || ["ld-musl", "libc.musl"].iter().any(|name| file.starts_with(name)) {
            Some(Self::Musl)
        } else if file == "libc.so.6"
            || ["ld-linux", "ld64", "libc-2."].iter().any(|name| file.starts_with(name))
        {
            Some(Self::Glibc)
        } else {
            None
        }
    }
}
