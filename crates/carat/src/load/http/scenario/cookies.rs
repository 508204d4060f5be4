//! The cookies of one user.
//!
//! Every cookie is sent with every request: domain, path and `Secure` are ignored, because a load has one server.
//! A cookie is deleted by `Max-Age` of zero or less, or by an expiry in 1970; any other expiry is later than the load.

/// Most cookies of one user, like browsers have for a site (RFC 6265, 6.1).
const COOKIES_MAX: usize = 50;
/// Most bytes of all their names and values: servers refuse longer headers.
const BYTES_MAX: usize = 16 * 1024;

/// Cookies by name, in the order in which they were first set.
#[derive(Debug, Default)]
pub struct CookieJar {
    cookies: Vec<(Vec<u8>, Vec<u8>)>,
}

/// More cookies than one user can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieOverflow;

impl CookieJar {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Applies the value of a `Set-Cookie` header.
    ///
    /// # Errors
    /// If the user would have too many cookies.
    pub fn store(&mut self, header: &[u8]) -> Result<(), CookieOverflow> {
        let mut parts = header.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let Some((name, value)) = parts.next().and_then(split_pair) else { return Ok(()) };
        if is_deleted(parts) {
            self.cookies.retain(|(own, _)| own != name);
            return Ok(());
        }
        match self.cookies.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => {
                own.clear();
                own.extend_from_slice(value);
            }
            None => self.cookies.push((name.to_vec(), value.to_vec())),
        }
        let bytes: usize = self.cookies.iter().map(|(name, value)| name.len() + value.len()).sum();
        let fits = self.cookies.len() <= COOKIES_MAX && bytes <= BYTES_MAX;
        if fits { Ok(()) } else { Err(CookieOverflow) }
    }

    /// Appends the header `Cookie`, unless there is no cookie.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (number, (name, value)) in self.cookies.iter().enumerate() {
            out.extend_from_slice(if number == 0 { b"Cookie: " } else { b"; " });
            out.extend_from_slice(name);
            out.push(b'=');
            out.extend_from_slice(value);
        }
        if !self.cookies.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// A name that is not empty, and its value.
fn split_pair(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = part.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    Some((part[..at].trim_ascii(), part[at + 1..].trim_ascii()))
}

/// `Max-Age` has precedence over `Expires` (RFC 6265, 5.3).
fn is_deleted<'a>(attributes: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut by_age, mut expired) = (None, false);
    for (name, value) in attributes.filter_map(split_pair) {
        if name.eq_ignore_ascii_case(b"max-age") {
            let seconds = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
            by_age = seconds.map(|seconds| seconds <= 0).or(by_age);
        } else if name.eq_ignore_ascii_case(b"expires") {
            expired = memchr::memmem::find(value, b"1970").is_some();
        }
    }
    by_age.unwrap_or(expired)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(set: &[&str]) -> String {
        let mut jar = CookieJar::default();
        set.iter().for_each(|one| jar.store(one.as_bytes()).unwrap());
        let mut out = Vec::new();
        jar.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cookies_are_set_replaced_and_deleted() {
        for (set, expected) in [
            (&[][..], ""),
            (&["a=1; path=/; HttpOnly", "b = x=y "], "Cookie: a=1; b=x=y\r\n"),
            (&["a=1", "b=2", "a=3"], "Cookie: a=3; b=2\r\n"),
            (&["a=1", "a=; max-age=0"], ""),
            (&["a=1", "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], ""),
            (&["a=1; Max-Age=60; expires=Thu, 01 Jan 1970 00:00:00 GMT"], "Cookie: a=1\r\n"),
            (&["=1", "nonsense", ""], ""),
        ] {
            assert_eq!(header(set), expected, "{set:?}");
        }
    }

    #[test]
    fn a_user_has_a_limited_number_of_cookies_and_bytes() {
        let mut jar = CookieJar::default();
        let failed = (0..100).find(|n| jar.store(format!("c{n}=x").as_bytes()).is_err());
        assert_eq!(failed, Some(COOKIES_MAX));
        let mut jar = CookieJar::default();
        assert_eq!(
            jar.store(&[b"a=".to_vec(), vec![b'x'; BYTES_MAX]].concat()),
            Err(CookieOverflow)
        );
    }
}
