//! Buffers of inputs and outputs. Nobody clears them, so they are full of old words.

use crate::memory::Memory;

/// Bytes of `rb_io_t` that are searched.
const IO_BYTES: u64 = 512;

/// Hands address and size of each buffer of the `rb_io_t` at an address to `each`, and of what looks like one in memory behind it:
/// {bytes, offset and length, capacity} (`struct rb_io_internal_buffer`, io.h).
pub(super) fn buffers(memory: &dyn Memory, at: u64, each: &mut dyn FnMut(u64, u64)) {
    for offset in (0..IO_BYTES).step_by(8) {
        let word = |more: u64| memory.word_at(at, offset + more);
        let (Some(bytes), Some(used), Some(size)) = (word(0), word(8), word(16)) else { return };
        let (from, length, size) = (used & 0xffff_ffff, used >> 32, size & 0xffff_ffff);
        let sound = size >= 1024 && size.is_multiple_of(1024) && from <= size && length <= size;
        if sound && bytes > 1 << 16 && bytes.is_multiple_of(16) {
            each(bytes, size);
        }
    }
}
