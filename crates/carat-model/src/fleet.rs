//! A fleet: machines of one or several types that run the blocks of one experiment.

use serde::{Deserialize, Serialize};

/// Fact of a trial: the type of the machine that ran it, as the fleet's plan names it.
pub const MACHINE_TYPE: &str = "machine_type";
/// Fact of a trial: the name of the machine that ran it.
pub const HOST: &str = "host";

/// The fleet that runs an experiment. Its parts can be merged only with parts of an equal fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// SHA-256 of the carat that runs the blocks, in hex.
    pub binary: String,
    /// The type of machine of every block, from block 1 on. Each round of as many blocks as there are types has every
    /// type once.
    pub types: Vec<String>,
}

impl Fleet {
    /// The types in the order of their first blocks.
    pub fn type_names(&self) -> Vec<&str> {
        // Few types, so a search in the list keeps their order without a set.
        let mut names: Vec<&str> = Vec::new();
        for name in &self.types {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// The type of machine of a block; `None` for a block that is not planned.
    pub fn type_of(&self, block: u32) -> Option<&str> {
        // Block 0 is the warm-up, which every machine runs for itself.
        let place = usize::try_from(block).ok()?.checked_sub(1)?;
        self.types.get(place).map(String::as_str)
    }

    /// The blocks of a type in order.
    pub fn blocks_of<'a>(&'a self, machine_type: &'a str) -> impl Iterator<Item = u32> + 'a {
        let numbered = (1_u32..).zip(&self.types);
        numbered.filter(move |(_, name)| *name == machine_type).map(|(block, _)| block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planned_block_has_its_type_and_no_other_block_has_one() {
        let types = ["b", "a", "a", "b"].map(str::to_owned).into();
        let fleet = Fleet { binary: String::new(), types };
        assert_eq!(fleet.type_names(), ["b", "a"]);
        assert_eq!(
            [0, 1, 4, 5].map(|block| fleet.type_of(block)),
            [None, Some("b"), Some("b"), None]
        );
        assert_eq!(fleet.blocks_of("a").collect::<Vec<_>>(), [2, 3]);
    }
}
