//! Prepares what the binary contains: the libraries that carat loads into Ruby, and the workloads.
//!
//! A build script cannot depend on a `cdylib`, so this one runs another cargo. That uses its own target directory, because
//! the outer cargo holds the lock of its directory. Then the script makes the libraries load with older C libraries too,
//! because a variant may run in the root of another distribution. `bin/package` builds the libraries itself, for every C library.

#[path = "build/elf.rs"]
mod elf;
#[path = "src/run/workloads/files.rs"]
mod workload_files;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Package, and the name that its library has in the binary, without its ending.
const LIBRARIES: [(&str, &str); 2] =
    [("carat-probe", "carat_probe"), ("carat-runtime", "carat_runtime")];

/// A folder with the libraries `glibc/libcarat_probe.so`, `musl/libcarat_probe.so` and so on, instead of building them.
const BUILT_BEFORE: &str = "CARAT_EMBEDDED_LIBRARIES";

/// C library, and the ending of the libraries that fit it. Ruby names the `Init_` function by what precedes the first dot.
const C_LIBRARIES: [(&str, &str); 2] = [("glibc", "so"), ("musl", "musl.so")];

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
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("cargo:warning={problem}");
            ExitCode::FAILURE
        }
    }
}

fn embed() -> Result<(), String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = PathBuf::from(variable("OUT_DIR")?);
    println!("cargo:rerun-if-env-changed={BUILT_BEFORE}");
    let libraries = match env::var_os(BUILT_BEFORE) {
        Some(folder) => built_before(Path::new(&folder), &output)?,
        None => {
            // Cargo runs the script again only for what it names.
            for watched in WATCHED {
                println!("cargo:rerun-if-changed={}", workspace.join(watched).display());
            }
            build(&workspace, &output)?
        }
    };
    let list = libraries.iter().map(|(name, file)| format!("({name:?}, include_bytes!({file:?}))"));
    write_list(&output.join("libraries.rs"), list)?;
    let folder = workspace.join("workloads");
    println!("cargo:rerun-if-changed={}", folder.display());
    let files = workload_files::workload_files(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let list = files.iter().map(|file| {
        let content = folder.join(&file.path);
        format!("({:?}, {}, include_bytes!({content:?}))", file.path, file.is_executable)
    });
    write_list(&output.join("workloads.rs"), list)
}

/// Writes a Rust expression, a reference to an array.
fn write_list(file: &Path, items: impl Iterator<Item = String>) -> Result<(), String> {
    let mut text = String::from("&[\n");
    for item in items {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {item},");
    }
    text.push_str("]\n");
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// The libraries of a folder, each with its name in the binary.
fn built_before(folder: &Path, output: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut libraries = Vec::new();
    for (c_library, ending) in C_LIBRARIES {
        for (_, library) in LIBRARIES {
            let name = format!("{library}.{ending}");
            relax_library(
                &folder.join(c_library).join(format!("lib{library}.so")),
                &output.join(&name),
            )?;
            libraries.push((name.clone(), output.join(name)));
        }
    }
    Ok(libraries)
}

/// Runs the inner cargo and returns the libraries, each with its name in the binary.
fn build(workspace: &Path, output: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let target = variable("TARGET")?;
    // Beside `build/NAME/out`, so that a check and a build, which have an output each, build the libraries once.
    let folder = output.ancestors().nth(3).unwrap_or(output).join("embedded");
    if !target.ends_with("-gnu") {
        return Err(format!(
            "for {target}, bin/package builds the libraries for Ruby before carat"
        ));
    }
    let mut cargo = Command::new(variable("CARGO")?);
    cargo.current_dir(workspace).args(["build", "--quiet", "--profile", "embedded"]);
    cargo.args(["--target", &target]).arg("--target-dir").arg(&folder);
    for (package, _) in LIBRARIES {
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
    let mut libraries = Vec::new();
    for (_, name) in LIBRARIES {
        let file = format!("lib{name}.so");
        relax_library(&built.join(&file), &output.join(&file))?;
        libraries.push((format!("{name}.so"), output.join(&file)));
    }
    Ok(libraries)
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
