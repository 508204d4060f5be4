//! A command to run.

/// Program and arguments: at least one word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// The command of these words; `None` where there is no program.
    pub fn new(words: Vec<String>) -> Option<Self> {
        (!words.is_empty()).then_some(Self(words))
    }

    /// The program: a name to look up in `PATH`, or a path.
    pub fn program(&self) -> &str {
        &self.0[0]
    }

    /// Program and arguments.
    pub fn words(&self) -> &[String] {
        &self.0
    }
}
