//! The admission plug-ins of Kubernetes that act here, in their order: they complete and check the writes of clients and guests.

use std::sync::Arc;

use homeostat_store::{Error as StoreError, Request, Store, Subresource, Write, WriteResponse};

use crate::dynamic_admission::{Addition, DynamicAdmission, Review, is_configuration};
use crate::namespaces::Namespaces;
use crate::new_resource::{NewResource, new_document};
use crate::priorities::{self, Priorities};
use crate::quotas::{self, Quotas};
use crate::service_addresses::ServiceAddresses;
use crate::{
    Error, Kinds, NamespacePolicy, Requester, Stores, certificate_subjects, default_classes, limit_ranges,
    pod_security, runtime_classes, service_accounts, topology,
};

/// The plug-ins that each write passes before the store decides it, with the state that they remember.
pub(crate) struct AdmissionChain {
    pub(crate) namespaces: Namespaces,
    pub(crate) priorities: Priorities,
    quotas: Quotas,
    service_addresses: ServiceAddresses,
    dynamic: DynamicAdmission,
}

/// How often webhooks see a write, while others write the same resource.
const TRIES_MAX: u32 = 16;

impl AdmissionChain {
    /// Returns the chain of a host with these stores.
    pub(crate) fn new(policy: NamespacePolicy, stores: &Stores) -> Self {
        Self {
            namespaces: Namespaces::new(policy, stores.clone()),
            priorities: Priorities::new(stores.clone()),
            quotas: Quotas::new(stores.clone()),
            service_addresses: ServiceAddresses::default(),
            dynamic: DynamicAdmission::new(stores.clone()),
        }
    }

    /// Checks the namespace of a write.
    ///
    /// # Errors
    /// [`Error::MissingNamespace`], [`Error::TerminatingNamespace`], [`Error::Forbidden`]; [`Error::Store`].
    pub(crate) async fn admit(&self, store: &dyn Store, kinds: &Kinds, write: &Write) -> Result<(), Error> {
        self.namespaces.check(store, kinds, write).await
    }

    /// Returns what a new pod gets: the amounts of its namespace, its priority, and the settings of its runtime class and of its
    /// service account. A claim of a volume and an ingress get the default class.
    ///
    /// # Errors
    /// [`Error::Forbidden`], also for a new claim of a volume and a request for a certificate; [`Error::Store`].
    async fn addition(&self, store: &dyn Store, kinds: &Kinds, write: &Write) -> Result<Addition, Error> {
        // Most writes are of a status.
        if !matches!(write, Write::Create { .. } | Write::Apply { .. }) {
            return Ok(Addition::Nothing);
        }
        let Ok(target) = write.target() else { return Ok(Addition::Nothing) };
        let resource = NewResource::new(store, kinds, &target);
        let is_completed = resource.is_pod
            || default_classes::is_classed(&target.kind)
            || target.kind.same_type(&certificate_subjects::requests());
        if !is_completed || !kinds.has_built_in_schema(&target.kind) {
            return Ok(Addition::Nothing);
        }
        let mut new = write.clone();
        let Some(document) = new_document(store, &mut new, &target).await? else { return Ok(Addition::Existing) };
        limit_ranges::admit(resource, document).await?;
        service_accounts::admit(resource, document).await?;
        self.priorities.set(resource, document).await?;
        default_classes::admit(resource, document).await?;
        runtime_classes::admit(resource, document).await?;
        certificate_subjects::admit(resource, document)?;
        topology::admit(resource, document).await?;
        Ok(if new == *write { Addition::Nothing } else { Addition::Fields(new) })
    }

    /// Completes an admitted write, lets webhooks change and refuse it, charges it to the quotas of its namespace, and writes.
    /// Without a requester no webhook sees it. The fields that the write gets here have no owner.
    ///
    /// A write of a kind that a plug-in remembers goes on when its client is gone: only after it the plug-in forgets.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a write that a webhook refuses; [`Error::Forbidden`] for one that another plug-in refuses;
    /// [`Error::Store`].
    pub(crate) async fn submit(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        kinds: &Kinds,
        request: Request,
        requester: Option<&Requester>,
    ) -> Result<WriteResponse, Error> {
        let name = request.write.target().ok().and_then(|target| target.name);
        let mut tries = TRIES_MAX;
        loop {
            // Again each time: the resource may have gone meanwhile.
            let addition = self.addition(&**store, kinds, &request.write).await?;
            let review = self.dynamic.review(&**store, kinds, &request, &addition, requester).await?;
            tries -= 1;
            let (admitted, unknown_fields) = match review {
                Review::Unmatched => return self.write(store, kinds, request, requester).await,
                Review::Unchanged(written) => return Ok(written),
                Review::Overtaken if tries > 0 => continue,
                Review::Overtaken => {
                    let reason = "others create and delete the resource at the same time";
                    return Err(StoreError::unavailable(reason).into());
                }
                Review::Admitted { request, unknown_fields } => (request, unknown_fields),
            };
            match self.write(store, kinds, admitted, requester).await {
                Err(Error::Store(error)) if tries > 0 && is_overtaken(&error, name.as_deref()) => {}
                written => return Ok(WriteResponse { unknown_fields, ..written? }),
            }
        }
    }

    /// Checks a write, if it changes a part of a pod, and writes. The store has what was checked afterwards, or nothing new.
    async fn write(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        kinds: &Kinds,
        request: Request,
        requester: Option<&Requester>,
    ) -> Result<WriteResponse, Error> {
        let Some(part @ (Subresource::Resize | Subresource::EphemeralContainers)) = request.subresource else {
            return self.write_checked(store, kinds, request, requester).await;
        };
        let target = request.write.target()?;
        let written = NewResource::new(&**store, kinds, &target);
        let mut tries = TRIES_MAX;
        loop {
            let pod = store.submit(Request { dry_run: true, ..request.clone() }).await?.resource;
            if part == Subresource::Resize {
                limit_ranges::admit_resize(written, &pod).await?;
            } else {
                service_accounts::admit_ephemeral_containers(written, &pod).await?;
            }
            let mut checked = request.clone();
            // A dry run has the revision of the pod before it.
            checked.write.require(pod.revision());
            tries -= 1;
            match self.write_checked(store, kinds, checked, requester).await {
                Err(Error::Store(StoreError::Conflict { .. })) if tries > 0 => {}
                written => return written,
            }
        }
    }

    /// Checks what the namespace allows and the addresses that a write chooses, charges it to the quotas of its namespace, and
    /// writes.
    async fn write_checked(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        kinds: &Kinds,
        request: Request,
        requester: Option<&Requester>,
    ) -> Result<WriteResponse, Error> {
        pod_security::admit(&**store, kinds, &request, requester).await?;
        let _turn = self.service_addresses.check(&**store, kinds, &request).await?;
        self.quotas.charge(&**store, kinds, &request).await?;
        let remembered = [priorities::classes(), quotas::quotas()];
        let target = request.write.target().ok();
        // A controller often writes the status of a quota, which nobody remembers.
        let is_remembered = target.is_some_and(|target| {
            is_configuration(&target.kind) || remembered.iter().any(|kind| target.kind.same_type(kind))
        });
        if request.write.is_of_status() || !is_remembered {
            return Ok(store.submit(request).await?);
        }
        let (chain, store) = (Arc::clone(self), Arc::clone(store));
        let written = tokio::spawn(async move {
            let response = store.submit(request).await;
            chain.priorities.forget();
            chain.quotas.forget();
            chain.dynamic.forget();
            response
        });
        Ok(written
            .await
            .map_err(|_| homeostat_store::Error::unavailable("the host ended before the store answered"))??)
    }
}

/// Returns whether others wrote the resource, or changed its definition, after webhooks saw a write. `name` is the name in
/// the write, if it has one: a webhook may give a new resource another one.
fn is_overtaken(error: &StoreError, name: Option<&str>) -> bool {
    match error {
        StoreError::AlreadyExists { key, .. } => name.is_none_or(|name| name == key.name()),
        StoreError::Conflict { .. } | StoreError::NotFound { .. } | StoreError::OtherVersion { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
