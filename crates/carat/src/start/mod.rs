//! What `exec` does before it becomes the server: which settings, how they are handed on, and what a file needs for the same.

mod chosen;
mod injected;
mod printed;

pub(crate) use chosen::{GivenSettings, chosen_settings};
pub(crate) use injected::{find_ruby, injected, warn};
pub(crate) use printed::Printing;
