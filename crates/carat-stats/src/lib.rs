//! The statistics of memory experiments: numbers in, numbers out.
//!
//! No I/O, no clock; randomness comes in as a seeded generator.
