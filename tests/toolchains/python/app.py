"""A controller in Python, built by componentize-py without flags: it prints, draws randomness, and tries to use files and sockets."""

import encodings.idna  # What Python loads when it is first used has to be loaded here: a controller has no files.
import json
import random
import socket
import time

from wit_world import exports
from wit_world.exports import reconciler
from wit_world.imports import homeostat_reconciler_store as store
from wit_world.imports import wasi_config_store as config
from wit_world.imports.types import Kind, Outcome_Settled, Precondition, View

NOTE = Kind("lang.example.dev", "v1", "Note")


def attempt(what):
    try:
        what()
        return "worked"
    except OSError as error:
        return type(error).__name__


class Reconciler(exports.Reconciler):
    def describe(self):
        # A clock and randomness, which any library may read at startup.
        assert time.time() == 946684800 and random.SystemRandom().random() >= 0
        manages = reconciler.KindDeclaration(NOTE, "notes", True, False, None)
        during_delay = reconciler.DuringDelay.RUN_NOW
        return reconciler.ControllerSpec(manages, reconciler.Changes.BUT_STATUS, [], None, None, None, None, during_delay)

    def reconcile(self, key):
        text = json.loads(store.get(key, View.WHOLE).json)["spec"]["text"]
        print("read", text)
        if text == "crash":
            raise RuntimeError("crashed on purpose")
        status = {
            "by": "Python",
            "text": text.upper(),
            "random": random.random(),
            "time": time.time(),
            "setting": config.get("greeting"),
            "file": attempt(lambda: open("/etc/hosts")),
            "address": attempt(lambda: socket.create_connection(("example.com", 80))),
        }
        store.update_status(key, json.dumps(status), Precondition(None, None))
        return Outcome_Settled()
