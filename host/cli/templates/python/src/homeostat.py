"""Resources as dictionaries, and errors as exceptions: a thin layer over the host's interfaces in `wit`.

The generated bindings below `wit_world` have everything else that the contract offers.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from componentize_py_types import Err
from wit_world.exports import reconciler
from wit_world.imports import events, log, types
from wit_world.imports import homeostat_reconciler_store as store
from wit_world.imports.types import Key, Kind

#: A resource: `apiVersion`, `kind`, `metadata`, `spec` and `status`.
Document = dict[str, Any]

#: Items of one page of a list, at most: the host's own bound.
PAGE_ITEMS_MAX = 500


@dataclass(eq=False)
class StoreError(Exception):
    """The host refused a request. `reason` is the name of the case, such as `NotFound` or `Conflict`."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class Failure(Exception):
    """Ends a reconcile as failed. `retry_after_ms` replaces the backoff; `retry=False` parks the key."""

    def __init__(self, message: str, retry_after_ms: int | None = None, retry: bool = True):
        super().__init__(message)
        self.retry_after_ms = retry_after_ms
        self.retry = retry


def kind(api_version: str, name: str) -> Kind:
    """Return the kind `name` of an `apiVersion`, such as `apps/v1`."""
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, name)


def key(document: Document) -> Key:
    """Return the key of a document."""
    metadata = document["metadata"]
    return Key(kind(document["apiVersion"], document["kind"]), metadata.get("namespace", ""), metadata["name"])


def controller(
    manages: Kind,
    plural: str,
    *,
    namespaced: bool = True,
    schema: Document | None = None,
    watches: list[reconciler.Watch] | None = None,
    resync_every_ms: int | None = None,
) -> reconciler.ControllerSpec:
    """Return the description of a controller whose own writes of a status do not run it again."""
    text = None if schema is None else json.dumps(schema)
    declaration = reconciler.KindDeclaration(manages, plural, namespaced, False, text)
    changes, during_delay = reconciler.Changes.BUT_STATUS, reconciler.DuringDelay.RUN_NOW
    return reconciler.ControllerSpec(
        declaration, changes, watches or [], None, resync_every_ms, None, None, during_delay
    )


def owns(name: str, of: Kind, plural: str, *, namespaced: bool = True) -> reconciler.Watch:
    """Return a watch of resources that the controller writes, and that name their owner."""
    declaration = reconciler.KindDeclaration(of, plural, namespaced, False, None)
    return reconciler.Watch(
        name, declaration, reconciler.Mapping_Owner(), reconciler.Changes.ALL, reconciler.Role.SECONDARY
    )


def owner_reference(owner: Document) -> Document:
    """Return the owner reference that lets the host delete a resource after its owner."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def get(key: Key) -> Document | None:
    """Return the document of `key`, or None if the resource does not exist. Raises StoreError."""
    try:
        return json.loads(_call(store.get, key, types.View.WHOLE).json)
    except StoreError as error:
        if error.reason == "NotFound":
            return None
        raise


def list_resources(
    kind: Kind, namespace: str | None = None, labels: dict[str, str] | None = None, owner: str | None = None
) -> Iterator[Document]:
    """Yield the documents of `kind`, page by page. `owner` is the uid of an owner. Raises StoreError."""
    requirements = [types.LabelRequirement_Equals(pair) for pair in (labels or {}).items()]
    selector = types.Selector(namespace, requirements, [], owner)
    start = None
    while True:
        page = _call(store.list, kind, selector, types.View.WHOLE, PAGE_ITEMS_MAX, start)
        yield from (json.loads(item.json) for item in page.items)
        start = page.next
        if start is None:
            return


def apply(document: Document, force: bool = False) -> Document:
    """Apply the fields of `document`, and return the document as stored. Raises StoreError."""
    return json.loads(_call(store.apply, json.dumps(document), force).json)


def update_status(key: Key, status: Document) -> Document:
    """Replace the status of `key`, and return the document as stored. Raises StoreError."""
    return json.loads(_call(store.update_status, key, json.dumps(status), types.Precondition(None, None)).json)


def set_condition(
    conditions: list[Document] | None,
    type: str,
    status: bool | None,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
) -> list[Document]:
    """Return conditions with one of them set. A status of None is unknown.

    `lastTransitionTime` stays as long as the status of the condition does, so an equal condition changes nothing.
    """
    words = {True: "True", False: "False", None: "Unknown"}
    condition: Document = {"type": type, "status": words[status], "reason": reason, "message": message}
    if observed_generation is not None:
        condition["observedGeneration"] = observed_generation
    former = next((one for one in conditions or [] if one["type"] == type), None)
    if former is not None and former["status"] == condition["status"]:
        condition["lastTransitionTime"] = former["lastTransitionTime"]
    else:
        condition["lastTransitionTime"] = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if former is None:
        return [*(conditions or []), condition]
    return [condition if one is former else one for one in conditions or []]


def delete(key: Key) -> None:
    """Delete `key`, and later what it owns. A resource that is gone already is no error. Raises StoreError."""
    try:
        _call(store.delete, key, types.Precondition(None, None), store.Propagation.BACKGROUND)
    except StoreError as error:
        if error.reason != "NotFound":
            raise


def emit(reason: str, message: str, *, warning: bool = False) -> None:
    """Emit an event about the key of this reconcile. `reason` is one word in CamelCase."""
    severity = events.Severity.WARNING if warning else events.Severity.NORMAL
    events.emit(severity, reason, message, None)


def info(message: str, **fields: object) -> None:
    """Write a line to the controller's log."""
    log.write(log.Level.INFO, message, [(name, str(value)) for name, value in fields.items()])


def reconciles(function: Callable[[Any, Key], int | None]) -> Callable[[Any, Key], types.Outcome]:
    """Let a `reconcile` return None or milliseconds, and turn its Failure and StoreError into failures."""

    def reconcile(self: Any, key: Key) -> types.Outcome:
        try:
            after_ms = function(self, key)
        except Failure as failure:
            raise Err(types.Failure(str(failure), _retry(failure))) from failure
        except StoreError as error:
            raise Err(types.Failure(str(error), types.Retry_Backoff())) from error
        return types.Outcome_Settled() if after_ms is None else types.Outcome_AgainAfter(after_ms)

    return reconcile


def _retry(failure: Failure) -> types.Retry:
    if not failure.retry:
        return types.Retry_Never()
    if failure.retry_after_ms is not None:
        return types.Retry_After(failure.retry_after_ms)
    return types.Retry_Backoff()


def _call(function: Callable[..., Any], *arguments: object) -> Any:
    try:
        return function(*arguments)
    except Err as error:
        case = type(error.value).__name__.removeprefix("StoreError_")
        raise StoreError(case, error.value.value) from error
