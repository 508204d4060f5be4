//! Messages to the server's log.

/// Writes `carat: ` and the parts as one line to stderr: in one call, without an allocation, ignoring errors.
///
/// Parts beyond the sixth are left out.
pub fn write_line(parts: &[&str]) {
    const MOST: usize = 8;
    let mut pieces = [""; MOST];
    pieces[0] = "carat: ";
    let count = parts.len().min(MOST - 2);
    pieces[1..=count].copy_from_slice(&parts[..count]);
    pieces[count + 1] = "\n";
    let vectors = pieces.map(|piece| libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    });
    // SAFETY: each vector points to as many bytes as it says, and `writev` only reads them.
    unsafe { libc::writev(libc::STDERR_FILENO, vectors.as_ptr(), MOST as libc::c_int) };
}
