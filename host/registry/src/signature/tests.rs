use super::*;
use crate::keys::PublicKey;

fn component() -> Vec<u8> {
    wat::parse_str(r#"(component (core module (func (export "f"))) (@custom "note" "one"))"#).unwrap()
}

fn trusted(keys: &[(&str, &SecretKey)]) -> Vec<TrustedKey> {
    keys.iter().map(|(name, key)| TrustedKey { name: (*name).to_owned(), key: key.public() }).collect()
}

/// The same key, in the other implementation.
fn theirs(key: &SecretKey) -> (wasmsign2::SecretKey, wasmsign2::PublicKey) {
    let secret = wasmsign2::SecretKey::from_pem(&key.to_pem().unwrap()).unwrap();
    let public = wasmsign2::PublicKey::from_pem(&key.public().to_pem()).unwrap();
    (secret, public)
}

fn module(component: &[u8]) -> wasmsign2::Module {
    wasmsign2::Module::deserialize(&mut &component[..]).unwrap()
}

fn bytes(module: &wasmsign2::Module) -> Vec<u8> {
    let mut bytes = Vec::new();
    module.serialize(&mut bytes).unwrap();
    bytes
}

#[test]
fn verification_returns_the_names_of_the_signers() {
    let (one, two, other) =
        (SecretKey::generate().unwrap(), SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let signed = sign(&sign(&component(), &one).unwrap(), &two).unwrap();
    assert_eq!(verify(&signed, &trusted(&[("one", &one)])).unwrap(), ["one"]);
    assert_eq!(verify(&signed, &trusted(&[("two", &two), ("x", &other), ("one", &one)])).unwrap(), ["two", "one"]);
    assert_eq!(key_ids(&signed).unwrap(), [one.public().id(), two.public().id()]);
    assert_eq!(sign(&signed, &one).unwrap().len(), signed.len(), "the same key signs once");
    let refused = verify(&signed, &trusted(&[("x", &other)])).unwrap_err();
    assert!(matches!(&refused, Error::Untrusted { ids } if ids.len() == 2), "{refused}");
}

#[test]
fn unsigned_component_is_reported_as_unsigned() {
    let key = SecretKey::generate().unwrap();
    let refused = verify(&component(), &trusted(&[("key", &key)])).unwrap_err();
    assert!(matches!(refused, Error::Unsigned), "{refused}");
    assert_eq!(key_ids(&component()).unwrap(), [""; 0]);
    let module = wat::parse_str("(module)").unwrap();
    for not_one in [&module[..], b"", b"\0asm", b"not wasm"] {
        assert!(matches!(verify(not_one, &[]), Err(Error::NotAComponent(_))));
        assert!(matches!(sign(not_one, &key), Err(Error::NotAComponent(_))));
    }
}

#[test]
fn no_byte_of_a_signed_component_can_be_changed() {
    let key = SecretKey::generate().unwrap();
    let (signed, trusted) = (sign(&component(), &key).unwrap(), trusted(&[("key", &key)]));
    for at in 0..signed.len() {
        for bit in [0x01, 0x80] {
            let mut changed = signed.clone();
            changed[at] ^= bit;
            assert!(verify(&changed, &trusted).is_err(), "byte {at} of {}", signed.len());
        }
    }
    for end in 0..signed.len() {
        assert!(verify(&signed[..end], &trusted).is_err(), "cut off at {end}");
    }
    let longer = [&signed[..], &[0, 2, 1, b'x']].concat();
    assert!(matches!(verify(&longer, &trusted), Err(Error::Altered { name }) if name == "key"));
    // Signing again leaves no signature of the old bytes.
    let other = SecretKey::generate().unwrap();
    assert_eq!(key_ids(&sign(&longer, &other).unwrap()).unwrap(), [other.public().id()]);
}

#[test]
fn signatures_verify_across_implementations() {
    let key = SecretKey::generate().unwrap();
    let (secret, public) = theirs(&key);
    let signed = sign(&component(), &key).unwrap();
    public.verify(&mut &signed[..], None).unwrap();
    public.clone().attach_default_key_id().verify(&mut &signed[..], None).unwrap();
    for key_id in [None, public.clone().attach_default_key_id().key_id().cloned()] {
        let signed = bytes(&secret.sign(module(&component()), key_id.as_ref()).unwrap());
        assert_eq!(verify(&signed, &trusted(&[("key", &key)])).unwrap(), ["key"]);
    }
    let other = SecretKey::generate().unwrap();
    let both = bytes(&theirs(&other).0.sign_multi(module(&signed), None, false, false).unwrap().0);
    assert_eq!(verify(&both, &trusted(&[("other", &other), ("key", &key)])).unwrap(), ["other", "key"]);
}

#[test]
fn component_cut_off_after_a_signed_part_does_not_verify() {
    let key = SecretKey::generate().unwrap();
    let (secret, public) = theirs(&key);
    let parts = module(&component()).split(|section| matches!(section, wasmsign2::Section::Custom(_))).unwrap();
    let mut signed = secret.sign_multi(parts, None, false, true).unwrap().0;
    let trusted = trusted(&[("key", &key)]);
    assert_eq!(verify(&bytes(&signed), &trusted).unwrap(), ["key"]);
    let is_end = |section: &wasmsign2::Section| section.is_signature_delimiter();
    let end = signed.sections.iter().position(is_end).unwrap();
    assert!(end + 1 < signed.sections.len(), "there is more behind it");
    signed.sections.truncate(end + 1);
    let cut = bytes(&signed);
    public.verify(&mut &cut[..], None).expect("the form allows it");
    assert!(matches!(verify(&cut, &trusted), Err(Error::Altered { .. })));
}

#[test]
fn a_section_of_signatures_is_bounded() {
    let mut many = component();
    for _ in 0..SIGNATURES_MAX {
        many = sign(&many, &SecretKey::generate().unwrap()).unwrap();
    }
    assert_eq!(key_ids(&many).unwrap().len(), SIGNATURES_MAX);
    assert!(matches!(sign(&many, &SecretKey::generate().unwrap()), Err(Error::Signature(_))));
    let large = vec![VERSION; SECTION_BYTES_MAX + 1];
    let large = wasm::prepend_section(&CustomSection { name: SECTION, content: &large }, &[]);
    assert!(matches!(key_ids(&large), Err(Error::Signature(_))));
    // A count beyond the end of the bytes allocates no memory.
    let promise = [VERSION, CONTENT, SHA_256, 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f];
    let promise = wasm::prepend_section(&CustomSection { name: SECTION, content: &promise }, &[]);
    assert!(matches!(key_ids(&promise), Err(Error::Signature(_))));
}

#[test]
fn keys_are_those_of_openssl() {
    // openssl genpkey -algorithm ed25519
    let secret = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
    // From RFC 8410.
    let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
    let key = SecretKey::from_pem(secret).unwrap();
    assert_eq!(key.public().to_pem(), public);
    assert_eq!(key.to_pem().unwrap(), secret);
    assert_eq!(PublicKey::from_pem(public).unwrap(), key.public());
    let shown = format!("{key:?}");
    assert_eq!(shown, format!("SecretKey(of {})", key.public().id()), "a key is not shown");
    for wrong in ["", "x", &public.replace("PUBLIC", "PRIVATE"), &secret.replace('M', "N"), &secret[..80]] {
        assert!(SecretKey::from_pem(wrong).is_err() && PublicKey::from_pem(wrong).is_err(), "{wrong}");
    }
}
