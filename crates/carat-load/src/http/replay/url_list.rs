//! Lists of URLs: `[METHOD] PATH-OR-URL [WEIGHT]`, one per line; `#` begins a comment.

use crate::http::replay::collector::{FoundRequest, is_method};

pub(super) fn read_url(line: &str) -> Result<Option<FoundRequest>, String> {
    let words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
    // Four words are already one too many; a long line need not be split further.
    let words: Vec<&str> = words.take(4).collect();
    let (method, target, weight) = match words[..] {
        [] => return Ok(None),
        [target] => ("GET", target, None),
        [method, target] if is_method(method) => (method, target, None),
        [target, weight] => ("GET", target, Some(weight)),
        [method, target, weight] if is_method(method) => (method, target, Some(weight)),
        _ => return Err("write `[METHOD] PATH [WEIGHT]`".to_owned()),
    };
    // Before the weight: a misspelt method would otherwise be taken for a path.
    if !target.starts_with('/') && !target.contains("://") {
        return Err("the path must begin with `/` or be a URL".to_owned());
    }
    let weight = weight.map(str::parse::<u32>).transpose();
    let weight = weight.map_err(|_| "the weight must be a whole number from 0 on".to_owned())?;
    let (method, target) = (method.to_owned(), target.to_owned());
    Ok(Some(FoundRequest { method, target, weight, ..FoundRequest::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_path_perhaps_with_method_and_weight() {
        for (line, expected) in [
            ("/", ("GET", "/", None)),
            ("/posts?page=2 3", ("GET", "/posts?page=2", Some(3))),
            ("HEAD /up", ("HEAD", "/up", None)),
            ("POST\thttps://app.test/x  10 # often", ("POST", "https://app.test/x", Some(10))),
            ("/a#top 0", ("GET", "/a#top", Some(0))),
        ] {
            let found = read_url(line).unwrap().unwrap();
            let (method, target, weight) = expected;
            assert_eq!((found.method.as_str(), found.target.as_str()), (method, target), "{line}");
            assert_eq!(found.weight, weight, "{line}");
        }
        assert!(read_url("# a comment").unwrap().is_none());
    }

    #[test]
    fn other_lines_say_what_is_wrong() {
        for (line, expected) in [
            ("posts", "must begin with `/`"),
            ("GET", "must begin with `/`"),
            ("/posts often", "whole number"),
            ("/posts -1", "whole number"),
            ("get /posts", "must begin with `/`"),
            ("GET /posts 1 2", "write `[METHOD] PATH [WEIGHT]`"),
            ("GET /posts HTTP/1.1", "whole number"),
        ] {
            let error = read_url(line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
