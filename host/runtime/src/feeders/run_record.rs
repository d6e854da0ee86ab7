//! The record of the last run of a schedule, in the status of the `Controller` resource. It survives restarts and
//! changes of the host.

use std::sync::Arc;

use homeostat_store::{Change, Error, Key, Store, Write};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::FeederError;
use crate::host_kinds::controllers;

/// The field of the status that has the records, by feeder.
pub(crate) const SCHEDULES: &str = "schedules";

/// Reads and writes the record of one feeder.
pub(crate) struct RunRecord {
    store: Arc<dyn Store>,
    controller: Arc<str>,
    feeder: Arc<str>,
    schedule: String,
}

impl RunRecord {
    pub(crate) fn new(store: Arc<dyn Store>, controller: Arc<str>, feeder: Arc<str>, schedule: &str) -> Self {
        Self { store, controller, feeder, schedule: schedule.to_owned() }
    }

    /// Returns the moment of the last run. `None` without a record of this schedule, and for a controller that no
    /// resource defines.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn last(&self) -> Result<Option<Timestamp>, FeederError> {
        Ok(self.read().await?.and_then(|(_, last)| last))
    }

    /// Records the moment of the last run, unless the record has it or a later one.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn write(&self, moment: Timestamp) -> Result<(), FeederError> {
        let Some((uid, last)) = self.read().await? else { return Ok(()) };
        if last.is_some_and(|last| last >= moment) {
            return Ok(());
        }
        let record = json!({ "schedule": self.schedule, "lastRun": moment.to_string() });
        let status = json!({ SCHEDULES: { &*self.feeder: record } });
        // The uid is a precondition: a new resource of the same name has no runs yet.
        let change = Change::Merge(json!({ "metadata": { "uid": uid }, "status": status }));
        match self.store.write(Write::PatchStatus { key: self.key(), change }).await {
            Ok(_) | Err(Error::NotFound { .. } | Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the uid of the resource and the recorded moment.
    async fn read(&self) -> Result<Option<(String, Option<Timestamp>)>, FeederError> {
        let resource = match self.store.get(&self.key()).await {
            Ok(resource) => resource,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let record = &resource.document()["status"][SCHEDULES][&*self.feeder];
        let is_same = record["schedule"] == self.schedule.as_str();
        let last = record["lastRun"].as_str().filter(|_| is_same).and_then(|text| text.parse().ok());
        Ok(Some((resource.uid().to_owned(), last)))
    }

    fn key(&self) -> Key {
        Key::new(controllers(), "", &self.controller)
    }
}

/// Returns the records of a status for the declared feeders. Records of other feeders are dropped.
pub(crate) fn retained<'n>(status: &Value, declared: impl IntoIterator<Item = &'n str>) -> Option<Value> {
    let records = status[SCHEDULES].as_object()?;
    let kept = declared.into_iter().filter_map(|name| Some((name.to_owned(), records.get(name)?.clone())));
    let kept: serde_json::Map<String, Value> = kept.collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}
