//! The cookies of one user, kept and sent as a browser does (RFC 6265), without a list of public suffixes.

use std::net::IpAddr;
use time::{Date, Month};

/// Most cookies of one user, like browsers have for a site (RFC 6265, 6.1).
const COOKIES_MAX: usize = 50;
/// Most bytes of all their names and values: servers refuse longer headers.
const BYTES_MAX: usize = 16 * 1024;
/// Longest attribute in bytes that is not ignored, as in browsers.
const ATTRIBUTE_MAX: usize = 1024;

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub struct CookieUrl<'a> {
    /// Value of the `Host` header; a port is ignored.
    pub host: &'a [u8],
    /// Path, with or without its query.
    pub path: &'a [u8],
    /// Whether `Secure` cookies go there: over TLS, or to this machine, as browsers do.
    pub secure: bool,
}

/// Cookies in the order in which they are sent: long paths first, then those that were set first.
#[derive(Debug, Default)]
pub struct CookieJar {
    cookies: Vec<StoredCookie>,
    refused: Option<String>,
}

/// More cookies than one user can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieOverflow;

#[derive(Debug)]
struct StoredCookie {
    name: Vec<u8>,
    value: Vec<u8>,
    /// In lower case, without a port.
    domain: Vec<u8>,
    /// Whether the names below the domain have it too.
    has_domain: bool,
    path: Vec<u8>,
    secure: bool,
    /// Unix time in seconds from which on it is not sent; `None` if it stays as long as the visit.
    expires: Option<i64>,
}

impl CookieJar {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.cookies.clear();
        self.refused = None;
    }

    /// The first cookie that was refused, and why.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Whether there is no cookie.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Applies the value of a `Set-Cookie` header in the response of `url` at a Unix time in seconds.
    ///
    /// # Errors
    /// If the user would have too many cookies.
    pub fn store(
        &mut self,
        header: &[u8],
        url: &CookieUrl<'_>,
        now: i64,
    ) -> Result<(), CookieOverflow> {
        let mut parts = header.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let Some((name, value)) = parts.next().and_then(split_pair) else { return Ok(()) };
        let attributes = CookieAttributes::read(parts, now);
        // A browser refuses it silently; here a later error can say why a login failed.
        if let Err(why) = attributes.check(url) {
            let shown = String::from_utf8_lossy(&name[..name.len().min(40)]);
            self.refused.get_or_insert_with(|| format!("the cookie `{shown}` was refused: {why}"));
            return Ok(());
        }
        // Stored before the limit is checked: replacing a cookie adds none.
        self.put(attributes.cookie(name, value, url), now);
        let bytes: usize = self.cookies.iter().map(|own| own.name.len() + own.value.len()).sum();
        let fits = self.cookies.len() <= COOKIES_MAX && bytes <= BYTES_MAX;
        if fits { Ok(()) } else { Err(CookieOverflow) }
    }

    fn put(&mut self, cookie: StoredCookie, now: i64) {
        // Expired ones go first, so that they do not count against the limit.
        self.cookies.retain(|own| !own.is_gone(now));
        let known = self.cookies.iter().position(|own| own.is_same(&cookie));
        match known {
            // A date in the past is how a server deletes a cookie (RFC 6265, 4.1.2).
            Some(at) if cookie.is_gone(now) => drop(self.cookies.remove(at)),
            Some(at) => self.cookies[at] = cookie,
            None if cookie.is_gone(now) => {}
            None => {
                // Longer paths first, equal ones by their creation (RFC 6265, 5.4).
                let at = self.cookies.partition_point(|own| own.path.len() >= cookie.path.len());
                self.cookies.insert(at, cookie);
            }
        }
    }

    /// Appends the header `Cookie` of a request, unless no cookie goes there.
    pub fn write(&self, url: &CookieUrl<'_>, now: i64, out: &mut Vec<u8>) {
        let sent = self.cookies.iter().filter(|cookie| cookie.goes_to(url, now));
        let mut before: &[u8] = b"Cookie: ";
        for cookie in sent {
            for part in [before, &cookie.name, b"=", &cookie.value] {
                out.extend_from_slice(part);
            }
            before = b"; ";
        }
        if before == b"; " {
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl StoredCookie {
    fn is_gone(&self, now: i64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.domain, &self.path) == (&other.name, &other.domain, &other.path)
    }

    fn goes_to(&self, url: &CookieUrl<'_>, now: i64) -> bool {
        let host = without_port(url.host);
        let here = host.eq_ignore_ascii_case(&self.domain);
        (here || self.has_domain && is_below(host, &self.domain))
            && is_path_below(without_query(url.path), &self.path)
            && (url.secure || !self.secure)
            && !self.is_gone(now)
    }
}

/// What a server says about a cookie. The last of several attributes with one name counts.
#[derive(Debug, Default)]
struct CookieAttributes<'a> {
    domain: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    secure: bool,
    expires: Option<i64>,
}

impl<'a> CookieAttributes<'a> {
    fn read(parts: impl Iterator<Item = &'a [u8]>, now: i64) -> Self {
        let (mut read, mut by_age) = (Self::default(), None);
        for part in parts {
            let (name, value) = split_pair(part).unwrap_or((part, &[]));
            // One that is too long is ignored alone; the cookie still counts (RFC 6265bis, 5.6).
            if value.len() > ATTRIBUTE_MAX {
                continue;
            }
            if name.eq_ignore_ascii_case(b"max-age") {
                by_age = age(value).map(|age| now.saturating_add(age)).or(by_age);
            } else if name.eq_ignore_ascii_case(b"expires") {
                read.expires = unix_time(value).or(read.expires);
            } else if name.eq_ignore_ascii_case(b"domain") {
                // A leading dot is ignored (RFC 6265, 5.2.3).
                let domain = value.strip_prefix(b".").unwrap_or(value);
                read.domain = Some(domain).filter(|domain| !domain.is_empty());
            } else if name.eq_ignore_ascii_case(b"path") {
                // Any other path means that of the request (RFC 6265, 5.2.4).
                read.path = Some(value).filter(|path| path.starts_with(b"/"));
            } else if name.eq_ignore_ascii_case(b"secure") {
                read.secure = true;
            }
        }
        // `Max-Age` has precedence over `Expires` (RFC 6265, 5.3).
        read.expires = by_age.or(read.expires);
        read
    }

    /// Whether a browser would keep such a cookie from there.
    fn check(&self, url: &CookieUrl<'_>) -> Result<(), String> {
        let host = without_port(url.host);
        if let Some(domain) = self.domain
            && !host.eq_ignore_ascii_case(domain)
            && (is_address(host) || !is_below(host, domain))
        {
            let (domain, host) = (String::from_utf8_lossy(domain), String::from_utf8_lossy(host));
            return Err(format!("it is for the domain `{domain}`, and the load goes to `{host}`"));
        }
        if self.secure && !url.secure {
            let why =
                "it is `Secure`, and the load has neither https nor an address of this machine";
            return Err(why.to_owned());
        }
        Ok(())
    }

    fn cookie(&self, name: &[u8], value: &[u8], url: &CookieUrl<'_>) -> StoredCookie {
        StoredCookie {
            name: name.to_vec(),
            value: value.to_vec(),
            // Without `Domain` only this host gets it (RFC 6265, 5.3), see `has_domain`.
            domain: self.domain.unwrap_or(without_port(url.host)).to_ascii_lowercase(),
            has_domain: self.domain.is_some(),
            path: self.path.unwrap_or_else(|| folder(url.path)).to_vec(),
            secure: self.secure,
            expires: self.expires,
        }
    }
}

/// A name that is not empty, and its value.
fn split_pair(part: &[u8]) -> Option<(&[u8], &[u8])> {
    // A pair without a name is ignored (RFC 6265, 5.2).
    let at = part.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    Some((part[..at].trim_ascii(), part[at + 1..].trim_ascii()))
}

fn without_port(host: &[u8]) -> &[u8] {
    // The colons of an IPv6 address are inside its brackets.
    let end = match host.iter().position(|byte| *byte == b']') {
        Some(bracket) => Some(bracket + 1),
        None => host.iter().position(|byte| *byte == b':'),
    };
    &host[..end.unwrap_or(host.len())]
}

fn is_address(host: &[u8]) -> bool {
    let text = std::str::from_utf8(host).unwrap_or_default();
    text.starts_with('[') || text.parse::<IpAddr>().is_ok()
}

/// Whether a host is a name below a domain (RFC 6265, 5.1.3).
fn is_below(host: &[u8], domain: &[u8]) -> bool {
    // The dot must be part of the host: `badexample.com` is not below `example.com`.
    let Some(at) = host.len().checked_sub(domain.len() + 1) else { return false };
    host[at] == b'.' && host[at + 1..].eq_ignore_ascii_case(domain)
}

fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// Where a cookie without `Path` goes (RFC 6265, 5.1.4).
fn folder(path: &[u8]) -> &[u8] {
    let path = without_query(path);
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.filter(|at| *at > 0).map_or(&b"/"[..], |at| &path[..at])
}

/// Whether a cookie with that path goes to a path (RFC 6265, 5.1.4).
fn is_path_below(path: &[u8], cookie: &[u8]) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with(b"/") || rest.starts_with(b"/"))
}

/// Seconds; a number that is too large means as long as possible.
fn age(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // All digits and still not a number: too many of them.
    Some(text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX }))
}

/// A date as servers write it, in seconds, however its parts are separated (RFC 6265, 5.1.1).
fn unix_time(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (mut clock, mut day, mut month, mut year) = (None, None, None, None);
    // A date may be separated by almost anything (RFC 6265, 5.1.1), but a time has colons.
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != ':') {
        if clock.is_none() && clock_time(word).is_some() {
            clock = clock_time(word);
        } else if day.is_none() && number(word, 2).is_some() {
            day = number(word, 2);
        } else if month.is_none() && month_of(word).is_some() {
            month = month_of(word);
        } else if year.is_none() && word.len() >= 2 {
            year = number(word, 4);
        }
    }
    let year = match year? {
        // Two digits: 70 to 99 are of the last century (RFC 6265, 5.1.1).
        short @ 70..100 => short + 1900,
        short @ ..70 => short + 2000,
        whole => whole,
    };
    let (hour, minute, second) = clock?;
    let date = Date::from_calendar_date(i32::from(year), month?, u8::try_from(day?).ok()?).ok()?;
    Some(date.with_hms(hour, minute, second).ok()?.assume_utc().unix_timestamp())
}

fn clock_time(word: &str) -> Option<(u8, u8, u8)> {
    let mut parts = word.split(':').map(|part| number(part, 2).and_then(|n| u8::try_from(n).ok()));
    let time = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(time)
}

/// A number of at most so many digits.
fn number(word: &str, digits: usize) -> Option<u16> {
    let right = word.len() <= digits && word.bytes().all(|byte| byte.is_ascii_digit());
    if right { word.parse().ok() } else { None }
}

fn month_of(word: &str) -> Option<Month> {
    const NAMES: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let name = word.get(..3)?.to_ascii_lowercase();
    let at = NAMES.iter().position(|month| *month == name)?;
    Month::try_from(at as u8 + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 22 November 2026 in seconds.
    const NOW: i64 = 1_795_305_600;

    fn url<'a>(host: &'a str, path: &'a str) -> CookieUrl<'a> {
        CookieUrl { host: host.as_bytes(), path: path.as_bytes(), secure: false }
    }

    fn sent(jar: &CookieJar, url: &CookieUrl<'_>, now: i64) -> String {
        let mut out = Vec::new();
        jar.write(url, now, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn jar(set: &[&str], from: &CookieUrl<'_>) -> CookieJar {
        let mut jar = CookieJar::default();
        set.iter().for_each(|one| jar.store(one.as_bytes(), from, NOW).unwrap());
        jar
    }

    #[test]
    fn cookies_are_set_replaced_and_deleted() {
        let here = url("app.test", "/");
        for (set, expected) in [
            (&[][..], ""),
            (&["a=1; path=/; HttpOnly", "b = x=y "], "Cookie: a=1; b=x=y\r\n"),
            (&["a=1", "b=2", "a=3"], "Cookie: a=3; b=2\r\n"),
            (&["a=1", "a=; max-age=0"], ""),
            (&["a=1", "a=; max-age=-99999999999999999999"], ""),
            (&["a=1", "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], ""),
            (&["a=1; Max-Age=60; expires=Thu, 01 Jan 1970 00:00:00 GMT"], "Cookie: a=1\r\n"),
            (&["a=1; max-age=soon; expires=never"], "Cookie: a=1\r\n"),
            (&["=1", "nonsense", ""], ""),
        ] {
            assert_eq!(sent(&jar(set, &here), &here, NOW), expected, "{set:?}");
        }
    }

    #[test]
    fn a_cookie_goes_only_where_its_path_and_domain_allow() {
        for (set, to, expected) in [
            ("a=1", ("app.test", "/admin/x?y=/"), true),
            ("a=1", ("app.test", "/admin"), true),
            ("a=1", ("app.test", "/administrator"), false),
            ("a=1", ("app.test", "/"), false),
            ("a=1; Path=/", ("app.test", "/other"), true),
            ("a=1; Path=/o/", ("app.test", "/o"), false),
            ("a=1; Path=no", ("app.test", "/admin/x"), true),
            ("a=1; Path=/", ("APP.test:3000", "/"), true),
            ("a=1; Path=/", ("www.app.test", "/"), false),
            ("a=1; Path=/; Domain=.App.test", ("www.app.test", "/"), true),
            ("a=1; Path=/; Domain=app.test", ("myapp.test", "/"), false),
        ] {
            let jar = jar(&[set], &url("app.test:3000", "/admin/list?a=/b/c"));
            let header = sent(&jar, &url(to.0, to.1), NOW);
            assert_eq!(!header.is_empty(), expected, "{set} to {to:?}");
        }
    }

    #[test]
    fn the_cookie_of_the_longer_path_is_sent_first() {
        let deep = url("app.test", "/a/b/c");
        let jar = jar(&["a=root; Path=/", "a=deep; Path=/a/b", "b=root; Path=/"], &deep);
        assert_eq!(sent(&jar, &deep, NOW), "Cookie: a=deep; a=root; b=root\r\n");
        assert_eq!(sent(&jar, &url("app.test", "/x"), NOW), "Cookie: a=root; b=root\r\n");
    }

    #[test]
    fn a_cookie_that_a_browser_would_refuse_is_refused_with_its_reason() {
        for (set, host, expected) in [
            ("a=1; Domain=other.test", "app.test", "it is for the domain `other.test`"),
            ("a=1; Domain=www.app.test", "app.test", "the load goes to `app.test`"),
            ("a=1; Domain=0.0.1", "127.0.0.1:3000", "the load goes to `127.0.0.1`"),
            ("a=1; Secure", "app.test", "it is `Secure`"),
        ] {
            let jar = jar(&[set], &url(host, "/"));
            assert!(jar.is_empty());
            let why = jar.refused().unwrap();
            assert!(
                why.starts_with("the cookie `a` was refused") && why.contains(expected),
                "{why}"
            );
        }
        let safe = CookieUrl { secure: true, ..url("[::1]:3000", "/") };
        let jar = jar(&["a=1; secure"], &safe);
        assert_eq!((sent(&jar, &safe, NOW).as_str(), jar.refused()), ("Cookie: a=1\r\n", None));
        assert_eq!(sent(&jar, &url("[::1]:3000", "/"), NOW), "");
    }

    #[test]
    fn a_cookie_is_sent_until_it_expires() {
        let here = url("app.test", "/");
        for attribute in ["Max-Age=60", "Expires=Sun, 22 Nov 2026 00:01:00 GMT"] {
            let jar = jar(&[format!("a=1; {attribute}").as_str()], &here);
            assert!(!sent(&jar, &here, NOW + 59).is_empty(), "{attribute}");
            assert_eq!(sent(&jar, &here, NOW + 60), "", "{attribute}");
        }
    }

    #[test]
    fn dates_are_read_in_every_form_that_servers_write() {
        for (text, expected) in [
            ("Sun, 22 Nov 2026 00:00:00 GMT", Some(NOW)),
            ("Sunday, 22-Nov-26 00:00:00 GMT", Some(NOW)),
            ("Sun Nov 22 00:00:00 2026", Some(NOW)),
            ("Thu, 01 Jan 1970 00:00:00 -0000", Some(0)),
            ("Thu, 01-Jan-70 00:00:01 GMT", Some(1)),
            ("Sun, 31 Feb 2026 00:00:00 GMT", None),
            ("Sun, 22 Nov 2026 25:00:00 GMT", None),
            ("22 Nov 2026", None),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(unix_time(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_user_has_a_limited_number_of_cookies_and_bytes() {
        let here = url("app.test", "/");
        let mut many = CookieJar::default();
        let failed =
            (0..100).find(|n| many.store(format!("c{n}=x").as_bytes(), &here, NOW).is_err());
        assert_eq!(failed, Some(COOKIES_MAX));
        let mut large = CookieJar::default();
        let long = [b"a=".to_vec(), vec![b'x'; BYTES_MAX]].concat();
        assert_eq!(large.store(&long, &here, NOW), Err(CookieOverflow));
        let mut short = CookieJar::default();
        for n in 0..100 {
            let set = format!("c{n}=x; max-age=1; domain={}", "x".repeat(ATTRIBUTE_MAX + 1));
            short.store(set.as_bytes(), &here, NOW + n).unwrap();
        }
        assert_eq!(sent(&short, &here, NOW + 99), "Cookie: c99=x\r\n");
    }
}
