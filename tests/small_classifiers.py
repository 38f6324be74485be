"""Small random token classifiers of many architectures, as `save_pretrained` writes them; no network."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from encoders.tiny import DISTIL, SIZES, make_tokenizer
from tokenizers import pre_tokenizers

from maskedcrf.tags.constraints import Constraints

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
_WORDS = "the a cat b sat 北 mat un 京 é cats unbelievable".split()
SENTENCES = (
    *("the cat sat , unbelievable .".split(), ["北", "京", "cats"], ["a"]),
    *([_WORDS[place], _WORDS[place - 5], _WORDS[place - 7], _WORDS[place - 3]] for place in range(len(_WORDS))),
)

ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "Bert": ("bert", SIZES),
    "Roberta": ("roberta", SIZES),
    "XLMRoberta": ("albert", SIZES),
    "DistilBert": ("bert", DISTIL),
    "Electra": ("bert", {**SIZES, "embedding_size": 8}),
    "DebertaV2": (
        "albert",
        {
            **SIZES,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 8,
            "type_vocab_size": 0,
        },
    ),
    "MPNet": ("bert", SIZES),
    "ModernBert": ("roberta", {**SIZES, "bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2}),
    "Albert": ("albert", {**SIZES, "embedding_size": 8}),
}
"""The class of transformers, the kind of tokenizer, and the sizes."""
UNSUPPORTED = {
    "ConvBert": ("bert", {**SIZES, "embedding_size": 16}),
    "BigBird": ("bert", {**SIZES, "block_size": 4, "num_random_blocks": 1}),
    "T5": ("albert", {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}),
}
"""Convolutions over padding; attention that depends on earlier texts; half of an encoder-decoder."""


def write_classifier(
    folder: Path, architecture: str = "Bert", *, labels: Sequence[str] = LABELS, seed: int = 1, **settings: Any
) -> Path:
    """A folder with a random classifier, its scores far enough apart that its best tags are often illegal."""
    kind, sizes = (ARCHITECTURES | UNSUPPORTED)[architecture]
    tokenizer = make_tokenizer(kind)
    config = getattr(transformers, f"{architecture}Config")(
        vocab_size=max(tokenizer.get_vocab().values()) + 1,
        max_position_embeddings=66,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        initializer_range=0.3,
        **{**sizes, **settings},
    )
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit.script`", DeprecationWarning)  # as DeBERTa is imported
        torch.manual_seed(seed)
        model = getattr(transformers, f"{architecture}ForTokenClassification")(config)
        with torch.no_grad():
            model.classifier.weight.normal_(std=1.0)
            model.classifier.bias.normal_(std=0.5)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def first_piece_logits(folder: Path, words: Sequence[str], *, pieces: str = "first") -> torch.Tensor:
    """(T, D): what transformers itself gives for the first (or last, mean, surest) piece of each word."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if isinstance(tokenizer.backend_tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel):
        # What RobertaTokenizer's add_prefix_space does, which it asks for where words are given.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    batch = tokenizer([list(words)], is_split_into_words=True, return_tensors="pt", truncation=False, padding=False)
    with torch.inference_mode():
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[0]
    ids = batch.word_ids(0)
    rows = []
    for word in range(len(words)):
        own = [place for place, number in enumerate(ids) if number == word]
        surest = max(own, key=lambda place: logits[place].softmax(dim=0).max())
        chosen = {"first": own[:1], "last": own[-1:], "mean": own, "max": [surest]}[pieces]
        rows.append(logits[chosen].mean(dim=0))
    return torch.stack(rows)


def best_legal_path(logits: torch.Tensor, rules: Constraints) -> tuple[str, ...]:
    """Viterbi as a textbook has it."""
    scores = np.where(rules.start, logits[0].double().numpy(), -np.inf)
    back = []
    for row in logits[1:].double().numpy():
        steps = scores[:, None] + np.where(rules.legal, 0.0, -np.inf)
        back.append(steps.argmax(axis=0))
        scores = steps.max(axis=0) + row
    path = [int(np.where(rules.end, scores, -np.inf).argmax())]
    for pointers in reversed(back):
        path.append(int(pointers[path[-1]]))
    return tuple(rules.tags[number] for number in reversed(path))
