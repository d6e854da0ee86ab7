//! Authentication challenges of a registry: the header `WWW-Authenticate`.
//!
//! Source: RFC 9110 and Docker's token authentication.

/// The authentication scheme that a registry requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A name and a password, with every request.
    Basic,
    /// A token from a token server.
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The service that the token is for.
        service: Option<String>,
        /// The access that the token is for.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Parses one header; `None` for any other scheme.
    pub(crate) fn read(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        let mut rest = rest;
        while let Some((name, value, after)) = parameter(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                "scope" => scope = Some(value),
                _ => {}
            }
            rest = after;
        }
        realm.map(|realm| Self::Bearer { realm, service, scope })
    }
}

/// Splits off `name=value` or `name="value"`.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.trim_start_matches([' ', ',']).split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(',').unwrap_or(rest.len());
        return Some((name.trim(), rest[..end].trim().to_owned(), &rest[end..]));
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, character) in quoted.char_indices() {
        match character {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some((name.trim(), value, &quoted[at + 1..])),
            _ => {
                escaped = false;
                value.push(character);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_registries_are_parsed() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let (service, scope) = (service.map(str::to_owned), scope.map(str::to_owned));
            Some(Challenge::Bearer { realm: realm.to_owned(), service, scope })
        };
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let wanted =
            bearer("https://auth.docker.io/token", Some("registry.docker.io"), Some("repository:a/b:pull,push"));
        assert_eq!(Challenge::read(docker), wanted);
        assert_eq!(
            Challenge::read("bearer realm=https://a, service=\"b\\\"c\""),
            bearer("https://a", Some("b\"c"), None)
        );
        assert_eq!(Challenge::read("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(Challenge::read("basic"), Some(Challenge::Basic));
        for other in ["", "Digest realm=\"x\"", "Bearer", "Bearer service=\"x\"", "Bearer realm=\"cut off"] {
            assert_eq!(Challenge::read(other), None, "{other}");
        }
    }
}
