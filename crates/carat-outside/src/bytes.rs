//! Numbers in bytes that another process wrote; every read is checked.

/// The eight bytes at `offset` as a number; `None` past the end.
pub fn word_in(bytes: &[u8], offset: usize) -> Option<u64> {
    let end = offset.checked_add(8)?;
    bytes.get(offset..end)?.try_into().ok().map(u64::from_le_bytes)
}

/// The four bytes at `offset` as a number.
pub fn half_in(bytes: &[u8], offset: usize) -> Option<u32> {
    let end = offset.checked_add(4)?;
    bytes.get(offset..end)?.try_into().ok().map(u32::from_le_bytes)
}

/// The two bytes at `offset` as a number.
pub fn short_in(bytes: &[u8], offset: usize) -> Option<u16> {
    let end = offset.checked_add(2)?;
    bytes.get(offset..end)?.try_into().ok().map(u16::from_le_bytes)
}

/// `value` rounded down to a multiple of `unit`, which is not 0.
pub const fn align_down(value: u64, unit: u64) -> u64 {
    value / unit * unit
}

/// `value` rounded up to a multiple of `unit`, which is not 0; the largest multiple where that would overflow.
pub const fn align_up(value: u64, unit: u64) -> u64 {
    match value.checked_add(unit - 1) {
        Some(sum) => sum / unit * unit,
        None => u64::MAX / unit * unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_past_the_end_are_none() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(word_in(&bytes, 1), Some(0x0908_0706_0504_0302));
        assert_eq!(word_in(&bytes, 2), None);
        assert_eq!(half_in(&bytes, 5), Some(0x0908_0706));
        assert_eq!(short_in(&bytes, 8), None);
        assert_eq!(word_in(&bytes, usize::MAX), None);
    }

    #[test]
    fn addresses_are_aligned_without_overflow() {
        assert_eq!(align_up(4097, 4096), 8192);
        assert_eq!(align_down(4097, 4096), 4096);
        assert_eq!(align_up(u64::MAX, 4096), u64::MAX / 4096 * 4096);
    }
}
