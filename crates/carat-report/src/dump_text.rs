//! What is in a heap dump, as a few lines for a terminal.

use crate::numbers::{beyond, grouped, grouped_count};
use crate::text::{one_line, written};
use crate::who_text::explain_who;
use carat_model::{Bytes, shorten};
use carat_outside::who::dumped::DumpedClass;
use serde::Serialize;
use std::fmt::Write;

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
    let target = one_line(target);
    let (objects, bytes) = (grouped_count(head.objects, "object"), Bytes(head.bytes));
    let references = grouped_count(head.references, "reference");
    let unreached = grouped(classes.iter().map(|class| class.unreached_objects).sum());
    written(|out| {
        writeln!(
            out,
            "Heap dump {target}: {objects}, {bytes}, {references} with those to classes and of roots; no root leads to {unreached} of the objects"
        )?;
        let [bytes, objects, old, unreached] = ["bytes", "objects", "old", "no root"];
        writeln!(out, "  {bytes:>12}  {objects:>12}  {old:>12}  {unreached:>12}  class")?;
        for class in classes.iter().take(lines) {
            let (name, bytes) = (shorten(&one_line(&class.name), NAME), Bytes(class.bytes));
            let [objects, old, unreached] =
                [class.objects, class.old_objects, class.unreached_objects].map(grouped);
            writeln!(out, "  {bytes:>12}  {objects:>12}  {old:>12}  {unreached:>12}  {name}")?;
        }
        if let Some(others) = beyond(classes.len(), lines, "other class") {
            writeln!(out, "  and {others}; --classes N shows more")?;
        }
        head.left_out.iter().try_for_each(|reason| writeln!(out, "  {}", one_line(reason)))?;
        writeln!(out, "Next: {}", explain_who(&target, None))
    })
}
