"""The recursions as Triton kernels, for CUDA devices; `launch` has the functions, the other files the kernels."""

from maskedcrf.crf.triton.launch import (
    backward,
    empty_saved,
    entropy,
    forward,
    loss_and_gradients,
    marginals,
    nbest,
    sample,
    span_probability,
    viterbi,
)

__all__ = [
    "backward",
    "empty_saved",
    "entropy",
    "forward",
    "loss_and_gradients",
    "marginals",
    "nbest",
    "sample",
    "span_probability",
    "viterbi",
]
