//! Signatures inside a component, in the format of WebAssembly's tool conventions: a custom section before
//! all others.
//!
//! Only signatures of the whole component count. The format also allows signatures of the first sections.
//! With those, a component that was cut off after the signed part would still verify.

use aws_lc_rs::digest::{SHA256, digest};
use homeostat_digest::to_hex;

use crate::error::Error;
use crate::keys::SecretKey;
use crate::policy::TrustedKey;
use crate::wasm::{self, CustomSection};

/// The name of the section. Source of all numbers here: tool-conventions, Signatures.md.
const SECTION: &[u8] = b"signature";
const DOMAIN: &[u8] = b"wasmsig";
const VERSION: u8 = 1;
/// The same for modules and components.
const CONTENT: u8 = 1;
const SHA_256: u8 = 1;
const ED25519: u8 = 1;
const HASH_BYTES: usize = 32;

/// Maximum length of the section, in bytes.
const SECTION_BYTES_MAX: usize = 64 << 10;
/// Maximum number of signatures: each costs a verification for each trusted key.
const SIGNATURES_MAX: usize = 64;

/// The signatures of one sequence of hashes. Each hash covers the sections up to a possible end, and the last
/// one covers all.
struct SignatureSet {
    hashes: Vec<u8>,
    signatures: Vec<Signature>,
}

struct Signature {
    /// Empty if the signature does not name its key.
    key_id: Vec<u8>,
    bytes: Vec<u8>,
}

/// Signs a component. Other signatures of the same bytes stay, and signatures of other bytes are removed.
///
/// # Errors
/// [`Error::NotAComponent`]; [`Error::Signature`] if there are too many signatures, or if the section cannot
/// be read.
pub fn sign(component: &[u8], key: &SecretKey) -> Result<Vec<u8>, Error> {
    let (header, sections) = split(component)?;
    let hash = digest(&SHA256, sections);
    let hash = hash.as_ref();
    let mut sets = header.map_or(Ok(Vec::new()), read)?;
    sets.retain(|set| set.hashes == hash);
    let key_id = key.public().id_bytes().to_vec();
    let mut signatures: Vec<Signature> = sets.into_iter().flat_map(|set| set.signatures).collect();
    signatures.retain(|signature| signature.key_id != key_id);
    if signatures.len() == SIGNATURES_MAX {
        return Err(Error::Signature("it has as many signatures as fit"));
    }
    signatures.push(Signature { key_id, bytes: key.sign(&message(hash)) });
    let content = write(&SignatureSet { hashes: hash.to_vec(), signatures });
    Ok(wasm::prepend_section(&CustomSection { name: SECTION, content: &content }, sections))
}

/// Returns the names of the trusted keys that signed the whole component, at least one.
///
/// # Errors
/// [`Error::NotAComponent`], [`Error::Unsigned`], [`Error::Signature`], [`Error::Altered`],
/// [`Error::Untrusted`].
pub fn verify<'a>(component: &[u8], trusted: &'a [TrustedKey]) -> Result<Vec<&'a str>, Error> {
    let (header, sections) = split(component)?;
    let sets = read(header.ok_or(Error::Unsigned)?)?;
    let hash = digest(&SHA256, sections);
    let (mut signers, mut altered) = (Vec::new(), None);
    for TrustedKey { name, key } in trusted {
        let id = key.id_bytes();
        let has_signed = |set: &&SignatureSet| {
            let message = message(&set.hashes);
            let may_be = |signature: &&Signature| signature.key_id.is_empty() || signature.key_id == id;
            set.signatures.iter().filter(may_be).any(|signature| key.verifies(&message, &signature.bytes))
        };
        let signed: Vec<&SignatureSet> = sets.iter().filter(has_signed).collect();
        if signed.iter().any(|set| set.hashes.ends_with(hash.as_ref())) {
            signers.push(name.as_str());
        } else if !signed.is_empty() {
            altered = Some(name);
        }
    }
    match altered {
        _ if !signers.is_empty() => Ok(signers),
        Some(name) => Err(Error::Altered { name: name.clone() }),
        None => Err(Error::Untrusted { ids: ids(&sets) }),
    }
}

/// Returns the key ids in a component's signatures, unverified; empty if it is not signed.
///
/// # Errors
/// [`Error::NotAComponent`], [`Error::Signature`].
pub fn key_ids(component: &[u8]) -> Result<Vec<String>, Error> {
    let (header, _) = split(component)?;
    Ok(ids(&header.map_or(Ok(Vec::new()), read)?))
}

fn ids(sets: &[SignatureSet]) -> Vec<String> {
    let signatures = sets.iter().flat_map(|set| &set.signatures);
    let id = |signature: &Signature| match signature.key_id.is_empty() {
        true => "a key without an id".to_owned(),
        false => to_hex(&signature.key_id),
    };
    signatures.map(id).collect()
}

/// Splits a component into the content of its signature section and the signed sections.
fn split(component: &[u8]) -> Result<(Option<&[u8]>, &[u8]), Error> {
    let sections = wasm::sections(component)?;
    Ok(match wasm::first(sections) {
        Some((CustomSection { name, content }, rest)) if name == SECTION => (Some(content), rest),
        _ => (None, sections),
    })
}

fn message(hashes: &[u8]) -> Vec<u8> {
    [DOMAIN, &[VERSION, CONTENT, SHA_256], hashes].concat()
}

fn read(section: &[u8]) -> Result<Vec<SignatureSet>, Error> {
    if section.len() > SECTION_BYTES_MAX {
        return Err(Error::Signature("its section has more than 64 KiB"));
    }
    let Some(rest) = section.strip_prefix(&[VERSION, CONTENT, SHA_256]) else {
        return Err(Error::Signature("it is of another version or kind"));
    };
    let sets = sets(rest).ok_or(Error::Signature("its section is cut off or has something else in it"))?;
    if sets.iter().map(|set| set.signatures.len()).sum::<usize>() > SIGNATURES_MAX {
        return Err(Error::Signature("there are more than 64"));
    }
    Ok(sets)
}

fn sets(bytes: &[u8]) -> Option<Vec<SignatureSet>> {
    let (count, mut rest) = wasm::number(bytes)?;
    let mut sets = Vec::new();
    for _ in 0..count {
        let (one, after) = wasm::slice(rest)?;
        sets.push(set(one)?);
        rest = after;
    }
    rest.is_empty().then_some(sets)
}

fn set(bytes: &[u8]) -> Option<SignatureSet> {
    let (hashes, rest) = wasm::number(bytes)?;
    let (hashes, rest) = rest.split_at_checked((hashes as usize).checked_mul(HASH_BYTES)?)?;
    let (count, mut rest) = wasm::number(rest)?;
    let mut signatures = Vec::new();
    for _ in 0..count {
        let (one, after) = wasm::slice(rest)?;
        let (key_id, one) = wasm::slice(one)?;
        let (algorithm, one) = one.split_first()?;
        let (bytes, _) = wasm::slice(one)?;
        // Signatures of other algorithms are skipped.
        if *algorithm == ED25519 {
            signatures.push(Signature { key_id: key_id.to_vec(), bytes: bytes.to_vec() });
        }
        rest = after;
    }
    (rest.is_empty() && !hashes.is_empty()).then(|| SignatureSet { hashes: hashes.to_vec(), signatures })
}

fn write(set: &SignatureSet) -> Vec<u8> {
    let mut of_set = Vec::new();
    wasm::put_number(&mut of_set, set.hashes.len() / HASH_BYTES);
    of_set.extend_from_slice(&set.hashes);
    wasm::put_number(&mut of_set, set.signatures.len());
    for Signature { key_id, bytes } in &set.signatures {
        let mut one = Vec::new();
        wasm::put_slice(&mut one, key_id);
        one.push(ED25519);
        wasm::put_slice(&mut one, bytes);
        wasm::put_slice(&mut of_set, &one);
    }
    let mut content = vec![VERSION, CONTENT, SHA_256];
    wasm::put_number(&mut content, 1);
    wasm::put_slice(&mut content, &of_set);
    content
}

#[cfg(test)]
mod tests;
