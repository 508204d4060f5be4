//! The moments of a trial at which memory is compared.

use serde::{Deserialize, Serialize};

/// A moment of a trial at which a sample with every figure is taken. The order is that of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The server is ready; no load yet.
    Ready,
    /// The measured load is about to begin, after the warm-up.
    Start,
    /// During the load, after this many answered requests or broadcasts, as `measure.at_requests` lists them.
    Requests(u64),
    /// After the last response and the time to settle.
    End,
    /// After the idle time that follows [`Moment::End`].
    Idle,
}

impl Moment {
    /// Whether an experiment reads this moment only if it asks to.
    pub fn is_requested(self) -> bool {
        matches!(self, Self::Requests(_) | Self::Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_in_the_order_of_a_trial() {
        let ordered = [
            Moment::Ready,
            Moment::Start,
            Moment::Requests(50),
            Moment::Requests(500),
            Moment::End,
            Moment::Idle,
        ];
        assert!(ordered.is_sorted());
    }

    #[test]
    fn a_moment_in_json_is_a_word_and_one_of_requests_an_object() {
        let text = serde_json::to_string(&[Moment::End, Moment::Requests(300)]).unwrap();
        assert_eq!(text, "[\"end\",{\"requests\":300}]");
    }
}
