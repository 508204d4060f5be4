//! What is in a heap dump, as a few lines for a terminal.

use crate::environment_format::shell_line;
use crate::numbers::{grouped, grouped_count};
use crate::text::{one_line, written};
use carat_model::{Bytes, shorten};
use carat_outside::who::dumped::DumpedClass;
use serde::Serialize;
use std::fmt::{self, Write};

/// Characters of the name of a class.
const NAME: usize = 200;

/// What a heap dump has in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DumpHead {
    /// Objects.
    pub objects: u64,
    /// Bytes, by the lines of the objects.
    pub bytes: u64,
    /// References between objects.
    pub references: u64,
    /// What of the file does not count.
    pub left_out: Vec<String>,
}

/// The table of classes, the largest first; so many lines of it. `target` is the name of the file.
pub fn dump_text(
    head: &DumpHead,
    classes: &[DumpedClass],
    (target, lines): (&str, usize),
) -> String {
    written(|out| write_dump(out, head, classes, (target, lines)))
}

fn write_dump(
    out: &mut String,
    head: &DumpHead,
    classes: &[DumpedClass],
    (target, lines): (&str, usize),
) -> fmt::Result {
    let unreached: u64 = classes.iter().map(|class| class.unreached_objects).sum();
    let target = one_line(target);
    let objects = grouped_count(head.objects, "object");
    writeln!(
        out,
        "Heap dump {target}: {objects}, {}, {} with those to classes and of roots; no root leads to {} of the objects",
        Bytes(head.bytes),
        grouped_count(head.references, "reference"),
        grouped(unreached)
    )?;
    writeln!(out, "  {:>12}  {:>12}  {:>12}  {:>12}  class", "bytes", "objects", "old", "no root")?;
    for class in classes.iter().take(lines) {
        let DumpedClass { name, objects, bytes, old_objects, unreached_objects } = class;
        let bytes = Bytes(*bytes).to_string();
        let [objects, old, unreached] =
            [objects, old_objects, unreached_objects].map(|n| grouped(*n));
        let name = shorten(&one_line(name), NAME);
        writeln!(out, "  {bytes:>12}  {objects:>12}  {old:>12}  {unreached:>12}  {name}")?;
    }
    let others = classes.len().saturating_sub(lines) as u64;
    if others > 0 {
        writeln!(out, "  and {}; --classes N shows more", grouped_count(others, "other class"))?;
    }
    head.left_out.iter().try_for_each(|reason| writeln!(out, "  {}", one_line(reason)))?;
    let next = ["carat", "explain", target.as_str(), "--who"].map(str::to_owned);
    writeln!(out, "Next: {}", shell_line(&next))
}
