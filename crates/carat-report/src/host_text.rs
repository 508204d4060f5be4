//! The Ruby trees of a host: a table with one line each, and one tree by role.

use crate::layout::{LEFT, LaidTable, Style, table_text};
use crate::lists::grouped_by_key;
use crate::numbers::{count, or_question_mark, short_bytes};
use crate::table::{Cell, FactTable};
use crate::text::shorten;
use carat_model::host::{HostTrees, ProcessRole, RubyTree, TreeProcess};
use carat_model::{Bytes, GroupLimit, first_names};
use std::fmt::Write;

/// Characters of what a tree is.
const NAME: usize = 44;
/// Characters of the title of a process.
const TITLE: usize = 60;

/// A row for each tree. A narrow terminal leaves out the least useful columns first.
fn table(host: &HostTrees) -> FactTable {
    FactTable::new("Ruby trees")
        .texts(["server"])
        .numbers(["pid"])
        .wide_number("since", 6)
        .numbers(["PSS", "per worker"])
        .wide_number("swap", 3)
        .wide_number("limit", 2)
        .numbers(["left"])
        .wide_number("Ruby", 5)
        .wide_number("JIT", 1)
        .wide_number("malloc", 4)
        .wide_number("arenas", 0)
        .texts(["next: carat …"])
        .rows(host.trees.iter().map(|tree| row(tree, host.at_ms).map(Cell::text).into()))
}

fn row(tree: &RubyTree, now_ms: u64) -> [String; 13] {
    let bytes =
        |bytes: Option<Bytes>| or_question_mark(bytes.map(|bytes| short_bytes(bytes.0 as f64)));
    let age = tree.since_ms.and_then(|since| now_ms.checked_sub(since));
    let swap = match tree.swap {
        // Known to be none, unlike unknown.
        Some(Bytes(0)) => "0".to_owned(),
        swap => bytes(swap),
    };
    let arenas = match tree.allocator.as_deref() {
        // Only glibc has arenas that a setting limits; unknown may be glibc.
        Some("glibc") | None => or_question_mark(tree.arenas),
        Some(_) => "–".to_owned(),
    };
    [
        shorten(&server(tree), NAME),
        tree.pid.to_string(),
        or_question_mark(age.map(age_text)),
        bytes(tree.pss),
        bytes(tree.private_per_worker),
        swap,
        of_limit(tree, "none", |limit| limit.limit),
        // "none" would be a full group.
        of_limit(tree, "–", GroupLimit::left),
        or_question_mark(tree.ruby.as_ref()),
        or_question_mark(tree.jit.as_ref()),
        or_question_mark(tree.allocator.as_ref().map(|name| shorten(name, 12))),
        arenas,
        tree.next.clone(),
    ]
}

/// A figure of the nearest limit, or what stands for it in a group that could be read and has no limit.
fn of_limit(tree: &RubyTree, unlimited: &str, of: fn(&GroupLimit) -> Bytes) -> String {
    match tree.group.as_ref().map(|group| group.nearest_limit()) {
        None => "?".to_owned(),
        Some(None) => unlimited.to_owned(),
        Some(Some(limit)) => short_bytes(of(limit).0 as f64),
    }
}

/// What a tree is: `puma 6.6.0 · 4 workers · blog`.
pub(crate) fn server(tree: &RubyTree) -> String {
    let mut text = tree.server.program.clone();
    if let Some(version) = &tree.server.version {
        text += &format!(" {version}");
    }
    if tree.workers > 0 {
        text += &format!(" · {}", count(tree.workers, "worker"));
    }
    if let Some(app) = &tree.server.app {
        text += &format!(" · {app}");
    }
    text
}

fn age_text(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// The table as texts: its titles, then a row for each tree. Columns are left out until the rest fits into `width`.
pub fn host_lines(host: &HostTrees, width: usize) -> Vec<Vec<String>> {
    let LaidTable { shown, texts, .. } = LaidTable::new(&table(host), width, LEFT);
    texts.iter().map(|row| shown.iter().map(|at| row[*at].clone()).collect()).collect()
}

/// The table, what could not be read, and the next command.
pub fn host_text(host: &HostTrees, width: usize) -> String {
    if host.trees.is_empty() {
        let mut out = "No Ruby runs here, or none that this user can see.\n".to_owned();
        write_missing(&mut out, host);
        return out;
    }
    let table = table(host);
    let mut out = table_text(&table, Style { width, ..Style::default() }, LEFT);
    let hidden = table.columns.len() - LaidTable::new(&table, width, LEFT).shown.len();
    if hidden > 0 {
        let hidden = count(hidden, "column");
        let _ = writeln!(out, "{hidden} more in a wider terminal and with --json");
    }
    write_missing(&mut out, host);
    out
}

fn write_missing(out: &mut String, host: &HostTrees) {
    let missing = host
        .trees
        .iter()
        .flat_map(|tree| tree.missing.iter().map(move |reason| (reason, tree.pid)));
    // One line per reason, because a missing permission is missing for every tree.
    for (reason, pids) in grouped_by_key(missing) {
        let _ = writeln!(out, "? of {}: {reason}", first_names(&pids, 4));
    }
    host.notes.iter().for_each(|note| {
        let _ = writeln!(out, "{note}");
    });
}

/// One tree: its processes by role, each below the one that started it, and the next command.
pub fn tree_text(tree: &RubyTree) -> String {
    let mut out = format!("{}\n", server(tree));
    let [pss, private, rss] = ["PSS", "private", "RSS"];
    let head = format!("{pss:>11}{private:>11}{rss:>11}");
    let _ = writeln!(out, "{:>8}  {:<10}{head}{:>8}  process", "pid", "role", "threads");
    for (depth, process) in by_descent(tree) {
        let [pss, private, rss] = [process.pss, process.private, process.rss].map(or_question_mark);
        let (pid, threads) = (process.pid, or_question_mark(process.threads));
        let role = match process.role {
            ProcessRole::Single => "server",
            other => other.word(),
        };
        // A worker's parent is usually what it was forked from.
        let forked = process.forked_from.filter(|origin| *origin != process.parent);
        let forked = forked.map(|pid| format!("  (forked from {pid})")).unwrap_or_default();
        let title = "  ".repeat(depth.min(8)) + &shorten(&process.title, TITLE);
        let sizes = format!("{pss:>11}{private:>11}{rss:>11}");
        let _ = writeln!(out, "{pid:>8}  {role:<10}{sizes}{threads:>8}  {title}{forked}");
    }
    if let Some(pss) = tree.pss {
        let _ = writeln!(out, "{:>8}  {:<10}{:>11}", "", "total", pss.to_string());
    }
    for reason in &tree.missing {
        let _ = writeln!(out, "?  {reason}");
    }
    let _ = writeln!(out, "\nNext  carat {}    {}", tree.next, tree.why);
    out
}

/// The processes with their depth, each after its parent.
fn by_descent(tree: &RubyTree) -> Vec<(usize, &TreeProcess)> {
    // A process whose parent is not in the tree is a root of its own.
    let pids: Vec<u32> = tree.processes.iter().map(|one| one.pid).collect();
    let mut open: Vec<(usize, &TreeProcess)> = tree
        .processes
        .iter()
        .rev()
        .filter(|one| one.parent == one.pid || !pids.contains(&one.parent))
        .map(|one| (0, one))
        .collect();
    let mut shown: Vec<(usize, &TreeProcess)> = Vec::new();
    while let Some((depth, process)) = open.pop() {
        // Parents that were read at different times can form a circle.
        if shown.iter().any(|(_, one)| one.pid == process.pid) {
            continue;
        }
        shown.push((depth, process));
        let children = tree.processes.iter().rev().filter(|one| one.parent == process.pid);
        open.extend(children.map(|child| (depth + 1, child)));
    }
    // What a circle kept out must still be shown.
    let left =
        tree.processes.iter().filter(|one| !shown.iter().any(|(_, other)| other.pid == one.pid));
    let left: Vec<_> = left.map(|one| (0, one)).collect();
    shown.extend(left);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use crate::text::columns;
    use carat_model::host::ServerName;
    use carat_model::{GroupUse, LimitKind};

    fn process(pid: u32, parent: u32, role: ProcessRole, title: &str) -> TreeProcess {
        let (title, is_ruby) = (title.into(), true);
        TreeProcess { pid, parent, role, title, is_ruby, ..TreeProcess::default() }
    }

    fn puma() -> RubyTree {
        let limit = GroupLimit {
            group: "/a".into(),
            kind: LimitKind::Max,
            limit: Bytes(512_000_000),
            used: Bytes(500_000_000),
        };
        RubyTree {
            pid: 4312,
            server: ServerName {
                program: "puma".into(),
                version: Some("6.6.0".into()),
                app: Some("blog".into()),
            },
            workers: 2,
            since_ms: Some(1_000),
            pss: Some(Bytes(320_000_000)),
            private_per_worker: Some(Bytes(90_000_000)),
            swap: Some(Bytes(0)),
            ruby: Some("3.3.8".into()),
            jit: Some("yjit".into()),
            allocator: Some("glibc".into()),
            arenas: Some(9),
            group: Some(GroupUse { limits: vec![limit], ..GroupUse::default() }),
            processes: vec![
                process(4312, 1, ProcessRole::Master, "puma 6.6.0 (tcp://[::]:3000) [blog]"),
                process(4320, 4312, ProcessRole::Worker, "puma: cluster worker 0: 4312 [blog]"),
                TreeProcess {
                    forked_from: Some(4312),
                    ..process(4321, 1, ProcessRole::Worker, "puma: cluster worker 1: 4312 [blog]")
                },
            ],
            next: "explain 4312".into(),
            why: "98 % of its limit is used".into(),
            ..RubyTree::default()
        }
    }

    fn host(trees: Vec<RubyTree>) -> HostTrees {
        HostTrees { at_ms: 7_201_000, trees, ..HostTrees::default() }
    }

    #[test]
    fn a_tree_has_one_line_and_what_is_unknown_a_question_mark_and_a_reason() {
        let unread = RubyTree {
            pid: 77,
            server: ServerName { program: "sidekiq".into(), ..ServerName::default() },
            missing: vec!["memory: the process belongs to user 0".into()],
            next: "explain 77".into(),
            ..RubyTree::default()
        };
        let text = host_text(&host(vec![puma(), unread]), 200);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        lines[1].assert_contains([
            "puma 6.6.0 · 2 workers · blog",
            "2 h",
            "320.0 MB",
            "90.0 MB",
            "512.0 MB",
            "12.0 MB",
            "yjit",
            "explain 4312",
        ]);
        assert!(lines[2].contains("?") && lines[3].starts_with("? of 77: memory"), "{text}");
        let unlimited = RubyTree { group: Some(GroupUse::default()), ..puma() };
        let text = host_text(&host(vec![unlimited]), 200);
        assert!(text.contains(" none     –  3.3.8"), "{text}");
        assert!(host_text(&host(Vec::new()), 80).starts_with("No Ruby runs here"));
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_says_so() {
        let text = host_text(&host(vec![puma()]), 90);
        assert!(text.lines().all(|line| columns(line) <= 90), "{text}");
        text.assert_contains(["more in a wider terminal", "explain 4312"]);
    }

    #[test]
    fn a_tree_is_shown_by_role_and_the_process_that_loaded_the_app_is_named() {
        let text = tree_text(&puma());
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} is not in\n{text}"));
        assert!(at("master") < at("worker 0"), "{text}");
        assert!(at("(forked from 4312)") > at("worker 1"), "{text}");
        let end = "Next  carat explain 4312    98 % of its limit is used\n";
        assert!(text.ends_with(end), "{text}");
    }
}
