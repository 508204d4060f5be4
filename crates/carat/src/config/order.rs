//! The order of trials: randomised complete blocks from a recorded seed.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sha2::{Digest, Sha256};

/// Several heap pages of Ruby, so that every place within one occurs.
const MOST_OBJECTS: u32 = 2_000;

/// A variant's position within a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPosition {
    /// Block number; block 0 is the warm-up block.
    pub block: u32,
    /// Position within the block, from 0.
    pub position: u32,
    /// Index of the variant in the experiment file.
    pub variant: usize,
}

/// The order of one block: every variant once, a Fisher-Yates shuffle.
///
/// The order depends only on seed and block, so a resumed run continues with the same plan whatever already ran.
pub fn block_order(seed: u64, block: u32, variants: usize) -> Vec<BlockPosition> {
    let mut order: Vec<usize> = (0..variants).collect();
    let mut random = ChaCha12Rng::seed_from_u64(seed);
    // A stream for each block: its order does not depend on how many ran before.
    random.set_stream(u64::from(block));
    order.shuffle(&mut random);
    (0u32..)
        .zip(order)
        .map(|(position, variant)| BlockPosition { block, position, variant })
        .collect()
}

/// Objects that the commands of a block make before their program begins, below [`MOST_OBJECTS`].
///
/// They depend only on seed and block, as the order does.
pub fn block_objects(seed: u64, block: u32) -> u32 {
    // Another seed than that of the order, so that the two are independent.
    let mut random = ChaCha12Rng::seed_from_u64(!seed);
    random.set_stream(u64::from(block));
    random.random_range(0..MOST_OBJECTS)
}

/// Identifies a trial across files and machines: a hash of plan, seed, block and variant, in hex.
pub fn trial_id(plan_hash: &str, seed: u64, block: u32, variant: &str) -> String {
    let digest = Sha256::digest(format!("{plan_hash}\n{seed}\n{block}\n{variant}"));
    // 64 bits are enough to tell trials apart, and short enough to print.
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_block_holds_every_variant_once(seed: u64, block in 0u32..200, variants in 1usize..9) {
            let mut variants_found: Vec<usize> =
                block_order(seed, block, variants).iter().map(|at| at.variant).collect();
            variants_found.sort_unstable();
            prop_assert_eq!(variants_found, (0..variants).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_block_has_its_own_number_of_objects_and_a_resumed_run_the_same() {
        let numbers: Vec<u32> = (0..50).map(|block| block_objects(7, block)).collect();
        assert_eq!(numbers, (0..50).map(|block| block_objects(7, block)).collect::<Vec<_>>());
        let different: std::collections::BTreeSet<&u32> = numbers.iter().collect();
        assert!(different.len() > 45, "{numbers:?}");
        assert!(numbers.iter().all(|number| *number < MOST_OBJECTS));
        assert_ne!(block_objects(8, 1), block_objects(7, 1));
    }

    #[test]
    fn each_of_two_variants_comes_first_equally_often() {
        let first = (0..1000).filter(|&block| block_order(7, block, 2)[0].variant == 0).count();
        // Binomial(1000, 1/2): six standard deviations are 95.
        assert!((405..=595).contains(&first), "{first}");
    }

    #[test]
    fn the_order_of_a_seed_never_changes_between_releases() {
        for (block, expected) in [(0, [1, 0, 3, 2]), (1, [1, 0, 2, 3]), (2, [1, 3, 0, 2])] {
            let order = block_order(42, block, 4);
            assert_eq!(order.iter().map(|at| at.variant).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_trial_has_another_id_in_another_block_variant_plan_or_seed() {
        let id = trial_id("p", 1, 1, "default");
        assert_eq!(id.len(), 16);
        for other in [
            trial_id("q", 1, 1, "default"),
            trial_id("p", 2, 1, "default"),
            trial_id("p", 1, 2, "default"),
            trial_id("p", 1, 1, "compact"),
        ] {
            assert_ne!(id, other);
        }
    }
}
