"""Other libraries' CRFs behind one face, for timing: each is optional, and its answers are checked before it is timed.

A peer takes emissions (B, T, D), tags and a right-padded mask (B, T) and gives the mean negative log-likelihood and
the best paths. None of them can exclude a path exactly, so all run unmasked, which is their fastest way.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

CARRIED = Path(__file__).parent.parent / "carried"
"""Where `make bench` installs the peers that would not go with our own dependencies; see peers.txt."""
if CARRIED.is_dir():
    sys.path.append(str(CARRIED))

Parameters = dict[str, Tensor]
"""start (D,), end (D,), transitions (D, D) [from, to]."""


class Peer(NamedTuple):
    """A CRF with the given parameters: its loss, its paths as lists (None: it has none), what it trains."""

    loss: Callable[[Tensor, Tensor, Tensor], Tensor]
    decode: Callable[[Tensor, Tensor], list[list[int]]] | None
    parameters: list[Tensor]


def _set(module: torch.nn.Module, values: Parameters, names: dict[str, str]) -> torch.nn.Module:
    with torch.no_grad():
        for name, attribute in names.items():
            getattr(module, attribute).copy_(values[name])
    return module


_TORCHCRF_NAMES = {"start": "start_transitions", "end": "end_transitions", "transitions": "transitions"}


def pytorch_crf(values: Parameters) -> Peer:
    """The `torchcrf` of most projects."""
    from torchcrf import CRF

    crf: Any = _set(CRF(len(values["start"]), batch_first=True).to(values["start"].device), values, _TORCHCRF_NAMES)
    loss = lambda emissions, tags, mask: -crf(emissions, tags, mask, reduction="mean")  # noqa: E731
    return Peer(loss, crf.decode, list(crf.parameters()))


def torch_crf(values: Parameters) -> Peer:
    """TorchCRF."""
    from TorchCRF import CRF

    names = {"start": "start_trans", "end": "end_trans", "transitions": "trans_matrix"}
    crf: Any = _set(CRF(len(values["start"])).to(values["start"].device), values, names)
    return Peer(
        lambda emissions, tags, mask: -crf(emissions, tags, mask).mean(), crf.viterbi_decode, list(crf.parameters())
    )


def pytorch_partial_crf(values: Parameters) -> Peer:
    """pytorch-partial-crf."""
    from pytorch_partial_crf import CRF

    crf: Any = _set(CRF(len(values["start"])).to(values["start"].device), values, _TORCHCRF_NAMES)
    return Peer(
        lambda emissions, tags, mask: crf(emissions, tags, mask) / len(tags),
        lambda emissions, mask: crf.viterbi_decode(emissions, mask.to(torch.uint8)),
        list(crf.parameters()),
    )


def _leaves(values: Parameters) -> tuple[Tensor, Tensor, Tensor]:
    start, end, transitions = (values[name].clone().requires_grad_() for name in ("start", "end", "transitions"))
    return start, end, transitions


def _gold(emissions: Tensor, tags: Tensor, mask: Tensor, start: Tensor, end: Tensor, transitions: Tensor) -> Tensor:
    """(B,): the score of the tags, for libraries that give the normaliser only."""
    emitted = (emissions.gather(2, tags[..., None]).squeeze(2) * mask).sum(1)
    stepped = (transitions[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]).sum(1)
    last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
    return emitted + stepped + start[tags[:, 0]] + end[last]


def _rows(tags: Tensor, mask: Tensor) -> list[list[int]]:
    return [row[:length] for row, length in zip(tags.tolist(), mask.sum(1).tolist(), strict=True)]


def torch_struct(values: Parameters) -> Peer:
    """torch-struct: a parallel scan over (B, T, D, D) potentials."""
    import torch_struct as library

    start, end, transitions = _leaves(values)

    def distribution(emissions: Tensor, mask: Tensor) -> Any:
        lengths = mask.sum(1)
        potentials = emissions[:, 1:, :, None] + transitions.T
        first = torch.zeros_like(potentials[:, :1]) + (emissions[:, 0] + start)[:, None, None, :]
        potentials = torch.cat([potentials[:, :1] + first, potentials[:, 1:]], dim=1)
        at_end = torch.arange(potentials.shape[1], device=mask.device) == (lengths - 2)[:, None]
        potentials = potentials + at_end[..., None, None] * end[:, None]
        return library.LinearChainCRF(potentials, lengths=lengths)

    def loss(emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        normaliser = distribution(emissions, mask).partition
        return (normaliser - _gold(emissions, tags, mask, start, end, transitions)).mean()

    def decode(emissions: Tensor, mask: Tensor) -> list[list[int]]:
        parts = distribution(emissions.detach(), mask).argmax
        return _rows(library.LinearChain.from_parts(parts.detach())[0], mask)

    return Peer(loss, decode, [start, end, transitions])


def flash_semicrf(values: Parameters) -> Peer:
    """flash-semicrf with segments of one token, which is a linear chain; on GPUs its kernels need three."""
    from flash_semicrf import semi_crf_streaming_forward

    start, end, transitions = _leaves(values)

    def loss(emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        lengths = mask.sum(1)
        places = torch.arange(mask.shape[1], device=mask.device)
        at_end = (places == (lengths - 1)[:, None])[..., None]
        entry = start - transitions.logsumexp(0)  # its first segment is reached from every tag
        scores = emissions + (places == 0)[:, None] * entry + at_end * end
        summed = torch.nn.functional.pad(scores.double().cumsum(1), (0, 0, 1, 0))
        no_bias = torch.zeros(1, len(start), device=mask.device, dtype=torch.float64)
        normaliser = semi_crf_streaming_forward(summed, transitions.double(), no_bias, lengths, 1)
        return (normaliser - _gold(emissions, tags, mask, start, end, transitions)).mean()

    return Peer(loss, None, [start, end, transitions])


def _bare(*names: str) -> None:
    """Stand-ins for packages whose own __init__ imports half the world; their modules are found as always."""
    for name in names:
        if name in sys.modules:
            continue
        found = [folder for entry in sys.path if (folder := Path(entry, *name.split("."))).is_dir()]
        if not found:
            raise ImportError(f"{name} is not installed")
        module = types.ModuleType(name)
        module.__path__ = [str(found[0])]
        sys.modules[name] = module


def supar(values: Parameters) -> Peer:
    """supar's linear chain."""
    _bare("supar", "supar.utils", "supar.structs")
    chain = importlib.import_module("supar.structs.linearchain").LinearChainCRF
    start, end, transitions = _leaves(values)

    def distribution(emissions: Tensor, mask: Tensor) -> Any:
        corner = start.new_zeros(1)
        table = torch.cat([torch.cat([transitions, end[:, None]], 1), torch.cat([start, corner])[None]])
        return chain(emissions, table, mask.sum(1))

    return Peer(
        lambda emissions, tags, mask: -distribution(emissions, mask).log_prob(tags).mean(),
        lambda emissions, mask: _rows(distribution(emissions.detach().requires_grad_(), mask).argmax, mask),
        [start, end, transitions],
    )


def fastnlp(values: Parameters) -> Peer:
    """fastNLP's layer."""
    _bare("fastNLP", "fastNLP.modules", "fastNLP.modules.torch", "fastNLP.modules.torch.decoder", "fastNLP.core")
    _bare("fastNLP.core.metrics")
    for name, attributes in (
        ("metrics.span_f1_pre_rec_metric", ("_get_encoding_type_from_tag_vocab", "_check_tag_vocab_and_encoding_type")),
        ("vocabulary", ("Vocabulary",)),
    ):
        stub = sys.modules.setdefault(f"fastNLP.core.{name}", types.ModuleType(f"fastNLP.core.{name}"))
        for attribute in attributes:
            setattr(stub, attribute, object)
    library = importlib.import_module("fastNLP.modules.torch.decoder.crf")
    names = {"start": "start_scores", "end": "end_scores", "transitions": "trans_m"}
    size = len(values["start"])
    crf: Any = _set(library.ConditionalRandomField(size, True).to(values["start"].device), values, names)
    return Peer(
        lambda emissions, tags, mask: crf(emissions, tags, mask).mean(),
        lambda emissions, mask: crf.viterbi_decode(emissions.detach().clone(), mask, unpad=True)[0],  # it overwrites
        [one for one in crf.parameters() if one.requires_grad],
    )


def allennlp(values: Parameters) -> Peer:
    """AllenNLP's layer."""
    _bare("allennlp", "allennlp.common", "allennlp.nn", "allennlp.modules", "allennlp.modules.conditional_random_field")
    stub = sys.modules.setdefault("allennlp.common.util", types.ModuleType("allennlp.common.util"))
    for attribute in ("int_to_device", "is_distributed", "is_global_primary"):
        setattr(stub, attribute, None)
    library = importlib.import_module("allennlp.modules.conditional_random_field.conditional_random_field")
    crf: Any = library.ConditionalRandomField(len(values["start"])).to(values["start"].device)
    _set(crf, values, _TORCHCRF_NAMES)
    return Peer(
        lambda emissions, tags, mask: -crf(emissions, tags, mask) / len(tags),
        lambda emissions, mask: [path for path, _ in crf.viterbi_tags(emissions, mask)],
        [one for one in crf.parameters() if one.requires_grad],
    )


PEERS: dict[str, Callable[[Parameters], Peer]] = {
    "pytorch-crf": pytorch_crf,
    "TorchCRF": torch_crf,
    "torch-struct": torch_struct,
    "pytorch-partial-crf": pytorch_partial_crf,
    "flash-semicrf": flash_semicrf,
    "supar": supar,
    "fastNLP": fastnlp,
    "AllenNLP": allennlp,
}
