//! Lists the Ruby files that the library carries, so that a new setting needs no list in Rust.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Evaluated first, because the others extend it.
const FIRST: &str = "runtime.rb";

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ruby");
    let mut files = ruby_files(&folder)?;
    files.extend(ruby_files(&folder.join("settings"))?);
    files.sort_by_key(|file| (!file.ends_with(FIRST), file.clone()));
    let mut list = String::from("&[\n");
    for file in files {
        // Writing to a String cannot fail.
        let _ = writeln!(list, "    concat!(include_str!({file:?}), \"\\0\"),");
    }
    list.push_str("]\n");
    let output = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&output).join("sources.rs"), list)
}

fn ruby_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rb") {
            files.push(path);
        }
    }
    Ok(files)
}
