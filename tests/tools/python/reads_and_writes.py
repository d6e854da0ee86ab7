"""Checks of discovery, reads, writes, patches, selectors and watches."""

import threading

from checks import check, config_map, deployment, meta, pod, refused, SECONDS
from kubernetes import client, watch
from kubernetes.client.rest import ApiException


@check
def discovery(_):
    assert client.VersionApi().get_code().major == "1"
    assert "v1" in client.CoreApi().get_api_versions().versions
    groups = {group.name: group for group in client.ApisApi().get_api_versions().groups}
    for name in ["apps", "batch", "coordination.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io"]:
        assert groups[name].preferred_version.version == "v1", groups[name]
    names = {each.name: each for each in client.CoreV1Api().get_api_resources().resources}
    assert names["pods"].short_names == ["po"] and names["pods"].categories == ["all"], names["pods"]
    assert "pods/status" in names and names["pods/status"].verbs == ["get", "patch", "update"], names
    assert client.AppsV1Api().get_api_resources().group_version == "apps/v1"
    assert client.AppsApi().get_api_group().preferred_version.group_version == "apps/v1"


@check
def config_maps_and_secrets(namespace):
    core = client.CoreV1Api()
    made = core.create_namespaced_config_map(namespace, config_map("a", {"x": "1"}))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo is not None
    assert made.metadata.managed_fields[0].manager == "OpenAPI-Generator", made.metadata.managed_fields
    assert "already exists" in refused(
        lambda: core.create_namespaced_config_map(namespace, config_map("a")), 409, "AlreadyExists"
    )["message"]
    made.data["y"] = "2"
    changed = core.replace_namespaced_config_map("a", namespace, made)
    assert changed.data == {"x": "1", "y": "2"}
    made.data["y"] = "3"
    refused(lambda: core.replace_namespaced_config_map("a", namespace, made), 409, "Conflict")
    same = core.replace_namespaced_config_map("a", namespace, changed)
    assert same.metadata.resource_version == changed.metadata.resource_version
    # Binary data and text for a secret.
    secret = client.V1Secret(metadata=meta("s"), data={"a": "AAEC"}, string_data={"b": "text"})
    made = core.create_namespaced_secret(namespace, secret)
    assert made.data == {"a": "AAEC", "b": "dGV4dA=="} and made.type == "Opaque", made
    secret = client.V1Secret(metadata=meta("t"), type="kubernetes.io/tls", data={"tls.crt": ""})
    causes = refused(lambda: core.create_namespaced_secret(namespace, secret), 422, "Invalid")["details"]["causes"]
    assert causes[0]["field"] == "data[tls.key]", causes
    generated = core.create_namespaced_config_map(
        namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="g-"))
    )
    assert generated.metadata.name.startswith("g-") and len(generated.metadata.name) == 7
    immutable = core.create_namespaced_config_map(
        namespace, client.V1ConfigMap(metadata=meta("i"), immutable=True, data={"a": "1"})
    )
    immutable.data = {"a": "2"}
    refused(lambda: core.replace_namespaced_config_map("i", namespace, immutable), 422)
    refused(lambda: core.create_namespaced_config_map(namespace, config_map("Not_A_Name")), 422)
    refused(lambda: core.create_namespaced_config_map("nowhere", config_map("a")), 404, "NotFound")
    refused(lambda: core.read_namespaced_config_map("none", namespace), 404, "NotFound")


@check
def answers_without_models(namespace):
    core = client.CoreV1Api()
    core.create_namespaced_config_map(namespace, config_map("a", {"x": "1"}))
    raw = core.read_namespaced_config_map("a", namespace, _preload_content=False)
    assert raw.status == 200 and raw.headers["Content-Type"] == "application/json" and b'"x":"1"' in raw.data
    _, code, headers = core.list_namespaced_config_map_with_http_info(namespace)
    assert code == 200 and headers["Content-Type"] == "application/json", headers
    _, code, _ = core.create_namespaced_config_map_with_http_info(namespace, config_map("b"))
    assert code == 201
    future = core.list_namespaced_config_map(namespace, async_req=True)
    assert "a" in [item.metadata.name for item in future.get().items]


@check
def patches(namespace):
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    apps.create_namespaced_deployment(namespace, deployment("web"))
    # A dictionary is a strategic merge patch, and a list a JSON patch.
    env = {"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]}}}}
    patched = apps.patch_namespaced_deployment("web", namespace, env)
    container = patched.spec.template.spec.containers[0]
    assert container.image == "app:1" and {each.name for each in container.env} == {"A", "B"}, container
    assert patched.metadata.generation == 2
    steps = [
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 3},
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}},
    ]
    patched = apps.patch_namespaced_deployment("web", namespace, steps)
    assert patched.spec.replicas == 3 and patched.metadata.annotations["a"] == "b"
    refused(lambda: apps.patch_namespaced_deployment("web", namespace, steps), 422, "Invalid")
    # The first of the content types of a patch is the default, and a header chooses another.
    merging = client.CoreV1Api(client.ApiClient(header_name="Content-Type", header_value="application/merge-patch+json"))
    core.create_namespaced_config_map(namespace, config_map("m", {"x": "1", "y": "2"}))
    merged = merging.patch_namespaced_config_map("m", namespace, {"data": {"x": None, "z": "3"}})
    assert merged.data == {"y": "2", "z": "3"}
    directive = {"data": {"$patch": "replace", "only": "this"}}
    assert core.patch_namespaced_config_map("m", namespace, directive).data == {"only": "this"}
    status = {"status": {"replicas": 3, "readyReplicas": 2}}
    assert apps.patch_namespaced_deployment_status("web", namespace, status).status.ready_replicas == 2
    selector = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    causes = refused(lambda: apps.patch_namespaced_deployment("web", namespace, selector), 422)["details"]["causes"]
    assert causes, causes
    refused(lambda: apps.patch_namespaced_deployment("none", namespace, env), 404)


@check
def applies(namespace):
    serialize = client.ApiClient().sanitize_for_serialization
    applying = client.ApiClient(header_name="Content-Type", header_value="application/apply-patch+yaml")
    apps = client.AppsV1Api(applying)

    def apply(document, manager, **more):
        body = {"apiVersion": "apps/v1", "kind": "Deployment", **serialize(document)}
        return apps.patch_namespaced_deployment("web", namespace, body, field_manager=manager, **more)

    made = apply(deployment("web"), "one")
    assert made.metadata.managed_fields[0].operation == "Apply", made.metadata.managed_fields
    again = apply(deployment("web"), "one")
    assert again.metadata.resource_version == made.metadata.resource_version
    causes = refused(lambda: apply(deployment("web", "app:2"), "two"), 409, "Conflict")["details"]["causes"]
    assert [cause["reason"] for cause in causes] == ["FieldManagerConflict"], causes
    assert 'conflict with "one"' in causes[0]["message"], causes
    assert causes[0]["field"] == '.spec.template.spec.containers[name="main"].image', causes
    forced = apply(deployment("web", "app:2"), "two", force=True)
    assert forced.spec.template.spec.containers[0].image == "app:2"
    body = {"apiVersion": "apps/v1", "kind": "Deployment", **serialize(deployment("web"))}
    refused(lambda: apps.patch_namespaced_deployment("web", namespace, body), 422, "Invalid")


@check
def lists_and_selectors(namespace):
    core = client.CoreV1Api()
    for number in range(7):
        labels = {"number": str(number), "parity": "odd" if number % 2 else "even"}
        core.create_namespaced_config_map(namespace, config_map(f"c{number}", labels=labels))

    def names(**selectors):
        return [item.metadata.name for item in core.list_namespaced_config_map(namespace, **selectors).items]

    assert names(label_selector="parity=odd") == ["c1", "c3", "c5"]
    assert names(label_selector="parity!=odd,number notin (0,2)") == ["c4", "c6"]
    assert names(label_selector="number in (1, 2),parity") == ["c1", "c2"]
    assert names(label_selector="!parity") == []
    assert names(field_selector="metadata.name=c3") == ["c3"]
    assert names(field_selector="metadata.name!=c3", label_selector="parity=odd") == ["c1", "c5"]
    refused(lambda: names(label_selector="a in b"), 400)
    refused(lambda: names(field_selector="data.x=1"), 400)
    first = core.list_namespaced_config_map(namespace, limit=3)
    assert len(first.items) == 3, first.metadata
    second = core.list_namespaced_config_map(namespace, limit=3, _continue=first.metadata._continue)
    third = core.list_namespaced_config_map(namespace, limit=3, _continue=second.metadata._continue)
    assert [item.metadata.name for item in third.items] == ["c6"] and not third.metadata._continue
    assert second.metadata.resource_version == first.metadata.resource_version
    refused(lambda: core.list_namespaced_config_map(namespace, limit=3, _continue="nonsense"), 400)
    assert len(core.list_config_map_for_all_namespaces(label_selector="parity=odd").items) == 3
    for name, node, phase in [("p1", "n1", "Running"), ("p2", "n2", "Running"), ("p3", "n1", "Failed")]:
        made = pod(name)
        made.spec.node_name = node
        core.create_namespaced_pod(namespace, made)
        core.patch_namespaced_pod_status(name, namespace, {"status": {"phase": phase}})

    def pods(selector):
        return [item.metadata.name for item in core.list_namespaced_pod(namespace, field_selector=selector).items]

    assert pods("spec.nodeName=n1") == ["p1", "p3"]
    assert pods("status.phase=Running,spec.nodeName!=n2") == ["p1"]
    deleted = core.delete_collection_namespaced_config_map(namespace, label_selector="parity=odd")
    assert deleted.kind in ("Status", "ConfigMapList"), deleted
    assert names() == ["c0", "c2", "c4", "c6"], names()


@check
def watches(namespace):
    core = client.CoreV1Api()
    core.create_namespaced_config_map(namespace, config_map("first", {"n": "0"}))
    seen = []
    ready = threading.Event()

    def write():
        ready.wait(SECONDS)
        core.create_namespaced_config_map(namespace, config_map("second"))
        core.patch_namespaced_config_map("first", namespace, {"data": {"n": "1"}})
        core.delete_namespaced_config_map("second", namespace)

    writer = threading.Thread(target=write)
    writer.start()
    watching = watch.Watch()
    for event in watching.stream(core.list_namespaced_config_map, namespace, timeout_seconds=SECONDS):
        assert event["object"].api_version == "v1" and event["raw_object"]["kind"] == "ConfigMap", event
        seen.append((event["type"], event["object"].metadata.name))
        ready.set()
        if event["type"] == "DELETED":
            watching.stop()
    writer.join()
    assert seen == [("ADDED", "first"), ("ADDED", "second"), ("MODIFIED", "first"), ("DELETED", "second")], seen
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("third"))
    listing = core.list_namespaced_config_map
    for event in watch.Watch().stream(listing, namespace, resource_version=since, timeout_seconds=SECONDS):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "third"), event
        break
    # A watch without events ends after its time.
    selected = watch.Watch().stream(listing, namespace, label_selector="none=none", timeout_seconds=1)
    assert list(selected) == []
    # Bookmarks are objects with nothing but a revision.
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, namespace, resource_version="1", timeout_seconds=1, allow_watch_bookmarks=True
    )
    try:
        list(stream)
    except ApiException as error:
        assert error.status == 410, error
