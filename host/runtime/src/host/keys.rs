//! Operations on single keys of a controller's queue.

use std::time::Duration;

use homeostat_store::Key;
use homeostat_workqueue::{AddError, ChangeOutcome, Delay, KeyState, Priority, Queue};

use super::Host;
use crate::controller::Controller;
use crate::slot::Audience;
use crate::status::QueueEntry;
use crate::{Error, Suspend};

/// Maximum bytes of the name, and of the namespace, of a key that a person enqueues for a kind without stored
/// resources. The same bound as for resources.
const NAME_BYTES_MAX: usize = 253;

/// An operation on one key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyVerb {
    /// Adds the key like an event. It merges with a queued entry, and under `hold` does not cut a delay
    /// short.
    Enqueue {
        /// When the key is due.
        delay: Delay,
        /// The priority band.
        priority: Priority,
    },
    /// Resets the failures of a waiting or parked key and makes it ready.
    Retry,
    /// Removes the key from the queue and resets its failures. For a running key, removes the pending re-run.
    Cancel,
    /// Moves the due time to this delay from now, sooner or later. For a running key, moves the pending
    /// re-run.
    Postpone(Duration),
    /// Makes the key ready before all others and skips its delay.
    Expedite,
}

impl Host {
    /// Performs an operation on one key of a controller. Returns the queue entry afterwards, `None` if the
    /// key has left the queue. A key in another version of the managed kind is the same key.
    ///
    /// # Errors
    /// [`Error::UnknownController`]; [`Error::NotManaged`]; [`Error::UnknownKey`] when the key is not queued.
    /// For an enqueue [`Error::BadDocument`] when the name is invalid, and [`Error::NotGranted`] when no
    /// grant covers the key. [`Error::NothingQueued`], [`Error::GivenUp`] and [`Error::DeletionsFirst`] when
    /// there is no entry to move.
    pub fn act_on(&self, name: &str, key: &Key, verb: KeyVerb) -> Result<Option<QueueEntry>, Error> {
        let controller = self.controller(name)?;
        let (key, queue) = (own(&controller, key)?, &controller.queue);
        let verdict = match verb {
            KeyVerb::Enqueue { delay, priority } => self.enqueue(&controller, &key, delay, priority)?,
            KeyVerb::Retry => queue.retry(&key),
            KeyVerb::Cancel => queue.cancel(&key),
            KeyVerb::Postpone(delay) => queue.postpone(&key, delay),
            KeyVerb::Expedite => expedite(&controller, &key)?,
        };
        let entry = queue.entry(&key);
        match (verdict, entry.as_ref().map(|entry| entry.state)) {
            (ChangeOutcome::Absent, _) => return Err(Error::UnknownKey(key)),
            (ChangeOutcome::Unchanged, Some(KeyState::Running)) => return Err(Error::NothingQueued(key)),
            (ChangeOutcome::Unchanged, Some(KeyState::Parked)) => return Err(Error::GivenUp(key)),
            // Unchanged: the key was first already, or has moved on meanwhile.
            (ChangeOutcome::Done | ChangeOutcome::Unchanged, _) => {}
        }
        tracing::info!(controller = name, key = ?key.to_string(), ?verb, "a key was moved by request");
        Ok(entry.map(QueueEntry::from))
    }

    fn enqueue(
        &self,
        controller: &Controller,
        key: &Key,
        delay: Delay,
        priority: Priority,
    ) -> Result<ChangeOutcome, Error> {
        self.check_name(key)?;
        if !controller.slot.may_get(key) {
            return Err(Error::NotGranted(key.clone()));
        }
        if !controller.slot.has(key) {
            let holder = controller.slot.placement.status().into_iter().find_map(|lease| lease.holder);
            return Err(Error::NotHolder { key: key.clone(), holder });
        }
        let add = |queue: &Queue<Key>, key, priority| queue.add_delayed(key, delay, priority);
        match controller.feeders.deletions().add(key.clone(), priority, add) {
            Ok(_) => Ok(ChangeOutcome::Done),
            // The queue closes when its controller is removed.
            Err(AddError::Closed) => Err(Error::UnknownController(controller.name.to_string())),
            Err(AddError::Full) => Err(Error::NoRoom(controller.name.to_string())),
        }
    }

    /// Checks that a resource could have this name. For kinds without stored resources the name is all there
    /// is to check.
    fn check_name(&self, key: &Key) -> Result<(), Error> {
        let info = self.kinds().of(key.kind());
        let is_possible = |text: &str| text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control);
        let is_stored = info.as_ref().is_some_and(|info| !info.keys_only);
        if is_stored && let Err(error) = key.check() {
            return Err(Error::BadDocument(format!("no resource can have the name {:?}: {error}", key.name())));
        } else if key.name().is_empty() || !is_possible(key.name()) || !is_possible(key.namespace()) {
            return Err(Error::BadDocument(format!("no key can have the name {:?}", key.name())));
        }
        let namespaced = info.is_some_and(|info| info.namespaced);
        match (namespaced, key.namespace().is_empty()) {
            (true, true) => Err(Error::BadDocument(format!("{} is namespaced: name a namespace", key.kind()))),
            (false, false) => Err(Error::BadDocument(format!("{} is cluster-scoped: name no namespace", key.kind()))),
            _ => Ok(()),
        }
    }
}

/// Returns a key in the managed version of the controller's kind.
fn own(controller: &Controller, key: &Key) -> Result<Key, Error> {
    let manages = controller.slot.current().component().describe().manages.kind.clone();
    if !key.kind().same_type(&manages) {
        let (controller, asked) = (controller.name.to_string(), key.kind().to_string());
        return Err(Error::NotManaged { controller, manages: manages.to_string(), asked });
    }
    Ok(Key::new(manages, key.namespace(), key.name()))
}

/// Makes a key the first, unless that band is reserved for deletions.
fn expedite(controller: &Controller, key: &Key) -> Result<ChangeOutcome, Error> {
    controller.suspension.with(|suspension| match suspension {
        Suspend::ExceptDeletes => Err(Error::DeletionsFirst(controller.name.to_string())),
        Suspend::No | Suspend::Yes => Ok(controller.queue.expedite(key)),
    })
}
