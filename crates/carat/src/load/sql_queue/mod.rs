//! Jobs in the tables of Solid Queue or GoodJob, inserted and followed to their end through SQL.

mod client;
mod counts;
mod protocol;
mod psql;
mod report;
mod tables;

pub(crate) use protocol::{SqlQueueProtocol, check_sql_queue};
