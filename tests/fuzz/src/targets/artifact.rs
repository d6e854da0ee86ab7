//! What registries send, and what components say of who made and signed them: it is refused, or it is what it says.

use homeostat_registry::{Manifest, Origin, PublicKey, Reference, TrustedKey, key_ids, verify};

use crate::target::{Acceptance, Outcome, must, same};

/// A component that this key has signed. Nothing else that it has signed is in any input.
const SIGNED: &[u8] = include_bytes!("../../corpus/artifact/signed.wasm");
/// The same without its signature: what follows the header must be what was signed.
const UNSIGNED: &[u8] = include_bytes!("../../corpus/artifact/unsigned.wasm");
const HEADER_BYTES: usize = 8;
/// Source: RFC 8410.
const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let trusted =
        [TrustedKey { name: "key".to_owned(), key: PublicKey::from_pem(KEY).map_err(|error| error.to_string())? }];
    must("what was signed is verified", verify(SIGNED, &trusted).is_ok())?;
    let mut held = Acceptance::Rejected;
    // A file of the corpus ends with its line.
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
        must("what is verified is what was signed", input.ends_with(&UNSIGNED[HEADER_BYTES..]))?;
        held = Acceptance::Accepted;
    }
    Ok(held)
}
