"""A small bidirectional language model in the published layout, and a slow reading of it in plain numpy.

The layout is that of the published weights: TensorFlow's axes, inputs first; gates in the order input,
candidate, forget, output; 1 added to the forget gate; words between text marks; bytes between word marks.
"""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np

OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 4,
        "cell_clip": 0.3,
        "proj_clip": 0.2,
        "dim": 6,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 3], [2, 4], [3, 2]],
        "n_highway": 2,
        "embedding": {"dim": 5},
        "n_characters": 262,
        "max_characters_per_token": 9,
    },
}


def write_bilm(folder: Path, seed: int = 0) -> Path:
    """A folder with options.json and weights.hdf5."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(OPTIONS))
    rng = np.random.default_rng(seed)
    with h5py.File(folder / "weights.hdf5", "w") as file:

        def put(name: str, *shape: int) -> None:
            file[name] = rng.normal(scale=0.7, size=shape).astype(np.float32)

        put("char_embed", 261, 5)
        for n, (width, number) in enumerate(OPTIONS["char_cnn"]["filters"]):  # type: ignore[arg-type, index]
            put(f"CNN/W_cnn_{n}", 1, width, 5, number)
            put(f"CNN/b_cnn_{n}", number)
        for n in range(2):
            for gate in ("carry", "transform"):
                put(f"CNN_high_{n}/W_{gate}", 9, 9)
                put(f"CNN_high_{n}/b_{gate}", 9)
        put("CNN_proj/W_proj", 9, 4)
        put("CNN_proj/b_proj", 4)
        for direction in range(2):
            for layer in range(2):
                home = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                put(f"{home}/W_0", 8, 24)
                put(f"{home}/B", 24)
                put(f"{home}/W_P_0", 6, 4)
    return folder


def slow_elmo(folder: Path, sentence: list[str]) -> np.ndarray:
    """The three levels of a sentence, (3, T, 8), one word, one step, one filter place at a time."""
    with h5py.File(folder / "weights.hdf5") as file:
        spelt = [[256], *(list(word.encode()) for word in sentence), [257]]
        words = [_word(file, spelling) for spelling in spelt]
        ahead = _direction(file, 0, words)
        back = [level[::-1] for level in _direction(file, 1, words[::-1])]
    levels = [np.concatenate(pair, axis=1) for pair in zip(ahead, back, strict=True)]
    return np.stack(levels)[:, 1:-1]


def _word(file: h5py.File, spelling: list[int]) -> np.ndarray:
    numbers = ([258, *spelling[:7], 259] + [260] * 9)[:9]
    letters = file["char_embed"][...][numbers]
    answers = []
    for n, (width, number) in enumerate(OPTIONS["char_cnn"]["filters"]):  # type: ignore[arg-type, index]
        weight, bias = file[f"CNN/W_cnn_{n}"][0], file[f"CNN/b_cnn_{n}"][...]
        for f in range(number):
            places = [(letters[p : p + width] * weight[:, :, f]).sum() + bias[f] for p in range(9 - width + 1)]
            answers.append(max(0.0, max(places)))
    vector = np.array(answers)
    for n in range(2):
        home = file[f"CNN_high_{n}"]
        gate = _sigmoid(vector @ home["W_carry"][...] + home["b_carry"][...])
        changed = np.maximum(vector @ home["W_transform"][...] + home["b_transform"][...], 0)
        vector = gate * changed + (1 - gate) * vector
    return vector @ file["CNN_proj/W_proj"][...] + file["CNN_proj/b_proj"][...]


def _direction(file: h5py.File, direction: int, words: list[np.ndarray]) -> list[np.ndarray]:
    levels = [np.stack(words)]
    for layer in range(2):
        home = file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
        state, cell, outputs = np.zeros(4), np.zeros(6), []
        for vector in levels[-1]:
            gates = np.concatenate([vector, state]) @ home["W_0"][...] + home["B"][...]
            enter, candidate, keep, leave = gates[:6], gates[6:12], gates[12:18], gates[18:]
            cell = _sigmoid(keep + 1.0) * cell + _sigmoid(enter) * np.tanh(candidate)
            cell = np.clip(cell, -0.3, 0.3)
            state = np.clip((_sigmoid(leave) * np.tanh(cell)) @ home["W_P_0"][...], -0.2, 0.2)
            outputs.append(state)
        level = np.stack(outputs)
        levels.append(level + levels[-1] if layer > 0 else level)
    return levels


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))
