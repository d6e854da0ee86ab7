//! The priority of a new pod: that of its priority class, or of the class that is the default.
//!
//! Source: the admission plug-in `Priority` of Kubernetes.

use homeostat_store::{Key, Kind, Query, Selector, Store};
use serde_json::{Map, Value, json};

use crate::error::found;
use crate::initial_resources::create_missing;
use crate::new_resource::NewResource;
use crate::remembered::Remembered;
use crate::{Error, Kinds, Stores};

/// The classes that always exist: name, value and description.
const OF_SYSTEM: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// The policy of a class that names none.
const PREEMPTION: &str = "PreemptLowerPriority";

/// The default class, as it was read last.
pub(crate) struct Priorities {
    stores: Stores,
    /// `None` before the first look, `Some(None)` if no class is the default.
    known: Remembered<Option<Option<PriorityClass>>>,
}

/// What a class gives to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PriorityClass {
    name: String,
    value: i64,
    preemption: String,
}

impl PriorityClass {
    fn of(document: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            name: text(&document["metadata"]["name"]).unwrap_or_default(),
            value: document["value"].as_i64().unwrap_or_default(),
            preemption: text(&document["preemptionPolicy"]).unwrap_or_else(|| PREEMPTION.to_owned()),
        }
    }
}

impl Priorities {
    pub(crate) fn new(stores: Stores) -> Self {
        Self { stores, known: Remembered::default() }
    }

    /// Gives a new pod its priority, and leaves resources of other kinds as they are.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a class that does not exist, and for a priority that is not that of the class;
    /// [`Error::Store`].
    pub(crate) async fn set(&self, new: NewResource<'_>, document: &mut Value) -> Result<(), Error> {
        if !new.is_pod || !new.kinds.has_built_in_schema(&classes()) {
            return Ok(());
        }
        let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let named = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
        let refused = |reason: String| new.refused(&reason);
        let class = if named.is_empty() {
            match self.default(new.store).await? {
                Some(class) => class,
                None => PriorityClass { name: String::new(), value: 0, preemption: PREEMPTION.to_owned() },
            }
        } else {
            let class = found(new.store.get(&Key::new(classes(), "", named)).await)?;
            let class = class.ok_or_else(|| refused(format!("no PriorityClass with name {named} was found")))?;
            PriorityClass::of(class.document())
        };
        fill(spec, class).map_err(refused)
    }

    /// Returns the class that is the default. Of several, it is the one with the lowest value.
    async fn default(&self, store: &dyn Store) -> Result<Option<PriorityClass>, Error> {
        let writes = match self.known.find(Clone::clone) {
            Ok(class) => return Ok(class),
            Err(writes) => writes,
        };
        let fields = vec![("/globalDefault".to_owned(), "true".to_owned())];
        let selector = Selector { fields, ..Selector::default() };
        let listed = store.list(&Query { selector, ..Query::all(classes()) }).await?;
        let all = listed.items.iter().map(|class| PriorityClass::of(class.document()));
        let class = all.min_by_key(|class| class.value);
        // Other hosts write to stores that are far away.
        if !self.stores.is_far(&classes()) {
            self.known.add(writes, |known| *known = Some(class.clone()));
        }
        Ok(class)
    }

    /// Creates the classes that always exist.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn create_initial(&self, store: &dyn Store, kinds: &Kinds) -> homeostat_store::Result<()> {
        if !kinds.has_built_in_schema(&classes()) || self.stores.is_far(&classes()) {
            return Ok(());
        }
        for (name, value, description) in OF_SYSTEM {
            let document = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
                "value": value, "description": description,
            });
            create_missing(store, document).await?;
        }
        Ok(())
    }

    /// Forgets the default class, after a write of one.
    pub(crate) fn forget(&self) {
        self.known.forget();
    }
}

/// Sets the priority of a pod, or says why the stated one cannot be.
fn fill(spec: &mut Map<String, Value>, class: PriorityClass) -> Result<(), String> {
    let PriorityClass { name, value, preemption } = class;
    const COMPUTED: &str = "must not be provided in pod spec; priority admission controller computed";
    let stated = spec.get("priority").and_then(Value::as_i64);
    if let Some(stated) = stated.filter(|stated| *stated != value) {
        return Err(format!(
            "the integer value of priority ({stated}) {COMPUTED} {value} from the given PriorityClass name"
        ));
    }
    let stated = spec.get("preemptionPolicy").and_then(Value::as_str);
    if let Some(stated) = stated.filter(|stated| *stated != preemption) {
        return Err(format!(
            "the string value of PreemptionPolicy ({stated}) {COMPUTED} {preemption} from the given PriorityClass name"
        ));
    }
    if !name.is_empty() {
        spec.insert("priorityClassName".to_owned(), name.into());
        spec.insert("priority".to_owned(), value.into());
        spec.insert("preemptionPolicy".to_owned(), preemption.into());
    }
    Ok(())
}

/// Returns the kind of pods.
pub(crate) fn pods() -> Kind {
    Kind::new("", "v1", "Pod")
}

/// Returns the kind of priority classes.
pub(crate) fn classes() -> Kind {
    Kind::new("scheduling.k8s.io", "v1", "PriorityClass")
}

#[cfg(test)]
mod tests;
