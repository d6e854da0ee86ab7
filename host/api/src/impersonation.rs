//! Impersonation: a request that acts as another user, where its sender has the verb `impersonate` on that user.
//!
//! Source: `pkg/endpoints/filters/impersonation` of Kubernetes' apiserver.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::caller::{Caller, service_account_of};
use crate::rbac::{Attributes, Subject};
use crate::status::Failure;

/// How the names of all these headers begin.
const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The group of uids and of further facts.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Returns whether a header says as whom a request acts.
pub(crate) fn is_header(name: &HeaderName) -> bool {
    name.as_str().starts_with(PREFIX)
}

/// Returns the user as whom a request acts; `None` if it acts as its sender. `check` refuses what the sender may not do.
pub(crate) fn user(
    headers: &HeaderMap,
    check: impl Fn(&Attributes<'_>) -> Result<(), Failure>,
) -> Result<Option<Caller>, Failure> {
    let Some(name) = headers.get(USER).map(text).transpose()?.filter(|name| !name.is_empty()) else {
        let is_further = headers.keys().any(|name| is_header(name) && name.as_str() != USER);
        return match is_further {
            true => Err(Failure::bad_request("requested impersonation without impersonating a user")),
            false => Ok(None),
        };
    };
    let mut caller = match service_account_of(name) {
        Some((namespace, account)) => {
            check(&attributes("", "serviceaccounts", None, Some(namespace), account))?;
            Caller::service_account(namespace, account)
        }
        None => {
            check(&attributes("", "users", None, None, name))?;
            Caller { name: name.to_owned(), ..Caller::default() }
        }
    };
    let groups = headers.get_all(GROUP).iter().map(text).collect::<Result<Vec<_>, _>>()?;
    for group in &groups {
        check(&attributes("", "groups", None, None, group))?;
    }
    if !groups.is_empty() {
        caller.groups = groups.into_iter().map(str::to_owned).collect();
    }
    for (header, value) in headers {
        let Some(key) = header.as_str().strip_prefix(EXTRA) else { continue };
        let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
        let value = text(value)?;
        check(&attributes(AUTHENTICATION, "userextras", Some(&key), None, value))?;
        caller.extra.entry(key).or_default().push(value.to_owned());
    }
    if let Some(uid) = headers.get(UID).map(text).transpose()?.filter(|uid| !uid.is_empty()) {
        check(&attributes(AUTHENTICATION, "uids", None, None, uid))?;
        caller.uid = Some(uid.to_owned());
    }
    Ok(Some(caller))
}

fn attributes<'r>(
    group: &'r str,
    plural: &'r str,
    subresource: Option<&'r str>,
    namespace: Option<&'r str>,
    name: &'r str,
) -> Attributes<'r> {
    let about = Subject::Resource { group, plural, subresource, namespace, name: Some(name) };
    Attributes { verb: "impersonate", about }
}

fn text(value: &HeaderValue) -> Result<&str, Failure> {
    value
        .to_str()
        .map_err(|_| Failure::bad_request("a header of an impersonation has other characters than those of ASCII"))
}

#[cfg(test)]
mod tests;
