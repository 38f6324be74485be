"""A Ray cluster to work on: this machine, or one that is running already."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

from maskedcrf.errors import MaskedCRFError, MissingExtraError

PATIENCE = 10.0
"""Seconds for a cluster to answer."""
_ADDRESS = re.compile(r"\[?([^/\[\]]+)\]?:(\d+)")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to work, and with how many workers."""

    address: str | None = None
    """Of a running cluster: host:port or auto; None starts one on this machine for the while."""
    workers: int | None = None
    """Models at work at a time; one a GPU where there are GPUs, else one a core."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU each where there are GPUs."""
    temp_dir: Path | None = None
    """Where Ray keeps its logs and sockets; its own choice is below /tmp."""
    store: int | None = None
    """Bytes of the object store of a local cluster; Ray takes a share of the memory by itself."""


def import_ray() -> Any:
    """Ray, asked to stay quiet and to send nothing home."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DATA_USAGE_DISABLED", "1")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import pyarrow  # noqa: F401
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError(f"bulk tagging needs {error.name}: pip install 'maskedcrf[ray]'") from error
    return ray


@contextmanager
def connect_ray(cluster: Cluster) -> Iterator[Any]:
    """Ray, connected; what was started here is stopped at the end, and a connection that was there is left alone."""
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if not cluster.address:
        options |= _local_options(cluster)
    with nullcontext() if cluster.address else _private_token():
        try:
            with _silence_stderr():
                ray.init(cluster.address or "local", **options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise MaskedCRFError(f"{cluster.address or 'Ray'}: cannot begin ({_first_line(error)})") from error
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Nothing on standard error: Ray's C++ part announces there that it was asked to be quiet."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _local_options(cluster: Cluster) -> dict[str, Any]:
    # One more than the workers have: cutting files takes little, but must never wait for them.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options: dict[str, Any] = {"num_cpus": max(cluster.workers or 1, cores) + 1, "include_dashboard": False}
    if cluster.temp_dir:
        options["_temp_dir"] = str(cluster.temp_dir.absolute())
    if cluster.store:
        options["object_store_memory"] = cluster.store
    return options


def check_reachable(address: str) -> None:
    """Refuse an address that does not answer, at once instead of after Ray's minutes."""
    if address == "auto":
        return
    if address.startswith("ray://"):
        raise MaskedCRFError(
            f"{address}: Ray Data does not run through Ray's client; on a machine of the cluster, give the head's "
            "host:port (6379 unless chosen otherwise), or send this command there with `ray job submit`"
        )
    found = _ADDRESS.fullmatch(address)
    if not found:
        raise MaskedCRFError(f"{address!r} is no address of a Ray cluster; give host:port or auto")
    try:
        socket.create_connection((found.group(1), int(found.group(2))), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise MaskedCRFError(f"{address}: no Ray cluster answers there ({error}); is it running?") from error


@contextmanager
def _private_token() -> Iterator[None]:
    """A token for a cluster of our own, unless the user chose one; Ray would leave its own in the home folder."""
    before = {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH_")}
    if not before:
        os.environ["RAY_AUTH_TOKEN"] = _token()
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("RAY_AUTH_")]:
            del os.environ[name]
        os.environ |= before


@cache
def _token() -> str:
    # Ray reads its token once a process, so that there is one a process.
    return token_hex(32)


def allocate_workers(ray: Any, cluster: Cluster, *, gpu_able: bool) -> tuple[int, str]:
    """How many workers there are room for, and on which device; more than there is room for are refused."""
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    device = cluster.device if cluster.device != "auto" else "cuda" if gpus and gpu_able else "cpu"
    if device == "cuda" and not gpu_able:
        raise MaskedCRFError("an ONNX file is run on the CPU here; say --device cpu, or give the model folder")
    room = gpus if device == "cuda" else int(resources.get("CPU", 1)) - 1
    if room < (cluster.workers or 1):
        kind = "GPUs" if device == "cuda" else "cores besides one for reading"
        raise MaskedCRFError(f"{cluster.workers or 1} workers, but the cluster has {room} {kind}; ask for fewer")
    return cluster.workers or room, device


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
