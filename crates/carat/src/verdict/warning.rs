//! What a reader should know before trusting a judgement.

use std::fmt;

/// Something that weakens a judgement; its text ends with what to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// A variant's trials failed too often to compare it.
    Fails {
        /// The variant.
        variant: String,
        /// Trials that crashed, were killed or never became ready.
        failed: u32,
        /// Its scored trials.
        trials: u32,
    },
    /// Too many blocks were lost.
    UnfitMachine {
        /// Blocks in which some trial did not count.
        dropped: u32,
        /// Blocks that were run.
        blocks: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails { variant, failed, trials } => write!(
                f,
                "{variant}: {failed} of {trials} trials failed, so its figures speak only for the trials \
                 that survived; read the log of a failed trial first"
            ),
            Self::UnfitMachine { dropped, blocks } => write!(
                f,
                "{dropped} of {blocks} blocks did not count; run on a quieter machine or lighten the load"
            ),
        }
    }
}
