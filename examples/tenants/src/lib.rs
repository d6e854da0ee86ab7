//! A cluster-scoped kind with namespaced parts: a `Tenant` has one `Quota` in each namespace that it names.
//!
//! The host knows the scopes of both kinds. A change of a quota in any namespace queues the tenant's key,
//! which has no namespace. The quotas of a deleted tenant are garbage-collected in all namespaces.

use homeostat_sdk::prelude::*;

/// A team that shares the machines with others.
#[derive(Serialize, Deserialize)]
struct Tenant {
    /// The namespaces of the tenant.
    namespaces: Vec<String>,
    /// The number of pods allowed in each of them.
    pods: u64,
}

#[derive(Serialize, Deserialize)]
struct TenantStatus {
    /// The number of quotas.
    quotas: usize,
}

impl Kind for Tenant {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Tenant";
    const PLURAL: &str = "tenants";
    const NAMESPACED: bool = false;
    type Status = TenantStatus;
}

/// The allowance of a tenant in one namespace.
#[derive(Serialize, Deserialize)]
struct Quota {
    pods: u64,
}

impl Kind for Quota {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Quota";
    const PLURAL: &str = "quotas";
    type Status = ();
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
