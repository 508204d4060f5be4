//! Prints a census as JSON: `cargo run --release -p carat-outside --example census -- PID [--owners] [--reach] [--who CLASS]`.

#![expect(clippy::print_stdout, reason = "printing is the purpose of this example")]

use carat_outside::census::LookOptions;
use carat_outside::readings::look;
use carat_outside::who::WhoRequest;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = LookOptions { copy: true, ..LookOptions::default() };
    let mut process = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--owners" => options.owners = true,
            "--reach" => (options.owners, options.reach) = (true, true),
            "--who" => {
                let classes = arguments.next().into_iter().collect();
                options.who = Some(WhoRequest { classes, ..WhoRequest::default() });
            }
            number => process = Some(number.parse()?),
        }
    }
    let census = look(process.ok_or("which process?")?, &options)?;
    println!("{}", serde_json::to_string(&census)?);
    Ok(())
}
