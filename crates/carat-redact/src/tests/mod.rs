//! What becomes of every field of every kind of content, for both audiences.

mod contents;
mod fates;
mod filled;
mod results;
