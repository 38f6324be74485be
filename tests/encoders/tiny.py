"""Tiny random Hugging Face models with real tokenizers, written into a folder; no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = [
    "the",
    "cat",
    "sat",
    "mat",
    "北",
    "京",
    "un",
    "##believ",
    "##able",
    "##ness",
    "##s",
    "a",
    "b",
    "##a",
    "##b",
    "é",
]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
FAMILIES = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert", "albert": "Albert", "mpnet": "MPNet"}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}


LEXICON = ["the", "The cat", "catsat", "cat", "北", "北京", "京", "thethe", "unbelievable", "zug"]


def write_lexicon(file: Path, *, width: int = 3) -> Path:
    """Words and random vectors; one is there twice but for its case, one is two words of the sentences."""
    vectors = np.random.default_rng(0).normal(size=(len(LEXICON), width)).astype(np.float16)
    np.savez(file, words=np.array([*LEXICON, "THE"]), vec=np.vstack([vectors, np.ones((1, width), np.float16)]))
    return file


def write_model(folder: Path, kind: str = "bert", *, positions: int = 512, seed: int = 0, half: bool = False) -> Path:
    """A folder as Hugging Face keeps them: roberta on bytes, albert on unigrams, the others on word pieces."""
    tokenizer = make_tokenizer(kind)
    size = max(tokenizer.get_vocab().values()) + 1
    family = FAMILIES[kind]
    extra = 2 if kind in ("roberta", "mpnet") else 0  # the rows up to its padding stay unused
    numbers = {"vocab_size": size, "max_position_embeddings": positions + extra, "pad_token_id": 0}
    numbers |= DISTIL if kind == "distilbert" else SIZES
    if extra:
        numbers["pad_token_id"] = 1
    if kind == "albert":
        numbers["embedding_size"] = 8
    torch.manual_seed(seed)
    model = getattr(transformers, family + "Model")(getattr(transformers, family + "Config")(**numbers))
    (model.half() if half else model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """Pieces as this kind of model has them: bytes, unigrams or word pieces."""
    return {"roberta": _bytes, "albert": _unigrams, "mpnet": _word_pieces_of_mpnet}.get(kind, _word_pieces)()


def _word_pieces(
    special: Sequence[str] = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), begin: str = "[CLS]", end: str = "[SEP]"
) -> PreTrainedTokenizerFast:
    vocabulary = {piece: n for n, piece in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = [(mark, vocabulary[mark]) for mark in (begin, end)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{begin} $A {end}", special_tokens=marks)
    padding = next(piece for piece in ("<pad>", "[PAD]") if piece in vocabulary)
    # As published for sentence vectors: taken as it is, every text would be cut and padded to 8 pieces.
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8, pad_id=vocabulary[padding], pad_token=padding)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=padding, unk_token="[UNK]", cls_token=begin, sep_token=end
    )


def _word_pieces_of_mpnet() -> PreTrainedTokenizerFast:
    """BERT's vocabulary behind marks of its own, as published."""
    return _word_pieces(
        ["<s>", "<pad>", "</s>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<mask>"], begin="<s>", end="</s>"
    )


def _bytes() -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *letters, "Ġt", "he", "Ġthe", "at"]
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "t")]
    tokenizer = Tokenizer(models.BPE({piece: n for n, piece in enumerate(pieces)}, merges, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def _unigrams() -> PreTrainedTokenizerFast:
    pieces = [("<pad>", 0.0), ("<unk>", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0)]
    pieces += [(p, -float(n)) for n, p in enumerate(["▁", "▁the", "▁cat", "s", "at", "m", "a", "t"], start=1)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=1, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")
