//! Who sends a request: name, groups and rights. Pure.
//!
//! Source: `user.Info` of Kubernetes' apiserver.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::rbac::PolicyRule;

/// The group of all callers that are authenticated.
const AUTHENTICATED: &str = "system:authenticated";
/// The user, and the group, of a caller that is not authenticated.
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of all service accounts.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The access that a token grants.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Read everything, change nothing.
    Read,
    /// Everything.
    Write,
}

impl Access {
    /// Returns the rule that the short form stands for.
    pub(crate) fn rule(self) -> PolicyRule {
        PolicyRule::everywhere(match self {
            Self::Read => &["get", "list", "watch", "head", "options"],
            Self::Write => &["*"],
        })
    }
}

/// The sender of a request, or the user as whom it acts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Caller {
    /// The user, as stored bindings name it.
    pub(crate) name: String,
    /// The uid of a service account.
    pub(crate) uid: Option<String>,
    /// The groups, as stored bindings name them.
    pub(crate) groups: Vec<String>,
    /// Further facts, such as the pod of a service account's token.
    pub(crate) extra: BTreeMap<String, Vec<String>>,
    /// The short form of rights; `None` if rules and stored bindings alone give them.
    pub(crate) access: Option<Access>,
    /// The rules of the token, with that of the short form.
    pub(crate) rules: Vec<PolicyRule>,
}

impl Caller {
    /// Returns the caller that is a service account.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: service_account_user(namespace, name),
            groups: vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")],
            ..Self::default()
        }
    }

    /// Returns all groups: those that are named, and the one of each caller that is authenticated.
    pub(crate) fn all_groups(&self) -> impl Iterator<Item = &str> {
        let is_named = |group: &str| self.groups.iter().any(|named| named == group);
        let further = match self.name.as_str() {
            ANONYMOUS => UNAUTHENTICATED,
            _ if is_named(UNAUTHENTICATED) => UNAUTHENTICATED,
            _ => AUTHENTICATED,
        };
        let further = Some(further).filter(|group| !is_named(group));
        self.groups.iter().map(String::as_str).chain(further)
    }

    /// Returns whether it is known who the caller is.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.all_groups().any(|group| group == AUTHENTICATED)
    }

    /// Returns whether the caller has the rights of all service accounts.
    pub(crate) fn is_service_account(&self) -> bool {
        self.groups.iter().any(|group| group == SERVICE_ACCOUNTS)
    }

    /// Returns the `UserInfo` of Kubernetes.
    pub(crate) fn user_info(&self) -> Value {
        let groups: Vec<&str> = self.all_groups().collect();
        let mut info = json!({ "username": self.name, "groups": groups });
        if let Some(uid) = &self.uid {
            info["uid"] = uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }

    /// Returns a caller with the short form of rights.
    #[cfg(test)]
    pub(crate) fn with(name: &str, access: Access) -> Self {
        Self { name: name.to_owned(), access: Some(access), rules: vec![access.rule()], ..Self::default() }
    }
}

/// Returns the user that a service account is.
pub(crate) fn service_account_user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Returns namespace and name of the service account that a user is; `None` if it is none.
pub(crate) fn service_account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}
