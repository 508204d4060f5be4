//! No circle of files inside a crate: files that import each other, directly or through others, are one file in parts.
//!
//! An import is a `use`, or a path that starts with `crate` or `super`. A re-export is followed to the file that defines
//! the name. `mod` and the re-exports themselves do not count, nor does what a file imports for its unit tests.

use crate::tidy::{code_without_tests, files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path below its crate, or a name in it.
type ModulePath = Vec<String>;

/// One file: its code, and where its re-exports come from.
struct SourceFile {
    imports: Vec<ModulePath>,
    reexports: BTreeMap<String, ModulePath>,
}

/// The files of one crate, by module.
type CrateFiles = BTreeMap<ModulePath, SourceFile>;

fn path_of(text: &str) -> ModulePath {
    text.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// The paths in a `use` tree, each with the name that it gets.
fn expand(tree: &str, prefix: &[String]) -> Vec<(ModulePath, String)> {
    let tree = tree.trim();
    if let Some((start, list)) = tree.split_once('{') {
        let prefix = [prefix, &path_of(start)].concat();
        let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
        return split_list(list).iter().flat_map(|part| expand(part, &prefix)).collect();
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(p, a)| (p, Some(a)));
    let path = [prefix, &path_of(path)].concat();
    let name = alias.map(|alias| alias.trim().to_owned()).or(path.last().cloned());
    name.map(|name| (path, name)).into_iter().collect()
}

/// The parts of a list between commas, outside inner braces.
fn split_list(list: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in list.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match parts.last_mut() {
            Some(part) if c != ',' || depth > 0 => part.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The `use` trees of a text, whether each is a re-export, and the text without them.
fn take_uses(text: &str) -> (Vec<(String, bool)>, String) {
    let (mut uses, mut rest, mut open) = (Vec::new(), String::new(), None::<(String, bool)>);
    for line in text.lines() {
        let start = line.trim_start();
        let reexport = start.strip_prefix("pub").and_then(|rest| {
            let rest =
                rest.strip_prefix('(').map_or(rest, |r| r.split_once(')').map_or(r, |(_, r)| r));
            rest.trim_start().strip_prefix("use ")
        });
        if open.is_none() {
            let tree = reexport.or(start.strip_prefix("use "));
            open = tree.map(|tree| (tree.to_owned(), reexport.is_some()));
        } else if let Some((tree, _)) = &mut open {
            tree.push_str(line);
        }
        match open.take() {
            Some((tree, is_reexport)) if tree.contains(';') => {
                uses.push((tree.split(';').next().unwrap_or_default().to_owned(), is_reexport));
            }
            Some(unfinished) => open = Some(unfinished),
            None => rest = rest + line + "\n",
        }
    }
    (uses, rest)
}

/// The paths in a text that start with `crate` or `super`.
fn inline_paths(text: &str) -> Vec<ModulePath> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$';
    let words = text.split(|c| !is_part(c));
    words.filter(|w| w.starts_with("crate::") || w.starts_with("super::")).map(path_of).collect()
}

fn read(file: &Path) -> SourceFile {
    let (uses, rest) = take_uses(&code_without_tests(&fs::read_to_string(file).unwrap()));
    let mut imports = inline_paths(&rest);
    let mut reexports = BTreeMap::new();
    for (tree, is_reexport) in uses {
        for (path, name) in expand(&tree, &[]) {
            if is_reexport {
                reexports.insert(name, path);
            } else {
                imports.push(path);
            }
        }
    }
    SourceFile { imports, reexports }
}

fn read_crate(source: &Path) -> CrateFiles {
    let mut found = CrateFiles::new();
    for file in files(source, ".rs") {
        let relative = file.strip_prefix(source).unwrap().with_extension("");
        let mut module: ModulePath =
            relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| last == "mod" || last == "lib") {
            module.pop();
        }
        found.insert(module, read(&file));
    }
    found
}

/// A path as it is from the root of the crate; `None` for another crate's.
fn absolute(path: &[String], module: &[String], all: &CrateFiles) -> Option<ModulePath> {
    match path.first()?.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" => return Some([module, &path[1..]].concat()),
        _ => {}
    }
    let climbs = path.iter().take_while(|part| *part == "super").count();
    if climbs > 0 {
        let above = &module[..module.len().saturating_sub(climbs)];
        return Some([above, &path[climbs..]].concat());
    }
    let child = [module, &path[..1]].concat();
    all.contains_key(&child).then(|| [module, path].concat())
}

/// The file that defines what a path names, through re-exports.
fn resolve(path: &[String], all: &CrateFiles, depth: usize) -> Option<ModulePath> {
    let length = (0..=path.len()).rev().find(|&length| all.contains_key(&path[..length]))?;
    let (module, rest) = path.split_at(length);
    let reexport = rest.first().and_then(|name| all[module].reexports.get(name));
    let defined = reexport
        .filter(|_| depth < 8)
        .and_then(|path| resolve(&absolute(path, module, all)?, all, depth + 1));
    Some(defined.unwrap_or(module.to_vec()))
}

/// Groups of files that reach each other.
fn circles(all: &CrateFiles) -> BTreeSet<BTreeSet<String>> {
    let mut reached: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
    for (module, file) in all {
        let targets = file.imports.iter().filter_map(|path| absolute(path, module, all));
        let targets = targets.filter_map(|path| resolve(&path, all, 0));
        reached.insert(module, targets.filter(|target| target != module).collect());
    }
    // Every round adds what the reached files import, until nothing is new.
    loop {
        let before: usize = reached.values().map(BTreeSet::len).sum();
        for module in all.keys() {
            let further = reached[module].iter().flat_map(|next| reached[next].clone());
            let further: Vec<ModulePath> = further.collect();
            reached.entry(module).or_default().extend(further);
        }
        if reached.values().map(BTreeSet::len).sum::<usize>() == before {
            break;
        }
    }
    let in_circle = all.keys().filter(|module| reached[*module].contains(*module));
    in_circle
        .map(|module| {
            let back = reached[module].iter().filter(|other| reached[*other].contains(module));
            back.map(|other| other.join("::")).collect()
        })
        .collect()
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    for package in fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap()) {
        for circle in circles(&read_crate(&package.path().join("src"))) {
            let names: Vec<String> = circle.into_iter().collect();
            found.push(format!("{}: {}", package.file_name().display(), names.join(", ")));
        }
    }
    assert!(found.is_empty(), "circles of files:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found_through_a_re_export_and_a_path_and_not_through_unit_tests() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("deep")).unwrap();
    write("lib.rs", "pub mod a;\npub mod b;\npub mod deep;\n");
    write("a.rs", "use super::deep::{\n    Other,\n    Thing as Renamed,\n};\n");
    write(
        "deep/mod.rs",
        "mod inner;\nmod other;\npub(crate) use inner::Thing;\npub use other::Other;\n",
    );
    write("deep/inner.rs", "pub struct Thing;\nfn f() { crate::b::g() }\n");
    write(
        "deep/other.rs",
        "pub struct Other;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
    );
    write("b.rs", "// crate::deep\nfn g() {}\n");
    assert!(circles(&read_crate(folder.path())).is_empty());
    write("b.rs", "fn g() { crate::a::f() }\n");
    let expected = ["a", "b", "deep::inner"].map(str::to_owned).into();
    assert_eq!(circles(&read_crate(folder.path())), [expected].into());
}
