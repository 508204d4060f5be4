//! A long series in little room.

/// What is kept at most: more than the columns of any terminal. Even, so that halves are whole.
const MOST: usize = 2_000;

/// An even selection of everything that was pushed.
#[derive(Debug)]
pub(crate) struct Outline<T> {
    kept: Vec<T>,
    /// One in so many is kept.
    every: usize,
    pushed: usize,
}

impl<T> Default for Outline<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), every: 1, pushed: 0 }
    }
}

impl<T> Outline<T> {
    /// Adds one, which is kept or not.
    pub(crate) fn push(&mut self, one: T) {
        if self.pushed.is_multiple_of(self.every) {
            if self.kept.len() == MOST {
                let mut stays = false;
                self.kept.retain(|_| {
                    stays = !stays;
                    stays
                });
                self.every *= 2;
            }
            self.kept.push(one);
        }
        self.pushed += 1;
    }

    /// How many were pushed.
    pub(crate) fn pushed(&self) -> usize {
        self.pushed
    }

    /// What is kept, in its order.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.kept.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_series_is_kept_whole_and_a_long_one_evenly() {
        for (pushed, every) in [(0, 1), (1, 1), (2_000, 1), (2_001, 2), (4_000, 2), (100_000, 64)] {
            let mut outline = Outline::default();
            (0..pushed).for_each(|number| outline.push(number));
            let expected: Vec<usize> = (0..pushed).step_by(every).collect();
            assert_eq!(outline.iter().copied().collect::<Vec<_>>(), expected, "{pushed}");
            assert_eq!(outline.pushed(), pushed);
        }
    }
}
