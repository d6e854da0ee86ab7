//! Ed25519 keys, in the PEM that OpenSSL reads and writes.

use std::fmt;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use homeostat_digest::to_hex;

use crate::error::Error;

/// The DER prefix of the 32 bytes of a public key. Source: RFC 8410.
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PUBLIC_LABEL: &str = "PUBLIC KEY";
const SECRET_LABEL: &str = "PRIVATE KEY";
const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";
const NO_SECRET: &str = "it is not an Ed25519 secret key in PEM, as `openssl genpkey -algorithm ed25519` writes it";

/// Length of a key's id, in bytes.
const ID_BYTES: usize = 12;

/// A key that signs. It is never printed.
pub struct SecretKey(Ed25519KeyPair);

/// A key that verifies.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl SecretKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`Error::Key`] if the system has no randomness.
    pub fn generate() -> Result<Self, Error> {
        Ed25519KeyPair::generate().map(Self).map_err(|_| Error::Key("no key can be generated"))
    }

    /// Parses a key in PKCS #8 and PEM.
    ///
    /// # Errors
    /// [`Error::Key`], which contains no part of the text.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let der = unwrap(text, SECRET_LABEL).ok_or_else(|| match is_labelled(text, PUBLIC_LABEL) {
            true => Error::Key("it is a public key, which verifies; the secret one signs, which `homeostat keygen NAME` writes into NAME.key"),
            false if is_labelled(text, ENCRYPTED_LABEL) => {
                Error::Key("it is an encrypted key, and passwords are not supported: decrypt it with `openssl pkey`")
            }
            false => Error::Key(NO_SECRET),
        })?;
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Self).map_err(|_| Error::Key(NO_SECRET))
    }

    /// Returns the key in PKCS #8 and PEM. The caller must write it where no other user can read it.
    ///
    /// # Errors
    /// [`Error::Key`] if there is not enough memory.
    pub fn to_pem(&self) -> Result<String, Error> {
        let der = self.0.to_pkcs8v1().map_err(|_| Error::Key("the key cannot be written"))?;
        Ok(wrap(der.as_ref(), SECRET_LABEL))
    }

    /// Returns the key that verifies this one's signatures.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public().id())
    }
}

impl PublicKey {
    /// Parses a key in PEM.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let der = unwrap(text, PUBLIC_LABEL);
        let bytes = der.as_ref().and_then(|der| der.strip_prefix(&PUBLIC_PREFIX)?.try_into().ok());
        bytes.map(Self).ok_or(match is_labelled(text, SECRET_LABEL) {
            true => Error::Key("it is a secret key, which signs and must stay private; the public one verifies, which `homeostat keygen NAME` writes into NAME.pub"),
            false => Error::Key("it is not an Ed25519 public key in PEM, as `openssl pkey -pubout` writes it"),
        })
    }

    /// Returns the key in PEM.
    pub fn to_pem(&self) -> String {
        wrap(&[&PUBLIC_PREFIX[..], &self.0].concat(), PUBLIC_LABEL)
    }

    /// Returns the key's id, 24 hexadecimal digits. Two keys with one id can be made on purpose, so the id
    /// finds keys and proves nothing.
    pub fn id(&self) -> String {
        to_hex(&self.id_bytes())
    }

    /// Source: `attach_default_key_id` of wasmsign2.
    pub(crate) fn id_bytes(&self) -> [u8; ID_BYTES] {
        let mac = hmac::sign(&hmac::Key::new(HMAC_SHA256, &self.0), b"key_id");
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&mac.as_ref()[..ID_BYTES]);
        id
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

fn wrap(der: &[u8], label: &str) -> String {
    // Both kinds of keys fit into one line of 64 characters.
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn is_labelled(text: &str, label: &str) -> bool {
    text.contains(&format!("-----BEGIN {label}-----"))
}

fn unwrap(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    STANDARD.decode(body.split_ascii_whitespace().collect::<String>()).ok()
}

#[cfg(test)]
mod tests;
