"""Uses `examples/testenv/python/testenv.py` as the tests of an operator do: PROGRAM FOLDER."""

import sys

import kubernetes
from testenv import TestEnvironment

program, folder = sys.argv[1:]
for _ in range(2):
    with TestEnvironment(folder, binary=program) as kubeconfig:
        kubernetes.config.load_kube_config_from_dict(kubeconfig)
        sites = kubernetes.client.CustomObjectsApi()
        site = {"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "a"}}
        sites.create_namespaced_custom_object("example.com", "v1", "default", "sites", site)
        assert len(sites.list_cluster_custom_object("example.com", "v1", "sites")["items"]) == 1
        assert kubernetes.client.CoreV1Api().list_pod_for_all_namespaces().items == []
try:
    with TestEnvironment(folder, "/nothing/here", binary=program):
        raise AssertionError("the folder is not there")
except RuntimeError as error:
    assert "has ended" in str(error)
print("done")
