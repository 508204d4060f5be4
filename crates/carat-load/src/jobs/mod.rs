//! What loads of jobs have in common: arguments, failures, and the report as text.

mod arguments;
mod failures;
mod secret;
mod text;

pub(crate) use arguments::ArgumentMaker;
pub(crate) use failures::JobFailures;
pub(crate) use secret::from_environment;
pub(crate) use text::write_text;
