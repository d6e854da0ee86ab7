//! The bounds of the memory that a host keeps between calls, as data for the table in `docs/limits.md`.

use homeostat_component::{Amount, FixedBound, NEEDS_BYTES_MAX};
use homeostat_store::embedded::Memory;
use homeostat_store::routes::RULES_MAX;
use homeostat_store::{INDEX_TERMS_MAX, STORES_MAX, UNDECLARED_INDEX_TERMS_MAX};

use crate::controller_reconciler::{GONE_BYTES, GONE_MAX, REASON_BYTES_MAX};
use crate::costs::{self, top_keys};
use crate::feeders::{MAPPED_KEYS_MAX, UNDELIVERED_KEYS_MAX, WAITING_BYTES_MAX};
use crate::fleet::HOSTS_MAX;
use crate::shared_watches::{BYTES_MAX as SHARED_BYTES_MAX, EVENTS_MAX as SHARED_EVENTS_MAX};
use crate::{CONTROLLERS_MAX, QUEUE_ERROR_BYTES_MAX, QUEUE_KEYS_MAX, events, follows, garbage, logs, rollout};

/// A bound, and whether its memory is measured or counted.
pub type Kept = (FixedBound, Memory);

/// Returns the fixed bounds of everything that guests and clients can make grow.
pub fn kept() -> Vec<Kept> {
    let of_controllers = [
        (
            count(
                "controllers, with those that are ending (`--controllers`)",
                CONTROLLERS_MAX,
                "refused: limit `controllers`",
            )
            .0,
            Memory::Counted("each has what these rows say, and some 0.3 MiB"),
        ),
        count(
            "keys on the queues of all controllers (`--queue-keys`)",
            QUEUE_KEYS_MAX as usize,
            "refused: limit `keys`",
        ),
        bytes(
            "bytes of the errors that are kept for them (`--queue-error-bytes`)",
            QUEUE_ERROR_BYTES_MAX,
            "left out: limit `error-bytes`",
        ),
        bytes(
            "bytes of the needs that a controller was observed to have",
            NEEDS_BYTES_MAX,
            "names of a kind, or addresses of a host, are taken together",
        ),
        count("keys of a controller with costs of their own", top_keys::KEYS_MAX, "the cheapest go"),
        bytes("bytes of these costs, on all threads", costs::BYTES_MAX, "the cheapest go"),
        bytes(
            "bytes of resources and selectors that the keys of a controller follow",
            follows::BYTES_MAX,
            "`too-large`; existing follows stay",
        ),
    ];
    let others = of_outcomes().into_iter().chain(of_feeders()).chain(of_rollouts()).chain(of_stores());
    of_controllers.into_iter().chain(others).collect()
}

fn of_stores() -> [Kept; 6] {
    let counted = |kept: Kept, why| (kept.0, Memory::Counted(why));
    let written = "the operator writes them in one file";
    [
        counted(count("stores of a host, with its own (`--stores`)", STORES_MAX, "refused at the start"), written),
        counted(count("rules that say which kinds live in them", RULES_MAX, "refused at the start"), written),
        counted(
            count(
                "kinds of a store without one order of all kinds whose garbage is collected",
                garbage::KINDS_MAX,
                "the garbage of the others stays, which a warning says",
            ),
            "each has one watch, and the queue of a native controller",
        ),
        counted(
            count(
                "declared indexes of a kind, labels and fields together",
                INDEX_TERMS_MAX,
                "the definition is refused",
            ),
            "those of a file are on the disk, those of a cache are in its `bytesMax`",
        ),
        counted(
            count(
                "labels and fields of a kind with an index in memory that nothing declares",
                UNDECLARED_INDEX_TERMS_MAX,
                "the one that was used least recently goes",
            ),
            "those of a cache are in its `bytesMax`",
        ),
        counted(
            count(
                "hosts of a fleet that have a resource",
                HOSTS_MAX,
                "a host that is gone gives way, and a further one has none",
            ),
            "each renews a record in a shared store",
        ),
    ]
}

fn of_outcomes() -> [Kept; 8] {
    let loses = "the controller that has most loses its oldest";
    [
        count("events of all controllers (`--events`)", events::EVENTS_MAX, loses),
        bytes("bytes of the message of an event", events::MESSAGE_BYTES_MAX as u64, "cut"),
        count("lines of the log of a controller", logs::LINES_MAX, "the oldest go"),
        bytes("bytes of the log of a controller", logs::BYTES_MAX, "the oldest go"),
        bytes("bytes of the logs of all controllers", logs::BYTES_OF_ALL_MAX, loses),
        (
            bytes("bytes of the reason of a sync result", REASON_BYTES_MAX as u64, "cut").0,
            Memory::Counted("each `Controller` that is stored has one"),
        ),
        count("sync results of removed controllers", GONE_MAX, "the oldest go"),
        bytes("bytes of these results", GONE_MAX as u64 * GONE_BYTES, "the oldest go"),
    ]
}

fn of_feeders() -> [Kept; 5] {
    let (resync, history) = ("found by the next resync", "read again from the history of the store");
    [
        bytes(
            "bytes of documents of a watch that wait for `map`",
            WAITING_BYTES_MAX,
            "the watch lists again when there is room",
        ),
        count(
            "keys returned by `map` that a watch remembers",
            MAPPED_KEYS_MAX,
            "the next resync finds keys that are no longer mapped to",
        ),
        count("keys of deleted resources that wait for room, of a watch", UNDELIVERED_KEYS_MAX, resync),
        count("changes of a kind that feeders share", SHARED_EVENTS_MAX, history),
        bytes("bytes of these changes, with their documents as they are once parsed", SHARED_BYTES_MAX, history),
    ]
}

fn of_rollouts() -> [Kept; 4] {
    let (in_sum, chosen) = ("counted only in the totals", "those with the smallest hashes are chosen");
    [
        count("keys of which a rollout counts rows of writes, by version", rollout::KEYS_MAX, in_sum),
        bytes("bytes of what it knows of them, by version", rollout::FIGURES_BYTES_MAX, in_sum),
        count("keys that the labels of a rollout choose", rollout::PINNED_KEYS_MAX, chosen),
        bytes("bytes of what it knows of these", rollout::CHOSEN_BYTES_MAX, chosen),
    ]
}

fn count(what: &'static str, most: usize, then: &'static str) -> Kept {
    (FixedBound { what, most: Amount::Count(most as u64), then }, Memory::Measured)
}

fn bytes(what: &'static str, most: u64, then: &'static str) -> Kept {
    (FixedBound { what, most: Amount::Bytes(most), then }, Memory::Measured)
}

#[cfg(test)]
pub(crate) mod tests;
