"""Runs the operator of `shop.py` as `kopf run --namespace` with its default settings, and uses it. Says `done` at the end.

The arguments are a kubeconfig and a file for what the operator says.
"""

import faulthandler
import os
import signal
import subprocess
import sys

from kubernetes import client, config, watch

SECONDS = 60
NAMESPACE = "market"
# A handler of a field is known by the field, too.
SCALE = "scale/spec.replicas"
SHOPS = ("example.com", "v1", NAMESPACE, "shops")

# A hanging test prints its stack.
faulthandler.dump_traceback_later(4 * SECONDS, exit=True)


def define(group, plural, kind):
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": loose, "status": loose}}},
    }
    if kind == "KopfPeering":
        # As in kopf's own peering.yaml: the status is no subresource.
        del version["subresources"]
    names = {"plural": plural, "singular": plural[:-1], "kind": kind}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    extensions = client.ApiextensionsV1Api()
    extensions.create_custom_resource_definition(body)
    until(
        extensions.list_custom_resource_definition, f"{plural}.{group}",
        lambda found: found.status
        and any(each.type == "Established" and each.status == "True" for each in found.status.conditions or []),
    )


def until(listing, name, wanted, *where):
    """Follows one resource until it is as wanted, or gone if `wanted` is `None`. Returns it."""
    selector = f"metadata.name={name}"
    last, since = None, {}
    if wanted is None:
        # It may go before the watch begins.
        found = listing(*where, field_selector=selector, _preload_content=False).json()
        if not found["items"]:
            return None
        since = {"resource_version": found["metadata"]["resourceVersion"]}
    for event in watch.Watch().stream(listing, *where, field_selector=selector, timeout_seconds=SECONDS, **since):
        last = event["object"]
        is_gone = event["type"] == "DELETED"
        if is_gone if wanted is None else not is_gone and wanted(last):
            return last
    raise AssertionError(f"{name} stays as {last}")


def start(log):
    command = [sys.executable, "-m", "kopf", "run", "--namespace", NAMESPACE]
    command.append(os.path.join(os.path.dirname(__file__), "shop.py"))
    return subprocess.Popen(command, stdout=log, stderr=log)


def stop(operator):
    operator.send_signal(signal.SIGTERM)
    assert operator.wait(SECONDS) == 0, operator.returncode


def main(kubeconfig, log):
    os.environ["KUBECONFIG"] = kubeconfig
    config.load_kube_config(kubeconfig)
    define("example.com", "shops", "Shop")
    define("kopf.dev", "kopfpeerings", "KopfPeering")
    core, custom = client.CoreV1Api(), client.CustomObjectsApi()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}}
    custom.create_namespaced_custom_object("kopf.dev", "v1", NAMESPACE, "kopfpeerings", peering)
    with open(log, "w") as said:
        operator = start(said)
        try:
            use(core, client.AppsV1Api(), custom)
            stop(operator)
            # It resumes the shops that it finds.
            before = core.read_namespaced_config_map("baker-ledger", NAMESPACE)
            assert "resumed" not in before.data, before
            operator = start(said)
            until(core.list_namespaced_config_map, "baker-ledger", lambda found: "resumed" in found.data, NAMESPACE)
            end(core, client.AppsV1Api(), custom)
            stop(operator)
        finally:
            operator.kill()
    peering = custom.get_namespaced_custom_object("kopf.dev", "v1", NAMESPACE, "kopfpeerings", "default")
    assert not peering.get("status"), peering
    print("done")


def use(core, apps, custom):
    shops = custom.list_namespaced_custom_object
    price = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="bread", labels={"role": "price"}), data={"price": "3"})
    core.create_namespaced_config_map(NAMESPACE, price)
    for name in ["baker", "butcher"]:
        # A ledger has no owner, so that it outlives the shop.
        ledger = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"{name}-ledger"), data={"opened": "no"})
        core.create_namespaced_config_map(NAMESPACE, ledger)
    body = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "baker"}, "spec": {"image": "bread:1"}}
    custom.create_namespaced_custom_object(*SHOPS, body)

    def is_made(shop):
        status = shop.get("status", {})
        return "create" in status and "hesitate" in status and status.get("ticks", 0) > 1

    shop = until(shops, "baker", is_made, *SHOPS)
    assert shop["status"]["create"] == {"deployment": "baker"} and shop["status"]["hesitate"] == {"retries": 2}, shop
    assert shop["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"], shop
    assert shop["metadata"]["annotations"]["example.com/deployment"] == "baker", shop
    made = apps.read_namespaced_deployment("baker", NAMESPACE)
    assert made.metadata.owner_references[0].kind == "Shop", made.metadata
    until(core.list_namespaced_config_map, "baker-ledger", lambda found: found.data.get("daemon") == "runs", NAMESPACE)
    until_reported(core, "baker", "Opened")
    custom.patch_namespaced_custom_object(*SHOPS, "baker", {"spec": {"replicas": 4}})
    shop = until(shops, "baker", lambda found: SCALE in found.get("status", {}), *SHOPS)
    assert shop["status"][SCALE] == {"replicas": 4, "price": "3"}, shop
    assert apps.read_namespaced_deployment("baker", NAMESPACE).spec.replicas == 4
    until_reported(core, "baker", "Scaled")
    apps.patch_namespaced_deployment("baker", NAMESPACE, {"metadata": {"annotations": {"example.com/watched": "a"}}})
    until(core.list_namespaced_config_map, "baker-ledger", lambda found: found.data.get("seen") == "a", NAMESPACE)
    body = {**body, "metadata": {"name": "butcher"}, "spec": {"image": "refused"}}
    custom.create_namespaced_custom_object(*SHOPS, body)
    until_reported(core, "butcher", "Refused")


def until_reported(core, name, reason):
    """Waits until there is an event about a shop."""
    selector = f"involvedObject.kind=Shop,involvedObject.name={name},reason={reason}"
    for _ in watch.Watch().stream(
        core.list_namespaced_event, NAMESPACE, field_selector=selector, timeout_seconds=SECONDS
    ):
        return
    raise AssertionError(f"no event {reason} about {name}")


def end(core, apps, custom):
    custom.delete_namespaced_custom_object(*SHOPS, "baker")
    until(custom.list_namespaced_custom_object, "baker", None, *SHOPS)
    ledger = core.read_namespaced_config_map("baker-ledger", NAMESPACE).data
    assert ledger["deleted"] == "yes" and ledger["daemon"] == "stopped", ledger
    until(apps.list_namespaced_deployment, "baker", None, NAMESPACE)
    custom.delete_namespaced_custom_object(*SHOPS, "butcher")
    until(custom.list_namespaced_custom_object, "butcher", None, *SHOPS)


main(*sys.argv[1:])
