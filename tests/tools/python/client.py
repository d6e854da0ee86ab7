"""Uses a server as programs in Python use a cluster: the client of Kubernetes on its default settings. Says `done` at the end."""

import faulthandler
import sys

from kubernetes import client, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "default"
LABELS = {"app": "web"}
SECONDS = 40

# A hanging test prints its stack.
faulthandler.dump_traceback_later(SECONDS, exit=True)


def deployment(image, **more):
    container = client.V1Container(name="web", image=image)
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=LABELS), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=1, selector=client.V1LabelSelector(match_labels=LABELS), template=template
    )
    return client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec, **more)


def follow(listing, is_wanted, **since):
    """Follows a list until an event is wanted, and returns what it is about."""
    watching = watch.Watch()
    for event in watching.stream(listing, NAMESPACE, timeout_seconds=SECONDS, **since):
        if is_wanted(event["type"], event["object"]):
            watching.stop()
            return event["object"]
    raise AssertionError("the watch ended first")


def refused(call, code):
    try:
        call()
    except ApiException as error:
        assert error.status == code, error
    else:
        raise AssertionError(f"it is not answered with {code}")


def main(server):
    configuration = client.Configuration()
    configuration.host = server
    api = client.ApiClient(configuration)
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)

    assert client.VersionApi(api).get_code().minor == "36"
    assert "v1" in client.CoreApi(api).get_api_versions().versions
    assert "apps" in [group.name for group in client.ApisApi(api).get_api_versions().groups]

    # The client leaves out kind and apiVersion.
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="red")))
    assert [item.metadata.name for item in core.list_namespace().items] == ["red"]

    made = apps.create_namespaced_deployment(NAMESPACE, deployment("web:1"))
    assert made.metadata.generation == 1
    refused(lambda: apps.create_namespaced_deployment(NAMESPACE, deployment("web:1")), 409)

    long = deployment("web:1")
    long.metadata.annotations = {"long": "x" * (5 << 20)}
    refused(lambda: apps.create_namespaced_deployment(NAMESPACE, long), 413)

    def runs(_, pod):
        return pod.status and any(status.ready for status in pod.status.container_statuses or [])

    pod = follow(core.list_namespaced_pod, runs)
    pod = core.read_namespaced_pod(pod.metadata.name, NAMESPACE)
    assert pod.status.container_statuses[0].image_id == "web:1", pod.status
    listed = core.list_namespaced_pod(NAMESPACE, label_selector="app=web").items
    assert [item.metadata.name for item in listed] == [pod.metadata.name]

    apps.patch_namespaced_deployment("web", NAMESPACE, {"spec": {"replicas": 2}})
    follow(apps.list_namespaced_deployment, lambda _, found: found.status.ready_replicas == 2)
    applied = api.sanitize_for_serialization(deployment("web:2", api_version="apps/v1", kind="Deployment"))

    applying = client.ApiClient(configuration, "Content-Type", "application/apply-patch+yaml")

    def apply(force):
        return client.AppsV1Api(applying).patch_namespaced_deployment(
            "web", NAMESPACE, applied, field_manager="python", force=force
        )

    refused(lambda: apply(False), 409)
    assert apply(True).spec.template.spec.containers[0].image == "web:2"

    # The pods of the old image may go at any time now.
    pod = follow(core.list_namespaced_pod, lambda word, found: runs(word, found) and found.spec.containers[0].image == "web:2")

    # The watch starts at a revision before the deletion, which may be over before the watch opens.
    before = core.list_namespaced_pod(NAMESPACE).metadata.resource_version
    core.delete_namespaced_pod(pod.metadata.name, NAMESPACE)

    def is_gone(word, found):
        return (word, found.metadata.name) == ("DELETED", pod.metadata.name)

    follow(core.list_namespaced_pod, is_gone, resource_version=before)
    apps.delete_namespaced_deployment("web", NAMESPACE, body=client.V1DeleteOptions(propagation_policy="Background"))
    refused(lambda: apps.read_namespaced_deployment("web", NAMESPACE), 404)
    core.delete_namespace("red")
    refused(lambda: core.read_namespace("red"), 404)
    print("done")


main(sys.argv[1])
