//! The checks that a definition, and every write to the store, passes first.

use std::sync::Arc;

use homeostat_builtin::autoscaler;
use homeostat_component::Severity;
use homeostat_store::{Request, Resource, Target, Write, WriteResponse};
use serde_json::Value;

use crate::context::Context;
use crate::kinds::{kind_of, place};
use crate::listing::for_each_listed;
use crate::{Definition, Error, KindInfo, Requester, controller_reconciler, declarations, definitions, host_kinds};

impl Context {
    /// Checks that the grants of a definition cover the watches that its component requires, and declares the
    /// kinds that it names. The keys of its feeders must fit the managed kind. Every definition passes this check
    /// before it runs.
    ///
    /// # Errors
    /// [`Error::ReservedKind`], [`Error::Refused`], [`Error::Feeder`], and those of [`Context::declare`].
    pub(crate) async fn admit(&self, definition: &Definition) -> Result<(), Error> {
        let spec = definition.component.describe();
        declarations::check_owner(spec)?;
        definition.grants.check_watches(spec)?;
        definition.feeders.iter().try_for_each(|feeder| feeder.check(&spec.manages))?;
        self.declare(&definition.name, spec, &definition.required_kinds).await
    }

    /// Declares the kinds of the store: those of definitions, and those that components have declared before.
    pub(crate) async fn declare_stored(&self) -> Result<(), Error> {
        let mut stored = Vec::new();
        let kind = definitions::definitions();
        for_each_listed(&*self.store, &kind, |resource| stored.push(Arc::clone(resource))).await?;
        for definition in stored {
            if !self.declare_far(&definition) {
                self.declare_definition(&definition).await?;
            }
        }
        self.declare_kept().await
    }

    /// Declares the kind of a definition if its resources live in another store than the host's own, which a
    /// starting host does not wait for: the task of the definition rewrites them later. Returns whether they do.
    fn declare_far(&self, definition: &Resource) -> bool {
        let Ok(info) = KindInfo::from_definition(definition.document()) else { return false };
        let is_far = self.stores.is_far(&info.kind);
        if is_far && let Err(error) = self.kinds.declare(info) {
            self.report_bad_definition(definition, &error);
        }
        is_far
    }

    fn report_bad_definition(&self, definition: &Resource, error: &Error) {
        let key = Some(definition.key().clone());
        self.event(&"homeostat".into(), key, Severity::Warning, "BadDefinition", &error.to_string());
    }

    /// Declares the kind of a definition and returns whether that worked. An invalid definition is reported
    /// in an event; it can still be repaired.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn declare_definition(&self, definition: &Resource) -> homeostat_store::Result<bool> {
        match definitions::declare(&*self.store, &self.kinds, definition).await {
            Ok(()) => Ok(true),
            Err(Error::Store(error)) => Err(error),
            Err(error) => {
                self.report_bad_definition(definition, &error);
                Ok(false)
            }
        }
    }

    /// Applies a document, after checking that its kind is served in this version. A
    /// `CustomResourceDefinition` declares its kind.
    pub(crate) async fn apply(&self, mut document: Value, manager: &str, force: bool) -> Result<WriteResponse, Error> {
        let is_built_in = self.kinds.has_built_in_schema(&autoscaler::kind());
        if is_built_in && kind_of(&document)? == autoscaler::kind() {
            document = autoscaler::to_v2(document);
        }
        let kind = kind_of(&document)?;
        let info = self
            .kinds
            .served(&kind)
            .ok_or_else(|| Error::UnknownKind { kind: kind.to_string(), similar: self.kinds.similar(&kind.name) })?;
        place(&mut document, &info)?;
        self.submit(Write::Apply { document, manager: manager.into(), force }.into()).await
    }

    /// Writes to the store on behalf of the program around the host.
    pub(crate) async fn submit(&self, request: Request) -> Result<WriteResponse, Error> {
        self.submit_as(request, Some(&Requester::host())).await
    }

    /// Writes to the store. A write to a `CustomResourceDefinition` declares its kind, unless it writes the
    /// status. A `Controller` is validated first. Only the host writes `KindDeclaration`s and `Host`s. Without a requester, no
    /// webhook sees the write.
    pub(crate) async fn submit_as(
        &self,
        request: Request,
        requester: Option<&Requester>,
    ) -> Result<WriteResponse, Error> {
        let Ok(Target { kind, .. }) = request.write.target() else {
            // The store says what else is wrong with a document that does not name its resource.
            return Ok(self.store.submit(request).await?);
        };
        if host_kinds::is_written_by_host_alone(&kind) {
            return Err(Error::ReadOnlyKind(kind.to_string()));
        }
        self.admission.admit(&*self.store, &self.kinds, &request.write).await?;
        let write = &request.write;
        if definitions::declares(write)? {
            return definitions::write(&*self.store, &self.kinds, request).await;
        }
        let changes_spec =
            matches!(write, Write::Create { .. } | Write::Update { .. } | Write::Patch { .. } | Write::Apply { .. });
        if changes_spec && kind.same_type(&host_kinds::controllers()) {
            return controller_reconciler::write(&*self.store, self.code.get(), request).await;
        }
        self.admission.submit(&self.converting, &self.kinds, request, requester).await
    }
}

#[cfg(test)]
mod tests;
