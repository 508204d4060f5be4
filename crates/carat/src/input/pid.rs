//! The number of a process as an argument.

/// A process id.
///
/// # Errors
/// If the text is no number that a process can have.
pub fn parse_pid(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|pid| *pid > 0)
        .ok_or_else(|| "give the number of a process; `carat ps` lists the Rubies here".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_process_number_is_refused_with_the_command_that_lists_them() {
        assert_eq!(parse_pid("4312"), Ok(4312));
        for wrong in ["abc", "-1", "0", "99999999999", ""] {
            assert!(parse_pid(wrong).unwrap_err().contains("`carat ps`"), "{wrong}");
        }
    }
}
