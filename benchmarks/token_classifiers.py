"""Softmax token classifiers trained as Hugging Face's own example does it (run_ner.py): the ones adopt.py adopts.

AdamW at 5e-5 falling linearly to 0, batches of 8, the label on the first piece of a word; nothing is tuned. With
`--mcrf`, taggers of ours beside them: the same encoder, training sentences, epochs and batches by `Tagger.train`, all
else at its defaults, the epoch that is best on the dev sentences kept. The folders hold a user's corpora in their
weights, so they are made here and never committed.

    python benchmarks/token_classifiers.py OUT --corpora FOLDER --encoders FOLDER [--seeds 3] [--mcrf]
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from maskedcrf.data.formats import read_sentences
from maskedcrf.data.sentence import Sentence
from maskedcrf.tagger import Tagger
from maskedcrf.tags.segments import convert


@dataclass(frozen=True)
class Corpus:
    """A corpus, the encoder that reads it, and how much of it is used."""

    name: str
    encoder: str
    files: tuple[str, str, str]
    scheme: str
    epochs: int
    train: int
    dev: int
    test_step: int = 1
    """Every n-th sentence of the test set is used."""
    first_character: bool = False
    joiner: str = " "
    """What stands between words in text."""

    def read(self, folder: Path) -> list[list[Sentence]]:
        """Train, dev and test in BIO, gold that its scheme forbids repaired as conlleval reads it."""
        parts = []
        for file, most in zip(self.files, (self.train, self.dev, None), strict=True):
            found = read_sentences(folder / self.name / file, first_character=self.first_character)
            given = [sentence for sentence in found if sentence.tokens[0] != "-DOCSTART-"]
            # Every n-th sentence: the corpus is ordered by document.
            step = max(1, len(given) // most) if most else 1
            parts.append([_in_bio(sentence, self.scheme) for sentence in given[::step][:most]])
        return parts


CORPORA = (
    Corpus(
        "conll2003",
        "minilm-l6-en",
        ("train.txt.gz", "dev.txt.gz", "test.txt.gz"),
        "IOB1",
        epochs=3,
        train=1200,
        dev=1000,
        test_step=3,
    ),
    Corpus(
        "weibo",
        "uer-zh-L2-H512",
        ("train.conll", "dev.conll", "test.conll"),
        "BIO",
        epochs=3,
        train=1350,
        dev=270,
        first_character=True,
        joiner="",
    ),
)


BATCH = 8


def _in_bio(sentence: Sentence, scheme: str) -> Sentence:
    assert sentence.tags is not None
    return Sentence(sentence.tokens, tuple(convert(sentence.tags, scheme, "BIO")), sentence.file, sentence.line)


def main() -> None:
    """Train each corpus with each seed that is not in OUT yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--encoders", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--mcrf", action="store_true", help="train masked CRFs instead of softmax classifiers")
    options = parser.parse_args()
    train = train_mcrf if options.mcrf else train_classifier
    logging.disable(logging.WARNING)
    for seed in range(1, options.seeds + 1):
        for corpus in CORPORA:
            target = options.out / f"{corpus.name}-{seed}"
            if not target.exists():
                train(corpus, options.corpora, options.encoders / corpus.encoder, target, seed=seed)
                print(target, flush=True)


def train_classifier(corpus: Corpus, corpora: Path, encoder: Path, target: Path, *, seed: int) -> None:
    """One classifier by the Trainer of transformers, saved as `save_pretrained` does."""
    transformers.set_seed(seed)
    train = corpus.read(corpora)[0]
    tags = sorted({tag for sentence in train for tag in sentence.tags or ()})
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    model = transformers.AutoModelForTokenClassification.from_pretrained(
        encoder,
        id2label=dict(enumerate(tags)),
        label2id={tag: number for number, tag in enumerate(tags)},
        dtype=torch.float32,
    )
    arguments = transformers.TrainingArguments(
        output_dir=str(target.with_suffix(".work")),
        learning_rate=5e-5,
        per_device_train_batch_size=BATCH,
        num_train_epochs=corpus.epochs,
        seed=seed,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        logging_steps=100,
        disable_tqdm=True,
    )
    transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=_examples(train, tokenizer, tags),
        data_collator=transformers.DataCollatorForTokenClassification(tokenizer),
    ).train()
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def train_mcrf(corpus: Corpus, corpora: Path, encoder: Path, target: Path, *, seed: int) -> None:
    """One tagger by MCRF-training, from the same encoder on the same sentences."""
    train, dev, _ = corpus.read(corpora)
    Tagger.train(
        train,
        dev,
        output=target,
        encoder={"transformer": str(encoder)},
        epochs=corpus.epochs,
        batch_sentences=BATCH,
        seed=seed,
        progress=False,
    )


def _examples(sentences: Sequence[Sentence], tokenizer: Any, tags: Sequence[str]) -> Any:
    """Piece ids with the tag on the first piece of each word, -100 elsewhere."""
    from datasets import Dataset

    index = {tag: number for number, tag in enumerate(tags)}
    encoded = tokenizer([list(s.tokens) for s in sentences], is_split_into_words=True, truncation=True, max_length=512)
    labels = []
    for row, sentence in enumerate(sentences):
        words = encoded.word_ids(row)
        first = [word is not None and word != before for before, word in zip([None, *words], words, strict=False)]
        gold = sentence.tags or ()
        labels.append([index[gold[word]] if is_first else -100 for word, is_first in zip(words, first, strict=True)])
    return Dataset.from_dict({**encoded, "labels": labels})


if __name__ == "__main__":
    main()
