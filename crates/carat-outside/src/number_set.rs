//! Sets of numbers, for marks and for work that waits.

/// A set of numbers below a limit that is taken from in order. It needs little more than a bit for each number below the
/// limit, however many are in it: a list of what waits could be as long as everything that is searched.
#[derive(Debug, Clone)]
pub(crate) struct NumberSet {
    /// A bit for each number; then, in each level, a bit for each word of the level before that is not zero.
    levels: Vec<Vec<u64>>,
}

impl NumberSet {
    /// No numbers; only those below `limit` can be put in.
    pub(crate) fn new(limit: usize) -> Self {
        let mut levels = vec![vec![0; limit.div_ceil(64)]];
        while let Some(words) = levels.last().map(Vec::len).filter(|words| *words > 1) {
            levels.push(vec![0; words.div_ceil(64)]);
        }
        Self { levels }
    }

    /// Bytes of memory for numbers below `limit`.
    pub(crate) const fn bytes(limit: u64) -> u64 {
        limit / 8 + limit / 256 + 64
    }

    /// Puts a number in; false if it is in already, or too large.
    pub(crate) fn insert(&mut self, number: usize) -> bool {
        let mut place = number;
        for (level, words) in self.levels.iter_mut().enumerate() {
            let bit = 1 << (place % 64);
            let Some(word) = words.get_mut(place / 64) else { return false };
            let was = *word;
            *word |= bit;
            if was & bit != 0 {
                return level > 0;
            }
            place /= 64;
        }
        true
    }

    /// Whether no number is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.last().is_none_or(|words| words.iter().all(|word| *word == 0))
    }

    /// Whether a number is in the set.
    pub(crate) fn contains(&self, number: usize) -> bool {
        let word = self.levels.first().and_then(|words| words.get(number / 64));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Takes out the first number from this one on.
    pub(crate) fn take_from(&mut self, from: usize) -> Option<usize> {
        let number = self.first_from(from)?;
        let mut place = number;
        for words in &mut self.levels {
            let word = &mut words[place / 64];
            *word &= !(1 << (place % 64));
            if *word != 0 {
                break;
            }
            place /= 64;
        }
        Some(number)
    }

    fn first_from(&self, from: usize) -> Option<usize> {
        let mut place = from;
        // Up until a word has a bit from the place on, then down along the first bits.
        for (level, words) in self.levels.iter().enumerate() {
            let word = words.get(place / 64)? & (u64::MAX << (place % 64));
            if word != 0 {
                let mut found = place / 64 * 64 + word.trailing_zeros() as usize;
                for words in self.levels[..level].iter().rev() {
                    found = found * 64 + words[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            place = place / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_holds_what_a_sorted_set_holds_whatever_is_put_in_and_taken_out() {
        for limit in [1, 64, 65, 4096, 300_000] {
            let (mut set, mut expected) = (NumberSet::new(limit), BTreeSet::new());
            let mut random = 1_u64;
            for _ in 0..20_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = (random >> 33) as usize % limit;
                if random >> 62 == 0 {
                    let first = expected.range(number..).next().copied();
                    assert_eq!(set.take_from(number), first, "{limit}");
                    first.map(|first| expected.remove(&first));
                } else {
                    assert_eq!(set.insert(number), expected.insert(number), "{limit}");
                }
                assert!(set.contains(number) == expected.contains(&number));
            }
            let mut rest = Vec::new();
            while let Some(number) = set.take_from(0) {
                rest.push(number);
            }
            assert!(set.is_empty());
            assert_eq!(rest, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn numbers_that_are_too_large_are_in_no_set() {
        let mut set = NumberSet::new(10);
        assert!(!set.insert(64) && !set.contains(64) && set.take_from(64).is_none());
        let mut none = NumberSet::new(0);
        assert!(!none.insert(0) && none.take_from(0).is_none());
        let words: usize = NumberSet::new(1 << 20).levels.iter().map(Vec::len).sum();
        assert!(words as u64 * 8 <= NumberSet::bytes(1 << 20));
    }
}
