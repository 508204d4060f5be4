//! Exit codes, one meaning each.

use std::process::ExitCode;

/// How carat ends; the numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything went as asked.
    Fine,
    /// Something failed.
    Failed,
    /// The command line or the experiment file is wrong.
    Usage,
    /// The trials do not decide the question.
    Undecided,
    /// The trials mean nothing: the server or the load failed.
    Invalid,
    /// A budget is broken.
    Broken,
    /// Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Undecided => 3,
            Self::Invalid => 4,
            Self::Broken => 99,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// What `--help` says about them.
pub(crate) const HELP: &str = "\
Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 undecided, 4 evidence invalid, 99 budget broken, 130 stopped by Ctrl-C.

Examples:
  carat compare workloads/rails-hello/carat.toml
  carat compare workloads/rails-hello/carat.toml --blocks 8 --resume
  carat report rails-hello.carat --open";
