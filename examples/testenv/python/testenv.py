"""A Homeostat host for the tests of an operator.

Copy this file beside your tests. It needs the binary `homeostat` on PATH, or at `binary`.

    with TestEnvironment() as kubeconfig:
        kubernetes.config.load_kube_config_from_dict(kubeconfig)
"""

import json
import subprocess


class TestEnvironment:
    """A host that starts with the block and forgets everything at its end."""

    def __init__(self, *manifests, binary="homeostat"):
        """Takes folders of manifests that are there from the start."""
        self._arguments = [binary, "testenv", "--stdin", *manifests]
        self._process = None

    def __enter__(self):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._arguments, stdin=pipe, stdout=pipe)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._arguments} has ended with {self._process.wait()}")
        return json.loads(line)

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()
