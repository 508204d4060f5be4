//! Prints a census as JSON: `cargo run --release -p carat-outside --example census -- PID [--owners] [--reach]`.

#![expect(clippy::print_stdout, reason = "printing is the purpose of this example")]

use carat_outside::census::{LookOptions, look};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = LookOptions::default();
    let mut process = None;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--owners" => options.owners = true,
            "--reach" => (options.owners, options.reach) = (true, true),
            number => process = Some(number.parse()?),
        }
    }
    let census = look(process.ok_or("which process?")?, &options)?;
    println!("{}", serde_json::to_string(&census)?);
    Ok(())
}
