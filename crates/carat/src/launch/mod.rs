//! Starting a server the way a variant wants it.

pub mod library;

pub use library::{Libraries, LibraryError};
