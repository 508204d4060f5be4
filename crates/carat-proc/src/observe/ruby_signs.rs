//! What the mappings of a process say about its Ruby, without reading its memory.

use crate::observe::Mapping;
use carat_ruby::RubyVersion;
use carat_ruby::code_room::{CodeSearch, MappedPiece, find_code_room};
use carat_ruby::version::{V3_1, V4_0};

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
    let is_on = match find_code_room(&pieces(mappings)) {
        CodeSearch::Found(_) => true,
        CodeSearch::Absent => false,
        CodeSearch::Unsure => return None,
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
/// `None` where there is none, or where it cannot be told from another compiler.
pub(super) fn jit_reserved(mappings: &[Mapping]) -> Option<u64> {
    match find_code_room(&pieces(mappings)) {
        CodeSearch::Found(room) => room.reserved,
        CodeSearch::Absent | CodeSearch::Unsure => None,
    }
}

/// The mappings, as far as a compiler is found in them.
pub(super) fn pieces(mappings: &[Mapping]) -> Vec<MappedPiece<'_>> {
    let pieces = mappings.iter().map(|one| MappedPiece {
        range: one.range.clone(),
        access: [one.access.read, one.access.write, one.access.execute],
        shared: one.access.shared,
        name: &one.name,
    });
    pieces.collect()
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
