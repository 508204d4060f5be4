//! Secrets in texts, and command lines as they may be shown.
//!
//! Masking recognises forms, not meanings: names such as `…TOKEN…`, passwords in URLs, well-known tokens, keys in PEM.

use super::printable::{one_line, plain, shorten};

/// A name that contains one of these has a secret value.
const SECRET_NAMES: &[&str] = &[
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "_pass",
    "_pwd",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "access-key",
    "private_key",
    "private-key",
    "credential",
    "master_key",
    "master-key",
    "cookie",
    "authorization",
    "session_key",
    "signing_key",
    "encryption_key",
    "_dsn",
];

/// Prefixes of well-known tokens.
const TOKEN_STARTS: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "sk-ant-",
    "sk-proj-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "ASIA",
    "eyJ",
    "npm_",
    "rubygems_",
    "SG.",
    "shpat_",
    "dop_v1_",
];

/// Stands for what is not shown.
pub const HIDDEN: &str = "[hidden]";

/// Characters of a command line that are shown and kept.
const COMMAND_LINE: usize = 400;
/// Characters of a word of it that are read: more than are shown, because masking and escape sequences make it shorter.
const WORD: usize = 4_000;

/// The text with secrets masked: keys in PEM, passwords in URLs, values of secret names, well-known tokens.
pub fn mask_secrets(text: &str) -> String {
    // Keys first: they span lines, which the other masks do not see.
    let text = mask_pem(text);
    let text = mask_credentials(&text);
    let text = mask_values(&text, is_secret_name, |_, _| false);
    mask_tokens(&text)
}

/// The command line of a process as it may be shown: on one line, short, and without secrets. A null separates its words,
/// as in `/proc/PID/cmdline`; a text without one may be a whole line, as servers write it into their titles.
pub fn command_line(text: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut value_is_secret = false;
    let mut length = 0;
    for word in text.split('\0').filter(|word| !word.is_empty()) {
        // A process can have megabytes of arguments. What is masked stays so when its end is cut off.
        let word = plain(&shorten(word, WORD));
        // `--password VALUE` has its value in the next word; `--password=VALUE` in itself.
        let hides_next = word.starts_with('-') && !word.contains('=') && is_secret_name(&word);
        shown.push(match word.split_once('=') {
            // A flag in place of the value means that the value was left out.
            _ if value_is_secret && !word.starts_with('-') => HIDDEN.to_owned(),
            // The value of a word ends with the word, whatever characters it has.
            Some((name, _)) if !name.contains(char::is_whitespace) && is_secret_name(name) => {
                format!("{name}={HIDDEN}")
            }
            _ => mask_secrets(&word),
        });
        value_is_secret = hides_next;
        length += shown.last().map_or(0, |word| word.chars().count() + 1);
        // What is not shown need not be read.
        if length > COMMAND_LINE {
            break;
        }
    }
    shorten(&one_line(&shown.join(" ")), COMMAND_LINE)
}

/// Whether values of that name are secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    // `_key` only at the end: `key_store` and `monkey` are no secrets.
    let is_key = name.ends_with("_key") || name.ends_with("-key");
    is_key || SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn mask_pem(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("-----BEGIN ") {
        // Without an end the rest may be the key, so all of it is hidden.
        let end = rest[start..]
            .find("-----END ")
            .and_then(|end| {
                rest[start + end + 9..].find("-----").map(|dash| start + end + 9 + dash + 5)
            })
            .unwrap_or(rest.len());
        out.push_str(&rest[..start]);
        out.push_str(HIDDEN);
        rest = &rest[end..];
    }
    out + rest
}

/// Masks the credentials in `redis://user:password@host`.
fn mask_credentials(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(place) = rest.find("://") {
        let (before, after) = rest.split_at(place + 3);
        out.push_str(before);
        // The authority ends here (RFC 3986, 3.2), so an `@` in a path or query is no password.
        let end = after
            .find(|c: char| {
                c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '<' | '>' | '?' | '#')
            })
            .unwrap_or(after.len());
        // The last `@`: a password may contain one.
        if let Some(at) = after[..end].rfind('@') {
            out.push_str(HIDDEN);
            rest = &after[at..];
        } else {
            rest = after;
        }
    }
    out + rest
}

/// Masks the value in `NAME=value`, `NAME = "value"`, `"NAME": "value"`, `--name value` and `Name: Bearer value`, if
/// the name `hides` its values and does not show this one.
pub fn mask_values(text: &str, hides: fn(&str) -> bool, shows: fn(&str, &str) -> bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_name_character) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_name_character(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        out.push_str(name);
        rest = after;
        let plain_name = name.trim_start_matches('-');
        if !hides(plain_name) {
            continue;
        }
        if let Some((separator, length)) = value_after(name, after) {
            let (value, end) = after[separator..].split_at(length);
            out.push_str(&after[..separator]);
            out.push_str(if shows(plain_name, value) { value } else { HIDDEN });
            rest = end;
        }
    }
    out + rest
}

/// Whether a name of a variable, a flag or a key can contain the character.
pub fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Lengths of the separator (with an opening quote) and of the value after a name; `None` if no value follows.
fn value_after(name: &str, after: &str) -> Option<(usize, usize)> {
    // JSON and YAML quote the name, so its closing quote comes first.
    let trimmed = after.trim_start_matches(['"', '\'']).trim_start_matches([' ', '\t']);
    let assigned = trimmed.strip_prefix("=>").or_else(|| trimmed.strip_prefix(['=', ':']));
    let value = match assigned {
        Some(value) => value.trim_start_matches([' ', '\t']),
        // A flag takes its value after a space; a plain word does not.
        None if name.starts_with("--") && after.starts_with(' ') => after.trim_start(),
        None => return None,
    };
    let quoted = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (value, end) = match quoted {
        Some(quote) => {
            let inner = &value[1..];
            // A quoted value ends at its quote, whatever is in it.
            (inner, inner.find(quote).unwrap_or(inner.len()))
        }
        None => {
            // A hidden value contains a bracket, which would end it too early when the text is redacted again.
            let known = ["Bearer ", "Basic ", "Token ", HIDDEN];
            let skip = known.iter().find(|s| value.starts_with(**s)).map_or(0, |found| found.len());
            (value, skip + value[skip..].find(ends_value).unwrap_or(value.len() - skip))
        }
    };
    // An empty value hides nothing, and masking it would suggest that there was one.
    (end > 0).then(|| (after.len() - value.len(), end))
}

fn ends_value(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ';' | '&' | '}' | ']')
}

fn is_token_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn mask_tokens(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_token_character) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_token_character(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        // Shorter words with such a beginning are ordinary ones.
        let known = TOKEN_STARTS.iter().any(|begin| token.starts_with(begin) && token.len() >= 16);
        out.push_str(if known { HIDDEN } else { token });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_every_syntax() {
        for (given, shown) in [
            ("redis://ann:s3cret@db:6379/0", "redis://[hidden]@db:6379/0"),
            ("postgres://u:p@ss@db/x", "postgres://[hidden]@db/x"),
            ("SECRET_KEY_BASE=abc123 puma", "SECRET_KEY_BASE=[hidden] puma"),
            ("secret_key_base = \"a b c\"\nport = 1", "secret_key_base = \"[hidden]\"\nport = 1"),
            ("{\"api_key\": \"xyz\", \"n\": 1}", "{\"api_key\": \"[hidden]\", \"n\": 1}"),
            ("puma --control-token s3cret -w 2", "puma --control-token [hidden] -w 2"),
            ("Authorization: Bearer abc.def", "Authorization: [hidden]"),
            ("using ghp_0123456789abcdefghij now", "using [hidden] now"),
            ("password: hunter2, user: ann", "password: [hidden], user: ann"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx",
                "[hidden]\nx",
            ),
            ("?token=abc&page=2", "?token=[hidden]&page=2"),
            ("3 tokens were left", "3 tokens were left"),
            ("http://127.0.0.1:9292/hello", "http://127.0.0.1:9292/hello"),
        ] {
            assert_eq!(mask_secrets(given), shown, "{given:?}");
        }
    }

    #[test]
    fn a_command_line_is_short_on_one_line_and_without_secrets() {
        for (given, shown) in [
            ("puma\0-w\0n\0", "puma -w n"),
            ("puma\0--control-token\0s3 cret\0-w\0n", "puma --control-token [hidden] -w n"),
            ("app\0--no-cookie\0-w", "app --no-cookie -w"),
            ("env\0DB_PASSWORD=a b,c;d\0puma", "env DB_PASSWORD=[hidden] puma"),
            ("sh\0-c\0exec puma --token=abc -w 2", "sh -c exec puma --token=[hidden] -w 2"),
            ("a\0redis://ann:pw@db\0", "a redis://[hidden]@db"),
            ("puma: worker\u{1b}[31m\n\u{202e}x", "puma: worker \u{fffd}x"),
        ] {
            assert_eq!(command_line(given), shown, "{given:?}");
        }
        let long = command_line(&"x\0".repeat(900_000));
        assert_eq!(long.chars().count(), COMMAND_LINE);
    }
}
