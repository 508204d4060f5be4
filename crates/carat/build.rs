//! Builds the two libraries that carat loads into Ruby and that the binary contains.
//!
//! A build script cannot depend on a `cdylib`, so this one runs another cargo. That uses its own target directory, because
//! the outer cargo holds the lock of its directory. Then the script makes the libraries load with older C libraries too,
//! because a variant may run in the root of another distribution.

#[path = "build/elf.rs"]
mod elf;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Package, the file that cargo makes of it, and the variable by which the crate includes it.
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

/// Variables that the outer cargo sets for its own compilers and that must not reach the inner one: clippy's driver,
/// flags for another target, and a job server that the inner cargo cannot use.
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
    // Otherwise the build directory would be that of the outer cargo, which is locked.
    cargo.env("CARGO_BUILD_BUILD_DIR", &folder);
    let status = cargo.status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err(format!("building the libraries for Ruby failed ({status}); see above"));
    }
    let built = folder.join(target).join("embedded");
    for (_, file, _) in LIBRARIES {
        relax_library(&built.join(file), &folder.join(file))?;
    }
    Ok(folder)
}

fn relax_library(from: &Path, to: &Path) -> Result<(), String> {
    let mut library = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    elf::relax_versions(&mut library)
        .ok_or_else(|| format!("{}: not a 64-bit little-endian library", from.display()))?;
    fs::write(to, library).map_err(|error| format!("{}: {error}", to.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("{name} is not set; build with cargo"))
}
