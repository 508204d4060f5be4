//! The lines of roots.

use super::edges::Edges;
use crate::who::data::WayRoot;
use crate::who::links::Names;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// References of one root whose names are searched, at most.
const NAMED: usize = 20_000;

/// Writes one line for each name of a root.
pub(super) fn write_roots(
    names: &Names<'_>,
    edges: &mut Edges<'_, '_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut by_name: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for root in names.nodes.graph.first_root()..names.nodes.graph.nodes() {
        edges.follow(root);
        for (number, edge) in edges.found().iter().enumerate() {
            let between = if number < NAMED { edges.between(*edge) } else { Vec::new() };
            let found = names.root(root, &between, edge.to, &mut Vec::new());
            let name = root_name(found.as_ref().unwrap_or(&WayRoot::OtherMemory));
            by_name.entry(name).or_default().extend(names.nodes.address(edge.to));
        }
    }
    for (name, mut addresses) in by_name {
        addresses.sort_unstable();
        addresses.dedup();
        let list: Vec<String> = addresses.iter().map(|to| format!("\"0x{to:x}\"")).collect();
        let name = serde_json::to_string(&name)?;
        writeln!(
            out,
            "{{\"type\":\"ROOT\", \"root\":{name}, \"references\":[{}]}}",
            list.join(", ")
        )?;
    }
    Ok(())
}

/// The name of a root. `vm` is what Ruby calls it itself.
fn root_name(root: &WayRoot) -> String {
    match root {
        WayRoot::Vm => "vm".to_owned(),
        WayRoot::Finalizer => "finalizers".to_owned(),
        other => other.to_string(),
    }
}
