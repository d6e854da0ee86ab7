"""An operator with handlers of every sort of kopf: each `Shop` has a deployment and a config map that says what happened."""

import os

import kopf
from kubernetes import client, config


@kopf.on.startup()
def start(**_):
    config.load_kube_config(os.environ["KUBECONFIG"])


@kopf.index("configmaps", labels={"role": "price"})
def prices(name, body, **_):
    return {name: body["data"]["price"]}


def record(namespace, name, key, value):
    """Notes in the ledger of a shop what happened."""
    client.CoreV1Api().patch_namespaced_config_map(f"{name}-ledger", namespace, {"data": {key: value}})


@kopf.on.create("shops")
def create(spec, name, namespace, body, patch, retry, **_):
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "shop", "image": spec["image"]}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": spec.get("replicas", 1), "selector": {"matchLabels": labels}, "template": template},
    }
    kopf.adopt(deployment, owner=body)
    client.AppsV1Api().create_namespaced_deployment(namespace, deployment)
    patch.metadata.annotations["example.com/deployment"] = name
    kopf.info(body, reason="Opened", message="the shop is open")
    return {"deployment": name}


@kopf.on.create("shops", id="hesitate")
def hesitate(retry, **_):
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.1)
    return {"retries": retry}


@kopf.on.create("shops", id="refuse", when=lambda spec, **_: spec.get("image") == "refused")
def refuse(body, **_):
    kopf.warn(body, reason="Refused", message="the image is refused")
    raise kopf.PermanentError("the image is refused")


@kopf.on.update("shops", id="scale", field="spec.replicas")
def scale(name, namespace, old, new, body, prices, **_):
    client.AppsV1Api().patch_namespaced_deployment_scale(name, namespace, {"spec": {"replicas": new}})
    kopf.event(body, type="Normal", reason="Scaled", message=f"from {old} to {new}")
    [price] = prices.get("bread", ["none"])
    return {"replicas": new, "price": price}


@kopf.on.resume("shops")
def resume(name, namespace, **_):
    record(namespace, name, "resumed", "yes")


@kopf.on.delete("shops")
def delete(name, namespace, **_):
    record(namespace, name, "deleted", "yes")


@kopf.timer("shops", interval=0.3, initial_delay=0.1)
def tick(status, patch, **_):
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.daemon("shops")
async def follow(stopped, name, namespace, **_):
    record(namespace, name, "daemon", "runs")
    while not stopped:
        await stopped.wait(10)
    record(namespace, name, "daemon", "stopped")


@kopf.on.event("deployments", annotations={"example.com/watched": kopf.PRESENT})
def seen(name, namespace, type, body, **_):
    if type != "DELETED":
        record(namespace, name, "seen", body["metadata"]["annotations"]["example.com/watched"])
