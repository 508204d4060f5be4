//! The `carat` command.

fn main() -> std::process::ExitCode {
    carat::cli::main()
}
