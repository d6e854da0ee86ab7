"""Uses a server as programs in Python use a cluster, with the client of Kubernetes on its default settings.

The arguments are a kubeconfig and the names of the checks, or none for all. Says `done` at the end. Every check has a
namespace of its own.
"""

import faulthandler
import sys
import traceback

import built_in_kinds  # noqa: F401
import custom_kinds  # noqa: F401
import reads_and_writes  # noqa: F401
from checks import CHECKS, SECONDS
from kubernetes import client, config

# A hanging test prints its stack.
faulthandler.dump_traceback_later(4 * SECONDS, exit=True)


def main(kubeconfig, *wanted):
    config.load_kube_config(kubeconfig)
    core, failed = client.CoreV1Api(), []
    for function in CHECKS:
        if wanted and function.__name__ not in wanted:
            continue
        prefix = function.__name__.replace("_", "-") + "-"
        namespace = core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(generate_name=prefix)))
        try:
            function(namespace.metadata.name)
        except Exception:
            failed.append(function.__name__)
            print(f"{function.__name__}:", file=sys.stderr)
            traceback.print_exc()
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")
    print("done")


main(*sys.argv[1:])
