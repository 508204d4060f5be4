//! Finds the library of an allocator where distributions install it.

use std::path::{Path, PathBuf};

/// One allocator that can be preloaded by name.
struct AllocatorPackage {
    name: &'static str,
    /// File names, the newest version first.
    files: &'static [&'static str],
    /// Package on Debian, on Alpine, with Homebrew.
    packages: [&'static str; 3],
}

const ALLOCATORS: &[AllocatorPackage] = &[
    AllocatorPackage {
        name: "jemalloc",
        files: &["libjemalloc.so.2", "libjemalloc.so.1", "libjemalloc.so"],
        packages: ["libjemalloc2", "jemalloc", "jemalloc"],
    },
    AllocatorPackage {
        name: "mimalloc",
        files: &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so"],
        packages: ["libmimalloc2.0", "mimalloc2", "mimalloc"],
    },
    AllocatorPackage {
        name: "tcmalloc",
        files: &[
            "libtcmalloc_minimal.so.4",
            "libtcmalloc_minimal.so",
            "libtcmalloc.so.4",
            "libtcmalloc.so",
        ],
        packages: ["libtcmalloc-minimal4", "gperftools", "gperftools"],
    },
];

/// Directories of Debian, of Alpine and others, of Homebrew.
pub(crate) const DIRECTORIES: &[&str] = &[
    "usr/lib",
    "lib",
    "usr/lib64",
    "usr/local/lib",
    "opt/homebrew/lib",
    "home/linuxbrew/.linuxbrew/lib",
];

/// The library of the allocator `name` below `root` (`/`, or the root of another system).
///
/// The path is the one inside `root`, as the server will use it.
pub fn find_allocator(root: &Path, name: &str) -> Option<PathBuf> {
    let allocator = ALLOCATORS.iter().find(|allocator| allocator.name == name)?;
    let multiarch = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let directories = [&[multiarch.as_str()], DIRECTORIES].concat();
    // By file first, so that a newer version in any folder wins over an older one.
    let mut candidates = allocator
        .files
        .iter()
        .flat_map(|file| directories.iter().map(move |directory| Path::new(directory).join(file)));
    let found = candidates.find(|path| root.join(path).exists())?;
    // The server resolves it in its own root, so the outer part of the path goes.
    Some(Path::new("/").join(found))
}

/// How to install the allocator `name`.
pub(crate) fn packages(name: &str) -> String {
    match ALLOCATORS.iter().find(|allocator| allocator.name == name) {
        Some(AllocatorPackage { packages: [debian, alpine, brew], .. }) => {
            format!("`apt-get install {debian}`, `apk add {alpine}` or `brew install {brew}`")
        }
        None => "the package that holds it".into(),
    }
}

/// The allocator that a library belongs to by its file name; `None` for any other library.
pub(crate) fn allocator_of(library: &Path) -> Option<&'static str> {
    // Versions and variants follow the name, as in `libtcmalloc_minimal.so.4`.
    let file = library.file_name()?.to_string_lossy();
    ALLOCATORS
        .iter()
        .find(|allocator| file.starts_with(&format!("lib{}", allocator.name)))
        .map(|allocator| allocator.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_found_where_distributions_install_them() {
        let multiarch = format!("usr/lib/{}-linux-gnu/libjemalloc.so.2", std::env::consts::ARCH);
        for (installed, name, found) in [
            (multiarch.as_str(), "jemalloc", true),
            ("usr/lib/libjemalloc.so.2", "jemalloc", true),
            ("home/linuxbrew/.linuxbrew/lib/libmimalloc.so.2", "mimalloc", true),
            ("opt/homebrew/lib/libtcmalloc.so.4", "tcmalloc", true),
            ("usr/lib/libjemalloc.so.2", "mimalloc", false),
            ("usr/lib/libother.so", "other", false),
        ] {
            let root = tempfile::tempdir().unwrap();
            let file = root.path().join(installed);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            let expected = found.then(|| Path::new("/").join(installed));
            assert_eq!(find_allocator(root.path(), name), expected, "{installed} as {name}");
        }
    }

    #[test]
    fn a_library_names_its_allocator() {
        for (file, name) in [
            ("libjemalloc.so.2", Some("jemalloc")),
            ("libtcmalloc_minimal.so.4.5.10", Some("tcmalloc")),
            ("libc.so.6", None),
        ] {
            assert_eq!(allocator_of(&Path::new("/usr/lib").join(file)), name);
        }
    }
}
