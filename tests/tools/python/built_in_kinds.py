"""Checks of deletions, workloads, events, leases, namespaces and kinds without one."""

import os
from datetime import datetime, timedelta, timezone

from checks import check, config_map, deployment, meta, pod, refused, until_gone
from kubernetes import client


@check
def deletions(namespace):
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    owner = core.create_namespaced_config_map(namespace, config_map("owner"))
    status = core.delete_namespaced_config_map(
        "owner", namespace, body=client.V1DeleteOptions(dry_run=["All"], propagation_policy="Background")
    )
    assert status.status == "Success" and status.details.uid == owner.metadata.uid, status
    assert core.read_namespaced_config_map("owner", namespace).metadata.uid == owner.metadata.uid
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="00000000-0000-0000-0000-000000000000"))
    refused(lambda: core.delete_namespaced_config_map("owner", namespace, body=wrong), 409, "Conflict")
    right = client.V1DeleteOptions(
        preconditions=client.V1Preconditions(uid=owner.metadata.uid, resource_version=owner.metadata.resource_version)
    )
    core.delete_namespaced_config_map("owner", namespace, body=right)
    refused(lambda: core.read_namespaced_config_map("owner", namespace), 404)
    # Dependents go with their owner, or stay as orphans.
    for name, policy in [("taken", "Background"), ("held", "Foreground"), ("left", "Orphan")]:
        parent = apps.create_namespaced_deployment(namespace, deployment(name))
        reference = client.V1OwnerReference(
            api_version="apps/v1", kind="Deployment", name=name, uid=parent.metadata.uid, block_owner_deletion=True
        )
        core.create_namespaced_config_map(namespace, config_map(f"of-{name}", owner_references=[reference]))
        apps.delete_namespaced_deployment(name, namespace, propagation_policy=policy)
        until_gone(apps.list_namespaced_deployment, name, namespace)
        if policy != "Orphan":
            until_gone(core.list_namespaced_config_map, f"of-{name}", namespace)
    left = core.read_namespaced_config_map("of-left", namespace)
    assert not left.metadata.owner_references, left
    # A finalizer holds a resource.
    core.create_namespaced_config_map(namespace, config_map("final", finalizers=["example.com/held"]))
    core.delete_namespaced_config_map("final", namespace)
    held = core.read_namespaced_config_map("final", namespace)
    assert held.metadata.deletion_timestamp and held.metadata.deletion_grace_period_seconds == 0
    held.metadata.finalizers.append("example.com/new")
    refused(lambda: core.replace_namespaced_config_map("final", namespace, held), 422)
    core.patch_namespaced_config_map("final", namespace, {"metadata": {"finalizers": None}})
    refused(lambda: core.read_namespaced_config_map("final", namespace), 404)
    # A pod without a node goes at once, also with a grace period.
    core.create_namespaced_pod(namespace, pod("brief"))
    core.delete_namespaced_pod("brief", namespace, grace_period_seconds=5)
    until_gone(core.list_namespaced_pod, "brief", namespace)


@check
def workloads(namespace):
    apps, batch, core = client.AppsV1Api(), client.BatchV1Api(), client.CoreV1Api()
    made = apps.create_namespaced_deployment(namespace, deployment("web"))
    assert made.spec.strategy.rolling_update.max_surge == "25%" and made.spec.revision_history_limit == 10
    assert made.spec.template.spec.containers[0].image_pull_policy == "IfNotPresent"
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert scale.spec.replicas == 1 and scale.status.selector == "app=web", scale
    scale.spec.replicas = 4
    assert apps.replace_namespaced_deployment_scale("web", namespace, scale).spec.replicas == 4
    assert apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 2}}).spec.replicas == 2
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 2
    current = apps.read_namespaced_deployment_status("web", namespace)
    current.status = client.V1DeploymentStatus(replicas=2, observed_generation=3)
    current.spec.replicas = 9
    changed = apps.replace_namespaced_deployment_status("web", namespace, current)
    assert changed.spec.replicas == 2 and changed.status.observed_generation == 3
    container = client.V1Container(name="main", image="app:1", command=["true"])
    spec = client.V1PodSpec(containers=[container], restart_policy="Never")
    template = client.V1PodTemplateSpec(spec=spec)
    job = client.V1Job(metadata=meta("once"), spec=client.V1JobSpec(template=template, backoff_limit=2))
    made = batch.create_namespaced_job(namespace, job)
    assert made.spec.selector.match_labels["batch.kubernetes.io/controller-uid"] == made.metadata.uid
    nightly = client.V1CronJob(
        metadata=meta("nightly"),
        spec=client.V1CronJobSpec(schedule="0 3 * * *", job_template=client.V1JobTemplateSpec(spec=job.spec)),
    )
    assert batch.create_namespaced_cron_job(namespace, nightly).spec.concurrency_policy == "Allow"
    nightly.spec.schedule, nightly.metadata.name = "now", "wrong"
    refused(lambda: batch.create_namespaced_cron_job(namespace, nightly), 422)
    port = client.V1ServicePort(port=80, target_port="http", name="http")
    service = client.V1Service(metadata=meta("web"), spec=client.V1ServiceSpec(selector={"app": "web"}, ports=[port]))
    made = core.create_namespaced_service(namespace, service)
    assert made.spec.type == "ClusterIP" and made.spec.cluster_ip == made.spec.cluster_i_ps[0], made.spec
    assert made.spec.ports[0].target_port == "http" and made.spec.ports[0].protocol == "TCP"
    made = core.create_namespaced_pod(namespace, pod("alone", labels={"a": "b"}))
    assert made.status.phase == "Pending" and made.status.qos_class == "BestEffort", made.status
    assert made.spec.tolerations[0].toleration_seconds == 300, made.spec.tolerations
    budget = client.V1PodDisruptionBudget(
        metadata=meta("budget"),
        spec=client.V1PodDisruptionBudgetSpec(min_available="50%", selector=made.spec.node_selector),
    )
    assert client.PolicyV1Api().create_namespaced_pod_disruption_budget(namespace, budget).spec.min_available == "50%"


@check
def service_accounts_and_roles(namespace):
    core, rbac = client.CoreV1Api(), client.RbacAuthorizationV1Api()
    core.create_namespaced_service_account(namespace, client.V1ServiceAccount(metadata=meta("robot")))
    rule = client.V1PolicyRule(api_groups=[""], resources=["pods"], verbs=["get", "list"])
    rbac.create_namespaced_role(namespace, client.V1Role(metadata=meta("reader"), rules=[rule]))
    binding = client.V1RoleBinding(
        metadata=meta("reader"),
        subjects=[client.RbacV1Subject(kind="ServiceAccount", name="robot", namespace=namespace)],
        role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="reader"),
    )
    rbac.create_namespaced_role_binding(namespace, binding)
    binding.role_ref.name = "other"
    refused(lambda: rbac.replace_namespaced_role_binding("reader", namespace, binding), 422)
    attributes = client.V1ResourceAttributes(verb="list", resource="pods", namespace=namespace)
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    )
    assert client.AuthorizationV1Api().create_self_subject_access_review(review).status.allowed is True
    assert client.AuthenticationV1Api().create_self_subject_review(client.V1SelfSubjectReview()).status.user_info.groups


@check
def events(namespace):
    core = client.CoreV1Api()
    made = core.create_namespaced_pod(namespace, pod("noisy"))
    now = datetime.now(timezone.utc)
    involved = client.V1ObjectReference(
        api_version="v1", kind="Pod", name="noisy", namespace=namespace, uid=made.metadata.uid
    )
    event = client.CoreV1Event(
        metadata=client.V1ObjectMeta(generate_name="noisy-"), involved_object=involved, type="Normal",
        reason="Started", message="it started", first_timestamp=now, last_timestamp=now, count=1,
        source=client.V1EventSource(component="test"),
    )
    made = core.create_namespaced_event(namespace, event)
    found = core.list_namespaced_event(namespace, field_selector="involvedObject.name=noisy,reason=Started").items
    assert [item.message for item in found] == ["it started"], found
    core.patch_namespaced_event(made.metadata.name, namespace, {"count": 2})
    # The models of the client demand an event time, which old events lack.
    newer = client.EventsV1Api().read_namespaced_event(made.metadata.name, namespace, _preload_content=False).json()
    assert newer["deprecatedCount"] == 2 and newer["note"] == "it started", newer
    assert newer["regarding"]["name"] == "noisy", newer
    event = client.EventsV1Event(
        metadata=meta("modern"), regarding=involved, type="Warning", reason="Failed", note="it failed",
        action="Run", event_time=now, reporting_controller="example.com/test", reporting_instance="one",
    )
    client.EventsV1Api().create_namespaced_event(namespace, event)
    old = core.read_namespaced_event("modern", namespace)
    assert old.message == "it failed" and old.involved_object.name == "noisy" and old.event_time, old
    assert len(client.EventsV1Api().list_namespaced_event(namespace, _preload_content=False).json()["items"]) == 2


@check
def leases(namespace):
    api = client.CoordinationV1Api()
    now = datetime.now(timezone.utc)
    spec = client.V1LeaseSpec(
        holder_identity="a", lease_duration_seconds=15, acquire_time=now, renew_time=now, lease_transitions=0
    )
    made = api.create_namespaced_lease(namespace, client.V1Lease(metadata=meta("lock"), spec=spec))
    assert abs(made.spec.renew_time - now) < timedelta(milliseconds=1), made.spec
    first, second = api.read_namespaced_lease("lock", namespace), api.read_namespaced_lease("lock", namespace)
    first.spec.holder_identity = "b"
    api.replace_namespaced_lease("lock", namespace, first)
    second.spec.holder_identity = "c"
    refused(lambda: api.replace_namespaced_lease("lock", namespace, second), 409, "Conflict")
    assert api.read_namespaced_lease("lock", namespace).spec.holder_identity == "b"


@check
def leader_election(namespace):
    from kubernetes.leaderelection import electionconfig, leaderelection
    from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

    led = []

    class Enough(Exception):
        pass

    def leads():
        led.append("one")

    def stops():
        raise Enough

    lock = ConfigMapLock("leader", namespace, "one")
    settings = electionconfig.Config(
        lock, lease_duration=17, renew_deadline=15, retry_period=1, onstarted_leading=leads, onstopped_leading=stops
    )
    election = leaderelection.LeaderElection(settings)
    assert election.acquire()
    leads()
    assert election.try_acquire_or_renew()
    record = client.CoreV1Api().read_namespaced_config_map("leader", namespace).metadata.annotations
    assert '"holderIdentity": "one"' in record["control-plane.alpha.kubernetes.io/leader"], record


@check
def namespaces(_):
    core = client.CoreV1Api()
    made = core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(generate_name="brief-")))
    name = made.metadata.name
    assert made.status.phase == "Active" and made.spec.finalizers == ["kubernetes"], made
    assert made.metadata.labels == {"kubernetes.io/metadata.name": name}, made
    core.create_namespaced_config_map(name, config_map("inside"))
    going = core.delete_namespace(name)
    assert going.status is None or "Terminating" in str(going.status) or going.status == "Success", going
    until_gone(core.list_namespace, name)
    refused(lambda: core.read_namespace(name), 404)
    refused(lambda: core.delete_namespace("kube-system"), 403)
    assert "default" in [item.metadata.name for item in core.list_namespace().items]


@check
def cluster_resources(_):
    core = client.CoreV1Api()
    unique = os.urandom(4).hex()
    node = client.V1Node(metadata=meta(f"node-{unique}", labels={"node-role.kubernetes.io/worker": ""}))
    made = core.create_node(node)
    assert made.metadata.name == f"node-{unique}"
    patched = core.patch_node(made.metadata.name, {"spec": {"unschedulable": True}})
    assert patched.spec.unschedulable is True
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    core.patch_node_status(made.metadata.name, {"status": {"conditions": [condition]}})
    again = core.patch_node_status(
        made.metadata.name, {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}
    )
    assert {each.type for each in again.status.conditions} == {"Ready", "DiskPressure"}, again.status
    source = client.V1HostPathVolumeSource(path="/data")
    volume = client.V1PersistentVolume(
        metadata=meta(f"volume-{unique}"),
        spec=client.V1PersistentVolumeSpec(
            capacity={"storage": "1Gi"}, access_modes=["ReadWriteOnce"], host_path=source
        ),
    )
    assert core.create_persistent_volume(volume).spec.persistent_volume_reclaim_policy == "Retain"
    storage = client.V1StorageClass(metadata=meta(f"class-{unique}"), provisioner="example.com/disks")
    assert client.StorageV1Api().create_storage_class(storage).volume_binding_mode == "Immediate"
    priority = client.V1PriorityClass(metadata=meta(f"priority-{unique}"), value=7)
    assert client.SchedulingV1Api().create_priority_class(priority).preemption_policy == "PreemptLowerPriority"
    core.delete_node(made.metadata.name)
    refused(lambda: core.read_node(made.metadata.name), 404)
