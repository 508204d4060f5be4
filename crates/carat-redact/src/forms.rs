//! What in a text may say who ran something, and what stands in its place in a shared report: paths, addresses, titles of
//! processes, and the values of environment variables.
//!
//! Names are compared as whole words: `PORT` says nothing about `PORTAL_CUSTOMER`.

use crate::word_list::{WordList, words};
use carat_model::{HIDDEN, is_name_character, mask_values};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Stands for the name of the host or the user.
pub(crate) const NAME: &str = "[name]";
/// Stands for an address that is not of the same machine.
pub(crate) const HOST: &str = "[host]";
/// Stands for a file name that may be private.
pub(crate) const FILE: &str = "[file]";
/// Stands for the folders of a path.
pub(crate) const FOLDERS: &str = "…/";

/// Environment variables whose values a shared report keeps, by their whole name.
static KEPT_NAMES: WordList = LazyLock::new(|| words(include_str!("words/kept-variables.txt")));

/// Families of variables, each with the underscore that ends the first word of its names.
const KEPT_FAMILIES: &[&str] = &["MALLOC_", "MIMALLOC_", "RUBY_GC_", "TCMALLOC_"];

/// A variable whose name contains one of these may have a secret value, however short.
const SUSPECT_NAMES: &[&str] =
    &["PASS", "SECRET", "TOKEN", "KEY", "PIN", "CODE", "AUTH", "CREDENTIAL"];

/// Values that cannot be a secret.
static PLAIN_WORDS: WordList = LazyLock::new(|| words(include_str!("words/plain-values.txt")));

/// Digits of a number that is too short to be a secret.
const PLAIN_DIGITS: usize = 6;

/// Folders of programs and of the libraries that a distribution installs.
const PROGRAM_FOLDERS: &[&str] = &["/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"];
const LIBRARY_FOLDERS: &[&str] = &["/usr/lib/", "/usr/lib64/", "/lib/", "/lib64/"];

/// Endings of file names that are kept.
static ENDINGS: WordList = LazyLock::new(|| words(include_str!("words/endings.txt")));

/// Words in paths and in the titles of processes that every Ruby server may have.
static COMMON_WORDS: WordList = LazyLock::new(|| words(include_str!("words/common-words.txt")));

/// Libraries of C and of common gems, without `lib` and without what follows the first point or hyphen.
static COMMON_LIBRARIES: WordList = LazyLock::new(|| words(include_str!("words/libraries.txt")));

/// Names of accounts and hosts that many machines have.
static COMMON_ACCOUNTS: WordList = LazyLock::new(|| words(include_str!("words/accounts.txt")));

/// Where the folders of users are.
const HOMES: &[&str] = &["/home/", "/Users/", "/export/home/", "~"];

/// The shortest name that is searched for in every text.
const SHORTEST_NAME: usize = 3;

/// Whether the value of an environment variable of that name is kept, whatever it is.
pub(crate) fn is_kept_variable(name: &str) -> bool {
    KEPT_NAMES.contains(name) || KEPT_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// An upper-case name, like that of an environment variable, whose values are not kept.
pub(crate) fn is_private_variable(name: &str) -> bool {
    let looks_like_one = name.len() > 2
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && name.contains(|c: char| c.is_ascii_uppercase());
    looks_like_one && !is_kept_variable(name)
}

/// Whether a variable's value says something about the run and nothing about its owner: `WORKERS=10`, `YJIT=on`.
pub(crate) fn is_plain_value(name: &str, value: &str) -> bool {
    let name = name.to_uppercase();
    let suspect = SUSPECT_NAMES.iter().any(|part| name.contains(part));
    !suspect && (is_short_number(value) || PLAIN_WORDS.contains(value.to_lowercase().as_str()))
}

fn is_short_number(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    digits <= PLAIN_DIGITS
        && [whole, fraction].iter().all(|part| !part.is_empty() && is_number(part))
}

/// Names of users and hosts that a text has in a form that shows them to be names: folders of users, addresses of mail, and
/// hosts of URLs. They may stand anywhere else, too.
pub(crate) fn names_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for home in HOMES {
        let after = text.split(home).skip(1);
        let folders = after.filter_map(|rest| rest.split(|c| !is_name_character(c)).next());
        found.extend(folders.map(str::to_owned));
    }
    for (place, _) in text.match_indices("://") {
        found.extend(authority(&text[place + 3..]).host.map(str::to_owned));
    }
    for token in text.split(|c| !is_address_character(c)).filter(|token| is_mail(token)) {
        found.extend(token.split('@').map(str::to_owned));
    }
    found.retain(|name| {
        let lower = name.to_lowercase();
        let common = COMMON_ACCOUNTS.contains(lower.as_str()) || is_common_word(&lower);
        name.len() >= SHORTEST_NAME && !common && !is_this_machine(name)
    });
    found
}

/// The text with a word, in upper or lower case, replaced wherever it stands alone: no letter or digit is beside it.
pub(crate) fn without_word(text: &str, word: &str, shown: &str) -> String {
    // ASCII only, so that a place is the same byte in both texts.
    let (lower, word) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let mut out = String::new();
    let mut done = 0;
    for (place, found) in lower.match_indices(&word) {
        let end = place + found.len();
        let beside = [lower[..place].chars().next_back(), lower[end..].chars().next()];
        if beside.into_iter().flatten().any(char::is_alphanumeric) {
            continue;
        }
        out.push_str(&text[done..place]);
        out.push_str(shown);
        done = end;
    }
    out + &text[done..]
}

/// The text without folders, private file names, addresses, and values of variables that may be private.
pub(crate) fn without_places(text: &str) -> String {
    let text = outside_of_urls(text, |part| without_addresses(&short_paths(part)));
    mask_values(&text, is_private_variable, is_plain_value)
}

/// The text with shortened URLs, and `edit` applied to what is between them.
fn outside_of_urls(text: &str, edit: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(place) = rest.find("://") {
        let scheme = rest[..place].trim_end_matches(is_scheme_character).len();
        out.push_str(&edit(&rest[..scheme]));
        out.push_str(&rest[scheme..place + 3]);
        let (url, after) = short_url(&rest[place + 3..]);
        out.push_str(&url);
        rest = after;
    }
    out + &edit(rest)
}

fn is_scheme_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-')
}

/// What follows the `://` of a URL, up to its path.
struct Authority<'a> {
    /// User and password, with the `@`.
    user: &'a str,
    /// `None` if it is empty, or a placeholder.
    host: Option<&'a str>,
    /// From the colon before the port on; empty if there is none.
    port: &'a str,
    /// Bytes of all of it.
    length: usize,
}

fn authority(text: &str) -> Authority<'_> {
    let length = text.find(|c: char| c.is_whitespace() || "/?#\"'`<>,;()|\\".contains(c));
    let whole = &text[..length.unwrap_or(text.len())];
    let (user, place) = whole.split_at(whole.rfind('@').map_or(0, |at| at + 1));
    // The colons of an IPv6 address are in brackets.
    let host_end = place.rfind(']').map_or(0, |bracket| bracket + 1);
    let port = place[host_end..].find(':').map_or(place.len(), |colon| host_end + colon);
    let (host, port) = place.split_at(port);
    let unknown = host.is_empty() || host.starts_with('{') || [HOST, HIDDEN, NAME].contains(&host);
    Authority { user, host: (!unknown).then_some(host), port, length: whole.len() }
}

/// A URL after its `://` without a foreign host and with at most the first part of its path, and the text after it.
fn short_url(text: &str) -> (String, &str) {
    let Authority { user, host, port, length } = authority(text);
    let placeholder = &text[user.len()..length - port.len()];
    let host = match host {
        Some(host) if !is_this_machine(host) => HOST,
        Some(host) => host,
        None => placeholder,
    };
    let rest = &text[length..];
    let end = rest.find(|c: char| ends_path(c) && c != ':').unwrap_or(rest.len());
    let (path, after) = rest.split_at(end);
    let is_short = !path.contains(['?', '#', '%']) && path.matches('/').count() <= 1;
    let path = if is_short { path } else { "/…" };
    (format!("{user}{host}{port}{path}"), after)
}

fn is_this_machine(host: &str) -> bool {
    let names = ["localhost", "0.0.0.0", "[::1]", "[::]"];
    names.contains(&host) || host.starts_with("127.")
}

fn is_address_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+')
}

/// Whether a word is an address of mail or of `ssh`.
fn is_mail(word: &str) -> bool {
    word.split_once('@').is_some_and(|(user, host)| {
        [user, host].iter().all(|part| part.contains(|c: char| c.is_ascii_alphabetic()))
    })
}

/// An address of IPv4 that is not of this machine. The first number of a version with four parts is small.
fn is_remote_address(word: &str) -> bool {
    // A sentence may end behind an address.
    let parts: Vec<&str> = word.trim_end_matches('.').split('.').collect();
    let numbers: Vec<u8> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    parts.len() == 4 && numbers.len() == 4 && numbers[0] >= 10 && numbers[0] != 127
}

fn without_addresses(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_address_character) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_address_character(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out.push_str(match word {
            word if is_mail(word) => NAME,
            word if is_remote_address(word) => HOST,
            word => word,
        });
        rest = after;
    }
    out + rest
}

fn ends_path(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | ',' | ';' | ':' | '(' | ')' | '[' | ']' | '}' | '<' | '>' | '`' | '|'
        )
}

/// Replaces paths by the name of their file, if that is not private: `/home/ann/app/puma.rb` becomes `…/puma.rb`. A single
/// folder such as `/hello` stays, because most are paths of URLs.
fn short_paths(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(slash) = rest.find('/') {
        // What is before the first slash belongs to a relative path, but not the option in `-I/srv/app/lib`.
        let before = &rest[..slash];
        let start =
            before.trim_end_matches(|c| is_name_character(c) || matches!(c, '~' | '%' | '+')).len();
        let path_end = slash + rest[slash..].find(ends_path).unwrap_or(rest.len() - slash);
        let end =
            quoted_end(&rest[..start], &rest[path_end..]).map_or(path_end, |more| path_end + more);
        let path = &rest[start..end];
        let option = path.starts_with('-');
        match short_path(if option { &rest[slash..end] } else { path }) {
            Some(short) => {
                out.push_str(if option { before } else { &rest[..start] });
                out.push_str(&short);
            }
            None => out.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Bytes of a path after its first space, if it stands in quotation marks.
fn quoted_end(before: &str, after: &str) -> Option<usize> {
    let quote = before.chars().next_back().filter(|c| matches!(c, '"' | '\''))?;
    after.starts_with(' ').then(|| after.find(quote)).flatten()
}

/// What stands for a path; `None` if it is no path, or says nothing.
fn short_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let last = parts.last()?;
    let ending = last.rsplit_once('.').map(|(_, ending)| ending).filter(|e| ENDINGS.contains(*e));
    let is_path = match path.chars().next()? {
        '/' | '~' | '.' => parts.len() > 1,
        // `/…` of a text that was shortened before.
        '…' => false,
        // `1/2` and `24/7` are no paths.
        _ => !parts.iter().all(|part| is_number(part)) && (parts.len() > 2 || ending.is_some()),
    };
    if !is_path {
        return None;
    }
    if is_public_file(path, last) {
        return Some(format!("{FOLDERS}{last}"));
    }
    Some(ending.map_or(format!("{FOLDERS}{FILE}"), |ending| format!("{FOLDERS}{FILE}.{ending}")))
}

fn is_number(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit())
}

/// Whether the name of a file is that of a program or a library of the system, or made of common words.
fn is_public_file(path: &str, file: &str) -> bool {
    let library =
        // Libraries of gems can be named after whom they are for.
        is_below(path, LIBRARY_FOLDERS) && file.contains(".so") && !path.contains("/gems/");
    let of_system = library || is_below(path, PROGRAM_FOLDERS) && path.matches('/').count() <= 3;
    // `libjemalloc.so.2` is the same wherever it was installed.
    let word = file.strip_prefix("lib").filter(|_| file.contains(".so")).unwrap_or(file);
    of_system || is_common_text(word)
}

fn is_below(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// Whether the name of a library says nothing about the application: many programs have it.
pub(crate) fn is_common_library(name: &str) -> bool {
    let word = name.split(['.', '-']).next().unwrap_or_default();
    let word = word.strip_prefix("lib").unwrap_or(word);
    COMMON_LIBRARIES.contains(word) || is_common_text(word)
}

/// Whether a text consists of common words, endings and numbers.
pub(crate) fn is_common_text(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c.is_ascii()).all(|word| {
        let word = word.to_lowercase();
        word.is_empty() || is_common_word(&word) || ENDINGS.contains(word.as_str())
    })
}

/// Whether a word in lower case says nothing: it is common, a number, or a common word with a number, such as `ruby3`.
fn is_common_word(word: &str) -> bool {
    // `ruby3` and `worker12` say no more than their words.
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    letters.is_empty() || COMMON_WORDS.contains(letters)
}

/// The title or command line of a process without the words that are not common: `puma: cluster worker 0: 4299 [portal]`
/// becomes `puma: cluster worker 0: 4299 …`.
pub(crate) fn common_title(title: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    for word in title.split_whitespace() {
        let file = without_places(word);
        let option = word.starts_with('-').then(|| option_name(word));
        shown.push(match option {
            _ if is_common_text(&file.replace(['…'], "")) => file,
            Some(name) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') => {
                name.to_owned()
            }
            _ => "…".to_owned(),
        });
    }
    // Neighbouring words that were removed need one mark.
    shown.dedup_by(|one, other| *one == "…" && *other == "…");
    shown.join(" ")
}

/// The name of an option without its value: `--tag` of `--tag=acme`, `-r` of `-racme`.
fn option_name(word: &str) -> &str {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    match name.split_at_checked(2) {
        // A value such as the number in `-w2` says nothing.
        Some((letter, value)) if letter != "--" && !is_common_text(value) => letter,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_the_list_says_nothing_about_longer_names() {
        for (name, kept) in [
            ("MALLOC_ARENA_MAX", true),
            ("RUBY_GC_HEAP_INIT_SLOTS", true),
            ("PARTS", true),
            ("PORTAL_CUSTOMER", false),
            ("PARTS_OF_ACME", false),
            ("RUBYOPT_ACME", false),
            ("LANGUAGE_OF_ACME", false),
            ("RUBY_CUSTOMER", false),
            ("GLIBC_TUNABLES_ACME", false),
            ("MALLOC", false),
        ] {
            assert_eq!(is_kept_variable(name), kept, "{name}");
            assert_eq!(is_private_variable(name), !kept, "{name}");
        }
    }

    #[test]
    fn paths_lose_their_folders_and_private_names() {
        for (given, shown) in [
            ("dir = \"/home/bob/app/puma.rb\"", "dir = \"…/puma.rb\""),
            ("/home/annabel", "…/[file]"),
            ("'/home/annabel smith/portal/x.rb' and", "'…/[file].rb' and"),
            ("/srv/acme-portal/current/config/puma.rb", "…/puma.rb"),
            ("-I/home/annabel/lib -r/home/annabel/acme.rb", "-I…/[file] -r…/[file].rb"),
            ("PATH=/usr/bin:/home/annabel/bin", "PATH=[hidden]"),
            ("path /usr/bin:/home/annabel/bin", "path …/bin:…/bin"),
            (
                "apps/acme/server.rb ./acme/run ../acme ~annabel/x ~/acme",
                "…/server.rb …/run …/[file] …/[file] …/[file]",
            ),
            ("LD_PRELOAD=/opt/acme/libjemalloc.so.2", "LD_PRELOAD=…/libjemalloc.so.2"),
            ("/usr/lib/x86_64-linux-gnu/libcrypt.so.1", "…/libcrypt.so.1"),
            ("/usr/lib/ruby/gems/3.1.0/gems/acme-1.0/lib/acme.so", "…/[file].so"),
            (
                "GET /hello, 120 MB/s, 5/3, 2026/11/21, text/html",
                "GET /hello, 120 MB/s, 5/3, 2026/11/21, text/html",
            ),
            ("GET /customers/acme-corp", "GET …/[file]"),
            ("[ruby]/srv/acme", "[ruby]…/[file]"),
        ] {
            assert_eq!(without_places(given), shown, "{given:?}");
        }
    }

    #[test]
    fn addresses_of_others_are_hidden_and_those_of_the_machine_stay() {
        for (given, shown) in [
            ("http://127.0.0.1:80/hello", "http://127.0.0.1:80/hello"),
            ("http://127.0.0.1:{port}/hello", "http://127.0.0.1:{port}/hello"),
            ("http://{host}/a", "http://{host}/a"),
            ("http://127.0.0.1:80/customers/acme?id=7", "http://127.0.0.1:80/…"),
            ("wss://shop.acme.example/cable, next", "wss://[host]/cable, next"),
            ("redis://[hidden]@db.acme:6379/0", "redis://[hidden]@[host]:6379/0"),
            ("http://[2001:db8::7]:80/ http://[::1]:80/", "http://[host]:80/ http://[::1]:80/"),
            ("file:///home/annabel/app", "file:///…"),
            ("tcp://0.0.0.0:3000)", "tcp://0.0.0.0:3000)"),
            ("to 10.20.3.4:6379, rails 7.0.8.4", "to [host]:6379, rails 7.0.8.4"),
            ("ssh deploy@wallaby", "ssh [name]"),
        ] {
            assert_eq!(without_places(given), shown, "{given:?}");
            assert_eq!(without_places(shown), shown, "{shown:?}");
        }
    }

    #[test]
    fn names_are_found_where_their_form_shows_them_and_removed_as_whole_words() {
        let found =
            names_in("/home/annabel/x /home/deploy/y redis://wallaby:6379 bob@acme.example");
        assert_eq!(found.iter().collect::<Vec<_>>(), ["acme.example", "annabel", "bob", "wallaby"]);
        let text = without_word("Annabel's annabel_app, not annabelle", "annabel", NAME);
        assert_eq!(text, "[name]'s [name]_app, not annabelle");
    }

    #[test]
    fn a_title_keeps_only_common_words() {
        for (given, shown) in [
            ("puma: cluster worker 0: 4299 [acme-portal]", "puma: cluster worker 0: 4299 …"),
            ("puma 6.4.2 (tcp://0.0.0.0:3000) [acme]", "puma 6.4.2 (tcp://0.0.0.0:3000) …"),
            ("unicorn worker[3] -c /srv/acme/unicorn.rb", "unicorn worker[3] -c …/unicorn.rb"),
            ("Passenger RubyApp: /srv/www/acme (production)", "Passenger RubyApp: … (production)"),
            ("ruby --tag=acme acme run -w 2", "ruby --tag … run -w 2"),
            ("ruby --acme.portal=1 run", "ruby … run"),
            ("ruby -racme -w2 - run", "ruby -r -w2 - run"),
        ] {
            assert_eq!(common_title(given), shown, "{given:?}");
            assert_eq!(common_title(shown), shown, "{shown:?}");
        }
    }

    #[test]
    fn a_private_variable_is_in_capitals_and_longer_than_two() {
        for (name, private) in [
            ("AB", false),
            ("ABC", true),
            ("FEED_2", true),
            ("FEEd", false),
            ("FE-D", false),
            ("123", false),
            ("___", false),
        ] {
            assert_eq!(is_private_variable(name), private, "{name}");
        }
    }

    #[test]
    fn the_authority_of_a_url_has_a_user_a_host_and_a_port() {
        for (text, user, host, port, length) in [
            ("shop.acme:80/x", "", Some("shop.acme"), ":80", 12),
            ("ann:pw@acme:6379", "ann:pw@", Some("acme"), ":6379", 16),
            ("ann@b@acme?x", "ann@b@", Some("acme"), "", 10),
            ("[2001:db8::7]:80#x", "", Some("[2001:db8::7]"), ":80", 16),
            ("{host}:80, next", "", None, ":80", 9),
            ("[hidden]:80", "", None, ":80", 11),
            ("[host]", "", None, "", 6),
            ("[name]", "", None, "", 6),
            ("/path", "", None, "", 0),
        ] {
            let found = authority(text);
            let parts = (found.user, found.host, found.port, found.length);
            assert_eq!(parts, (user, host, port, length), "{text}");
        }
    }

    #[test]
    fn a_url_keeps_one_part_of_its_path_and_what_is_around_it_is_shortened() {
        for (given, shown) in [
            ("in /srv/acme/x http://127.0.0.1/y", "in …/[file] http://127.0.0.1/y"),
            ("/srv/acme/http://127.0.0.1/y", "…/[file]http://127.0.0.1/y"),
            ("/srv/acme/svn+ssh://127.0.0.1/y", "…/[file]svn+ssh://127.0.0.1/y"),
            ("/srv/acme/a.b-c://127.0.0.1/y", "…/[file]a.b-c://127.0.0.1/y"),
            ("http://127.0.0.1/a:b, x", "http://127.0.0.1/a:b, x"),
            ("http://127.0.0.1/a/b x", "http://127.0.0.1/… x"),
            ("http://127.0.0.1/a?b x", "http://127.0.0.1/… x"),
            ("http://127.0.0.1/a#b x", "http://127.0.0.1/… x"),
            ("http://127.0.0.1/a%b x", "http://127.0.0.1/… x"),
            ("http://localhost and http://128.0.0.1", "http://localhost and http://[host]"),
            ("ftp://a ftp://b/srv/x end", "ftp://[host] ftp://[host]/… end"),
        ] {
            assert_eq!(without_places(given), shown, "{given}");
        }
    }

    #[test]
    fn an_address_of_another_machine_has_four_numbers_from_ten_on() {
        for (word, remote) in [
            ("10.20.3.4", true),
            ("11.2.3.4.", true),
            ("255.0.0.0", true),
            ("9.1.1.1", false),
            ("127.0.0.1", false),
            ("126.0.0.1", true),
            ("300.1.1.1", false),
            ("11.2.3", false),
            ("11.2.3.x", false),
            ("11.2.3.4.x", false),
            ("11.2.3.4.5", false),
        ] {
            assert_eq!(is_remote_address(word), remote, "{word}");
        }
        for (word, mail) in
            [("a@b", true), ("7@b", false), ("a@7", false), ("ab", false), ("@", false)]
        {
            assert_eq!(is_mail(word), mail, "{word}");
        }
        assert_eq!(without_addresses("(x+y@b_c), d-e@f!"), "([name]), [name]!");
    }

    #[test]
    fn names_are_found_from_three_letters_on_where_they_are_not_common() {
        let text = "/home/bo/x /home/ann/x /Users/eve/ ~zoe/ http://puma:80 http://deploy/ http://localhost:1 \
                    http://127.0.0.1/ 7@wombat http://{host}/";
        assert_eq!(names_in(text).into_iter().collect::<Vec<_>>(), ["ann", "eve", "zoe"]);
        for (text, shown) in [
            ("ann", "-"),
            ("ANN, (ann)", "-, (-)"),
            ("annex joann ann7 7ann", "annex joann ann7 7ann"),
            ("ö ann ö annö", "ö - ö annö"),
        ] {
            assert_eq!(without_word(text, "Ann", "-"), shown, "{text}");
        }
    }

    #[test]
    fn what_stands_for_a_path_depends_on_where_it_begins_and_how_it_ends() {
        for (path, shown) in [
            ("/", None),
            ("/hello", None),
            ("/hello/acme", Some("…/[file]")),
            ("~/puma.rb", Some("…/puma.rb")),
            ("./acme.rb", Some("…/[file].rb")),
            ("…/acme.rb", None),
            ("5/3", None),
            ("a/b", None),
            ("a/b/acme", Some("…/[file]")),
            ("a/acme.rb", Some("…/[file].rb")),
            ("a/acme.xyz", None),
            ("2026/11/21", None),
            ("/usr/bin/acme", Some("…/acme")),
            ("/usr/bin/x/acme", Some("…/[file]")),
            ("/srv/bin/acme", Some("…/[file]")),
            ("/lib/libacme.so.1", Some("…/libacme.so.1")),
            ("/lib/acme.txt", Some("…/[file].txt")),
            ("/usr/lib/gems/acme.so", Some("…/[file].so")),
            ("/opt/acme/libjemalloc.so", Some("…/libjemalloc.so")),
            ("/opt/acme/libjemalloc", Some("…/[file]")),
        ] {
            assert_eq!(short_path(path).as_deref(), shown, "{path}");
        }
        for (given, shown) in [
            ("say \"/srv/acme corp/x.rb\" now", "say \"…/[file].rb\" now"),
            ("say \"/srv/acme\" \"now\"", "say \"…/[file]\" \"now\""),
            ("say /srv/acme corp/x.rb now", "say …/[file] …/[file].rb now"),
            ("a-1_b.c/d~/e+f/g and", "…/[file] and"),
            ("-I/srv/acme/lib", "-I…/[file]"),
            ("-Ihello/x", "-Ihello/x"),
            ("/srv/a|/srv/b`/srv/c>/srv/d", "…/[file]|…/[file]`…/[file]>…/[file]"),
        ] {
            assert_eq!(short_paths(given), shown, "{given}");
        }
    }

    #[test]
    fn a_library_is_common_by_its_name_without_version_and_a_word_without_number() {
        for (name, common) in [
            ("libjemalloc.so.2", true),
            ("libjemalloc-5.so", true),
            ("jemalloc.so", true),
            ("libacme.so", false),
            ("acme.jemalloc.so", false),
        ] {
            assert_eq!(is_common_library(name), common, "{name}");
        }
        for (text, common) in [
            ("puma worker12", true),
            ("Puma.RB", true),
            ("4299", true),
            ("", true),
            ("puma acme", false),
            ("größe", false),
        ] {
            assert_eq!(is_common_text(text), common, "{text}");
        }
    }
}
