"""A Hugging Face token classifier made legal: the same weights, no retraining, then transitions fitted in seconds.

python examples/adopt_a_classifier.py                                # a tiny classifier, trained on the spot
python examples/adopt_a_classifier.py --classifier my-classifier     # a folder, or a name on the hub
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from maskedcrf import Tagger
from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.data.sentence import Sentence
from maskedcrf.tagger.adaptation import audit_best_tags, gold_examples


def tiny_classifier(folder: Path, train: Sequence[Sentence]) -> Path:
    """A small BERT with a softmax head, trained as anybody would: cross-entropy on the first piece of each word."""
    pieces = BertWordPieceTokenizer()
    pieces.train_from_iterator((" ".join(each.tokens) for each in train), vocab_size=3000, show_progress=False)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, **names)
    labels = sorted({tag for each in train for tag in each.tags or ()})
    index = {label: number for number, label in enumerate(labels)}
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128
    )
    config.id2label, config.label2id = dict(enumerate(labels)), index
    model = BertForTokenClassification(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(4):
        for begin in range(0, len(train), 16):
            part = train[begin : begin + 16]
            batch = tokenizer(
                [list(each.tokens) for each in part], is_split_into_words=True, padding=True, return_tensors="pt"
            )
            gold = torch.full(batch["input_ids"].shape, -100)
            for row, each in enumerate(part):
                words = batch.word_ids(row)
                for place, word in enumerate(words):
                    if word is not None and word != words[place - 1]:
                        gold[row, place] = index[(each.tags or ())[word]]
            model(batch["input_ids"], batch["attention_mask"], labels=gold).loss.backward()
            optimiser.step()
            optimiser.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def main(classifier: str | None, folder: Path) -> None:
    """Adopt, score, fit, score again."""
    corpus = demo_corpus()
    test = corpus.test[:400]
    name = classifier or tiny_classifier(folder / "classifier", corpus.train[:900])

    tagger = Tagger.from_pretrained(name)
    encoded = gold_examples(tagger.model, test, scheme=tagger.scheme)
    best = audit_best_tags(encoded, tagger.tags, tagger.scheme)  # what the classifier gives without us
    print(f"best tag of each word  F1 {best.retain.f1:.1f}, {best.illegal:.1f} % of its entities illegal")
    print(f"mask only              F1 {tagger.evaluate(test).f1:.1f}, none illegal")

    print(tagger.fit_transitions(corpus.dev))
    print(f"fitted on dev          F1 {tagger.evaluate(test).f1:.1f}, none illegal")
    tagger.save(folder / "legal")
    print(tagger.predict("play something by anna lopez", probabilities=True).entities)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--classifier", help="folder or name of a Hugging Face token classifier")
    with TemporaryDirectory() as folder:
        main(parser.parse_args().classifier, Path(folder))
