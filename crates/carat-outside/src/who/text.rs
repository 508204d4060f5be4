//! Ways as one line of text.

use super::data::{CodePlace, Holder, KeeperKind, KeptBy, Way, WayLink, WayRoot, WayStep};
use std::fmt;

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn of_many(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// What an internal object is, by the name of its kind (`enum imemo_type`, internal/imemo.h).
fn internal(kind: &str) -> String {
    let known = match kind {
        "ment" => "the entry of a method",
        "cref" => "a lexical scope",
        "svar" => "the last match and line of a method",
        "ifunc" => "a block in C",
        "callcache" => "the cache of a call",
        "constcache" => "the cache of a constant",
        "fields" => "instance variables",
        _ => return format!("an internal {kind}"),
    };
    known.to_owned()
}

impl fmt::Display for CodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.path.rsplit('/').next().unwrap_or(&self.path);
        write!(f, "{} at {file}", self.label)?;
        if self.line > 0 { write!(f, ":{}", self.line) } else { Ok(()) }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, &self.code) {
            (KeeperKind::Main, _) => return f.write_str("the main object"),
            (KeeperKind::Singleton, _) => return write!(f, "the singleton class of {}", self.name),
            (KeeperKind::Included, _) => return write!(f, "{} (included)", self.name),
            (KeeperKind::Variables, Some(code)) => return write!(f, "{code}"),
            (KeeperKind::Variables, None) => return f.write_str("captured variables"),
            (KeeperKind::Code, Some(code)) => return write!(f, "the code of {code}"),
            (KeeperKind::Code, None) => return f.write_str("code"),
            (KeeperKind::Internal, _) => return f.write_str(&internal(&self.name)),
            (KeeperKind::Object | KeeperKind::Class, _) => f.write_str(&self.name)?,
        }
        if let Some((number, name)) = &self.thread {
            let of = if self.name == "Fiber" { " of thread" } else { "" };
            write!(f, "{of} {number} ({name})")?;
        }
        if let Some(code) = &self.code {
            write!(f, " of {code}")?;
        }
        match (self.length, self.name.as_str()) {
            (Some(length), "Array") => write!(f, " ({})", of_many(length, "element", "elements")),
            (Some(length), _) => write!(f, " ({})", of_many(length, "entry", "entries")),
            (None, _) => Ok(()),
        }
    }
}

impl fmt::Display for WayStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = &self.of;
        let owner = |name: &str| {
            if of.name == "Object" { name.to_owned() } else { format!("{}::{name}", of.name) }
        };
        match &self.link {
            WayLink::Unnamed => write!(f, "{of}"),
            WayLink::Element(Some(number)) => write!(f, "[{number}] of {of}"),
            WayLink::Element(None) => write!(f, "an element of {of}"),
            WayLink::Symbol(name) if name.is_empty() => write!(f, "the value of a symbol in {of}"),
            WayLink::Symbol(name) => write!(f, "[:{name}] of {of}"),
            WayLink::KeyOf(class) => write!(f, "[{} {class}] of {of}", article(class)),
            WayLink::ClassKey(class) => write!(f, "[{class}] of {of}"),
            WayLink::Key => write!(f, "a key of {of}"),
            WayLink::Default => write!(f, "the default of {of}"),
            WayLink::Variable(name) => write!(f, "{name} of {of}"),
            WayLink::VariableNumber(number) => write!(f, "ivar {number} of {of}"),
            WayLink::Member(name) => write!(f, ".{name} of {of}"),
            WayLink::MemberNumber(number) => write!(f, "member {number} of {of}"),
            WayLink::Constant(name) => write!(f, "constant {}", owner(name)),
            WayLink::Method(name) => write!(f, "method {name} of {of}"),
            WayLink::Captured(name) => write!(f, "captured variable {name} of {of}"),
            WayLink::Frame { variable, code } => {
                frame(f, variable.as_deref(), code.as_ref())?;
                write!(f, " in {of}")
            }
            WayLink::Class => write!(f, "the class of {of}"),
            WayLink::Shared => write!(f, "shared by {of}"),
        }
    }
}

/// A value on the stack of code that runs or waits.
fn frame(
    f: &mut fmt::Formatter<'_>,
    variable: Option<&str>,
    code: Option<&CodePlace>,
) -> fmt::Result {
    match variable {
        Some(name) => write!(f, "local variable {name}")?,
        None => f.write_str("the stack")?,
    }
    code.map_or(Ok(()), |code| write!(f, " of {code}"))
}

/// A block directly behind what it captured is not placed a second time.
fn without_place_again(of: &Holder, before: &Holder) -> Holder {
    let captured = before.code.as_ref().filter(|_| before.kind == KeeperKind::Variables);
    let is_again = of.code.as_ref().zip(captured).is_some_and(|(block, code)| {
        block.path == code.path && (block.line == code.line || code.line == 0)
    });
    Holder { code: of.code.clone().filter(|_| !is_again), ..of.clone() }
}

fn article(name: &str) -> &'static str {
    if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}

impl fmt::Display for WayRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global { name } => write!(f, "global variable {name}"),
            Self::Symbol { name, library } => write!(f, "{name} of {library}"),
            Self::StaticData { library } => write!(f, "static data of {library}"),
            Self::Vm => f.write_str("the VM"),
            Self::SymbolTable => f.write_str("Ruby's table of symbols"),
            Self::Finalizer => f.write_str("a finalizer"),
            Self::Frame { variable, code } => frame(f, variable.as_deref(), code.as_ref()),
            Self::Stack { thread: 0, name } => write!(f, "the stack of a thread ({name})"),
            Self::Stack { thread, name } => write!(f, "the stack of thread {thread} ({name})"),
            Self::Named { name } if name.contains(' ') => f.write_str(name),
            Self::Named { name } => write!(f, "the root {name}"),
            Self::OtherMemory => f.write_str("other memory"),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object)?;
        let mut before = &self.object;
        for step in &self.steps {
            write!(
                f,
                " ← {}",
                WayStep { of: without_place_again(&step.of, before), ..step.clone() }
            )?;
            before = &step.of;
        }
        let end = self.steps.last().map_or(&self.object, |step| &step.of);
        match &self.root {
            Some(root) => write!(f, " ← {root}"),
            None if is_known(end) => Ok(()),
            None => f.write_str(" ← …"),
        }
    }
}

impl fmt::Display for KeptBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "{step}"),
            Self::Itself(holder) => write!(f, "{holder}"),
            Self::Root(root) => write!(f, "{root}"),
        }
    }
}

/// Whether the last object of a way needs no explanation.
fn is_known(end: &Holder) -> bool {
    let by_kind = matches!(end.kind, KeeperKind::Class | KeeperKind::Included | KeeperKind::Main);
    by_kind || end.thread.is_some() || (end.kind == KeeperKind::Code && end.code.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_an_object_is_the_way_without_the_object_and_the_common_way_has_no_numbers() {
        let named = |kind, name: &str| Holder { kind, name: name.into(), ..Holder::default() };
        let list = Holder { length: Some(7), ..named(KeeperKind::Object, "Array") };
        let steps = vec![
            WayStep { link: WayLink::Element(Some(3)), of: list },
            WayStep { link: WayLink::Variable("@all".into()), of: named(KeeperKind::Class, "Log") },
        ];
        let way = Way { object: named(KeeperKind::Object, "Post"), steps, root: None };
        assert_eq!(way.keeper(), "[3] of Array (7 elements) ← @all of Log");
        assert_eq!(way.common().to_string(), "Post ← an element of Array ← @all of Log");
    }

    #[test]
    fn an_internal_object_is_called_what_it_is_for_where_that_is_known() {
        let internal = |kind: &str| {
            let (kind, name) = (KeeperKind::Internal, kind.to_owned());
            Holder { kind, name, ..Holder::default() }.to_string()
        };
        let named = ["ment", "constcache", "memo"].map(internal);
        assert_eq!(named, ["the entry of a method", "the cache of a constant", "an internal memo"]);
    }

    #[test]
    fn threads_that_have_not_ended_are_kept_by_the_vm_and_what_they_run_is_named() {
        let code = CodePlace { label: "block in poll".into(), path: "/app/p.rb".into(), line: 7 };
        let thread = Holder { name: "Thread".into(), code: Some(code), ..Holder::default() };
        let running = Holder { thread: Some((8, "p.rb:7".into())), ..thread.clone() };
        let [running, unknown] = [running, thread].map(|object| Way { object, ..Way::default() });
        assert_eq!(running.common().keeper(), "the VM; they run block in poll at p.rb:7");
        assert_eq!(unknown.common().keeper(), "…; they run block in poll at p.rb:7");
    }
}
