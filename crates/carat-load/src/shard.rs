//! How a load is divided among the generator's threads.

/// One of the threads that share a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    pub index: u32,
    pub threads: u32,
}

impl Shard {
    /// This thread's part of a whole; the parts of all threads add up to it.
    pub fn part(self, whole: u64) -> u64 {
        part(whole, self.index, self.threads)
    }

    /// The number that a slot of this thread has among the slots of all threads.
    pub fn number(self, place: u32) -> u32 {
        place * self.threads + self.index
    }
}

/// The part of a whole that one of several threads has; the parts add up to the whole. Dealt in turn, as places are
/// numbered: the numbers of all threads' parts are those from 0 on, without a gap.
pub(crate) fn part(whole: u64, index: u32, threads: u32) -> u64 {
    let (index, threads) = (u64::from(index), u64::from(threads.max(1)));
    // The remainder goes to the first threads, one each.
    whole / threads + u64::from(index < whole % threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_threads_add_up() {
        for (whole, threads) in [(10, 3), (2, 5), (0, 4), (7, 1)] {
            let parts = (0..threads).map(|index| Shard { index, threads }.part(whole));
            assert_eq!(parts.sum::<u64>(), whole, "{whole} in {threads}");
        }
    }

    #[test]
    fn the_numbers_of_all_threads_have_no_gap() {
        for (whole, threads) in [(10, 3), (10, 4), (2, 5), (7, 1)] {
            let mut numbers: Vec<u32> = (0..threads)
                .map(|index| Shard { index, threads })
                .flat_map(|shard| (0..shard.part(whole) as u32).map(move |n| shard.number(n)))
                .collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..whole as u32).collect::<Vec<_>>(), "{whole} in {threads}");
        }
    }
}
