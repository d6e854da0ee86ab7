//! What components declare, kept in the store: a kind outlives the code that brought it.
//!
//! A component says in `describe` which kinds it works with. What it says is a resource of kind [`KindDeclaration`](kind) before
//! anything of such a kind can be written, so a host that starts again knows every kind that has resources before it answers anybody, whether
//! the code is still being compiled, or is gone. Being a resource, it is in every backup.
//!
//! A declaration ends when no controller declares the kind, and no resource of it is left. One that no controller declares any more,
//! of which there are resources, keeps the kind served, and gives way: to a `CustomResourceDefinition`, and to a component
//! that declares another version or plural. As long as a controller of the store has no component loaded, every declaration stays: it may be the one that names the kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{ControllerSpec, KindDeclaration, Severity};
use homeostat_store::{Error as StoreError, Key, Kind, Precondition, Propagation, Resource, Write};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, for_each_listed};
use crate::kinds::{KindId, Review, id_of};
use crate::manifest::API_VERSION;
use crate::{Error, KindInfo, definitions, keeper};

/// The name of the kind of declarations.
const NAME: &str = "KindDeclaration";
/// How often declarations that nobody needs are looked for.
const PRUNE_INTERVAL: Duration = Duration::from_secs(30);
/// The wait before one that is about to end is looked at again: what was being created of its kind is there by then.
const ENDING: Duration = Duration::from_secs(1);

/// Returns the kind of declarations.
pub(crate) fn kind() -> Kind {
    let (group, version) = API_VERSION.split_once('/').expect("it has a group");
    Kind::new(group, version, NAME)
}

/// The declarations that are in the store.
#[derive(Default)]
pub(crate) struct Declarations {
    /// One for each kind that is stored. Locked while one is written, so that two controllers cannot declare one kind differently at a time.
    stored: Mutex<BTreeMap<KindId, StoredDeclaration>>,
    prune: Notify,
}

/// One declaration as it is stored.
#[derive(Clone, Debug, PartialEq)]
struct StoredDeclaration {
    declaration: KindDeclaration,
    /// The controller that declared it last in another way than it was.
    controller: String,
}

impl StoredDeclaration {
    fn document(&self) -> Value {
        let Self { declaration: KindDeclaration { kind, plural, namespaced, keys_only: _, schema }, controller } = self;
        // As text: each of its fields would have an owner, which takes more room than the field.
        let schema = schema.as_ref().map(Value::to_string);
        json!({
            "apiVersion": API_VERSION, "kind": NAME, "metadata": { "name": key(kind).name() },
            "spec": {
                "group": kind.group, "version": kind.version, "kind": kind.name, "plural": plural,
                "scope": if *namespaced { "Namespaced" } else { "Cluster" }, "schema": schema, "declaredBy": controller,
            },
        })
    }

    /// Reads a declaration; `None` when it is not one that this program wrote.
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

/// Returns what a controller is called as the source of a kind.
fn source(controller: &str) -> String {
    format!("controller {controller}")
}

/// Returns where the declaration of a kind stands.
fn key(declared: &Kind) -> Key {
    let name = [declared.name.to_lowercase().as_str(), declared.group.as_str()].join(".");
    Key::new(kind(), "", name.trim_end_matches('.'))
}

impl Context {
    /// Notes that a controller is gone. What it declared stays for as long as it is needed.
    pub(crate) fn withdraw(&self, controller: &str) {
        self.kinds.withdraw(&source(controller));
        self.declarations.prune.notify_one();
    }

    /// Declares the kinds that a component names. When this returns, the store has what is declared, so that the kinds outlive the component.
    ///
    /// # Errors
    /// [`Error::KindDiffers`], [`Error::BadDocument`]; [`Error::Store`].
    pub(crate) async fn declare(&self, controller: &str, spec: &ControllerSpec) -> Result<(), Error> {
        let mut kept = self.declarations.stored.lock().await;
        let source = source(controller);
        let declared: Vec<_> =
            declared(spec).map(|declaration| (declaration, KindInfo::declared(declaration, &source))).collect();
        for (declaration, info) in &declared {
            if let Some(word) = kept.get(&id_of(&declaration.kind))
                && word.info().agrees_with(info).is_err()
                && (word.controller == controller || self.is_gone(&word.controller).await?)
            {
                // Whoever said so says something else now, or nothing.
                self.kinds.disown(&declaration.kind);
            }
            self.kinds.check(info)?;
        }
        for (declaration, info) in declared {
            if !declaration.keys_only && !self.kinds.is_built_in(&declaration.kind) {
                self.store_declaration(&mut kept, controller, declaration).await?;
            }
            if self.kinds.of(&info.kind).is_some_and(|known| known.kind.version != info.kind.version) {
                // One that nobody claims gives way, and its resources come along.
                self.kinds.prepare(&info)?;
                definitions::migrate(&*self.store, &info.kind).await?;
            }
            self.kinds.declare(info)?;
        }
        Ok(())
    }

    /// Returns whether a controller is none of the store's.
    async fn is_gone(&self, controller: &str) -> homeostat_store::Result<bool> {
        match self.store.get(&Key::new(keeper::controllers(), "", controller)).await {
            Ok(_) => Ok(false),
            Err(StoreError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Stores a declaration, unless it stands there as it is.
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
                // One that could not be read.
                Err(StoreError::AlreadyExists { .. }) => self.store.write(update()).await,
                written => written,
            },
        };
        written?;
        kept.insert(id, word);
        Ok(())
    }

    /// Declares the kinds that are in the store, as components declared them. One that contradicts a definition is told, and is not heard.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn declare_kept(&self) -> Result<(), Error> {
        let mut kept = self.declarations.stored.lock().await;
        let mut stored = Vec::new();
        for_each_listed(&*self.store, &kind(), |resource| stored.push(Arc::clone(resource))).await?;
        for resource in stored {
            let declared = match StoredDeclaration::read(&resource) {
                Some(word) => {
                    let declared = self.kinds.remember(word.info());
                    kept.insert(id_of(&word.declaration.kind), word);
                    declared
                }
                None => Err(Error::BadDocument("it is not a declaration that this version of the host reads".into())),
            };
            if let Err(error) = declared {
                let key = Some(resource.key().clone());
                self.event(&"homeostat".into(), key, Severity::Warning, "BadDeclaration", &error.to_string());
            }
        }
        Ok(())
    }

    /// Ends the declarations that nobody needs. Returns whether some are about to end, and are to be looked at again soon.
    ///
    /// # Errors
    /// Those of the store; what has not ended is looked at the next time.
    pub(crate) async fn prune_declarations(&self) -> homeostat_store::Result<bool> {
        let mut kept = self.declarations.stored.lock().await;
        if kept.keys().all(|id| self.kinds.is_claimed(id)) {
            return Ok(false);
        }
        let claimants = self.kinds.claimants();
        let mut is_any_unloaded = false;
        let note = |resource: &Arc<Resource>| is_any_unloaded |= !claimants.contains(&source(resource.key().name()));
        for_each_listed(&*self.store, &keeper::controllers(), note).await?;
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
            // Something may have been created of it meanwhile, of a kind that nothing else declares.
            if self.kinds.of(&word.declaration.kind).is_none() && self.kinds_with_resources().await?.contains(&id) {
                self.kinds.remember(word.info()).ok();
                continue;
            }
            let key = key(&word.declaration.kind);
            let (precondition, propagation) = (Precondition::default(), Propagation::Background);
            match self.store.write(Write::Delete { key, precondition, propagation }).await {
                Ok(_) | Err(StoreError::NotFound { .. }) => drop(kept.remove(&id)),
                Err(error) => return Err(error),
            }
        }
        Ok(is_any_ending)
    }

    /// Returns the kinds of which there are resources.
    async fn kinds_with_resources(&self) -> homeostat_store::Result<BTreeSet<KindId>> {
        Ok(self.store.kinds().await?.iter().map(id_of).collect())
    }
}

/// Returns what a component declares.
pub(crate) fn declared(spec: &ControllerSpec) -> impl Iterator<Item = &KindDeclaration> {
    std::iter::once(&spec.manages).chain(spec.watches.iter().map(|watch| &watch.of))
}

/// Checks that a component declares no kind that the host alone writes.
///
/// # Errors
/// [`Error::ReservedKind`].
pub(crate) fn check_owner(spec: &ControllerSpec) -> Result<(), Error> {
    match declared(spec).find(|declaration| keeper::is_of_host(&declaration.kind)) {
        Some(of_host) => Err(Error::ReservedKind(of_host.kind.to_string())),
        None => Ok(()),
    }
}

/// Ends declarations that nobody needs, now and then, until the host ends.
pub(crate) async fn follow(context: Arc<Context>, end: CancellationToken) {
    let followed = async {
        loop {
            tokio::select! {
                () = tokio::time::sleep(PRUNE_INTERVAL) => {}
                () = context.declarations.prune.notified() => {}
            }
            loop {
                match context.prune_declarations().await {
                    Ok(true) => tokio::time::sleep(ENDING).await,
                    Ok(false) => break,
                    Err(StoreError::Closed) => return,
                    Err(error) => {
                        tracing::warn!(%error, "the declarations of kinds cannot be looked at");
                        break;
                    }
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        () = followed => {}
    }
}

#[cfg(test)]
mod tests;
