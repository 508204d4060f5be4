//! Builds the two libraries that carat loads into Ruby, so that the binary can carry them.
//!
//! A build script of a binary crate may not depend on a `cdylib`, so this one runs a cargo of its
//! own: in its own target directory, because the outer cargo holds the lock of the other one. Then it makes
//! them load under older C libraries too, because a variant may run in another distribution's root.

#[path = "build/elf.rs"]
mod elf;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Package, file that cargo makes of it, and the variable under which the crate includes it.
const LIBRARIES: [(&str, &str, &str); 2] = [
    ("carat-probe", "libcarat_probe.so", "CARAT_EMBEDDED_PROBE"),
    ("carat-runtime", "libcarat_runtime.so", "CARAT_EMBEDDED_RUNTIME"),
];

/// What the libraries are built from.
const WATCHED: [&str; 5] = [
    "crates/carat-wire",
    "crates/carat-ruby",
    "crates/carat-probe",
    "crates/carat-runtime",
    "Cargo.toml",
];

/// What the outer cargo says to its own compilers and must not reach the inner one: clippy's driver,
/// flags for another target, a job server that the inner cargo cannot reach.
const NOT_INHERITED: [&str; 7] = [
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_MAKEFLAGS",
    "MAKEFLAGS",
    "MFLAGS",
    "CARGO_BUILD_TARGET",
    "CLIPPY_ARGS",
];

fn main() -> ExitCode {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for watched in WATCHED {
        println!("cargo:rerun-if-changed={}", workspace.join(watched).display());
    }
    match build(&workspace) {
        Ok(folder) => {
            for (_, file, variable) in LIBRARIES {
                println!("cargo:rustc-env={variable}={}", folder.join(file).display());
            }
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("cargo:warning={problem}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the inner cargo and returns the folder with the libraries.
fn build(workspace: &Path) -> Result<PathBuf, String> {
    let target = variable("TARGET")?;
    let folder = PathBuf::from(variable("OUT_DIR")?).join("embedded");
    let mut cargo = Command::new(variable("CARGO")?);
    cargo.current_dir(workspace).args(["build", "--quiet", "--profile", "embedded"]);
    cargo.args(["--target", &target]).arg("--target-dir").arg(&folder);
    for (package, ..) in LIBRARIES {
        cargo.args(["--package", package]);
    }
    for name in NOT_INHERITED {
        cargo.env_remove(name);
    }
    // A build directory apart from the target directory would be the outer cargo's, and locked.
    cargo.env("CARGO_BUILD_BUILD_DIR", &folder);
    let status = cargo.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err(format!("building the libraries for Ruby failed ({status}); see above"));
    }
    let built = folder.join(target).join("embedded");
    for (_, file, _) in LIBRARIES {
        loosen(&built.join(file), &folder.join(file))?;
    }
    Ok(folder)
}

fn loosen(from: &Path, to: &Path) -> Result<(), String> {
    let problem = |error| format!("{}: {error}", from.display());
    let mut library = fs::read(from).map_err(problem)?;
    elf::loosen(&mut library)
        .ok_or_else(|| format!("{}: not a library as expected", from.display()))?;
    fs::write(to, library).map_err(problem)
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("{name} is not set; build with cargo"))
}
