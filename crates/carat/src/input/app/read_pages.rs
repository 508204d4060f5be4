//! The pages of an app that are read most, by its own log. Nothing is requested.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes of the end of a log that are read: some 20,000 requests.
const READ: u64 = 8 << 20;
/// Pages that are named.
const PAGES: usize = 5;
/// A page that was answered less often is left out.
const LEAST: u64 = 10;

/// Paths that answered GET with 200 most often, the most frequent first, by the end of Rails' own log.
///
/// Paths with a query or with digits, as those of single records, are left out, and so are requests whose end cannot be told
/// from that of another: lines of several processes without a number or a tag of the request.
///
/// # Errors
/// If the log is there and cannot be read.
pub(super) fn most_read(log: &Path) -> io::Result<Vec<String>> {
    // First, because opening a named pipe would wait for its writer.
    let length = match log.metadata() {
        Ok(found) if found.is_file() => found.len(),
        Ok(_) => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(length.saturating_sub(READ)))?;
    let mut bytes = Vec::new();
    file.take(READ).read_to_end(&mut bytes)?;
    Ok(pages_in(&String::from_utf8_lossy(&bytes)))
}

fn pages_in(log: &str) -> Vec<String> {
    let mut open: BTreeMap<String, Option<&str>> = BTreeMap::new();
    let mut answered: BTreeMap<&str, u64> = BTreeMap::new();
    for line in log.lines() {
        if let Some((prefix, started)) = line.split_once("Started ") {
            let path = page_of(started);
            // Two that are open at once have ends that cannot be told apart.
            let one = open.entry(request_of(prefix));
            one.and_modify(|page| *page = None).or_insert(path);
        } else if let Some((prefix, status)) = line.split_once("Completed ") {
            let page = open.remove(&request_of(prefix)).flatten();
            if let Some(page) = page.filter(|_| status.starts_with("200 ")) {
                *answered.entry(page).or_default() += 1;
            }
        }
    }
    let mut pages: Vec<(&str, u64)> =
        answered.into_iter().filter(|(_, count)| *count >= LEAST).collect();
    pages.sort_by_key(|(page, count)| (std::cmp::Reverse(*count), *page));
    pages.into_iter().take(PAGES).map(|(page, _)| page.to_owned()).collect()
}

/// What the lines of one request have in common: the number of its process and its tags, without the time.
fn request_of(prefix: &str) -> String {
    // `I, [2026-11-22T10:00:00.123456 #42]  INFO -- : [8f14-ab] `
    match prefix.split_once(" #") {
        Some((_, rest)) => rest.to_owned(),
        None => prefix.to_owned(),
    }
}

/// The path of `GET "/path" for 127.0.0.1 at …`, if it can be that of a page for everyone.
fn page_of(started: &str) -> Option<&str> {
    let path = started.strip_prefix("GET \"")?.split_once('"')?.0;
    let is_plain = |c: char| c.is_ascii_alphabetic() || "/-_.".contains(c);
    (path.starts_with('/') && path.chars().all(is_plain)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(process: u32, path: &str, status: &str) -> String {
        let prefix =
            format!("I, [2026-11-22T10:00:00.123456 #{process}]  INFO -- : [{process}ab] ");
        format!(
            "{prefix}Started GET \"{path}\" for ::1 at 2026-11-22 10:00:00 +0000\n\
             {prefix}Processing by PostsController#index as HTML\n\
             {prefix}Completed {status} in 12ms\n"
        )
    }

    #[test]
    fn pages_that_answered_200_most_often_are_found_without_ids_and_queries() {
        let mut log = String::from("Completed 200 OK in 9ms\n");
        for (path, status, times) in [
            ("/posts", "200 OK", 30),
            ("/", "200 OK", 20),
            ("/posts/17", "200 OK", 90),
            ("/search?q=a", "200 OK", 90),
            ("/account", "302 Found", 90),
            ("/rare", "200 OK", 9),
        ] {
            log += &request(7, path, status).repeat(times);
        }
        log += &request(7, "/posts", "200 OK").replace("GET", "POST").repeat(90);
        assert_eq!(pages_in(&log), ["/posts", "/"]);
        assert_eq!(pages_in(""), [""; 0]);
    }

    #[test]
    fn the_lines_of_requests_at_once_belong_to_theirs_or_to_none() {
        let (first, second) = (request(7, "/a", "200 OK"), request(8, "/b", "404 Not Found"));
        let mixed = |first: &str, second: &str| {
            let lines = first.lines().zip(second.lines());
            lines.map(|(one, other)| format!("{one}\n{other}\n")).collect::<String>().repeat(20)
        };
        assert_eq!(pages_in(&mixed(&first, &second)), ["/a"]);
        // Without a number or a tag nobody knows which of them was answered with 200.
        let bare = |text: &str| {
            let lines = text.lines().filter_map(|line| line.split_once("ab] "));
            lines.map(|(_, rest)| format!("{rest}\n")).collect::<String>()
        };
        assert_eq!(pages_in(&mixed(&bare(&first), &bare(&second))), [""; 0]);
    }
}
