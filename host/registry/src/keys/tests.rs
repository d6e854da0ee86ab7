use super::*;

#[test]
fn wrong_kind_of_key_is_refused_with_the_right_one() {
    let key = SecretKey::generate().unwrap();
    let (secret, public) = (key.to_pem().unwrap(), key.public().to_pem());
    let encrypted = wrap(b"who knows", ENCRYPTED_LABEL);
    for (text, told) in [
        (public.as_str(), "it is a public key"),
        (&encrypted, "it is an encrypted key"),
        ("", "not an Ed25519 secret key"),
        ("-----BEGIN PRIVATE KEY-----\nbm90aGluZw==\n-----END PRIVATE KEY-----\n", "not an Ed25519 secret key"),
    ] {
        let refused = SecretKey::from_pem(text).unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
    let rsa = wrap(b"a public key of another kind", PUBLIC_LABEL);
    for (text, told) in [
        (secret.as_str(), "it is a secret key"),
        (&rsa, "not an Ed25519 public key"),
        ("", "not an Ed25519 public key"),
    ] {
        let refused = PublicKey::from_pem(text).unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
        let body = secret.lines().nth(1).unwrap();
        assert!(!refused.contains(body), "no part of a key is told");
    }
    assert_eq!(PublicKey::from_pem(&public).unwrap(), key.public());
    assert_eq!(SecretKey::from_pem(&secret).unwrap().public(), key.public());
}
