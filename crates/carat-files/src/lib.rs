//! Files that Carat writes under names that a user gave, or that follow from them.
//!
//! Every crate that writes one uses this; it imports no other crate of Carat.

mod output;

pub use output::{
    NamedBy, WholeFile, create_folder, create_new, is_trusted, open_to_append, own_user,
    replaced_file, without_links, write_file, write_new,
};
