//! What loads of jobs have in common: arguments, failures, and the report as text.

mod arguments;
mod failures;
mod text;

pub(crate) use arguments::ArgumentMaker;
pub(crate) use failures::JobFailures;
pub(crate) use text::write_text;
