//! Kinds declared by components, kept in the store: a kind outlives the code that declared it.
//!
//! A component names its kinds in `describe`. Each is stored as a [`KindDeclaration`](host_kinds::declarations) before any
//! resource of the kind can be written. So after a restart the host knows every kind with resources before it
//! serves requests, even if the code is still compiling or missing. A declaration is a resource, so every
//! backup contains it.
//!
//! A declaration is deleted when no controller declares the kind and no resource of it is left. If resources
//! are left, the kind stays served until a `CustomResourceDefinition` or a component with another version or
//! plural replaces the declaration. While any controller of the store has no component loaded, all
//! declarations stay, because its component may declare one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{ControllerSpec, KindDeclaration, Severity};
use homeostat_store::{Error as StoreError, Key, Kind, Precondition, Propagation, Resource, Write};
use homeostat_workqueue::{Next, Priority, Queue};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::host_kinds::{self, API_VERSION, DECLARATION_KIND};
use crate::kinds::{KindId, Review, id_of};
use crate::listing::for_each_listed;
use crate::native_controller::{self, NativeReconciler};
use crate::{Error, KindInfo, definitions};

/// The period in which unneeded declarations are looked up.
const PRUNE_INTERVAL: Duration = Duration::from_secs(30);
/// The wait before a declaration that is about to end is checked again. Resources of its kind that were being
/// created exist by then.
const ENDING: Duration = Duration::from_secs(1);

/// The declarations of the store.
pub(crate) struct Declarations {
    /// One for each stored kind. Locked while one is written, so that two controllers cannot declare one kind
    /// differently at the same time.
    stored: Mutex<BTreeMap<KindId, StoredDeclaration>>,
    queue: Queue<Prune>,
}

impl Default for Declarations {
    fn default() -> Self {
        let queue = native_controller::queue(PRUNE_INTERVAL, PRUNE_INTERVAL, None);
        Self { stored: Mutex::default(), queue }
    }
}

/// One stored declaration.
#[derive(Clone, Debug, PartialEq)]
struct StoredDeclaration {
    declaration: KindDeclaration,
    /// The controller that last changed it.
    controller: String,
}

impl StoredDeclaration {
    fn document(&self) -> Value {
        let Self { declaration: KindDeclaration { kind, plural, namespaced, keys_only: _, schema }, controller } = self;
        // Stored as text: as JSON every field would have an owner, which takes more room than the field.
        let schema = schema.as_ref().map(Value::to_string);
        json!({
            "apiVersion": API_VERSION, "kind": DECLARATION_KIND, "metadata": { "name": key(kind).name() },
            "spec": {
                "group": kind.group, "version": kind.version, "kind": kind.name, "plural": plural,
                "scope": if *namespaced { "Namespaced" } else { "Cluster" }, "schema": schema, "declaredBy": controller,
            },
        })
    }

    /// Reads a declaration. Returns `None` if it has another form than the host writes.
    fn read(resource: &Resource) -> Option<Self> {
        let spec = &resource.document()["spec"];
        let text = |name: &str| spec[name].as_str();
        let schema = text("schema").map(serde_json::from_str).transpose().ok()?;
        let namespaced = match text("scope")? {
            "Namespaced" => true,
            "Cluster" => false,
            _ => return None,
        };
        let kind = Kind::new(text("group")?, text("version")?, text("kind")?);
        let declaration =
            KindDeclaration { kind, plural: text("plural")?.to_owned(), namespaced, keys_only: false, schema };
        Some(Self { declaration, controller: text("declaredBy")?.to_owned() })
    }

    fn info(&self) -> KindInfo {
        KindInfo::declared(&self.declaration, &source(&self.controller))
    }
}

/// Returns the name of a controller as the source of a kind.
fn source(controller: &str) -> String {
    format!("controller {controller}")
}

/// Returns the key of a kind's declaration.
fn key(declared: &Kind) -> Key {
    let name = [declared.name.to_lowercase().as_str(), declared.group.as_str()].join(".");
    Key::new(host_kinds::declarations(), "", name.trim_end_matches('.'))
}

impl Context {
    /// Records that a controller was removed. Its declarations stay for as long as they are needed.
    pub(crate) fn withdraw(&self, controller: &str) {
        self.kinds.withdraw(&source(controller));
        // A closed queue means that the host is ending.
        let _ = self.declarations.queue.add(Prune, Priority::NORMAL);
    }

    /// Declares the kinds of a component, except those that other declarations must keep. The store has them when
    /// this returns, so the kinds outlive the component.
    ///
    /// # Errors
    /// [`Error::KindDiffers`], [`Error::BadDocument`]; [`Error::Store`].
    pub(crate) async fn declare(
        &self,
        controller: &str,
        spec: &ControllerSpec,
        required: &[Kind],
    ) -> Result<(), Error> {
        let mut kept = self.declarations.stored.lock().await;
        let source = source(controller);
        let declared: Vec<_> = declared(spec)
            .filter(|declaration| !required.contains(&declaration.kind))
            .map(|declaration| (declaration, KindInfo::declared(declaration, &source)))
            .collect();
        for (declaration, info) in &declared {
            if let Some(word) = kept.get(&id_of(&declaration.kind))
                && word.info().agrees_with(info).is_err()
                && (word.controller == controller || self.is_gone(&word.controller).await?)
            {
                // The controller that declared it otherwise has changed its declaration or is gone.
                self.kinds.disown(&declaration.kind);
            }
            self.kinds.check(info)?;
        }
        for (declaration, info) in declared {
            if self.stores.defines(&declaration.kind) {
                // The definition is the server's, and so is the version of its resources.
                self.kinds.declare(info)?;
                continue;
            }
            if !declaration.keys_only && !self.kinds.is_built_in(&declaration.kind) {
                self.store_declaration(&mut kept, controller, declaration).await?;
            }
            if self.kinds.of(&info.kind).is_some_and(|known| known.kind.version != info.kind.version) {
                // An unclaimed declaration is replaced, and its resources are migrated to the new version.
                self.kinds.prepare(&info)?;
                definitions::migrate(&*self.store, &info.kind).await?;
            }
            self.kinds.declare(info)?;
        }
        Ok(())
    }

    /// Returns whether the store has no controller of this name.
    async fn is_gone(&self, controller: &str) -> homeostat_store::Result<bool> {
        match self.store.get(&Key::new(host_kinds::controllers(), "", controller)).await {
            Ok(_) => Ok(false),
            Err(StoreError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Stores a declaration, unless it is unchanged.
    async fn store_declaration(
        &self,
        kept: &mut BTreeMap<KindId, StoredDeclaration>,
        controller: &str,
        declaration: &KindDeclaration,
    ) -> Result<(), Error> {
        let id = id_of(&declaration.kind);
        let known = kept.get(&id).map(|kept| &kept.declaration);
        let known_schema = || known.and_then(|known| known.schema.clone());
        let schema = declaration.schema.clone().or_else(known_schema);
        let declaration = KindDeclaration { schema, ..declaration.clone() };
        if known == Some(&declaration) {
            return Ok(());
        }
        let word = StoredDeclaration { declaration, controller: controller.to_owned() };
        let create = || Write::Create { document: word.document() };
        let update = || Write::Update { document: word.document(), precondition: Precondition::default() };
        let written = match known {
            Some(_) => self.store.write(update()).await,
            None => match self.store.write(create()).await {
                // The stored declaration could not be read.
                Err(StoreError::AlreadyExists { .. }) => self.store.write(update()).await,
                written => written,
            },
        };
        written?;
        kept.insert(id, word);
        Ok(())
    }

    /// Loads the stored declarations. One that contradicts a definition is reported and ignored.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn declare_kept(&self) -> Result<(), Error> {
        let mut kept = self.declarations.stored.lock().await;
        let mut stored = Vec::new();
        for_each_listed(&*self.store, &host_kinds::declarations(), |resource| stored.push(Arc::clone(resource)))
            .await?;
        for resource in stored {
            let declared = match StoredDeclaration::read(&resource) {
                Some(word) => {
                    let declared = self.kinds.remember(word.info());
                    kept.insert(id_of(&word.declaration.kind), word);
                    declared
                }
                None => Err(Error::BadDocument("this version of the host cannot read the declaration".into())),
            };
            if let Err(error) = declared {
                let key = Some(resource.key().clone());
                self.event(&"homeostat".into(), key, Severity::Warning, "BadDeclaration", &error.to_string());
            }
        }
        Ok(())
    }

    /// Deletes unneeded declarations. Returns whether some are about to end and must be checked again soon.
    ///
    /// # Errors
    /// Those of the store; the next call checks the remaining declarations again.
    pub(crate) async fn prune_declarations(&self) -> homeostat_store::Result<bool> {
        let mut kept = self.declarations.stored.lock().await;
        if kept.keys().all(|id| self.kinds.is_claimed(id)) {
            return Ok(false);
        }
        let claimants = self.kinds.claimants();
        let mut is_any_unloaded = false;
        let note = |resource: &Arc<Resource>| is_any_unloaded |= !claimants.contains(&source(resource.key().name()));
        for_each_listed(&*self.store, &host_kinds::controllers(), note).await?;
        if is_any_unloaded {
            return Ok(false);
        }
        let there = self.kinds_with_resources().await?;
        let (mut is_any_ending, mut going) = (false, Vec::new());
        for (id, word) in &*kept {
            match self.kinds.review(id, there.contains(id)) {
                Review::Stays => {}
                Review::Ending => is_any_ending = true,
                Review::Goes => going.push((id.clone(), word.clone())),
            }
        }
        for (id, word) in going {
            // A resource of the kind may have been created meanwhile, and nothing else declares the kind.
            if self.kinds.of(&word.declaration.kind).is_none() && self.kinds_with_resources().await?.contains(&id) {
                self.kinds.remember(word.info()).ok();
                continue;
            }
            let key = key(&word.declaration.kind);
            let (precondition, propagation) = (Precondition::default(), Propagation::Background);
            match self.store.write(Write::Delete { key, precondition, propagation, grace_seconds: None }).await {
                Ok(_) | Err(StoreError::NotFound { .. }) => drop(kept.remove(&id)),
                Err(error) => return Err(error),
            }
        }
        Ok(is_any_ending)
    }

    /// Returns the kinds with stored resources.
    async fn kinds_with_resources(&self) -> homeostat_store::Result<BTreeSet<KindId>> {
        Ok(self.store.kinds().await?.iter().map(id_of).collect())
    }
}

/// Returns the declarations of a component.
pub(crate) fn declared(spec: &ControllerSpec) -> impl Iterator<Item = &KindDeclaration> {
    std::iter::once(&spec.manages).chain(spec.watches.iter().map(|watch| &watch.of))
}

/// Checks that a component declares no reserved kind.
///
/// # Errors
/// [`Error::ReservedKind`].
pub(crate) fn check_owner(spec: &ControllerSpec) -> Result<(), Error> {
    match declared(spec).find(|declaration| host_kinds::is_reserved(&declaration.kind)) {
        Some(of_host) => Err(Error::ReservedKind(of_host.kind.to_string())),
        None => Ok(()),
    }
}

/// Deletes unneeded declarations periodically until the host ends.
pub(crate) async fn run(context: Arc<Context>, end: CancellationToken) {
    let (store, queue) = (context.store.clone(), context.declarations.queue.clone());
    let _ = queue.add_after(Prune, PRUNE_INTERVAL, Priority::NORMAL);
    native_controller::run(Arc::new(DeclarationReconciler(context)), store, queue, None, end).await;
}

/// The one item of the declarations' queue: look up which declarations are needed.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Prune;

struct DeclarationReconciler(Arc<Context>);

impl NativeReconciler for DeclarationReconciler {
    type Item = Prune;
    const NAME: &'static str = "declarations";
    const CONCURRENCY_MAX: usize = 1;

    async fn reconcile(&self, _: &Prune) -> Result<Next, String> {
        match self.0.prune_declarations().await {
            Ok(is_any_ending) => Ok(Next::After(if is_any_ending { ENDING } else { PRUNE_INTERVAL })),
            Err(error) => {
                tracing::warn!(%error, "cannot check the declarations of kinds");
                Err(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests;
