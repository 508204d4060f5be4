//! Parses, runs, and turns the answer into an exit code.

fn main() {}
