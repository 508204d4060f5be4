//! What the mappings of a process say about its Ruby, without reading its memory.

use crate::observe::Mapping;
use carat_ruby::RubyVersion;
use carat_ruby::version::{V3_1, V4_0};

/// Smaller anonymous code is that of libffi's closures.
const LEAST_CODE: u64 = 64 << 10;
/// The range of addresses that a JIT reserves beside its code.
const RESERVED: u64 = 1 << 20;
/// Libraries with a JIT of their own, whose code looks the same.
const OTHER_JITS: [&str; 3] = ["mini_racer", "libv8", "libjavascriptcore"];

/// The kernel chooses the place of the vDSO at random when it executes a program, and `fork` keeps it (vdso(7)).
pub fn image_of(mappings: &[Mapping]) -> Option<u64> {
    mappings.iter().find(|mapping| mapping.name == "[vdso]").map(|mapping| mapping.range.start)
}

/// Which JIT is on: `off`, its name, or `jit` where several are possible; `None` if that cannot be told. `asked` is the
/// command line and the environment.
pub(super) fn jit_of(
    mappings: &[Mapping],
    ruby: Option<&str>,
    asked: &str,
) -> Option<&'static str> {
    let version = RubyVersion::find_in(ruby?)?;
    if version < V3_1 {
        // MJIT loads what it has compiled as a library from a file of this name.
        let compiled = mappings.iter().any(|mapping| mapping.name.contains("/_ruby_mjit_"));
        return Some(if compiled { "mjit" } else { "off" });
    }
    let by_label = mappings.iter().any(|mapping| {
        let label = mapping.name.strip_prefix("[anon:Ruby:");
        label.is_some_and(|label| label.starts_with("rb_yjit") || label.starts_with("rb_jit"))
    });
    let other = mappings.iter().any(|one| OTHER_JITS.iter().any(|name| one.name.contains(name)));
    let by_shape = (0..mappings.len()).any(|at| is_jit_code(mappings, at));
    // The label is proof; the shape is one only where no other library compiles code.
    let is_on = match (by_label, by_shape, other) {
        (true, ..) | (_, true, false) => true,
        (false, true, true) => return None,
        (false, false, _) => false,
    };
    Some(match is_on {
        false => "off",
        // From 4.0 on there are two compilers, which the mappings do not tell apart.
        true if version < V4_0 => "yjit",
        true => ["zjit", "yjit"]
            .into_iter()
            .find(|name| asked.to_lowercase().contains(name))
            .unwrap_or("jit"),
    })
}

/// Bytes of addresses that Ruby's compiler has reserved for code: its code with the addresses behind it that are reserved for more.
/// `None` where there is none, or a library has a compiler of its own.
pub(super) fn jit_reserved(mappings: &[Mapping]) -> Option<u64> {
    let is_other = |one: &Mapping| OTHER_JITS.iter().any(|name| one.name.contains(name));
    if mappings.iter().any(is_other) {
        return None;
    }
    let is_plain = |one: &Mapping| one.name.is_empty() || one.name.starts_with("[anon:Ruby:rb_");
    let size_from = |first: usize| {
        let start = mappings[first].range.start;
        let end = mappings[first..].iter().fold(start, |end, one| {
            let belongs = is_plain(one) && (one.access.execute || one.is_inaccessible());
            if belongs && one.range.start == end { one.range.end } else { end }
        });
        end - start
    };
    let code = |at: &usize| is_plain(&mappings[*at]) && mappings[*at].access.execute;
    // A number of MiB (`--yjit-exec-mem-size`, yjit/src/options.rs), which smaller code, as of libffi's closures, is not.
    let sizes = (0..mappings.len()).filter(code).map(size_from);
    sizes.into_iter().find(|bytes| bytes.is_multiple_of(RESERVED))
}

/// Anonymous code that is large, or that lies beside addresses which are reserved for more.
fn is_jit_code(mappings: &[Mapping], at: usize) -> bool {
    let code = &mappings[at];
    if !code.access.execute || !code.name.is_empty() {
        return false;
    }
    let before = at.checked_sub(1).map(|before| &mappings[before]);
    let before = before.filter(|before| before.range.end == code.range.start);
    let after = mappings.get(at + 1).filter(|after| after.range.start == code.range.end);
    let mut beside = before.into_iter().chain(after);
    // A young JIT has little code, but reserves its addresses at once.
    code.size() >= LEAST_CODE
        || beside.any(|one| one.name.is_empty() && one.is_inaccessible() && one.size() >= RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::parse_mappings;

    #[test]
    fn addresses_for_code_are_a_number_of_mib_and_unknown_beside_another_compiler() {
        let closures = "7e0000000000-7e0000001000 r-xp 0 00:00 0 \n";
        let code = "7f0000000000-7f0000004000 r-xp 0 00:00 0 \n7f0000004000-7f0003000000 ---p 0 00:00 0 \n";
        let after = "7f0003000000-7f0003001000 rw-p 0 00:00 0 \n";
        let racer = "7e1000000000-7e1000001000 r-xp 0 08:01 7 /gems/mini_racer_extension.so\n";
        let reserved = |text: &str| jit_reserved(&parse_mappings(text.as_bytes()));
        assert_eq!(reserved(&format!("{closures}{code}{after}")), Some(48 << 20));
        assert_eq!((reserved(closures), reserved(after)), (None, None));
        assert_eq!(reserved(&format!("{racer}{code}")), None);
    }

    #[test]
    fn a_jit_is_told_by_its_code_and_never_taken_for_another() {
        let code = "7f0000000000-7f0000004000 r-xp 0 00:00 0 \n7f0000004000-7f0004000000 ---p 0 00:00 0 \n";
        let named =
            "7f0000000000-7f0000004000 r-xp 0 00:00 0  [anon:Ruby:rb_yjit_reserve_addr_space]\n";
        let closures = "7f0000000000-7f0000001000 r-xp 0 00:00 0 \n";
        let racer = "7e0000000000-7e0000001000 r-xp 0 08:01 7 /gems/mini_racer_extension.so\n";
        let mjit = "7e0000000000-7e0000001000 r-xp 0 08:01 7 /tmp/_ruby_mjit_p7u0.so\n";
        let jit = |text: &str, ruby, asked| jit_of(&parse_mappings(text.as_bytes()), ruby, asked);
        for (text, ruby, asked, expected) in [
            (code, Some("3.3.8"), "", Some("yjit")),
            (named, Some("3.3.8"), "", Some("yjit")),
            (closures, Some("3.3.8"), "--yjit", Some("off")),
            (code, Some("4.0.0"), "", Some("jit")),
            (code, Some("4.0.0"), "RUBYOPT=--zjit", Some("zjit")),
            (mjit, Some("2.7.4"), "", Some("mjit")),
            (closures, Some("3.0.1"), "", Some("off")),
            (code, None, "", None),
        ] {
            assert_eq!(jit(text, ruby, asked), expected, "{text} {ruby:?} {asked}");
        }
        assert_eq!(jit(&format!("{racer}{code}"), Some("3.3.8"), ""), None);
        assert_eq!(jit(&format!("{racer}{named}"), Some("3.3.8"), ""), Some("yjit"));
    }
}
