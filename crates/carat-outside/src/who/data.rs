//! Who keeps what alive, as plain data. Names are those of the program; contents of strings are never among them.

use serde::{Deserialize, Serialize};

/// Who keeps the objects of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoCensus {
    /// Objects that the roots lead to.
    pub reached_objects: u64,
    /// Objects to which no way was found.
    #[serde(default)]
    pub unreached_objects: u64,
    /// Objects that a full collection would free; `None` where some may be kept in a way that was not found.
    pub garbage_objects: Option<u64>,
    /// Bytes are those of slots alone, and nothing is said of what would go without what: malloc was not read.
    #[serde(default)]
    pub slots_only: bool,
    /// The requested class, or the classes with most bytes of old objects.
    pub classes: Vec<ClassHolders>,
    /// The objects that keep most memory alive alone.
    pub holders: Vec<SoleHolder>,
    /// Ways and holders that no longer held when they were read again, and so are left out.
    pub left_out: u64,
    /// Everything that is kept, by what keeps it; `None` if it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptTree>,
    /// What has numbers in place of names, and why.
    pub unnamed: Vec<String>,
    /// Bytes of our own memory for it, at most.
    pub needed_bytes: u64,
}

/// Who keeps the objects of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassHolders {
    /// The class's name.
    pub name: String,
    pub objects: u64,
    /// Those that minor collections do not visit.
    pub old_objects: u64,
    /// Bytes of their slots and of the chunks that each of them holds alone.
    pub bytes: u64,
    /// Those to which no way was found.
    #[serde(default)]
    pub unreached_objects: u64,
    /// Those that a full collection would free; `None` where some may be kept in a way that was not found.
    pub garbage_objects: Option<u64>,
    /// The ways to most of them, the commonest first.
    pub ways: Vec<CountedWay>,
    /// Number of other ways.
    pub other_ways: u64,
    /// The objects to which those lead.
    pub other_objects: u64,
    /// The objects whose way no longer held when it was read again.
    #[serde(default)]
    pub changed_objects: u64,
    /// The innermost object without which nine tenths of them would go; `None` if there is none.
    pub holder: Option<SoleHolder>,
}

/// Ways that differ only in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedWay {
    /// Objects at the end of such a way.
    pub objects: u64,
    /// One of the ways.
    pub way: Way,
}

/// An object without which others would go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoleHolder {
    /// The object, and how it is kept itself.
    pub way: Way,
    /// Objects of the class in question among them; `None` without such a class.
    pub of_class: Option<u64>,
    /// Objects that would go without it, itself among them.
    pub objects: u64,
    /// Bytes in memory of their slots and chunks.
    pub bytes: u64,
}

/// How an object is kept: by what, step by step, up to something that has a name in the program, or to a root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    pub object: Holder,
    /// The steps, the nearest first.
    pub steps: Vec<WayStep>,
    /// Where the way begins; `None` if it ends at a class or module, or was cut.
    pub root: Option<WayRoot>,
}

/// One step: by what an object is kept, and of whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WayStep {
    /// By what.
    pub link: WayLink,
    /// Of whom.
    pub of: Holder,
}

/// By what an object keeps another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum WayLink {
    /// Something of the object that has no name.
    #[default]
    Unnamed,
    /// An element of an array, by its place.
    Element(Option<u64>),
    /// The value of a symbol in a hash, or in the variables of a thread or fiber.
    Symbol(String),
    /// The value of a key that is an object of this class.
    KeyOf(String),
    /// The value of the class or module with this name.
    ClassKey(String),
    /// A key of a hash.
    Key,
    /// The default of a hash.
    Default,
    /// An instance variable, or a class variable.
    Variable(String),
    /// An instance variable whose name is unknown, by its place.
    VariableNumber(u64),
    /// A member of a struct.
    Member(String),
    /// A member of a struct whose name is unknown, by its place.
    MemberNumber(u64),
    Constant(String),
    Method(String),
    /// A local variable that a block captured.
    Captured(String),
    /// A local variable, or another value on the stack, of code that runs or waits.
    Frame {
        /// The variable's name.
        variable: Option<String>,
        code: Option<CodePlace>,
    },
    /// The object is its class.
    Class,
    /// The elements or bytes are shared with another array or string.
    Shared,
}

/// An object that keeps another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// What it is.
    pub kind: KeeperKind,
    /// The name of its class; of a class or module its own.
    pub name: String,
    /// Number of elements, of entries, or of members.
    pub length: Option<u64>,
    /// The place of its code: of a block, of the block whose variables it is, of a thread.
    pub code: Option<CodePlace>,
    /// Number and name of the operating system's thread that it is.
    pub thread: Option<(u32, String)>,
}

/// What an object is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperKind {
    /// An object with a class.
    #[default]
    Object,
    /// A class or module.
    Class,
    /// A module as a part of what includes it.
    Included,
    /// The singleton class of something.
    Singleton,
    /// Local variables of code.
    Variables,
    /// Code.
    Code,
    /// Another object that Ruby uses internally.
    Internal,
    /// The main object.
    Main,
}

/// A place in the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodePlace {
    /// For example `block in subscribe`.
    pub label: String,
    /// The file.
    pub path: String,
    /// The first line; 0 if there is none.
    pub line: u64,
}

/// Where a way begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WayRoot {
    /// A global variable.
    Global {
        /// Its name, with the dollar sign.
        name: String,
    },
    /// A variable of C.
    Symbol {
        name: String,
        library: String,
    },
    /// Data of a library that no symbol names.
    StaticData {
        library: String,
    },
    /// The structure of Ruby's virtual machine.
    Vm,
    /// Ruby's own table of symbols.
    SymbolTable,
    Finalizer,
    /// A local variable, or another value, of code that runs or waits in a thread or fiber without an object.
    Frame {
        /// The variable's name.
        variable: Option<String>,
        code: Option<CodePlace>,
    },
    /// The stack of a thread.
    Stack {
        /// Its number; 0 for any of this name.
        thread: u32,
        name: String,
    },
    /// What a heap dump calls so.
    Named {
        /// Its name in the dump.
        name: String,
    },
    /// Anonymous memory of unknown use.
    OtherMemory,
}

impl Way {
    /// The way of the other objects of its kind: without places in arrays, lengths, and numbers of threads.
    #[must_use]
    pub fn common(&self) -> Self {
        let mut common = self.clone();
        // Its number said that it has not ended, so that it is in the machine's list of threads.
        if self.steps.is_empty() && self.root.is_none() && self.object.thread.is_some() {
            common.root = Some(WayRoot::Vm);
        }
        let holders = common.steps.iter_mut().map(|step| {
            if let WayLink::Element(place) = &mut step.link {
                *place = None;
            }
            &mut step.of
        });
        for holder in holders.chain([&mut common.object]) {
            (holder.length, holder.thread) = (None, None);
        }
        if let Some(WayRoot::Stack { thread, .. }) = &mut common.root {
            *thread = 0;
        }
        common
    }

    /// The same with any symbol in place of each.
    #[must_use]
    pub fn of_any_symbol(&self) -> Self {
        let mut any = self.clone();
        for step in &mut any.steps {
            if matches!(step.link, WayLink::Symbol(_)) {
                step.link = WayLink::Symbol(String::new());
            }
        }
        any
    }

    /// What keeps the object, without the object itself; of threads also what they run.
    pub fn keeper(&self) -> String {
        let (text, object) = (self.to_string(), self.object.to_string());
        let rest = text.strip_prefix(&object).and_then(|rest| rest.strip_prefix(" ← "));
        let keeper = rest.unwrap_or(&text);
        match &self.object.code {
            Some(code) if self.object.name == "Thread" => format!("{keeper}; they run {code}"),
            _ => keeper.to_owned(),
        }
    }
}

/// Everything that is kept, by what keeps it. Every object is counted once, on the way that says most.
///
/// Two readings of a process, or of two processes of one program, can be compared: it has names and no addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTree {
    /// The largest parts of the tree; what is above another one comes before it.
    pub nodes: Vec<KeptNode>,
    /// Parts of which no way held when it was read again. They tell of a later reading what is not new. Places continue those of `nodes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<KeptNode>,
    /// All of it.
    pub all: KeptAmount,
    /// Number of smaller parts, which are only counted in what is above them.
    pub left_out: u64,
    /// Bytes that one of those has at most.
    pub left_out_bytes: u64,
}

/// What is kept in one way: by a named holder, step by step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    /// The place in the list of what is above; `None` where a way begins.
    pub above: Option<u32>,
    /// By what it is kept.
    pub by: KeptBy,
    /// What is kept in this way, and all to which that leads.
    pub all: KeptAmount,
    /// What is kept in this way itself.
    pub own: KeptAmount,
    /// The commonest classes of the latter.
    pub classes: Vec<KeptClass>,
}

/// By what something is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptBy {
    /// By an object.
    Step(WayStep),
    /// It needs no explanation.
    Itself(Holder),
    /// By a root.
    Root(WayRoot),
}

impl Default for KeptBy {
    fn default() -> Self {
        Self::Step(WayStep::default())
    }
}

/// How much is kept. Bytes are those in memory, of slots and of malloc's chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAmount {
    /// Objects.
    pub objects: u64,
    pub bytes: u64,
    /// Old objects: those that minor collections do not visit.
    pub old_objects: u64,
    pub old_bytes: u64,
}

impl KeptAmount {
    /// The sum of two.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
            old_objects: self.old_objects.saturating_add(other.old_objects),
            old_bytes: self.old_bytes.saturating_add(other.old_bytes),
        }
    }
}

/// Objects of one class that are kept in one way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptClass {
    /// The class's name.
    pub name: String,
    pub objects: u64,
    /// The old ones among them.
    pub old_objects: u64,
}

impl KeptTree {
    /// By what the objects of a node are kept, the nearest first.
    pub fn path(&self, number: usize) -> Vec<&KeptBy> {
        let mut path = Vec::new();
        let mut at = self.nodes.get(number);
        // What is above comes before, also in a file that somebody else made.
        let mut before = number;
        while let Some(one) = at {
            path.push(&one.by);
            let above = one.above.map(|above| above as usize).filter(|above| *above < before);
            before = above.unwrap_or(0);
            at = above.and_then(|above| self.nodes.get(above));
        }
        path
    }
}
