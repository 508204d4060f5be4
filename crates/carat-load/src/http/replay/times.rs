//! Times as logs write them, in nanoseconds since 1970.

use time::{Date, Month, PrimitiveDateTime, Time, UtcOffset};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time at the beginning of a text such as `2026-11-22T10:00:00.25Z` or `2026-11-22 10:00:00 +0100` (ISO 8601).
/// Without an offset it counts as UTC.
pub(super) fn iso_time(text: &str) -> Option<i64> {
    // `get`, because a slice that begins inside a character panics.
    let date = text.get(..10)?;
    let mut parts = date.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, parts.next()?, parts.next()?);
    let rest = text.get(10..)?.strip_prefix(['T', ' '])?;
    let month = digits(month, 2)?;
    instant((year, u8::try_from(month).ok()?, digits(day, 2)?), rest)
}

/// The time of an access log, such as `22/Nov/2026:10:00:00 +0100`.
pub(super) fn access_log_time(text: &str) -> Option<i64> {
    let mut parts = text.get(..11)?.split('/');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? as u8 + 1;
    let rest = text.get(11..)?.strip_prefix(':')?;
    instant((digits(year, 4)?, month, digits(day, 2)?), rest)
}

/// A date, and a text that begins with the time of day.
fn instant((year, month, day): (i32, u8, i32), rest: &str) -> Option<i64> {
    let mut parts = rest.get(..8)?.split(':');
    let clock = [parts.next()?, parts.next()?, parts.next()?];
    let [hour, minute, second] = clock.map(|part| digits(part, 2));
    let (nanos, rest) = fraction(rest.get(8..)?);
    let date =
        Date::from_calendar_date(year, Month::try_from(month).ok()?, u8::try_from(day).ok()?);
    // A leap second counts as the second before it.
    let second = second.filter(|second| *second <= 60)?.min(59);
    let [hour, minute, second] = [hour?, minute?, second].map(|part| u8::try_from(part).ok());
    let clock = Time::from_hms_nano(hour?, minute?, second?, nanos).ok()?;
    let whole = PrimitiveDateTime::new(date.ok()?, clock).assume_offset(offset(rest)?);
    i64::try_from(whole.unix_timestamp_nanos()).ok()
}

/// Nanoseconds of a fraction of a second at the beginning of a text, and what follows.
fn fraction(text: &str) -> (u32, &str) {
    let Some(rest) = text.strip_prefix(['.', ',']) else { return (0, text) };
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = rest.split_at(length);
    // Missing digits count as zero, and those beyond nanoseconds are dropped.
    let padded = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    (padded.fold(0, |nanos, digit| 10 * nanos + u32::from(digit - b'0')), rest)
}

/// The offset at the beginning of a text: `Z`, `+0100`, `+01:00`, or nothing for UTC.
fn offset(text: &str) -> Option<UtcOffset> {
    let text = text.trim_start_matches(' ');
    let sign = match text.bytes().next() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Some(UtcOffset::UTC),
    };
    let hours = digits(text.get(1..3)?, 2)?;
    let rest = text.get(3..)?;
    let minutes = digits(rest.strip_prefix(':').unwrap_or(rest).get(..2)?, 2)?;
    UtcOffset::from_whole_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i32> {
    // Exactly so many: `parse` alone would accept a sign and any length.
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: i64 = 1_795_341_600_000_000_000;

    #[test]
    fn times_of_logs_are_read_with_fraction_and_offset() {
        for (text, expected) in [
            ("2026-11-22T10:00:00Z", TEN),
            ("2026-11-22 10:00:00 UTC", TEN),
            ("2026-11-22T10:00:00.250+00:00 more", TEN + 250_000_000),
            ("2026-11-22T10:00:00,5", TEN + 500_000_000),
            ("2026-11-22T10:00:00.1234567891Z", TEN + 123_456_789),
            ("2026-11-22 11:00:00 +0100", TEN),
            ("2026-11-22T05:30:00-04:30", TEN),
        ] {
            assert_eq!(iso_time(text), Some(expected), "{text}");
        }
        assert_eq!(access_log_time("22/Nov/2026:10:00:00 +0000"), Some(TEN));
        assert_eq!(access_log_time("22/Nov/2026:02:00:00 -0800"), Some(TEN));
    }

    #[test]
    fn what_is_no_time_is_unknown() {
        for text in [
            "",
            "2026-11-22",
            "2026-13-01T10:00:00Z",
            "2026-02-30T10:00:00Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T10:00:61Z",
            "2026-11-22T1:00:00Z",
            "2026-11-22T10:00:00+9",
            "2026-11-22T10:00:00+99:00",
            "22/Nov/2026:10:00:00 +0000",
            "2026-é1-22T10:00:00Z",
        ] {
            assert_eq!(iso_time(text), None, "{text}");
        }
        for text in
            ["", "22/November/2026:10:00:00", "22/Nov/2026 10:00:00", "99/Nov/2026:10:00:00"]
        {
            assert_eq!(access_log_time(text), None, "{text}");
        }
    }
}
