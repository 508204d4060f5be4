//! A series of bounded length: an even selection of everything pushed.

/// Values kept at most: more than a terminal has columns. Even, so that halving is exact.
const CAPACITY: usize = 2_000;

/// Keeps every n-th value pushed, with n doubling whenever the series is full.
#[derive(Debug)]
pub struct ThinnedSeries<T> {
    kept: Vec<T>,
    /// One value in this many is kept.
    stride: usize,
    pushed: usize,
}

impl<T> Default for ThinnedSeries<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), stride: 1, pushed: 0 }
    }
}

impl<T> ThinnedSeries<T> {
    /// Adds a value, which is kept if its turn comes.
    pub fn push(&mut self, value: T) {
        if self.pushed.is_multiple_of(self.stride) {
            // Halved in place: every second value stays, so the selection stays even.
            if self.kept.len() == CAPACITY {
                let mut keep = false;
                self.kept.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            self.kept.push(value);
        }
        self.pushed += 1;
    }

    /// How many values were pushed.
    pub fn pushed(&self) -> usize {
        self.pushed
    }

    /// The kept values in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.kept.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_series_is_kept_whole_and_a_long_one_evenly() {
        for (pushed, stride) in [(0, 1), (1, 1), (2_000, 1), (2_001, 2), (4_000, 2), (100_000, 64)]
        {
            let mut series = ThinnedSeries::default();
            (0..pushed).for_each(|number| series.push(number));
            let expected: Vec<usize> = (0..pushed).step_by(stride).collect();
            assert_eq!(series.iter().copied().collect::<Vec<_>>(), expected, "{pushed}");
            assert_eq!(series.pushed(), pushed);
        }
    }
}
