//! Data from registries, and a component's statements about its origin and signatures: refused, or
//! consistent.

use homeostat_registry::{Manifest, Origin, PublicKey, Reference, TrustedKey, key_ids, verify};

use crate::target::{Acceptance, Outcome, must, same};

/// A component that this key has signed. The key has signed nothing else in any input.
const SIGNED: &[u8] = include_bytes!("../../corpus/artifact/signed.wasm");
/// The same component without its signature. A verified input must end with these sections.
const UNSIGNED: &[u8] = include_bytes!("../../corpus/artifact/unsigned.wasm");
const HEADER_BYTES: usize = 8;
/// Source: RFC 8410.
const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let trusted =
        [TrustedKey { name: "key".to_owned(), key: PublicKey::from_pem(KEY).map_err(|error| error.to_string())? }];
    must("a signed component verifies", verify(SIGNED, &trusted).is_ok())?;
    let mut held = Acceptance::Rejected;
    // A file of the corpus ends with a newline.
    let text = String::from_utf8_lossy(input);
    let text = text.trim_end_matches('\n');
    if let Ok(reference) = text.parse::<Reference>() {
        same("a reference has one spelling", &reference.to_string(), &text.to_owned())?;
        must("a reference is exact", reference.tag().is_some() || reference.digest().is_some())?;
        must("no part of a reference leads elsewhere", !reference.repository().contains(".."))?;
        held = Acceptance::Accepted;
    }
    if let Ok(manifest) = Manifest::read("input", input) {
        same("a manifest reads the same twice", &Manifest::read("input", input).ok().as_ref(), &Some(&manifest))?;
        must("it names its component", text.contains(manifest.component().as_str()))?;
        held = Acceptance::Accepted;
    }
    if let (Ok(_), Ok(_)) = (Origin::of(input), key_ids(input)) {
        held = Acceptance::Accepted;
    }
    if verify(input, &trusted).is_ok() {
        must("a component that verifies has the signed sections", input.ends_with(&UNSIGNED[HEADER_BYTES..]))?;
        held = Acceptance::Accepted;
    }
    Ok(held)
}
