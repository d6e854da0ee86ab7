"""Uses every function of the layer for Python."""

import homeostat
from wit_world import exports

WHOLE = homeostat.kind("layers.example.dev/v1", "Whole")
PART = homeostat.kind("layers.example.dev/v1", "Part")


def part(whole, name):
    metadata = {
        "name": name,
        "namespace": whole["metadata"]["namespace"],
        "labels": {"of": whole["metadata"]["name"]},
        "ownerReferences": [homeostat.owner_reference(whole)],
    }
    return {"apiVersion": whole["apiVersion"], "kind": "Part", "metadata": metadata, "spec": whole["spec"]}


class Reconciler(exports.Reconciler):
    def describe(self):
        watches = [homeostat.owns("parts", PART, "parts")]
        return homeostat.controller(WHOLE, plural="wholes", watches=watches, resync_every_ms=3_600_000)

    @homeostat.reconciles
    def reconcile(self, key):
        whole = homeostat.get(key)
        if whole is None:
            return None
        if whole["spec"]["text"] == "later":
            raise homeostat.Failure("not yet", retry_after_ms=5000)
        new, old = part(whole, f"{key.name}-part"), part(whole, f"{key.name}-old")
        if homeostat.get(homeostat.key(new)) is None:
            homeostat.apply(old)
            homeostat.delete(homeostat.key(old))
            homeostat.delete(homeostat.key(old))
            made = homeostat.apply(new)
            homeostat.emit("Made", f"made {made['metadata']['name']}")
        owner, labels = whole["metadata"]["uid"], {"of": key.name}
        parts = list(homeostat.list_resources(PART, key.namespace, labels=labels, owner=owner))
        conditions = homeostat.set_condition(whole.get("status", {}).get("conditions"), "Seen", True, "Read")
        generation = whole["metadata"]["generation"]
        conditions = homeostat.set_condition(conditions, "Ready", True, "Counted", f"{len(parts)} part", generation)
        conditions = homeostat.set_condition(conditions, "Short", whole["spec"]["text"] == "x", "Read")
        status = {"text": whole["spec"]["text"], "parts": len(parts), "conditions": conditions}
        homeostat.update_status(key, status)
        homeostat.info("counted", parts=len(parts))
        return 60_000
