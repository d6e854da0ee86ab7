//! Answers the server's question who this host is.

#[cfg(test)]
mod tests;

use async_nats::Auth;

use crate::settings::{Credentials, SecretSource};

/// Returns the answer to a server that sent `nonce`. Reads the secrets anew.
pub(super) fn answer(credentials: &Credentials, nonce: &[u8]) -> Result<Auth, String> {
    let mut auth = Auth::new();
    match credentials {
        Credentials::File(source) => {
            let text = source()?;
            let (jwt, seed) = parts(&text).ok_or("the credentials have no JWT and seed")?;
            auth.signature = Some(sign(seed, nonce)?.0);
            auth.jwt = Some(jwt.to_owned());
        }
        Credentials::Nkey(source) => {
            let (signature, key) = sign(source()?.trim(), nonce)?;
            auth.signature = Some(signature);
            auth.nkey = Some(key);
        }
        Credentials::User { name, password } => {
            auth.username = Some(name.clone());
            auth.password = Some(line(password)?);
        }
        Credentials::Token(source) => auth.token = Some(line(source)?),
    }
    Ok(auth)
}

/// Reads a secret of one line, without the end of the line.
fn line(source: &SecretSource) -> Result<String, String> {
    Ok(source()?.trim_end_matches(['\r', '\n']).to_owned())
}

/// Returns the signature of a nonce, and the public key of the seed.
fn sign(seed: &str, nonce: &[u8]) -> Result<(Vec<u8>, String), String> {
    let pair = nkeys::KeyPair::from_seed(seed).map_err(|_| "the seed is malformed")?;
    let signature = pair.sign(nonce).map_err(|_| "the seed cannot sign")?;
    Ok((signature, pair.public_key()))
}

/// Returns the JWT and the seed of a credentials file: the first and the second line that come directly after
/// a line of dashes with a title.
fn parts(text: &str) -> Option<(&str, &str)> {
    let is_title = |line: &str| line.starts_with("---") && line.contains("BEGIN");
    let mut lines = text.lines().map(str::trim);
    let mut next = || {
        lines.find(|line| is_title(line))?;
        lines.next().filter(|line| !line.is_empty() && !line.starts_with('-'))
    };
    Some((next()?, next()?))
}
