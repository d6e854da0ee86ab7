//! Controllers that other controllers create, by the grant `controllers`.
//!
//! A guest may get, apply and delete `Controller`s of granted names, as long as they bear the label
//! [`CREATED_BY`] with its own name, which the host sets. A created controller has no more rights than its creator:
//! [`Creator`] checks that before it is written, and again each time that its definition is installed. Of its document a guest
//! sees the names and numbers of the store, the labels and the status. Deliberately absent: creation by created
//! controllers, and other verbs.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::{
    Answer, Call, ControllerGrant, Effect, Effects, Grants, Limits, ResourceData, StoreError, WriteData,
};
use homeostat_store::{Error, Key, LabelRequirement, Query, Resource, ResourcePages, Selector, Store, View, Write};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::host_kinds::{CREATED_BY, controllers};
use crate::manifest::{ComponentSource, Spec, ValidSpec};

/// The rights of a controller that creates others.
pub(crate) struct Creator<'a> {
    pub(crate) name: &'a str,
    pub(crate) grants: &'a Grants,
    pub(crate) limits: &'a Limits,
}

impl Creator<'_> {
    /// Checks the definition of a controller that this one has created, or wants to create.
    ///
    /// # Errors
    /// The right that the creator lacks, for a person.
    pub(crate) fn check(&self, name: &str, source: &ComponentSource, checked: &ValidSpec) -> Result<(), String> {
        let Some(grant) = self.grants.controller_grant(name) else {
            return self.lacks(&format!("its grants `controllers` do not cover the name {name:?}"));
        };
        let ComponentSource { file, digest, oci } = source;
        if !grant.covers_component(file.as_deref(), digest.as_deref(), oci.as_deref()) {
            return self.lacks("its grants `controllers` do not cover the component");
        }
        if let Some(feeder) = checked.feeders.iter().find(|feeder| !feeder.source.is_clock()) {
            return self.lacks(&format!("the feeder {:?} has a source beside the clock", feeder.name));
        }
        self.check_rights(&checked.grants, &checked.limits)
    }

    /// Checks grants and limits alone.
    ///
    /// # Errors
    /// The right that the creator lacks, for a person.
    pub(crate) fn check_rights(&self, grants: &Grants, limits: &Limits) -> Result<(), String> {
        if !grants.controllers.is_empty() {
            return self.lacks("a created controller creates no others: remove spec.grants.controllers");
        }
        match self.grants.first_excess(grants) {
            Some(line) => self.lacks(&format!("its own grants do not include spec.grants.{line}")),
            None if !self.limits.includes(limits) => self.lacks("a limit of spec.limits is above its own"),
            None => Ok(()),
        }
    }

    fn lacks(&self, what: &str) -> Result<(), String> {
        Err(format!("controller {:?} created this one, and {what}", self.name))
    }
}

/// Returns the name of the controller that created one, if one did.
pub(crate) fn creator_of(resource: &Resource) -> Option<&str> {
    resource.label(CREATED_BY)
}

/// Reads the definition of a creator from the store.
///
/// # Errors
/// The reason for which it gives no rights to others, for a person; and those of the store.
pub(crate) async fn read_creator(
    store: &dyn Store,
    creator: &str,
) -> homeostat_store::Result<Result<ValidSpec, String>> {
    let resource = match store.get(&Key::new(controllers(), "", creator)).await {
        Ok(resource) => resource,
        Err(Error::NotFound { .. }) => {
            return Ok(Err(format!("controller {creator:?}, which created this one, is gone")));
        }
        Err(error) => return Err(error),
    };
    if resource.is_deleting() || creator_of(&resource).is_some() {
        return Ok(Err(format!("controller {creator:?}, which created this one, may create none")));
    }
    let read = read_spec(&resource.document()["spec"]);
    let invalid = |reason| format!("the spec of controller {creator:?}, which created this one, is invalid: {reason}");
    Ok(read.map(|(_, checked)| checked).map_err(invalid))
}

/// Parses and checks a spec.
///
/// # Errors
/// What is wrong, for a person.
fn read_spec(document: &Value) -> Result<(Spec, ValidSpec), String> {
    let spec = Spec::deserialize(document).map_err(|error| format!("spec: {error}"))?;
    let checked =
        spec.check().map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    Ok((spec, checked))
}

/// Performs the effects of a guest on the controllers that it has created, and passes all others to the layers that
/// check grants of resources.
pub(crate) struct CreatedControllers<G, W> {
    name: String,
    grants: Grants,
    limits: Limits,
    store: Arc<dyn Store>,
    granted: G,
    world: W,
    /// Makes creations one after another, so that their number is exact.
    creation: Mutex<()>,
}

impl<G: Effects, W: Effects> CreatedControllers<G, W> {
    /// Puts the checks before `granted`, which gets all other effects, and `world`, which carries out the checked ones.
    pub(crate) fn new(creator: &Creator<'_>, store: Arc<dyn Store>, granted: G, world: W) -> Self {
        let Creator { name, grants, limits } = *creator;
        let (name, grants, limits) = (name.to_owned(), grants.clone(), limits.clone());
        Self { name, grants, limits, store, granted, world, creation: Mutex::default() }
    }

    fn grant(&self, name: &str) -> Result<&ControllerGrant, StoreError> {
        let reason = || format!("no line of spec.grants.controllers covers the controller {name:?}");
        self.grants.controller_grant(name).ok_or_else(|| StoreError::Forbidden(reason()))
    }

    /// Returns the controller of a name if it exists and this one has created it; `None` if it does not exist.
    async fn created(&self, name: &str) -> Result<Option<Arc<Resource>>, StoreError> {
        match self.store.get(&Key::new(controllers(), "", name)).await {
            Ok(resource) if creator_of(&resource) == Some(&*self.name) => Ok(Some(resource)),
            Ok(_) => Err(StoreError::Forbidden(format!("this controller has not created the controller {name:?}"))),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn get(&self, call: &Call, key: Key, view: View, live: bool) -> Result<Answer, StoreError> {
        self.grant(key.name())?;
        self.created(key.name()).await?;
        let answer = self.world.perform(call, Effect::Get { key, view, live }).await;
        Ok(match answer {
            Answer::Resource(Ok(resource)) => Answer::Resource(Ok(reduced(resource))),
            other => other,
        })
    }

    async fn apply(&self, call: &Call, name: &str, mut write: Write) -> Result<Answer, StoreError> {
        let grant = self.grant(name)?;
        if let Write::Apply { document, .. } = &mut write {
            self.check_document(name, document)?;
        }
        let _creation = self.creation.lock().await;
        if self.created(name).await?.is_none() && self.count(grant).await? >= grant.max {
            let reason = format!("{} controllers of this grant exist, and `max` allows no more", grant.max);
            return Err(StoreError::Forbidden(reason));
        }
        Ok(self.write(call, write).await)
    }

    async fn delete(&self, call: &Call, name: &str, write: Write) -> Result<Answer, StoreError> {
        self.grant(name)?;
        self.created(name).await?;
        Ok(self.write(call, write).await)
    }

    async fn write(&self, call: &Call, write: Write) -> Answer {
        match self.world.perform(call, Effect::Write(write)).await {
            Answer::Written(Ok(WriteData { resource, change })) => {
                Answer::Written(Ok(WriteData { resource: reduced(resource), change }))
            }
            other => other,
        }
    }

    /// Checks the applied document by itself, and labels it.
    fn check_document(&self, name: &str, document: &mut Value) -> Result<(), StoreError> {
        let invalid = |reason: String| StoreError::Invalid(reason);
        let (spec, checked) = read_spec(&document["spec"]).map_err(invalid)?;
        let own = Creator { name: &self.name, grants: &self.grants, limits: &self.limits };
        own.check(name, &spec.component, &checked).map_err(StoreError::Forbidden)?;
        let metadata = document["metadata"].as_object_mut().ok_or_else(|| invalid("metadata: must be set".into()))?;
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        let labels = labels.as_object_mut().ok_or_else(|| invalid("metadata.labels: must be an object".into()))?;
        labels.insert(CREATED_BY.to_owned(), self.name.as_str().into());
        Ok(())
    }

    /// Returns how many controllers of a grant exist.
    async fn count(&self, grant: &ControllerGrant) -> Result<u32, StoreError> {
        let own = LabelRequirement::Equals(CREATED_BY.to_owned(), self.name.clone());
        let selector = Selector { labels: vec![own], ..Selector::default() };
        let query = Query { selector, view: View::Keys, ..Query::all(controllers()) };
        let (mut pages, mut count) = (ResourcePages::new(&*self.store, query), 0);
        while let Some(page) = pages.next_page().await? {
            count += page.iter().filter(|resource| grant.covers_name(resource.key().name())).count();
        }
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    async fn perform_own(&self, call: &Call, effect: Effect) -> Result<Answer, StoreError> {
        match effect {
            Effect::Get { key, view, live } => self.get(call, key, view, live).await,
            Effect::Write(write @ Write::Apply { .. }) => {
                let name = write.target()?.name.unwrap_or_default();
                self.apply(call, &name, write).await
            }
            Effect::Write(write @ Write::Delete { .. }) => {
                let name = write.target()?.name.unwrap_or_default();
                self.delete(call, &name, write).await
            }
            _ => {
                Err(StoreError::Forbidden("a guest may get, apply and delete controllers, and nothing else".to_owned()))
            }
        }
    }
}

#[async_trait]
impl<G: Effects, W: Effects> Effects for CreatedControllers<G, W> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        // Without such a grant, the refusal is that of a reserved kind.
        if self.grants.controllers.is_empty() || !is_about_controllers(&effect) {
            return self.granted.perform(call, effect).await;
        }
        let refusal: fn(StoreError) -> Answer = match &effect {
            Effect::Get { .. } => |error| Answer::Resource(Err(error)),
            Effect::List { .. } => |error| Answer::Page(Err(error)),
            Effect::Write(_) => |error| Answer::Written(Err(error)),
            _ => |error| Answer::Done(Err(error)),
        };
        self.perform_own(call, effect).await.unwrap_or_else(refusal)
    }
}

fn is_about_controllers(effect: &Effect) -> bool {
    let controllers = controllers();
    match effect {
        Effect::Get { key, .. } | Effect::Follow { target: key } => key.kind().same_type(&controllers),
        Effect::List { query, .. } => query.kind.same_type(&controllers),
        Effect::FollowAll { kind, .. } => kind.same_type(&controllers),
        Effect::Write(write) => write.target().is_ok_and(|target| target.kind.same_type(&controllers)),
        _ => false,
    }
}

/// Returns what a guest may see of a controller that it has created. The spec may have values of headers.
fn reduced(resource: ResourceData) -> ResourceData {
    let Ok(document) = serde_json::from_str::<Value>(&resource.json) else { return resource };
    let mut metadata = document["metadata"].clone();
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.retain(|field, _| !matches!(field.as_str(), "annotations" | "managedFields"));
    }
    let mut shown = json!({"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata});
    if let Some(status) = document.get("status") {
        shown["status"] = status.clone();
    }
    ResourceData { json: shown.to_string(), ..resource }
}

#[cfg(test)]
mod tests;
