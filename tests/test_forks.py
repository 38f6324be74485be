"""What a forked child finds: no lock that a thread of its parent held."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HOLD_EVERY_LOCK_AND_FORK = """
import importlib, os, pkgutil, sys, threading
import maskedcrf

kinds = type(threading.Lock()), type(threading.RLock())
for module in pkgutil.walk_packages(maskedcrf.__path__, "maskedcrf."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError:  # of an extra that is not installed
            pass

def locks():
    modules = [(name, vars(module)) for name, module in sys.modules.items() if name.startswith("maskedcrf")]
    return {f"{name}.{key}": value for name, names in modules for key, value in list(names.items())
            if isinstance(value, kinds)}

held = locks()
for lock in held.values():
    lock.acquire()
child = os.fork()
if not child:
    found = locks()
    stuck = [name for name in held if found[name] is held[name]]
    print(len(held), *stuck, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_child_has_every_lock_of_a_module_anew() -> None:
    done = subprocess.run([sys.executable, "-c", HOLD_EVERY_LOCK_AND_FORK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    number, *stuck = done.stdout.split()
    assert int(number) >= 1
    assert stuck == []
