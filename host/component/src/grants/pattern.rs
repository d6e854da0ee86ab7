//! Patterns of grants: text with `*`, and addresses.

use std::net::IpAddr;

/// Says whether `text` is what `pattern` describes: `*` stands for any text, also for none, and everything else for itself.
///
/// Takes time in proportion to the product of both lengths at worst, whatever the pattern.
pub(super) fn matches_glob(pattern: &str, text: &str) -> bool {
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

/// Says whether there is a text that both patterns describe.
///
/// Takes time in proportion to the product of both lengths.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // Whether the first so many bytes of each describe a text in common.
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

/// Says whether the address `url` is one that `pattern` describes.
///
/// The parts are compared one by one, so that a `*` of the path never reaches into the host: `https://a.example/*` does not cover
/// `https://a.example.evil/`, nor `https://a.example@evil/`. Anything that is no plain `http` or `https` address is covered by
/// nothing.
pub(super) fn matches_url(pattern: &str, url: &str) -> bool {
    let (Some(pattern), Some(url)) = (Address::parse(pattern), Address::parse(url)) else {
        return false;
    };
    same_host(&pattern, &url) && !climbs(url.path) && matches_glob(pattern.path, url.path)
}

/// Says whether a pattern can cover any address at all.
pub(super) fn is_url(pattern: &str) -> bool {
    Address::parse(pattern).is_some()
}

/// Returns the host of an address or a pattern where it is no name.
pub(super) fn literal(url: &str) -> Option<IpAddr> {
    let host = Address::parse(url)?.host;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Returns the parts of an address without query: up to the path, and the path.
pub(super) fn split(url: &str) -> (&str, &str) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    match url[authority..].find('/') {
        Some(at) => url.split_at(authority + at),
        None => (url, "/"),
    }
}

/// Says whether the host, scheme and port of an address are those of a pattern: what is left where the path is not known.
pub(super) fn is_at(pattern: &str, url: &str) -> bool {
    let (Some(pattern), Some(url)) = (Address::parse(pattern), Address::parse(url)) else {
        return false;
    };
    same_host(&pattern, &url)
}

/// Returns a pattern that covers `url` and what lies beside it.
pub(super) fn for_url(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or(url);
    let authority = bare.find("://").map_or(0, |at| at + 3);
    match bare[authority..].rfind('/') {
        Some(at) => format!("{}/*", &bare[..authority + at]),
        None => format!("{bare}/*"),
    }
}

struct Address<'a> {
    scheme: &'a str,
    host: &'a str,
    port: &'a str,
    path: &'a str,
}

impl<'a> Address<'a> {
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

fn same_host(pattern: &Address<'_>, url: &Address<'_>) -> bool {
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

/// Says whether a path has steps upwards, plain or escaped: what a server makes of them is not ours to guess.
fn climbs(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or(path).to_ascii_lowercase();
    let path = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    path.split('/').any(|step| step == ".." || step == ".")
}
