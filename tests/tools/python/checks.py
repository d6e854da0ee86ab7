"""What the checks of `everyday.py` share: their list, resources, refusals and waits."""

import json

from kubernetes import client, watch
from kubernetes.client.rest import ApiException

SECONDS = 60
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def refused(call, code, reason=None):
    """Makes a call that has to be refused, and returns the body of the answer."""
    try:
        call()
    except ApiException as error:
        assert error.status == code, (error.status, error.body)
        body = json.loads(error.body)
        assert body["kind"] == "Status" and body["code"] == code, body
        assert reason is None or body["reason"] == reason, body
        return body
    raise AssertionError(f"it is not answered with {code}")


def meta(name, **more):
    return client.V1ObjectMeta(name=name, **more)


def config_map(name, data=None, **more):
    return client.V1ConfigMap(metadata=meta(name, **more), data=data)


def pod(name, **more):
    container = client.V1Container(name="main", image="app:1")
    return client.V1Pod(metadata=meta(name, **more), spec=client.V1PodSpec(containers=[container]))


def deployment(name, image="app:1", replicas=1):
    labels = {"app": name}
    container = client.V1Container(
        name="main", image=image, ports=[client.V1ContainerPort(container_port=80)],
        env=[client.V1EnvVar(name="A", value="1")],
    )
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    selector = client.V1LabelSelector(match_labels=labels)
    spec = client.V1DeploymentSpec(replicas=replicas, selector=selector, template=template)
    return client.V1Deployment(metadata=meta(name, labels=labels), spec=spec)


def definition():
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "size": {"type": "integer", "minimum": 0},
                                "replicas": {"type": "integer", "default": 1},
                                "tags": {"type": "array", "items": {"type": "string"}},
                            },
                        },
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                }
            },
        }
    ]
    names = {"plural": "boxes", "singular": "box", "kind": "Box", "shortNames": ["bx"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.python.example.com"},
        "spec": {"group": "python.example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


def boxes():
    """Defines the kind `Box`, and waits until it is served."""
    extensions = client.ApiextensionsV1Api()
    try:
        extensions.create_custom_resource_definition(definition())
    except ApiException as error:
        assert error.status == 409, error
    for event in watch.Watch().stream(
        extensions.list_custom_resource_definition,
        field_selector="metadata.name=boxes.python.example.com",
        timeout_seconds=SECONDS,
    ):
        status = event["object"].status
        conditions = (status and status.conditions) or []
        if any(each.type == "Established" and each.status == "True" for each in conditions):
            return
    raise AssertionError("the kind is not established")


def until_gone(listing, name, *where):
    selector = f"metadata.name={name}"
    found = listing(*where, field_selector=selector)
    if not found.items:
        return
    since = found.metadata.resource_version
    for event in watch.Watch().stream(
        listing, *where, field_selector=selector, resource_version=since, timeout_seconds=SECONDS
    ):
        if event["type"] == "DELETED":
            return
    raise AssertionError(f"{name} is still there")
