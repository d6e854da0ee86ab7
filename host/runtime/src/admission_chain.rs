//! The admission plug-ins of Kubernetes that act here, in their order: they complete and check the writes of clients and guests.

use std::sync::Arc;

use homeostat_store::{Request, Store, Write, WriteResponse};

use crate::namespaces::Namespaces;
use crate::new_resource::new_document;
use crate::priorities::{self, Priorities};
use crate::quotas::{self, Quotas};
use crate::{Error, Kinds, limit_ranges};

/// The plug-ins that each write passes before the store decides it, with the state that they remember.
pub(crate) struct AdmissionChain {
    pub(crate) namespaces: Namespaces,
    pub(crate) priorities: Priorities,
    quotas: Quotas,
}

impl AdmissionChain {
    pub(crate) fn new(namespaces: Namespaces, priorities: Priorities, quotas: Quotas) -> Self {
        Self { namespaces, priorities, quotas }
    }

    /// Checks the namespace of a write, and gives a new pod its priority and the amounts of its namespace.
    ///
    /// # Errors
    /// [`Error::MissingNamespace`], [`Error::TerminatingNamespace`], [`Error::Forbidden`]; [`Error::Store`].
    pub(crate) async fn admit(&self, store: &dyn Store, kinds: &Kinds, write: &mut Write) -> Result<(), Error> {
        self.namespaces.check(store, kinds, write).await?;
        // Most writes are of a status.
        if !matches!(write, Write::Create { .. } | Write::Apply { .. }) {
            return Ok(());
        }
        let Ok(target) = write.target() else { return Ok(()) };
        let completed = [priorities::pods(), limit_ranges::claims()];
        let is_completed = completed.iter().any(|kind| target.kind.same_type(kind));
        if !is_completed || !kinds.has_built_in_schema(&target.kind) {
            return Ok(());
        }
        let Some(document) = new_document(store, write, &target).await? else { return Ok(()) };
        self.priorities.set(store, kinds, &target, document).await?;
        limit_ranges::admit(store, kinds, &target, document).await
    }

    /// Charges an admitted write to the quotas of its namespace, and writes.
    ///
    /// A write of a kind that a plug-in remembers goes on when its client is gone: only after it the plug-in forgets.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a write that exceeds a quota; [`Error::Store`].
    pub(crate) async fn submit(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        kinds: &Kinds,
        request: Request,
    ) -> Result<WriteResponse, Error> {
        self.quotas.charge(&**store, kinds, &request).await?;
        let remembered = [priorities::classes(), quotas::quotas()];
        let target = request.write.target().ok();
        // A controller often writes the status of a quota, which nobody remembers.
        let is_of_status =
            matches!(request.write, Write::UpdateStatus { .. } | Write::PatchStatus { .. } | Write::ApplyStatus { .. });
        let is_remembered = target.is_some_and(|target| remembered.iter().any(|kind| target.kind.same_type(kind)));
        if is_of_status || !is_remembered {
            return Ok(store.submit(request).await?);
        }
        let (chain, store) = (Arc::clone(self), Arc::clone(store));
        let written = tokio::spawn(async move {
            let response = store.submit(request).await;
            chain.priorities.forget();
            chain.quotas.forget();
            response
        });
        Ok(written
            .await
            .map_err(|_| homeostat_store::Error::unavailable("the host ended before the store answered"))??)
    }
}
