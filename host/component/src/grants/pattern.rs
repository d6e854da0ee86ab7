//! Patterns of grants: globs and URLs.

use std::net::IpAddr;

/// Returns whether `pattern` matches `text`: `*` stands for any text, including none; every other character
/// for itself.
///
/// The worst-case time is proportional to the product of both lengths, for any pattern.
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((star_p, star_t)) = star {
            p = star_p + 1;
            t = star_t + 1;
            star = Some((star_p, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Returns whether some text matches both patterns.
///
/// The time is proportional to the product of both lengths.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // Whether prefixes of these lengths can match a common text.
    let mut meet = vec![vec![false; other.len() + 2]; one.len() + 2];
    meet[0][0] = true;
    for at in 0..=one.len() {
        for beside in 0..=other.len() {
            if !meet[at][beside] {
                continue;
            }
            let (mine, theirs) = (one.get(at), other.get(beside));
            let is_star = |byte: Option<&u8>| byte == Some(&b'*');
            meet[at + 1][beside] |= is_star(mine) || (mine.is_some() && is_star(theirs));
            meet[at][beside + 1] |= is_star(theirs) || (theirs.is_some() && is_star(mine));
            meet[at + 1][beside + 1] |= mine.is_some() && mine == theirs;
        }
    }
    meet[one.len()][other.len()]
}

/// Returns whether `pattern` matches the URL `url`.
///
/// The parts are compared one by one, so that a `*` of the path never reaches into the host:
/// `https://a.example/*` does not match `https://a.example.evil/`, nor `https://a.example@evil/`. Only plain
/// `http` and `https` URLs can match.
pub(super) fn matches_url(pattern: &str, url: &str) -> bool {
    let (Some(pattern), Some(url)) = (UrlParts::parse(pattern), UrlParts::parse(url)) else {
        return false;
    };
    same_host(&pattern, &url) && !is_ambiguous(url.path) && matches_glob(pattern.path, url.path)
}

/// Returns whether `pattern` matches every URL that `other`, a pattern as well, matches.
///
/// May answer `false` although it does. In the path, a `*` of `other` is matched by a `*` alone.
pub(super) fn includes_url(pattern: &str, other: &str) -> bool {
    if pattern == other {
        return true;
    }
    let (Some(pattern), Some(other)) = (UrlParts::parse(pattern), UrlParts::parse(other)) else {
        return false;
    };
    let is_same_host = pattern.host.eq_ignore_ascii_case(other.host);
    let includes_host = is_same_host || (!other.host.contains('*') && matches_host(pattern.host, other.host));
    pattern.scheme.eq_ignore_ascii_case(other.scheme)
        && (includes_host || pattern.host == "*")
        && (pattern.port == "*" || pattern.port == other.port)
        && matches_glob(pattern.path, other.path)
}

/// Returns whether a pattern can match any URL at all.
pub(super) fn is_url(pattern: &str) -> bool {
    UrlParts::parse(pattern).is_some()
}

/// Returns the host of a URL or a pattern if it is an IP address.
pub(super) fn literal(url: &str) -> Option<IpAddr> {
    let host = UrlParts::parse(url)?.host;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Splits a URL without query at the start of its path.
pub(super) fn split(url: &str) -> (&str, &str) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    match url[authority..].find('/') {
        Some(at) => url.split_at(authority + at),
        None => (url, "/"),
    }
}

/// Returns whether a URL has the host, scheme and port of a pattern, for comparisons without a known path.
pub(super) fn is_at(pattern: &str, url: &str) -> bool {
    let (Some(pattern), Some(url)) = (UrlParts::parse(pattern), UrlParts::parse(url)) else {
        return false;
    };
    same_host(&pattern, &url)
}

/// Returns a pattern that matches `url` and its siblings.
pub(super) fn for_url(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or(url);
    let authority = bare.find("://").map_or(0, |at| at + 3);
    match bare[authority..].rfind('/') {
        Some(at) => format!("{}/*", &bare[..authority + at]),
        None => format!("{bare}/*"),
    }
}

struct UrlParts<'a> {
    scheme: &'a str,
    host: &'a str,
    port: &'a str,
    path: &'a str,
}

impl<'a> UrlParts<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let default_port = match scheme.to_ascii_lowercase().as_str() {
            "http" => "80",
            "https" => "443",
            _ => return None,
        };
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let path = if path.is_empty() { "/" } else { path };
        if authority.is_empty() || authority.contains(['@', '\\']) {
            return None;
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (authority, default_port),
        };
        (!host.is_empty()).then_some(Self { scheme, host, port, path })
    }
}

fn same_host(pattern: &UrlParts<'_>, url: &UrlParts<'_>) -> bool {
    pattern.scheme.eq_ignore_ascii_case(url.scheme)
        && matches_host(pattern.host, url.host)
        && (pattern.port == "*" || pattern.port == url.port)
}

fn matches_host(pattern: &str, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let pattern = pattern.to_ascii_lowercase();
    if pattern == "*" {
        return true;
    }
    match pattern.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.')),
        None => pattern == host,
    }
}

/// The maximum rounds of unescaping: chained servers unescape more than once.
const ROUNDS_MAX: usize = 4;

/// Returns whether servers may interpret a path as another one: the host cannot know how they do.
///
/// Ambiguous are paths with upward segments: plain, escaped, escaped twice, or with a parameter (`..;`, which
/// some servers strip). So are paths with characters at which some servers end a path or a line, with invalid
/// escapes, and with escapes that are not UTF-8, as `%c0%ae` for a dot.
fn is_ambiguous(path: &str) -> bool {
    let mut bytes = path.split(['?', '#']).next().unwrap_or(path).as_bytes().to_vec();
    for round in 0..ROUNDS_MAX {
        let Ok(text) = str::from_utf8(&bytes) else { return true };
        if text.chars().any(char::is_control) || text.split(['/', '\\']).any(is_dots) {
            return true;
        }
        match unescaped(&bytes, round == 0) {
            None => return true,
            Some(plain) if plain == bytes => return false,
            Some(plain) => bytes = plain,
        }
    }
    true
}

/// Returns whether a path segment is `.` or `..`, ignoring parameters and spaces.
fn is_dots(step: &str) -> bool {
    matches!(step.split(';').next().unwrap_or(step).trim(), "." | "..")
}

/// Unescapes bytes once. Invalid escapes stay, or give `None` in strict mode.
fn unescaped(bytes: &[u8], is_strict: bool) -> Option<Vec<u8>> {
    let (mut plain, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match escape(behind).filter(|_| *first == b'%') {
            Some((byte, behind)) => {
                plain.push(byte);
                rest = behind;
            }
            None if *first == b'%' && is_strict => return None,
            None => plain.push(*first),
        }
    }
    Some(plain)
}

/// Returns the byte of two hexadecimal digits, and the bytes after them.
fn escape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, behind) = bytes.split_at_checked(2)?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let number = digit(digits[0])? << 4 | digit(digits[1])?;
    Some((u8::try_from(number).ok()?, behind))
}
