//! The validating policies that match a write: their parameters, and what follows from their violations.

use std::sync::Arc;

use homeostat_store::{Kind, Query, Resource, ResourcePages, Selector, Store};
use serde_json::Value;

use super::expressions::Inputs;
use super::invocation::Invoker;
use super::policy::{Binding, ParamRef, ValidatingPolicy, Violation};
use super::review;
use super::reviewed_write::ReviewedWrite;
use crate::Error;
use crate::error::found;

/// Most parameters of a binding that one write reads.
const PARAMS_MAX: usize = 1000;

/// A violation, with the policy and the binding that found it.
struct Finding {
    policy: String,
    binding: Option<String>,
    violation: Violation,
}

impl Finding {
    fn of_policy(policy: &ValidatingPolicy, binding: Option<&Binding>, violation: Violation) -> Self {
        Self { policy: policy.name.clone(), binding: binding.map(|binding| binding.name.clone()), violation }
    }

    fn message(&self) -> String {
        let Self { policy, binding, violation } = self;
        match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}",
                violation.message
            ),
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {}", violation.message),
        }
    }
}

/// Validates a write by the policies that match it.
///
/// # Errors
/// [`Error::Rejected`] for the first violation of which a binding says that it denies; [`Error::Store`].
pub(super) async fn enforce(
    store: &dyn Store,
    invoker: &Invoker<'_>,
    policies: &[Arc<ValidatingPolicy>],
    write: &ReviewedWrite,
) -> Result<(), Error> {
    let mut denied: Option<Finding> = None;
    for policy in policies {
        let Some(version) = policy.constraints.version_for(write, invoker.namespace_of(write)) else { continue };
        let kind = Kind::new(&write.kind.group, version, &write.kind.name);
        let request = Arc::new(invoker.request(write, &kind, "").await?);
        for binding in &policy.bindings {
            if binding.constraints.version_for(write, invoker.namespace_of(write)).is_none() {
                continue;
            }
            let params = match params(store, invoker, policy, binding, write).await? {
                Ok(params) => params,
                Err(reason) => {
                    let message = format!("failed to configure binding: {reason}");
                    let failed = policy.failed(message, true);
                    denied = denied.or(failed.map(|violation| Finding::of_policy(policy, Some(binding), violation)));
                    continue;
                }
            };
            for violation in violations(invoker, policy, write, &request, params).await? {
                if binding.warns && !violation.is_fatal {
                    invoker.requester.warn(&format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, violation.message
                    ));
                }
                if binding.denies || violation.is_fatal {
                    denied.get_or_insert_with(|| Finding::of_policy(policy, Some(binding), violation));
                }
            }
        }
    }
    match denied {
        Some(finding) => {
            let reason = finding.violation.reason.as_deref().unwrap_or("Invalid");
            Err(Error::Rejected(Box::new(review::violated(write, &finding.message(), reason))))
        }
        None => Ok(()),
    }
}

/// Evaluates a policy with each parameter, on a thread that may block.
async fn violations(
    invoker: &Invoker<'_>,
    policy: &Arc<ValidatingPolicy>,
    write: &ReviewedWrite,
    request: &Arc<Value>,
    params: Vec<Option<Arc<Resource>>>,
) -> Result<Vec<Violation>, Error> {
    // As in Kubernetes, a namespace has no namespace of its own here.
    let namespace = invoker.namespace.clone().filter(|_| !write.is_of_namespace());
    let (policy, request) = (Arc::clone(policy), Arc::clone(request));
    let evaluated = tokio::task::spawn_blocking(move || {
        let namespace = namespace.as_ref().map_or(&Value::Null, |namespace| namespace.document());
        let of_params = |params: &Option<Arc<Resource>>| {
            let params = params.as_ref().map_or(&Value::Null, |params| params.document());
            policy.violations(Inputs { request: &request, params, namespace })
        };
        params.iter().flat_map(of_params).collect()
    });
    Ok(evaluated.await.map_err(homeostat_store::Error::unavailable)?)
}

/// Returns the parameters of a binding; `None` stands for none. The inner error says why the policy cannot be evaluated.
async fn params(
    store: &dyn Store,
    invoker: &Invoker<'_>,
    policy: &ValidatingPolicy,
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
        let key = homeostat_store::Key::new(kind.clone(), &namespace, name);
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
