//! A cluster-scoped kind with namespaced parts: a `Tenant` has one `Quota` in each namespace that it names.
//!
//! The host knows the scopes of both kinds. A change of a quota in any namespace queues the tenant's key,
//! which has no namespace. The quotas of a deleted tenant are garbage-collected in all namespaces.

use homeostat_sdk::prelude::*;

/// A team that shares the machines with others.
#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "demo.homeostat.dev", version = "v1", scope = "Cluster", status = TenantStatus)]
#[resource(printcolumn(name = "Quotas", type = "integer", json_path = ".status.quotas"))]
#[resource(printcolumn(name = "Age", type = "date", json_path = ".metadata.creationTimestamp"))]
struct Tenant {
    /// The namespaces of the tenant.
    namespaces: Vec<String>,
    /// The number of pods allowed in each of them.
    pods: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct TenantStatus {
    /// The number of quotas.
    quotas: usize,
}

/// The allowance of a tenant in one namespace.
#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "demo.homeostat.dev", version = "v1")]
struct Quota {
    pods: u64,
}

struct Tenants;

impl Reconciler for Tenants {
    fn describe() -> Spec {
        Spec::manages::<Tenant>().owns::<Quota>().ignore_status()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut tenant) = Tenant::get_opt(&key)? else {
            // The host garbage-collects its quotas, which name it as their owner.
            return Ok(Outcome::settled());
        };
        for namespace in &tenant.spec.namespaces {
            Resource::new(namespace, &key.name, Quota { pods: tenant.spec.pods }).owned_by(&tenant).apply_by_force()?;
        }
        let quotas = Quota::list(Selector::everything().owned_by(&tenant)).all()?;
        let (wanted, gone): (Vec<_>, Vec<_>) =
            quotas.into_iter().partition(|quota| tenant.spec.namespaces.contains(&quota.metadata.namespace));
        for quota in gone {
            quota.delete()?;
        }
        tenant.set_status(TenantStatus { quotas: wanted.len() })?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Tenants);

#[cfg(test)]
mod tests;
