//! Jobs in the tables of Solid Queue or GoodJob, inserted and followed to their end through SQL.

mod client;
mod counts;
mod protocol;
mod psql;
mod report;
mod tables;

pub use protocol::SqlQueueProtocol;
pub(crate) use protocol::check_sql_queue;
