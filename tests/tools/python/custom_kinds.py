"""Checks of custom resources, the dynamic client and files of manifests."""

import os
import tempfile

from checks import boxes, check, deployment, refused, SECONDS
from kubernetes import client, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError


@check
def custom_resources(namespace):
    boxes()
    api = client.CustomObjectsApi()
    kind = ("python.example.com", "v1", namespace, "boxes")

    def box(name, **spec):
        return {
            "apiVersion": "python.example.com/v1", "kind": "Box", "metadata": {"name": name}, "spec": spec,
        }

    made = api.create_namespaced_custom_object(*kind, box("a", size=1))
    assert made["spec"] == {"size": 1, "replicas": 1} and made["metadata"]["generation"] == 1, made
    body = refused(lambda: api.create_namespaced_custom_object(*kind, box("b", size=-1)), 422, "Invalid")
    assert body["details"]["causes"][0]["field"] == "spec.size", body
    refused(lambda: api.create_namespaced_custom_object(*kind, {**box("b"), "kind": "Other"}), 422, "Invalid")
    strict = refused(
        lambda: api.create_namespaced_custom_object(*kind, box("b", other=1), field_validation="Strict"), 400
    )
    assert 'unknown field "spec.other"' in strict["message"], strict
    tried = api.create_namespaced_custom_object(*kind, box("b", size=1), dry_run="All")
    assert tried["metadata"]["uid"]
    # The client sends every patch of such an object as a merge patch.
    patched = api.patch_namespaced_custom_object(*kind, "a", {"spec": {"size": None, "tags": ["x", "y"]}})
    assert patched["spec"] == {"replicas": 1, "tags": ["x", "y"]}, patched
    steps = [{"op": "remove", "path": "/spec/tags/0"}]
    refused(lambda: api.patch_namespaced_custom_object(*kind, "a", steps), 400, "BadRequest")
    status = api.patch_namespaced_custom_object_status(*kind, "a", {"status": {"ready": True}, "spec": {"size": 9}})
    assert status["status"] == {"ready": True} and "size" not in status["spec"]
    current = api.get_namespaced_custom_object(*kind, "a")
    assert current["metadata"]["generation"] == 2, current
    current["status"] = {"ready": False, "replicas": 5}
    assert api.replace_namespaced_custom_object_status(*kind, "a", current)["status"]["replicas"] == 5
    refused(lambda: api.replace_namespaced_custom_object(*kind, "a", current), 409)
    without = box("a", size=2)
    refused(lambda: api.replace_namespaced_custom_object(*kind, "a", without), 422)
    scale = api.get_namespaced_custom_object_scale(*kind, "a")
    assert scale["kind"] == "Scale" and scale["status"]["replicas"] == 5, scale
    scaled = api.patch_namespaced_custom_object_scale(*kind, "a", {"spec": {"replicas": 7}})
    assert scaled["spec"]["replicas"] == 7
    found = api.list_namespaced_custom_object(*kind, label_selector="x=y")
    assert found["kind"] == "BoxList" and found["items"] == [], found
    everywhere = api.list_cluster_custom_object("python.example.com", "v1", "boxes")
    assert "a" in [item["metadata"]["name"] for item in everywhere["items"]]
    for event in watch.Watch().stream(api.list_namespaced_custom_object, *kind, timeout_seconds=SECONDS):
        assert event["type"] == "ADDED" and event["object"]["spec"]["replicas"] == 7, event
        break
    gone = api.delete_namespaced_custom_object(*kind, "a")
    assert gone["status"] == "Success" and gone["details"]["kind"] == "boxes", gone
    api.delete_collection_namespaced_custom_object(*kind)
    refused(lambda: api.get_namespaced_custom_object(*kind, "a"), 404)
    try:
        api.list_cluster_custom_object("python.example.com", "v9", "boxes")
        raise AssertionError("the version is served")
    except ApiException as error:
        assert error.status == 404, error
    resources = api.get_api_resources("python.example.com", "v1").resources
    assert [each.name for each in resources] == ["boxes", "boxes/status", "boxes/scale"], resources


@check
def the_dynamic_client(namespace):
    boxes()
    with tempfile.TemporaryDirectory() as folder:
        found = dynamic.DynamicClient(client.ApiClient(), cache_file=os.path.join(folder, "cache"))
        use_dynamic(found, namespace)


def use_dynamic(found, namespace):
    pods = found.resources.get(api_version="v1", kind="Pod")
    assert pods.name == "pods" and pods.namespaced
    maps = found.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"x": "1"}}
    made = maps.create(body=body, namespace=namespace)
    assert made.data.x == "1" and made.metadata.uid
    try:
        maps.create(body=body, namespace=namespace)
        raise AssertionError("created twice")
    except ConflictError as error:
        assert error.summary() == 'configmaps "d" already exists', error.summary()
    patched = maps.patch(
        name="d", namespace=namespace, body={"data": {"y": "2"}}, content_type="application/merge-patch+json"
    )
    assert patched.data.to_dict() == {"x": "1", "y": "2"}
    assert maps.patch(name="d", namespace=namespace, body={"data": {"x": "5"}}).data.x == "5"
    applied = maps.server_side_apply(
        namespace=namespace, field_manager="dynamic", force_conflicts=True, body={**body, "data": {"x": "3"}}
    )
    assert applied.data.x == "3"
    current = maps.get(name="d", namespace=namespace)
    current.data.z = "4"
    assert maps.replace(body=current.to_dict(), namespace=namespace).data.z == "4"
    assert [item.metadata.name for item in maps.get(namespace=namespace, field_selector="metadata.name=d").items] == ["d"]
    for event in maps.watch(namespace=namespace, timeout=SECONDS):
        if event["object"].metadata.name == "d":
            assert event["type"] == "ADDED"
            break
    deployments = found.resources.get(api_version="apps/v1", kind="Deployment")
    body = client.ApiClient().sanitize_for_serialization(deployment("dyn"))
    deployments.create(body={"apiVersion": "apps/v1", "kind": "Deployment", **body}, namespace=namespace)
    assert deployments.scale.get(name="dyn", namespace=namespace).spec.replicas == 1
    deployments.scale.patch(
        name="dyn", namespace=namespace, body={"spec": {"replicas": 3}}, content_type="application/merge-patch+json"
    )
    assert deployments.get(name="dyn", namespace=namespace).spec.replicas == 3
    box = found.resources.get(api_version="python.example.com/v1", kind="Box")
    body = {"apiVersion": "python.example.com/v1", "kind": "Box", "metadata": {"name": "d"}, "spec": {"size": 1}}
    assert box.create(body=body, namespace=namespace).spec.replicas == 1
    box.status.patch(
        name="d", namespace=namespace, body={"status": {"ok": True}}, content_type="application/merge-patch+json"
    )
    assert box.get(name="d", namespace=namespace).status.ok is True
    assert found.resources.get(short_names=["bx"], group="python.example.com").kind == "Box"
    every = found.resources.search(kind="Event")
    assert {each.group_version for each in every} >= {"v1", "events.k8s.io/v1"}, every
    maps.delete(name="d", namespace=namespace)
    try:
        maps.get(name="d", namespace=namespace)
        raise AssertionError("it is still there")
    except NotFoundError:
        pass
    try:
        found.resources.get(api_version="v1", kind="Nothing")
        raise AssertionError("the kind exists")
    except ResourceNotFoundError:
        pass
    versions = found.version["kubernetes"]
    assert versions["major"] == "1", versions


FILE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: from-file}
data: {a: "1"}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: from-list}
  spec: {selector: {app: web}, ports: [{port: 80}]}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: from-list}
  rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: from-file}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: from-file}
spec:
  schedule: "*/5 * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: from-file}
spec: {defaultBackend: {service: {name: from-list, port: {number: 80}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: from-file}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: from-file}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: from-file}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


@check
def files(namespace):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(FILE)
        file.flush()
        made = utils.create_from_yaml(client.ApiClient(), file.name, namespace=namespace)
        assert len(made) == 7, made
        try:
            utils.create_from_yaml(client.ApiClient(), file.name, namespace=namespace)
            raise AssertionError("created twice")
        except utils.FailToCreateError as error:
            assert {each.status for each in error.api_exceptions} == {409}, error
        utils.create_from_yaml(client.ApiClient(), file.name, namespace=namespace, apply=True)
        utils.delete_from_yaml(client.ApiClient(), file.name, namespace=namespace) if hasattr(
            utils, "delete_from_yaml"
        ) else None
    made = client.AutoscalingV2Api().list_namespaced_horizontal_pod_autoscaler(namespace).items
    assert not made or made[0].spec.min_replicas == 1
