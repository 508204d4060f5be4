//! The command line of `carat load`. A protocol's options are those of its table in an experiment file.

use carat_model::Span;
use carat_model::load::ProtocolOptions;
use carat_model::with_load_protocols;
use clap::{Args, Subcommand};

/// Drive a load against a server and report latency and errors
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  carat load http http://127.0.0.1:3000/hello -c 16 -d 30s
  carat load http http://127.0.0.1:3000/ -n 10000 --rate 200 --arrivals poisson
  carat load http http://127.0.0.1:3000/ --scenario login.toml -n 10000
  carat load http http://127.0.0.1:3000/ --replay access.log --pace 2x -d 5m
  carat load cable ws://127.0.0.1:3000/cable --steps 10 --step-size 100
  carat load sidekiq redis://127.0.0.1:6379 --class HardJob --args '[\"{number}\"]' -n 20000
  carat load sql-queue postgresql:///app --class HardJob --args '[\"{number}\"]' -n 20000

Exit status: 0 the figures are valid, 1 the load could not be run, 2 an option is wrong, 4 the figures are invalid.")]
pub(crate) struct LoadArgs {
    /// What to drive
    #[command(subcommand)]
    pub command: LoadCommand,
}

macro_rules! declare_commands {
    ($($variant:ident $key:ident $options:ident $load:ident $protocol:ident;)*) => {
        /// What to drive.
        #[derive(Debug, Clone, Subcommand)]
        pub(crate) enum LoadCommand {
            $(
                #[command(about = carat_model::load::$options::ABOUT)]
                $variant(RunArgs<carat_model::load::$options>),
            )*
            /// Run the built-in null server that the generator is calibrated with
            Null(NullArgs),
            /// Measure how much the generator can drive on this machine
            SelfTest(SelfTestArgs),
        }
    };
}

with_load_protocols!(declare_commands);

/// A load of one protocol.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs<O: ProtocolOptions> {
    #[arg(help = O::URL_HELP)]
    pub url: String,
    #[command(flatten)]
    pub options: O,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `carat load null`.
#[derive(Debug, Clone, Args)]
pub(crate) struct NullArgs {
    /// Answer HTTP requests
    #[arg(long, conflicts_with = "cable", required_unless_present = "cable")]
    pub http: bool,
    /// Answer Action Cable connections
    #[arg(long)]
    pub cable: bool,
    /// Port; 0 lets the kernel choose, and the first line of output names it
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Bytes of every HTTP response's body
    #[arg(long, value_name = "BYTES", default_value_t = 13)]
    pub body: usize,
}

/// Options of `carat load self-test`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SelfTestArgs {
    /// How long each of the two tests runs
    #[arg(short, long, value_name = "SPAN", value_parser = Span::parse, default_value = "2s")]
    pub duration: Span,
    /// Action Cable connections
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub clients: u32,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}
