"""onnxruntime around the graph of a file: how much memory it may take, and how long its first run may last."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedcrf.errors import MissingExtraError
from maskedcrf.onnx.file import OnnxFileError

MAX_MEMORY = 4 << 30
"""Bytes that all files of strangers together may hold at a time, weights included; beyond them a run fails."""
TRY_SECONDS = 60.0
"""For the run of two words that every file is tried with."""


def open_session(content: bytes, path: Path, *, trusted: bool) -> Any:
    """The graph, ready to run on one core."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("an ONNX file needs onnxruntime: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what fails is raised, too
    # A batch on each core: many small products on several cores at once mostly wait for each other.
    options.intra_op_num_threads = 1
    # Else bytes that are sound as ONNX could also be a graph in onnxruntime's own format, which nobody has checked.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    if not trusted:
        _bound_memory()
        options.add_session_config_entry("session.use_env_allocators", "1")
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"], enable_fallback=0)
    except Exception as error:  # onnxruntime's errors have no common base of their own
        raise OnnxFileError(f"{path}: onnxruntime refuses it ({str(error).splitlines()[0]})") from error


@cache
def _bound_memory() -> None:
    """Give the process an allocator with a limit, once; sessions that ask for it share it."""
    import onnxruntime as ort

    ort.set_default_logger_severity(4)  # what fails is raised, too
    place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(place, ort.OrtArenaCfg({"max_mem": MAX_MEMORY, "arena_extend_strategy": 1}))


def run_within(session: Any, outputs: list[str], arrays: dict[str, NDArray[np.generic]], seconds: float) -> list[Any]:
    """The outputs, or onnxruntime's error once the time is up."""
    from onnxruntime import RunOptions

    options = RunOptions()
    timer = Timer(seconds, setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        return list(session.run(outputs, arrays, options))
    finally:
        timer.cancel()
