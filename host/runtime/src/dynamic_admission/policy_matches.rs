//! The policies that match a write, with their bindings and parameters.

use std::sync::Arc;

use homeostat_store::{Key, Kind, Query, Resource, ResourcePages, Selector, Store};

use super::invocation::Invoker;
use super::policy::{Binding, ParamRef, Policy};
use super::reviewed_write::ReviewedWrite;
use crate::Error;
use crate::error::found;

/// Most parameters of a binding that one write reads.
const PARAMS_MAX: usize = 1000;

/// A policy and one of its bindings that match a write.
pub(super) struct PolicyMatch<'p, P> {
    pub(super) policy: &'p Arc<P>,
    pub(super) binding: &'p Binding,
    /// The kind in the version in which the policy sees the write.
    pub(super) kind: Kind,
    /// The parameters, of which `None` stands for none; or why the binding cannot act.
    pub(super) params: Result<Vec<Option<Arc<Resource>>>, String>,
}

/// Returns the policies that match a write, ordered by their names.
///
/// # Errors
/// Those of the store.
pub(super) async fn policy_matches<'p, P: AsRef<Policy>>(
    store: &dyn Store,
    invoker: &Invoker<'_>,
    policies: &'p [Arc<P>],
    write: &ReviewedWrite,
) -> Result<Vec<PolicyMatch<'p, P>>, Error> {
    let mut matches = Vec::new();
    let namespace = invoker.namespace_of(write);
    for policy in policies {
        let common: &Policy = (**policy).as_ref();
        let Some(version) = common.constraints.version_for(write, namespace) else { continue };
        let kind = Kind::new(&write.kind.group, version, &write.kind.name);
        for binding in &common.bindings {
            if binding.constraints.version_for(write, namespace).is_none() {
                continue;
            }
            let params = params(store, invoker, common, binding, write).await?;
            let params = params.map_err(|reason| format!("failed to configure binding: {reason}"));
            matches.push(PolicyMatch { policy, binding, kind: kind.clone(), params });
        }
    }
    Ok(matches)
}

/// Returns the parameters of a binding; `None` stands for none. The inner error says why the policy cannot be evaluated.
async fn params(
    store: &dyn Store,
    invoker: &Invoker<'_>,
    policy: &Policy,
    binding: &Binding,
    write: &ReviewedWrite,
) -> Result<Result<Vec<Option<Arc<Resource>>>, String>, Error> {
    let (Some(kind), Some(named)) = (&policy.params, &binding.params) else { return Ok(Ok(vec![None])) };
    let Some(info) = invoker.kinds.served(kind) else {
        return Ok(Err(format!("paramKind kind `{kind}` not known")));
    };
    let namespace = match (&named.namespace, info.namespaced) {
        (Some(_), false) => {
            return Ok(Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()));
        }
        (None, false) => String::new(),
        (Some(namespace), true) => namespace.clone(),
        (None, true) if write.namespace.is_empty() => {
            let reason = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Ok(Err(reason.to_owned()));
        }
        (None, true) => write.namespace.clone(),
    };
    let found = read(store, &info.kind, namespace, named).await?;
    if found.len() > PARAMS_MAX {
        return Ok(Err(format!("the binding has more than {PARAMS_MAX} parameters")));
    }
    if found.is_empty() && named.must_exist {
        let reason = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Ok(Err(reason.to_owned()));
    }
    Ok(Ok(found.into_iter().map(Some).collect()))
}

/// Reads parameters, and stops above [`PARAMS_MAX`].
async fn read(
    store: &dyn Store,
    kind: &Kind,
    namespace: String,
    named: &ParamRef,
) -> Result<Vec<Arc<Resource>>, Error> {
    if let Some(name) = &named.name {
        let key = Key::new(kind.clone(), &namespace, name);
        return Ok(found(store.get(&key).await)?.into_iter().collect());
    }
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let selector = Selector { namespace, ..named.selector.clone().unwrap_or_default() };
    let mut pages = ResourcePages::new(store, Query { selector, ..Query::all(kind.clone()) });
    let mut all = Vec::new();
    while let Some(page) = pages.next_page().await? {
        all.extend(page.iter().cloned());
        if all.len() > PARAMS_MAX {
            break;
        }
    }
    Ok(all)
}
