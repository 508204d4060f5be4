//! Which direction of a metric is better.

use serde::{Deserialize, Serialize};

/// The direction that users prefer. It selects the words of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Smaller is better.
    Lower,
    /// Larger is better.
    Higher,
}
