//! Dumps of all sorts.
