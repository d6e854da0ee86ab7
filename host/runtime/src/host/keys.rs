//! What a person does to single keys of a controller's queue.

use std::time::Duration;

use homeostat_store::Key;
use homeostat_workqueue::{AddError, ChangeOutcome, KeyState, Priority, Queue};

use super::Host;
use crate::controller::Controller;
use crate::feeders::Audience;
use crate::status::QueueEntry;
use crate::{Error, Suspend};

/// Bytes of a name, and of a namespace, that a person puts on a queue where nothing is stored. As many as a resource's may have.
const NAME_BYTES_MAX: usize = 253;

/// What can be done to a key by its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyVerb {
    /// Adds it, as an event would: it merges with what is there, and under `hold` does not cut a delay short.
    Enqueue {
        /// When it becomes due, counted from now. Zero is now.
        after: Duration,
        /// In which band.
        priority: Priority,
    },
    /// Forgets its failures and makes it ready, where it waits or was given up.
    Retry,
    /// Takes it off the queue and forgets its failures. Of a key that runs, takes off the run that follows.
    Cancel,
    /// Moves its due time to so long from now, sooner or later. Of a key that runs, moves the run that follows.
    Postpone(Duration),
    /// Makes it ready before all others, whatever delay it has.
    Expedite,
}

impl Host {
    /// Does something to one key of a controller, and returns what the queue says of the key afterwards; `None` when the queue does
    /// not know it any more. A key of another version of the managed kind is the same key.
    ///
    /// # Errors
    /// [`Error::UnknownController`]; [`Error::NotManaged`]; [`Error::UnknownKey`] when it is not on the queue, and
    /// [`Error::BadDocument`] when it is to be put there and has no possible name; [`Error::NotGranted`] when its controller may not be told of it; [`Error::NothingQueued`], [`Error::GivenUp`] and
    /// [`Error::DeletionsFirst`] when there is nothing that can be moved so.
    pub fn act_on(&self, name: &str, key: &Key, verb: KeyVerb) -> Result<Option<QueueEntry>, Error> {
        let controller = self.controller(name)?;
        let (key, queue) = (controller.own(key)?, &controller.queue);
        let verdict = match verb {
            KeyVerb::Enqueue { after, priority } => self.enqueue(&controller, &key, after, priority)?,
            KeyVerb::Retry => queue.retry(&key),
            KeyVerb::Cancel => queue.cancel(&key),
            KeyVerb::Postpone(delay) => queue.postpone(&key, delay),
            KeyVerb::Expedite => controller.unless_deletions_go_first(|| queue.expedite(&key))?,
        };
        let entry = queue.entry(&key);
        match (verdict, entry.as_ref().map(|entry| entry.state)) {
            (ChangeOutcome::Absent, _) => return Err(Error::UnknownKey(key)),
            (ChangeOutcome::Unchanged, Some(KeyState::Running)) => return Err(Error::NothingQueued(key)),
            (ChangeOutcome::Unchanged, Some(KeyState::Parked)) => return Err(Error::GivenUp(key)),
            // Unchanged: it stood first already, or has moved on meanwhile.
            (ChangeOutcome::Done | ChangeOutcome::Unchanged, _) => {}
        }
        tracing::info!(controller = name, key = ?key.to_string(), ?verb, "a key was moved by request");
        Ok(entry.map(QueueEntry::from))
    }

    fn enqueue(
        &self,
        controller: &Controller,
        key: &Key,
        after: Duration,
        priority: Priority,
    ) -> Result<ChangeOutcome, Error> {
        self.check_name(key)?;
        if !controller.slot.may_get(key) {
            return Err(Error::NotGranted(key.clone()));
        }
        let add = |queue: &Queue<Key>, key, priority| queue.add_after(key, after, priority);
        match controller.feeders.deletions().add(key.clone(), priority, add) {
            Ok(_) => Ok(ChangeOutcome::Done),
            // The queue closes when its controller goes.
            Err(AddError::Closed) => Err(Error::UnknownController(controller.name.to_string())),
            Err(AddError::Full) => Err(Error::NoRoom(controller.name.to_string())),
        }
    }

    /// Checks that a resource could have this name. Nothing else is known of the kinds of which nothing is stored.
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
            (true, true) => Err(Error::BadDocument(format!("{} lives in a namespace: name one", key.kind()))),
            (false, false) => Err(Error::BadDocument(format!("{} lives in no namespace: name none", key.kind()))),
            _ => Ok(()),
        }
    }
}

impl Controller {
    /// Returns the key in the version that is managed.
    fn own(&self, key: &Key) -> Result<Key, Error> {
        let manages = self.slot.current().component().describe().manages.kind.clone();
        if !key.kind().same_type(&manages) {
            let (controller, asked) = (self.name.to_string(), key.kind().to_string());
            return Err(Error::NotManaged { controller, manages: manages.to_string(), asked });
        }
        Ok(Key::new(manages, key.namespace(), key.name()))
    }

    /// Does what puts a key first, which is the place of those that are let through while all others are held back.
    fn unless_deletions_go_first<R>(&self, act: impl FnOnce() -> R) -> Result<R, Error> {
        self.with_suspension(|suspension| match suspension {
            Suspend::ExceptDeletes => Err(Error::DeletionsFirst(self.name.to_string())),
            Suspend::No | Suspend::Yes => Ok(act()),
        })
    }
}
