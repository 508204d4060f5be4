//! Cells that the texts of a reading from outside share.

use crate::numbers::{grouped_count, percent};
use crate::text::{fill, one_line, shorten};
use carat_model::Bytes;
use carat_outside::malloc::ArenaCensus;

/// Columns for the name of a class or another holder of memory.
pub(crate) const NAME: usize = 44;

/// A name from the observed process, cut and filled up to its column.
pub(crate) fn padded(name: &str) -> String {
    let name = shorten(&one_line(name), NAME - 2);
    let fill = fill(&name, NAME);
    name + &fill
}

/// The share of a whole in percent, or a question mark for a share of nothing.
pub(crate) fn share_of(part: u64, whole: u64) -> String {
    if whole == 0 { "?".to_owned() } else { percent(part as f64 / whole as f64, 1) }
}

/// How much of the resident memory of an allocator lies on pages that little use keeps from the kernel.
pub(crate) fn fragmentation(total: &ArenaCensus, resident: u64) -> String {
    let (live, thin) = (total.occupancy.live_bytes.iter().sum(), total.occupancy.nearly_free());
    let [used, thin_share] = [live, thin].map(|bytes| share_of(bytes, resident));
    let [resident, thin] = [resident, thin].map(Bytes);
    format!(
        "resident {resident}, {used} of it in use; {thin} ({thin_share}) lie on pages that are less than a tenth full"
    )
}

/// A number of heap pages.
pub(crate) fn pages(number: u64) -> String {
    grouped_count(number, "page")
}

/// Blocks of growing darkness: nothing in use, up to a third, up to two thirds, up to 95 %, full.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// Columns of a strip.
const STRIP: usize = 72;

/// A line that shows how full stretches of memory are, each a share between 0 and 1, in the order of their addresses.
pub(crate) fn strip(filled: &[f64]) -> String {
    let width = STRIP.min(filled.len());
    let cell = |at: usize| {
        // Integer division spreads the rest evenly; every stretch is in exactly one cell.
        let part = &filled[at * filled.len() / width..(at + 1) * filled.len() / width];
        let mean = part.iter().sum::<f64>() / part.len().max(1) as f64;
        // Nearly empty and nearly full have shades of their own: they are what a reader looks for.
        let shade = [0.02, 0.35, 0.7, 0.95].iter().filter(|&&bound| mean >= bound).count();
        SHADES[shade]
    };
    (0..width).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::columns;

    #[test]
    fn names_of_any_width_fill_their_column_and_cannot_control_the_terminal() {
        for name in ["Post", "日本語", &"x".repeat(200), "a\u{1b}[31mb"] {
            let shown = padded(name);
            assert_eq!(columns(&shown), NAME, "{shown:?}");
            assert!(!shown.contains('\u{1b}'));
        }
    }

    #[test]
    fn a_strip_has_one_mark_for_each_stretch_and_no_more_than_its_width() {
        assert_eq!(strip(&[]), "");
        assert_eq!(strip(&[0.0, 0.1, 0.5, 0.8, 1.0]), "·░▒▓█");
        let many: Vec<f64> = (0..1000).map(|at| if at < 500 { 0.0 } else { 1.0 }).collect();
        let shown: Vec<char> = strip(&many).chars().collect();
        assert_eq!((shown.len(), shown[0], shown[71]), (72, '·', '█'));
    }

    #[test]
    fn a_share_of_nothing_is_unknown() {
        assert_eq!((share_of(1, 3).as_str(), share_of(0, 0).as_str()), ("33.3 %", "?"));
    }
}
