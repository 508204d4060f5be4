//! Readings of one process, as many as it takes.

use crate::census::{Census, LookOptions, look_once};
use crate::refusal::Refused;

/// Readings at most.
const MOST: usize = 3;
/// After a reading that took so many seconds there is no other.
const LONG: f64 = 10.0;

/// Reads a process: once, or a few times, until all references are read.
///
/// # Errors
/// Why it cannot be read.
pub fn look(process: u32, options: &LookOptions) -> Result<Census, Refused> {
    until_whole(&mut || look_once(process, options))
}

/// The first reading in which nothing moved, or else the last, with the cost of all.
fn until_whole(read: &mut dyn FnMut() -> Result<Census, Refused>) -> Result<Census, Refused> {
    let mut census = read()?;
    for _ in 1..MOST {
        if !census.moved || census.cost.seconds > LONG {
            break;
        }
        // The process may have ended meanwhile, and then the earlier reading is what is known.
        let Ok(again) = read() else { break };
        let before = std::mem::replace(&mut census, again).cost;
        census.cost.read_bytes += before.read_bytes;
        census.cost.cpu_seconds += before.cpu_seconds;
        census.cost.seconds += before.seconds;
    }
    Ok(census)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::LookCost;

    /// Reads so many times as there are outcomes: whether contents moved, or nothing where the process has ended. Each takes
    /// `seconds` and reads the bytes of its number. Returns the bytes of the result, and whether contents moved in it.
    fn read(outcomes: &[Option<bool>], seconds: f64) -> Option<(u64, bool)> {
        let mut left = (1..).zip(outcomes);
        let found = until_whole(&mut || {
            let (number, moved) = left.next().unwrap();
            let cost = LookCost { read_bytes: number, seconds, ..LookCost::default() };
            let moved = moved.ok_or(Refused::Ended(7))?;
            Ok(Census { moved, cost, ..Census::default() })
        });
        assert_eq!(left.next(), None, "read too seldom");
        found.ok().map(|census| (census.cost.read_bytes, census.moved))
    }

    #[test]
    fn a_process_is_read_again_where_contents_moved_and_the_cost_is_that_of_all_readings() {
        assert_eq!(read(&[Some(false)], 1.0), Some((1, false)));
        assert_eq!(read(&[Some(true), Some(false)], 1.0), Some((3, false)));
        assert_eq!(read(&[Some(true); 3], 1.0), Some((6, true)));
    }

    #[test]
    fn a_process_is_not_read_again_where_that_took_long_or_where_it_ended() {
        assert_eq!(read(&[Some(true)], 11.0), Some((1, true)));
        assert_eq!(read(&[Some(true), None], 1.0), Some((1, true)));
        assert_eq!(read(&[None], 1.0), None);
    }
}
