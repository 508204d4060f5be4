//! When two texts of a variable mean the same to the program that reads it. A launcher may write `1m` where Carat writes
//! `1048576`, and glibc reads the first as 1.

/// Whether the reader of `variable` finds the same value in both texts. A variable whose reader is not known must have the same
/// text.
pub(crate) fn is_same(variable: &str, one: &str, other: &str) -> bool {
    one == other || reader_of(variable).is_some_and(|reader| reader.is_same(one, other))
}

/// Whether glibc reads the same number for a tunable, or for a variable that stands for one; `None` if one of them is no number,
/// which older versions read in part and newer ones ignore.
pub(crate) fn is_same_tunable(one: &str, other: &str) -> Option<bool> {
    match (of_c(one), of_c(other)) {
        (Some((one, "")), Some((other, ""))) => Some(one == other),
        _ => None,
    }
}

/// Who reads a variable.
#[derive(Debug, Clone, Copy)]
enum Reader {
    /// `get_envparam_size` of Ruby's gc.c: a number of C and one of `k`, `m`, `g`.
    CollectorSize,
    /// `get_envparam_double` of Ruby's gc.c.
    CollectorFactor,
    /// `atol`, as vm.c of Ruby reads the sizes of stacks: no unit.
    Stack,
    /// `env_var_truthy` of Ruby's ruby.c.
    Compiler,
    /// glibc's `_dl_strtoul` (elf/dl-minimal.c): no unit.
    Tunable,
    /// jemalloc: options, of which the last of a name counts.
    Jemalloc,
}

fn reader_of(variable: &str) -> Option<Reader> {
    Some(match variable {
        "MALLOC_CONF" => Reader::Jemalloc,
        "RUBY_YJIT_ENABLE" | "RUBY_ZJIT_ENABLE" => Reader::Compiler,
        _ if variable.starts_with("MALLOC_") => Reader::Tunable,
        _ if variable.starts_with("RUBY_THREAD_") => Reader::Stack,
        _ if !variable.starts_with("RUBY_GC_") => return None,
        _ if variable.ends_with("_FACTOR") || variable.ends_with("_RATIO") => {
            Reader::CollectorFactor
        }
        _ => Reader::CollectorSize,
    })
}

impl Reader {
    fn is_same(self, one: &str, other: &str) -> bool {
        match self {
            Self::CollectorSize => both(collector_size, one, other),
            Self::CollectorFactor => both(|text| text.trim_start().parse::<f64>().ok(), one, other),
            Self::Stack => both(stack_size, one, other),
            Self::Compiler => both(|text| is_truthy(text).then_some(()), one, other),
            Self::Tunable => is_same_tunable(one, other) == Some(true),
            Self::Jemalloc => both(options, one, other),
        }
    }
}

/// Whether both texts have a value, and the same.
fn both<'a, T: PartialEq>(
    read: impl Fn(&'a str) -> Option<T>,
    one: &'a str,
    other: &'a str,
) -> bool {
    read(one).is_some_and(|value| read(other) == Some(value))
}

fn is_truthy(text: &str) -> bool {
    matches!(text, "1" | "true" | "yes")
}

/// What `strtoul` with base 0 reads, and the rest of the text.
fn of_c(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let (radix, digits) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        // A zero in front makes it octal, and is a digit itself.
        None if text.starts_with('0') => (8, text),
        None => (10, text),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    Some((u64::from_str_radix(&digits[..end], radix).ok()?, &digits[end..]))
}

fn collector_size(text: &str) -> Option<u64> {
    let (number, rest) = of_c(text)?;
    let (unit, rest) = match rest.chars().next() {
        Some('k' | 'K') => (1 << 10, &rest[1..]),
        Some('m' | 'M') => (1 << 20, &rest[1..]),
        Some('g' | 'G') => (1 << 30, &rest[1..]),
        _ => (1, rest),
    };
    // Ruby ignores the whole text otherwise.
    rest.trim_start().is_empty().then_some(())?;
    number.checked_mul(unit)
}

fn stack_size(text: &str) -> Option<u64> {
    let text = text.trim_start();
    // `atol` stops at the first other character, and what is before it counts.
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The options by name, each with its last value.
fn options(text: &str) -> Option<std::collections::BTreeMap<&str, &str>> {
    text.split(',').map(|option| option.split_once(':')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_same_where_its_reader_reads_the_same() {
        for (variable, one, other, same) in [
            ("RUBY_GC_MALLOC_LIMIT", "1048576", "1m", true),
            ("RUBY_GC_MALLOC_LIMIT", "1048576", "0x100000", true),
            ("RUBY_GC_MALLOC_LIMIT", "1048576", " 1M ", true),
            ("RUBY_GC_MALLOC_LIMIT", "4096", "010000", true),
            ("RUBY_GC_MALLOC_LIMIT", "1048576", "1mb", false),
            ("RUBY_GC_MALLOC_LIMIT", "1048576", "", false),
            ("RUBY_GC_MALLOC_LIMIT", "0", "99999999999g", false),
            ("RUBY_GC_HEAP_GROWTH_FACTOR", "1.2", "1.20", true),
            ("RUBY_GC_HEAP_GROWTH_FACTOR", "1.2", "1.2 ", false),
            ("RUBY_THREAD_VM_STACK_SIZE", "1048576", "01048576", true),
            // `atol` reads this as 1, and Ruby raises that to its least size.
            ("RUBY_THREAD_VM_STACK_SIZE", "1048576", "1m", false),
            ("MALLOC_TRIM_THRESHOLD_", "1048576", "0x100000", true),
            ("MALLOC_TRIM_THRESHOLD_", "1048576", "1m", false),
            ("MALLOC_ARENA_MAX", "2", "02", true),
            ("MALLOC_ARENA_MAX", "2", "2x", false),
            ("RUBY_YJIT_ENABLE", "1", "yes", true),
            ("RUBY_YJIT_ENABLE", "1", "0", false),
            ("MALLOC_CONF", "narenas:2,retain:true", "retain:true,narenas:4,narenas:2", true),
            ("MALLOC_CONF", "narenas:2", "narenas:2,narenas:4", false),
            ("PATH", "/a", "/a/", false),
            ("PATH", "/a", "/a", true),
        ] {
            assert_eq!(is_same(variable, one, other), same, "{variable}: {one} {other}");
        }
    }
}
