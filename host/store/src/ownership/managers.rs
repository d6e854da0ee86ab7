//! The owners of a resource's fields: the entries of its `metadata.managedFields`.

use serde_json::{Value, json};

use super::fields::FieldSet;
use crate::{Error, FieldConflict, MANAGED_FIELDS_BYTES_MAX, Result, validate};

/// Entries of updates at most; older ones are merged. Source: Kubernetes.
const UPDATES_MAX: usize = 10;
/// The manager of the merged entry. Source: Kubernetes.
const ANCIENT: &str = "ancient-changes";

/// The operation of a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// It declares the fields that it wants; omitted fields are released.
    Apply,
    /// It changes existing fields.
    Update,
}

impl Operation {
    /// Returns its form in the entries.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Apply, Self::Update].into_iter().find(|operation| operation.text() == text)
    }
}

/// An owner of fields. One name can be several managers: apply and update are always different managers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// The `apiVersion` of its writes.
    pub(super) version: String,
    /// `status`, or empty.
    pub(super) subresource: String,
}

impl Manager {
    /// Returns whether both are the same manager. A manager that applies is the same in every version.
    fn is(&self, other: &Self) -> bool {
        let Self { name, operation, version, subresource } = other;
        self.name == *name
            && self.operation == *operation
            && self.subresource == *subresource
            && (self.operation == Operation::Apply || self.version == *version)
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    manager: Manager,
    /// RFC 3339 with whole seconds; empty if unknown.
    time: String,
    fields: FieldSet,
}

/// The owners of a resource's fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Managers(Vec<Entry>);

impl Managers {
    /// Parses the entries of a document. Skips malformed entries.
    pub(super) fn of(document: &Value) -> Self {
        let mut managers = Self::default();
        let entries = document.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        for entry in entries.and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
            let (Some(operation), Some(fields)) = (Operation::parse(&text("operation")), entry.get("fieldsV1")) else {
                continue;
            };
            let (name, version, subresource) = (text("manager"), text("apiVersion"), text("subresource"));
            managers.add(Manager { name, operation, version, subresource }, FieldSet::read(fields), &text("time"));
        }
        managers
    }

    /// Parses the entries that a client wrote; `None` when one of them is malformed.
    pub(super) fn read(entries: &Value) -> Option<Self> {
        let mut managers = Self::default();
        for entry in entries.as_array()? {
            let fields = entry.as_object()?;
            let text = |field: &str| match fields.get(field) {
                None | Some(Value::Null) => Some(String::new()),
                Some(value) => value.as_str().map(str::to_owned),
            };
            let (operation, version) = (Operation::parse(&text("operation")?)?, text("apiVersion")?);
            if version.is_empty() || text("fieldsType")? != "FieldsV1" {
                return None;
            }
            let owned = match fields.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(owned) => FieldSet::read(owned.is_object().then_some(owned)?),
            };
            let time = text("time")?;
            let time = if time.is_empty() { time } else { format!("{:.0}", time.parse::<jiff::Timestamp>().ok()?) };
            let (name, subresource) = (text("manager")?, text("subresource")?);
            managers.add(Manager { name, operation, version, subresource }, owned, &time);
        }
        Some(managers)
    }

    /// Returns the names and subresources of the managers.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|entry| (entry.manager.name.as_str(), entry.manager.subresource.as_str()))
    }

    /// Returns whether the same managers own the same fields; ignores the times.
    pub(super) fn same_owners(&self, others: &Self) -> bool {
        self.timeless() == others.timeless()
    }

    fn timeless(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.0.iter().filter(|entry| !entry.fields.is_empty()).cloned().collect();
        entries.iter_mut().for_each(|entry| entry.time.clear());
        entries.sort_by(|one, other| one.order().cmp(&other.order()));
        entries
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|entry| entry.fields.is_empty())
    }

    /// Returns the fields of a manager, if there are any.
    pub(super) fn fields(&self, manager: &Manager) -> Option<&FieldSet> {
        self.0.iter().find(|entry| entry.manager.is(manager)).map(|entry| &entry.fields)
    }

    /// Returns the fields of all other managers.
    pub(super) fn fields_of_others(&self, manager: &Manager) -> FieldSet {
        let mut fields = FieldSet::default();
        for entry in self.0.iter().filter(|entry| !entry.manager.is(manager)) {
            fields.unite(entry.fields.clone());
        }
        fields
    }

    /// Returns the fields of `set` that other managers own, by owner.
    pub(super) fn conflicts(&self, manager: &Manager, set: &FieldSet) -> Vec<FieldConflict> {
        let mut conflicts = Vec::new();
        for Entry { manager, fields, .. } in self.0.iter().filter(|entry| !entry.manager.is(manager)) {
            let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
            conflicts.extend(fields.overlaps(set).into_iter().map(|field| FieldConflict {
                field,
                manager: manager.name.clone(),
                version: some(&manager.version).filter(|_| manager.operation == Operation::Update),
                subresource: some(&manager.subresource),
            }));
        }
        conflicts.sort_by_cached_key(FieldConflict::owner);
        conflicts
    }

    /// Removes fields, and all fields below them, from every manager.
    pub(super) fn remove_from_all(&mut self, fields: &FieldSet) {
        for entry in &mut self.0 {
            entry.fields.remove_below(fields);
        }
    }

    /// Adds fields to a manager.
    pub(super) fn add(&mut self, manager: Manager, fields: FieldSet, time: &str) {
        match self.0.iter_mut().find(|entry| entry.manager.is(&manager)) {
            Some(entry) => {
                entry.fields.unite(fields);
                entry.manager = manager;
                time.clone_into(&mut entry.time);
            }
            None => self.0.push(Entry { manager, time: time.to_owned(), fields }),
        }
    }

    /// Replaces the fields of a manager. The time of its entry stays.
    pub(super) fn set(&mut self, manager: Manager, fields: FieldSet) {
        match self.0.iter_mut().find(|entry| entry.manager.is(&manager)) {
            Some(entry) => *entry = Entry { manager, fields, time: std::mem::take(&mut entry.time) },
            None if fields.is_empty() => {}
            None => self.0.push(Entry { manager, time: String::new(), fields }),
        }
    }

    /// Sets the time of a manager's entry.
    pub(super) fn touch(&mut self, manager: &Manager, time: &str) {
        for entry in self.0.iter_mut().filter(|entry| entry.manager.is(manager)) {
            time.clone_into(&mut entry.time);
        }
    }

    /// Merges the oldest updates into one entry when there are too many, but never the entry of `writer`.
    pub(super) fn merge_oldest(&mut self, writer: &Manager) {
        self.0.retain(|entry| !entry.fields.is_empty());
        let updates = self.0.iter().filter(|entry| entry.manager.operation == Operation::Update).count();
        let Some(excess) = updates.checked_sub(UPDATES_MAX).filter(|excess| *excess > 0) else { return };
        // The merged entry comes first, so that there is never a second one.
        let age = |entry: &Entry| {
            let can_merge = entry.manager.operation == Operation::Update && !entry.manager.is(writer);
            (!can_merge, entry.manager.name != ANCIENT)
        };
        self.0.sort_by(|one, other| (age(one), one.order()).cmp(&(age(other), other.order())));
        let mut ancient = Entry {
            manager: Manager {
                name: ANCIENT.to_owned(),
                operation: Operation::Update,
                version: String::new(),
                subresource: String::new(),
            },
            time: String::new(),
            fields: FieldSet::default(),
        };
        for Entry { manager, time, fields } in self.0.drain(..=excess) {
            ancient.manager.version = manager.version;
            ancient.time = time;
            ancient.fields.unite(fields);
        }
        self.0.push(ancient);
    }

    /// Writes the entries into a document whose metadata is an object. A manager without fields gets no
    /// entry.
    ///
    /// # Errors
    /// `TooLarge` when the entries exceed [`MANAGED_FIELDS_BYTES_MAX`].
    pub(super) fn write(mut self, document: &mut Value) -> Result<()> {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|one, other| one.order().cmp(&other.order()));
        let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(()) };
        if self.0.is_empty() {
            metadata.remove("managedFields");
            return Ok(());
        }
        let entries: Value = self.0.iter().map(Entry::write).collect();
        let bytes = validate::bytes(&entries);
        if bytes > MANAGED_FIELDS_BYTES_MAX {
            let (what, bytes_max) = ("metadata.managedFields".to_owned(), MANAGED_FIELDS_BYTES_MAX);
            return Err(Error::TooLarge { what, bytes, bytes_max });
        }
        metadata.insert("managedFields".to_owned(), entries);
        Ok(())
    }
}

impl Entry {
    /// Returns the sort key of the entry. Source: Kubernetes.
    fn order(&self) -> (Operation, &str, &str, &str, &str) {
        let Self { manager: Manager { name, operation, version, subresource }, time, fields: _ } = self;
        (*operation, time, name, version, subresource)
    }

    fn write(&self) -> Value {
        let Self { manager: Manager { name, operation, version, subresource }, time, fields } = self;
        let mut entry = json!({
            "manager": name,
            "operation": operation.text(),
            "apiVersion": version,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields.write(),
        });
        for (field, text) in [("time", time), ("subresource", subresource)] {
            if !text.is_empty() {
                entry[field] = json!(text);
            }
        }
        entry
    }
}
