//! The bounds of the memory that a host keeps between calls, as data for the table in `docs/limits.md`.

use homeostat_component::{Amount, FixedBound};

use crate::costs::dearest;
use crate::feeders::{MAPPED_KEYS_MAX, SHARED_BYTES_MAX, SHARED_EVENTS_MAX, UNDELIVERED_KEYS_MAX, WAITING_BYTES_MAX};
use crate::keeper::GONE_MAX;
use crate::{CONTROLLERS_MAX, QUEUE_ERROR_BYTES_MAX, QUEUE_KEYS_MAX, events, follows, logs, rollout};

/// Returns the fixed bounds of everything that guests and clients can make grow.
pub fn kept() -> Vec<FixedBound> {
    use Amount::{Bytes, Count};
    let count = |count: usize| Count(count as u64);
    let all = [
        (
            "controllers, with those that are ending (`--controllers`)",
            count(CONTROLLERS_MAX),
            "refused: limit `controllers`",
        ),
        ("keys on the queues of all controllers (`--queue-keys`)", Count(QUEUE_KEYS_MAX), "refused: limit `keys`"),
        (
            "bytes of the errors that are kept for them (`--queue-error-bytes`)",
            Bytes(QUEUE_ERROR_BYTES_MAX),
            "left out: limit `error-bytes`",
        ),
        ("events of all controllers", count(events::EVENTS_MAX), "the controller that has most loses its oldest"),
        ("bytes of the message of an event", Bytes(events::MESSAGE_BYTES_MAX as u64), "cut"),
        ("lines of the log of a controller", count(logs::LINES_MAX), "the oldest go"),
        ("bytes of the log of a controller", Bytes(logs::BYTES_MAX), "the oldest go"),
        (
            "bytes of the logs of all controllers",
            Bytes(logs::BYTES_OF_ALL_MAX),
            "the one that has most loses its oldest",
        ),
        (
            "bytes of resources and selectors that the keys of a controller follow",
            Bytes(follows::BYTES_MAX),
            "`too-large`; existing follows stay",
        ),
        (
            "bytes of documents of a watch that wait for `map`",
            Bytes(WAITING_BYTES_MAX),
            "the watch lists again when there is room",
        ),
        (
            "keys returned by `map` that a watch remembers",
            count(MAPPED_KEYS_MAX),
            "the next resync finds keys that are no longer mapped to",
        ),
        (
            "keys of deleted resources that wait for room, of a watch",
            count(UNDELIVERED_KEYS_MAX),
            "found by the next resync",
        ),
        ("changes of a kind that feeders share", count(SHARED_EVENTS_MAX), "read again from the history of the store"),
        (
            "bytes of these, with their documents as they are once parsed",
            Bytes(SHARED_BYTES_MAX),
            "read again from the history of the store",
        ),
        (
            "keys of which a rollout counts rows of writes, by version",
            count(rollout::KEYS_MAX),
            "counted only in the totals",
        ),
        (
            "keys that the labels of a rollout choose",
            count(rollout::PINNED_KEYS_MAX),
            "those with the smallest hashes are chosen",
        ),
        ("sync results of removed controllers", count(GONE_MAX), "the oldest go"),
        ("keys of a controller with costs of their own", count(dearest::KEYS_MAX), "the cheapest go"),
    ];
    all.into_iter().map(|(what, most, then)| FixedBound { what, most, then }).collect()
}

#[cfg(test)]
pub(crate) mod tests;
