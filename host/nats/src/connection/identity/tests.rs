use std::sync::Arc;

use super::{answer, parts};
use crate::settings::Credentials;

const FILE: &str = "\
-----BEGIN NATS USER JWT-----\r
eyJ0.eyJq.c2ln\r
------END NATS USER JWT------\r
\r
************************* IMPORTANT *************************\r
NKEY Seed printed below can be used to sign and prove identity.\r
\r
-----BEGIN USER NKEY SEED-----\r
SUAXXX\r
------END USER NKEY SEED------\r
";

#[test]
fn a_credentials_file_has_a_token_and_a_seed() {
    assert_eq!(parts(FILE), Some(("eyJ0.eyJq.c2ln", "SUAXXX")));
    for damaged in ["", "eyJ0", &FILE[..60], &FILE.replace("SUAXXX\r\n", "")] {
        assert_eq!(parts(damaged), None, "{damaged:?}");
    }
}

#[test]
fn a_nonce_is_signed_with_the_seed_of_the_moment() {
    let pair = nkeys::KeyPair::new_user();
    let seed = pair.seed().expect("it has one");
    let nkey = answer(&Credentials::Nkey(Arc::new(move || Ok(format!("{seed}\n")))), b"nonce").expect("a seed");
    assert_eq!(nkey.nkey, Some(pair.public_key()));
    pair.verify(b"nonce", &nkey.signature.expect("signed")).expect("its own signature");
    let file = FILE.replace("SUAXXX", &pair.seed().expect("it has one"));
    let file = answer(&Credentials::File(Arc::new(move || Ok(file.clone()))), b"nonce").expect("a file");
    assert_eq!(file.jwt.as_deref(), Some("eyJ0.eyJq.c2ln"));
    pair.verify(b"nonce", &file.signature.expect("signed")).expect("its own signature");
}

#[test]
fn an_error_does_not_tell_the_secret() {
    let broken = |text: &'static str| -> Credentials { Credentials::Nkey(Arc::new(move || Ok(text.to_owned()))) };
    let error = answer(&broken("SUBROKENSEED"), b"nonce").err().expect("no seed");
    assert!(!error.contains("BROKEN"), "{error}");
    let missing = Credentials::Token(Arc::new(|| Err("bus.creds: no such file".to_owned())));
    assert_eq!(answer(&missing, b"").err().as_deref(), Some("bus.creds: no such file"));
}

#[test]
fn a_password_loses_the_end_of_its_line_alone() {
    let user = Credentials::User { name: "ann".into(), password: Arc::new(|| Ok(" a b \r\n".to_owned())) };
    let auth = answer(&user, b"").expect("a user");
    assert_eq!((auth.username.as_deref(), auth.password.as_deref()), (Some("ann"), Some(" a b ")));
}
