//! The users of a NATS server, and what they log in with.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Map, Value, json};

/// How clients authenticate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NatsAccess {
    /// Not at all.
    #[default]
    Everybody,
    /// By name and password. The password of `ann` is `password-of-ann`.
    Passwords,
    /// By a signature with their nkey.
    Nkeys,
    /// By a JWT that their account has signed, and by a signature with their nkey.
    Credentials,
}

/// A user of a server. JetStream is enabled in each account.
#[derive(Clone, Debug)]
pub struct NatsUser {
    /// Its name.
    pub name: String,
    /// The name of its account.
    pub account: String,
    /// The subjects to which it may publish; `None` is all.
    pub publish: Option<Vec<String>>,
    /// The subjects to which it may subscribe; `None` is all.
    pub subscribe: Option<Vec<String>>,
}

impl NatsUser {
    /// Returns a user that may do everything in its account.
    pub fn new(name: &str, account: &str) -> Self {
        Self { name: name.to_owned(), account: account.to_owned(), publish: None, subscribe: None }
    }
}

/// The users with their secrets.
pub(super) struct Logins {
    access: NatsAccess,
    users: Vec<(NatsUser, KeyPair)>,
    /// The accounts by name.
    accounts: BTreeMap<String, KeyPair>,
    operator: KeyPair,
    /// The account of the server itself, without which it starts no JetStream for the accounts of an operator.
    system: KeyPair,
}

impl Logins {
    pub(super) fn new(access: NatsAccess, users: Vec<NatsUser>) -> Self {
        let accounts = users.iter().map(|user| (user.account.clone(), KeyPair::new_account())).collect();
        let users = users.into_iter().map(|user| (user, KeyPair::new_user())).collect();
        Self { access, users, accounts, operator: KeyPair::new_operator(), system: KeyPair::new_account() }
    }

    /// Returns what belongs to the root of the server's configuration.
    pub(super) fn settings(&self) -> Map<String, Value> {
        let settings = match self.access {
            NatsAccess::Everybody => json!({}),
            NatsAccess::Passwords | NatsAccess::Nkeys => json!({ "accounts": self.accounts_with_users() }),
            NatsAccess::Credentials => self.operator_settings(),
        };
        settings.as_object().cloned().expect("each is an object")
    }

    fn accounts_with_users(&self) -> Value {
        let mut accounts = json!({});
        for name in self.accounts.keys() {
            let users = self.users.iter().filter(|(user, _)| user.account == *name);
            let users: Vec<Value> = users.map(|(user, key)| self.user_settings(user, key)).collect();
            accounts[name] = json!({ "jetstream": "enabled", "users": users });
        }
        accounts
    }

    fn user_settings(&self, user: &NatsUser, key: &KeyPair) -> Value {
        let NatsUser { name, account: _, publish, subscribe } = user;
        let mut settings = match self.access {
            NatsAccess::Nkeys => json!({ "nkey": key.public_key() }),
            _ => json!({ "user": name, "password": format!("password-of-{name}") }),
        };
        for (what, subjects) in [("publish", publish), ("subscribe", subscribe)] {
            if let Some(subjects) = subjects {
                settings["permissions"][what] = json!({ "allow": subjects });
            }
        }
        settings
    }

    /// The server trusts the operator, who has signed the accounts. It does not know the users.
    fn operator_settings(&self) -> Value {
        let claims = json!({ "type": "operator", "version": 2 });
        let operator = signed(&self.operator, &self.operator.public_key(), "operator", claims, None);
        let mut accounts = json!({});
        for (name, key) in &self.accounts {
            accounts[key.public_key()] = self.account_jwt(name, key, &["mem_storage", "disk_storage"]);
        }
        accounts[self.system.public_key()] = self.account_jwt("system", &self.system, &[]);
        json!({
            "operator": operator,
            "resolver": "MEMORY",
            "resolver_preload": accounts,
            "system_account": self.system.public_key(),
        })
    }

    /// Returns the JWT of an account without limits. It has a JetStream if `stored` names what that may use.
    fn account_jwt(&self, name: &str, key: &KeyPair, stored: &[&str]) -> Value {
        let limits = ["subs", "data", "payload", "imports", "exports", "conn", "leaf", "streams", "consumer"];
        let limits: Value = limits.iter().chain(stored).map(|limit| (*limit, -1)).collect();
        let claims = json!({ "type": "account", "version": 2, "limits": limits });
        json!(signed(&self.operator, &key.public_key(), name, claims, None))
    }

    pub(super) fn credentials(&self, name: &str, lifetime: Option<Duration>) -> String {
        assert_eq!(self.access, NatsAccess::Credentials, "its users have no credentials");
        let (user, key) = self.user(name);
        let allowed = |subjects: &Option<Vec<String>>| match subjects {
            Some(subjects) => json!({ "allow": subjects }),
            None => json!({}),
        };
        let claims = json!({
            "type": "user",
            "version": 2,
            "pub": allowed(&user.publish),
            "sub": allowed(&user.subscribe),
            "subs": -1,
            "data": -1,
            "payload": -1,
        });
        let jwt = signed(&self.accounts[&user.account], &key.public_key(), name, claims, lifetime);
        let seed = self.seed(name);
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }

    pub(super) fn seed(&self, name: &str) -> String {
        let has_keys = matches!(self.access, NatsAccess::Nkeys | NatsAccess::Credentials);
        assert!(has_keys, "its users have no keys");
        self.user(name).1.seed().expect("it has its private part")
    }

    fn user(&self, name: &str) -> &(NatsUser, KeyPair) {
        self.users.iter().find(|(user, _)| user.name == name).unwrap_or_else(|| panic!("no user is called {name}"))
    }
}

/// Returns a JWT as NATS wants it. Source: `ClaimsData` of nats-io/jwt, version 2.
fn signed(issuer: &KeyPair, subject: &str, name: &str, claims: Value, lifetime: Option<Duration>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    let mut payload = json!({
        "iat": now.as_secs(),
        "iss": issuer.public_key(),
        "name": name,
        "nats": claims,
        "sub": subject,
    });
    if let Some(lifetime) = lifetime {
        payload["exp"] = json!((now + lifetime).as_secs() + 1);
    }
    let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let text = format!("{}.{}", encoded(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), encoded(&payload));
    let signature = issuer.sign(text.as_bytes()).expect("it has its private part");
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}
