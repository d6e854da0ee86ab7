"""A controller that greets the name in each Greeting."""

import homeostat
from homeostat import Failure, Key
from wit_world import exports
from wit_world.exports import reconciler

GREETING = homeostat.kind("{{name}}.example.dev/v1", "Greeting")


class Reconciler(exports.Reconciler):
    def describe(self) -> reconciler.ControllerSpec:
        return homeostat.controller(GREETING, plural="greetings")

    @homeostat.reconciles
    def reconcile(self, key: Key) -> None:
        # The key is all there is: the greeting may be gone by now.
        greeting = homeostat.get(key)
        if greeting is None:
            return
        name = greeting["spec"].get("name")
        if not name:
            # Trying again cannot help: the key waits until its resource changes.
            raise Failure("spec.name is empty", retry=False)
        homeostat.update_status(key, {"message": f"Hello, {name}!"})
