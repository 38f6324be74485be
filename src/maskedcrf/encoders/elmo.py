"""ELMo: the published bidirectional language model, from its options (JSON) and weights (HDF5).

Bytes of each word through a CNN with highways, two LSTMs with projection and clipped cells each way, and a
learnt mix of the three levels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from pydantic import Field, ValidationError, model_validator
from torch import Tensor, nn
from torch.nn import functional

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.features import Mask, Sentences, scatter_to_words, words_of
from maskedcrf.encoders.files import JsonRecord, first_validation_error, read_record, write_record
from maskedcrf.encoders.lstm import reversed_positions
from maskedcrf.encoders.part import EncoderPart, Features
from maskedcrf.errors import DataError, MissingExtraError
from maskedcrf.folders import FolderFiles, read_plain_file

FILE = "elmo.json"
TEXT_BEGIN, TEXT_END, WORD_BEGIN, WORD_END, PAD = 256, 257, 258, 259, 260
CHARACTERS = 261


class ElmoOptions(JsonRecord):
    """The sizes in an options file that the network depends on."""

    filters: list[tuple[int, int]] = Field(min_length=1, max_length=64)
    """Width and number of each group of filters."""
    embedding: int = Field(ge=1, le=1024)
    longest: int = Field(ge=3, le=1024)
    highways: int = Field(ge=0, le=16)
    activation: str = Field(pattern="^(relu|tanh)$")
    layers: int = Field(ge=1, le=16)
    cells: int = Field(ge=1, le=1 << 16)
    projection: int = Field(ge=1, le=1 << 14)
    cell_clip: float = Field(gt=0)
    projection_clip: float = Field(gt=0)
    skip: bool

    @model_validator(mode="after")
    def _filters_fit(self) -> ElmoOptions:
        if not all(0 < width <= self.longest and 0 < number <= 1 << 14 for width, number in self.filters):
            raise ValueError("filters must be 1 to `longest` characters wide, and at most 16384 of a width")
        return self

    @property
    def features(self) -> int:
        """How many filters there are in all."""
        return sum(number for _, number in self.filters)


class ELMo(EncoderPart):
    """Levels 0 to n of the language model, mixed: 2 x projection wide."""

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.options = options
        self.width = 2 * options.projection
        self.characters = CharacterEncoder(options)
        self.stack = nn.ModuleList(ClippedLSTM(options) for _ in range(options.layers))
        self.mix = nn.Parameter(torch.zeros(options.layers + 1))
        self.scale = nn.Parameter(torch.ones(()))

    @classmethod
    def build(cls, config: EncoderConfig, sentences: Sentences) -> Self:
        """The pretrained model of a folder that holds one options file (*.json) and one weights file (*.hdf5)."""
        assert config.elmo is not None
        folder = Path(config.elmo)
        part = cls(_options(_single_file(folder, "*.json")))
        _copy_published(part, _single_file(folder, "*.hdf5"))
        return part

    def prepare(self, sentences: Sentences, mask: Mask) -> Features:
        """Each different word's bytes once, (words, C), and which word stands where, text ends included: (B, T + 2)."""
        rows = {"": 0}
        places = [rows.setdefault(token, len(rows)) for token in words_of(sentences)]
        spelt = [_spelling(word.encode("utf-8", "replace"), self.options.longest) for word in rows]
        spelt += [_spelling([mark], self.options.longest) for mark in (TEXT_BEGIN, TEXT_END)]
        lengths = mask.sum(axis=1)
        framed = np.zeros((mask.shape[0], mask.shape[1] + 2), dtype=np.int64)
        framed[:, 1:-1] = scatter_to_words(np.array(places, dtype=np.int64), mask)
        framed[:, 0] = len(rows)
        framed[np.arange(len(lengths)), lengths + 1] = len(rows) + 1
        return {"elmo_bytes": torch.tensor(spelt), "elmo_words": torch.from_numpy(framed)}

    def forward(self, features: Features) -> Tensor:
        """Vectors of words, (B, T, 2 x projection)."""
        with torch.autocast(features["mask"].device.type, enabled=False):
            words = self.characters(features["elmo_bytes"])[features["elmo_words"]]
            # Text ends are read like words, so each row has two more.
            mask = functional.pad(features["mask"], (2, 0), value=True)
            order = reversed_positions(mask)[..., None].expand_as(words)
            both = torch.stack((words, words.gather(1, order)))
            levels = [both]
            for layer in self.stack:
                output = layer(both)
                both = both + output if self.options.skip and len(levels) > 1 else output
                levels.append(both)
            weights = self.mix.softmax(0)
            mixed = sum(weight * level for weight, level in zip(weights, levels, strict=True)) * self.scale
            return torch.cat((mixed[0], mixed[1].gather(1, order)), dim=-1)[:, 1:-1]

    def layers(self) -> list[list[nn.Parameter]]:
        """The character encoder, then the LSTM's layers; the mix is new."""
        return [list(level.parameters()) for level in (self.characters, *self.stack)]

    def save(self, folder: Path) -> None:
        """Write the options."""
        write_record(folder / FILE, self.options)

    @classmethod
    def load(cls, files: FolderFiles, config: EncoderConfig) -> Self:
        """A model of the saved options."""
        return cls(read_record(files, FILE, ElmoOptions))


class CharacterEncoder(nn.Module):
    """Bytes of words to vectors: filters, the strongest answer of each, highways, projection."""

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        features = options.features
        self.embedding = nn.Embedding(CHARACTERS, options.embedding)
        self.filters = nn.ModuleList(nn.Conv1d(options.embedding, n, width) for width, n in options.filters)
        self.carry = nn.ModuleList(nn.Linear(features, features) for _ in range(options.highways))
        self.transform = nn.ModuleList(nn.Linear(features, features) for _ in range(options.highways))
        self.projection = nn.Linear(features, options.projection)
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[options.activation]

    def forward(self, spellings: Tensor) -> Tensor:
        """(words, C) -> (words, projection)."""
        letters = self.embedding(spellings).transpose(1, 2)
        answer = torch.cat([self.activation(group(letters).amax(dim=2)) for group in self.filters], dim=1)
        for carry, transform in zip(self.carry, self.transform, strict=True):
            gate = torch.sigmoid(carry(answer))
            answer = gate * torch.relu(transform(answer)) + (1 - gate) * answer
        projected: Tensor = self.projection(answer)
        return projected


class ClippedLSTM(nn.Module):
    """One layer, both directions side by side: cells are clipped, outputs projected and clipped."""

    def __init__(self, options: ElmoOptions) -> None:
        super().__init__()
        self.options = options
        size, cells = options.projection, options.cells
        self.gates = nn.Parameter(torch.empty(2, 2 * size, 4 * cells))
        self.bias = nn.Parameter(torch.zeros(2, 1, 4 * cells))
        self.project = nn.Parameter(torch.empty(2, cells, size))
        for weight in (self.gates, self.project):
            nn.init.normal_(weight, std=size**-0.5)

    def forward(self, vectors: Tensor) -> Tensor:
        """(2, B, T, projection) -> the same; both directions read from the left."""
        of_input, of_state = self.gates.chunk(2, dim=1)
        driven = torch.einsum("dbti,dij->tdbj", vectors, of_input) + self.bias
        state = vectors.new_zeros(2, vectors.shape[1], self.options.projection)
        cell = vectors.new_zeros(2, vectors.shape[1], self.options.cells)
        clip, outputs = self.options.cell_clip, []
        for step in driven:
            # The published order of gates: input, candidate, forget, output.
            enter, candidate, keep, leave = torch.baddbmm(step, state, of_state).chunk(4, dim=-1)
            # 1 is added to the forget gate at run time, not in the stored weights.
            cell = torch.sigmoid(keep + 1) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
            cell = cell.clamp(-clip, clip)
            state = torch.bmm(torch.sigmoid(leave) * torch.tanh(cell), self.project)
            state = state.clamp(-self.options.projection_clip, self.options.projection_clip)
            outputs.append(state)
        return torch.stack(outputs, dim=2)


def _spelling(word: Sequence[int], longest: int) -> list[int]:
    """Bytes of a word between its marks, padded; the published model cuts long words."""
    spelt = [WORD_BEGIN, *word[: longest - 2], WORD_END]
    return spelt + [PAD] * (longest - len(spelt))


def _single_file(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DataError(f"{folder}:1: an ELMo folder holds one {pattern} file, this one holds {len(found)}")
    return found[0]


def _options(path: Path) -> ElmoOptions:
    """The options of the published form."""
    try:
        given = json.loads(read_plain_file(path))
        letters, lstm = given["char_cnn"], given["lstm"]
        return ElmoOptions(
            filters=[(int(width), int(number)) for width, number in letters["filters"]],
            embedding=letters["embedding"]["dim"],
            longest=letters["max_characters_per_token"],
            highways=letters["n_highway"],
            activation=letters["activation"],
            layers=lstm["n_layers"],
            cells=lstm["dim"],
            projection=lstm["projection_dim"],
            cell_clip=float(lstm["cell_clip"]),
            projection_clip=float(lstm["proj_clip"]),
            skip=lstm["use_skip_connections"],
        )
    except (ValueError, KeyError, TypeError) as error:
        reason = first_validation_error(error) if isinstance(error, ValidationError) else repr(error)
        raise DataError(f"{path}:1: not the options of a bidirectional language model: {reason}") from error


def _copy_published(part: ELMo, path: Path) -> None:
    """Read every published array into its parameter."""
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError("ELMo weights are HDF5: pip install h5py") from error
    try:
        with h5py.File(path, "r") as file, torch.no_grad():
            for name, weight in _published_arrays(part):
                array, shape = file.get(name), tuple(weight.shape)
                # The shape is looked at before the content: a small file can promise an array of any size.
                if getattr(array, "shape", None) != shape or array.dtype.kind != "f":
                    raise DataError(f"{path}:1: {name} must be an array of floats, {shape}")
                weight.copy_(torch.from_numpy(np.asarray(array[...], dtype=np.float32)))
                if not torch.isfinite(weight).all():
                    raise DataError(f"{path}:1: {name} holds NaN or infinity")
    except OSError as error:
        raise DataError(f"{path}:1: cannot be read as HDF5: {error}") from error


def _published_arrays(part: ELMo) -> Iterator[tuple[str, Tensor]]:
    """Each array's published name, and our weight seen along the published axes: inputs first, outputs last."""
    letters = part.characters
    yield "char_embed", letters.embedding.weight
    for n, group in enumerate(cast(list[nn.Conv1d], letters.filters)):
        yield f"CNN/W_cnn_{n}", group.weight.permute(2, 1, 0)[None]
        yield f"CNN/b_cnn_{n}", cast(Tensor, group.bias)
    linears = {"CNN_proj/{}_proj": letters.projection}
    for n, (carry, transform) in enumerate(zip(letters.carry, letters.transform, strict=True)):
        linears[f"CNN_high_{n}/{{}}_carry"] = cast(nn.Linear, carry)
        linears[f"CNN_high_{n}/{{}}_transform"] = cast(nn.Linear, transform)
    for name, linear in linears.items():
        yield name.format("W"), linear.weight.T
        yield name.format("b"), linear.bias
    for n, layer in enumerate(cast(list[ClippedLSTM], part.stack)):
        for direction in (0, 1):
            home = f"RNN_{direction}/RNN/MultiRNNCell/Cell{n}/LSTMCell"
            yield f"{home}/W_0", layer.gates[direction]
            yield f"{home}/B", layer.bias[direction, 0]
            yield f"{home}/W_P_0", layer.project[direction]
