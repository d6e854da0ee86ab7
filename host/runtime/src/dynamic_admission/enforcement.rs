//! Refuses the writes that violate validating policies, or warns about them.

use std::sync::Arc;

use homeostat_store::{Resource, Store};
use serde_json::Value;

use super::expressions::Inputs;
use super::invocation::Invoker;
use super::policy::Binding;
use super::policy_matches::{PolicyMatch, policy_matches};
use super::review;
use super::reviewed_write::ReviewedWrite;
use super::validating_policy::{ValidatingPolicy, Violation};
use crate::Error;

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
    let mut denial: Option<(String, Violation)> = None;
    for PolicyMatch { policy, binding, kind, params } in policy_matches(store, invoker, policies, write).await? {
        let found = match params {
            Ok(params) => {
                let request = invoker.request(write, &kind, "").await?;
                violations(invoker, policy, write, request, params).await?
            }
            Err(reason) => policy.failed(reason, true).into_iter().collect(),
        };
        for violation in found {
            if binding.warns && !violation.is_fatal {
                invoker.requester.warn(&format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.policy.name, binding.name, violation.message
                ));
            }
            if binding.denies || violation.is_fatal {
                denial.get_or_insert_with(|| (denied(policy, binding, &violation), violation));
            }
        }
    }
    match denial {
        Some((message, violation)) => {
            let reason = violation.reason.as_deref().unwrap_or("Invalid");
            Err(Error::Rejected(Box::new(review::violated(write, &message, reason))))
        }
        None => Ok(()),
    }
}

fn denied(policy: &ValidatingPolicy, binding: &Binding, violation: &Violation) -> String {
    let (policy, binding) = (&policy.policy.name, &binding.name);
    format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}", violation.message)
}

/// Evaluates a policy with each parameter, on a thread that may block.
async fn violations(
    invoker: &Invoker<'_>,
    policy: &Arc<ValidatingPolicy>,
    write: &ReviewedWrite,
    request: Value,
    params: Vec<Option<Arc<Resource>>>,
) -> Result<Vec<Violation>, Error> {
    let namespace = invoker.namespace_object(write);
    let policy = Arc::clone(policy);
    let evaluated = tokio::task::spawn_blocking(move || {
        let of_params = |params: &Option<Arc<Resource>>| {
            policy.violations(Inputs::new(&request, params.as_deref(), namespace.as_deref()))
        };
        params.iter().flat_map(of_params).collect()
    });
    Ok(evaluated.await.map_err(homeostat_store::Error::unavailable)?)
}
