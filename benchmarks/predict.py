"""Tagging raw texts: ONNX in 32 and 8 bits and the Tagger against a transformers pipeline on the same encoder.

All have the same weights: six layers, 384 wide. Texts are of varied length. Each number of `--threads` is a block of
its own, all cores, the default of all of them, last; runs within it are interleaved, wall and processor time are both
kept, ratios are of minima within the block. No figure is kept unless the ONNX file in 32 bits tags every text as the
Tagger does, and both files tag every text alone as they do in a batch.

    python benchmarks/predict.py                     # random weights: anyone can run it
    python benchmarks/predict.py --tagger FOLDER     # a tagger with a BERT encoder
    python benchmarks/predict.py --tagger FOLDER --gold test.conll     # and what 8 bits do to its F1
    python benchmarks/predict.py --classifier FOLDER     # a Hugging Face token classifier, adopted and as it is

Prints a table and writes benchmarks/results/predict.json, or with --classifier predict-adopted.json. Takes minutes.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from operator import ne
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from maskedcrf.data.batching import even_batches
from maskedcrf.data.demo_corpus import TYPES, demo_corpus, demo_sentences
from maskedcrf.data.formats import read_sentences
from maskedcrf.data.texts import to_sentence
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.evaluation.compare import signature
from maskedcrf.onnx.export import compare_with_export, export
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.predict import MAX_BATCH_SENTENCES, default_forward_tokens
from maskedcrf.tags.constraints import Constraints

RESULTS = Path(__file__).parent / "results" / "predict.json"
BATCHES = (4, 8, 32)
"""Batch sizes tried for the pipeline, beside its default of 1."""
TOKENS = (128, 512, 2048)
"""Padded pieces a batch tried for ours, beside the default."""
TARGETS = {
    ("onnx", "default"): 3.0,
    ("onnx int8", "default"): 6.0,
    ("tagger", "default"): 3.0,
    ("tagger", "best"): 1.5,
}

Run = Callable[[], Any]


def main() -> None:
    """Measure, print, write."""
    options = _options()
    texts = list(realistic_texts(options.texts))
    with tempfile.TemporaryDirectory() as folder:
        given = options.classifier or options.tagger
        tagger = Tagger.load(given) if given else random_tagger(Path(folder))
        files = {"onnx": Path(folder, "a.onnx"), "onnx int8": Path(folder, "b.onnx")}
        for name, path in files.items():
            export(tagger, path, int8=name.endswith("int8"))
        sizes = {name: path.stat().st_size for name, path in files.items()}
        exported = {name: OnnxTagger.load(path) for name, path in files.items()}
        differing = agreement(tagger, exported, texts)
        gold = [sentence for name in options.gold for sentence in read_sentences(name)]
        scores = (
            {name: vars(compare_with_export(tagger, each, gold)) for name, each in exported.items()} if gold else None
        )
        pipeline = plain_pipeline(options.classifier) if options.classifier else pipeline_of(tagger)
        rows = list[dict[str, Any]]()
        for threads in options.threads:
            torch.set_num_threads(threads)
            exported = {name: OnnxTagger.load(path, threads=threads) for name, path in files.items()}
            times = measure(runs(tagger, exported, pipeline, texts), options.rounds)
            for clock, seconds in times.items():
                wanted = clock == "wall" and threads == os.cpu_count()
                found = table(seconds, len(texts), defaults=wanted)
                rows += [{"threads": threads, "clock": clock, **row} for row in found]
    report(rows)
    answer = {
        "signature": signature(
            benchmark="predict",
            encoder="6 layers, 384 wide",
            weights=weights_of(options),
            texts=len(texts),
            rounds=options.rounds,
            time="interleaved minima",
        ),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} during the run",
        "versions": {name: version(name) for name in ("torch", "transformers", "onnxruntime", "tokenizers")},
        "tokens_per_text": round(sum(len(text.split()) for text in texts) / len(texts), 1),
        "bytes": sizes,
        "pieces": pieces(tagger, texts),
        "texts_that_differ": differing,
        "gold": scores,
        "rows": rows,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    results = RESULTS.with_name("predict-adopted.json") if options.classifier else RESULTS
    results.write_text(json.dumps(answer, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tagging speed against a transformers pipeline.")
    parser.add_argument("--tagger", help="model folder with a BERT encoder; random weights if left out")
    parser.add_argument("--classifier", help="folder of a Hugging Face token classifier, in place of a tagger")
    parser.add_argument("--gold", nargs="*", default=[], help="labelled files to score the tagger and its files on")
    parser.add_argument("--texts", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    return parser.parse_args()


def weights_of(options: argparse.Namespace) -> str:
    """What the signature says of the weights."""
    if options.classifier:
        return "a token classifier's, adopted"
    return "trained" if options.tagger else "random"


def realistic_texts(size: int) -> Iterator[str]:
    """Texts of one to eight utterances, short ones more often: some 5 to 100 tokens."""
    chance = random.Random(0)
    utterances = (" ".join(sentence.tokens) for sentence in demo_sentences("test", 8 * size))
    for _ in range(size):
        parts = min(8, 1 + int(chance.expovariate(0.6)))
        yield " . ".join(next(utterances) for _ in range(parts))


def random_tagger(folder: Path) -> Tagger:
    """A tagger on a BERT of MiniLM's size with random weights, which mostly says O, as a trained one does."""
    corpus = demo_corpus().train
    words = sorted({word for sentence in corpus for word in sentence.tokens})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({letter for word in words for letter in word})
    vocabulary = [*special, *letters, *(f"##{letter}" for letter in letters), *(word for word in words if word[1:])]
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    transformers.BertModel(config).save_pretrained(folder / "encoder")
    fast_tokenizer(tokenizer).save_pretrained(folder / "encoder")
    tags = ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI")]
    encoder = build_encoder(EncoderConfig(transformer=str(folder / "encoder")), corpus)
    model = TaggerModel(encoder, Constraints.from_scheme(tags, "BIO"), dropout=0.1)
    with torch.no_grad():
        model.linear.weight *= 3
        model.linear.bias[0] += 2
    return Tagger(model.eval())


def fast_tokenizer(tokenizer: Tokenizer) -> Any:
    """The tokenizer as transformers wraps it."""
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    named = {f"{name}_token": token for name, token in names.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **named)


def pipeline_of(tagger: Tagger) -> Any:
    """A transformers pipeline with the tagger's encoder and its linear layer, independent tags."""
    part = tagger.model.encoder.parts["transformer"]
    names = dict(enumerate(tagger.tags))
    config = part.model.config
    config.id2label, config.label2id = names, {name: number for number, name in names.items()}
    model = transformers.BertForTokenClassification(config).eval()
    model.bert.load_state_dict(part.model.state_dict())
    model.classifier.load_state_dict(tagger.model.linear.state_dict())
    return transformers.pipeline(
        "token-classification", model=model, tokenizer=fast_tokenizer(part.words.tokenizer), device="cpu"
    )


def plain_pipeline(folder: str) -> Any:
    """What people have: the pipeline of transformers on their classifier, all at its defaults."""
    return transformers.pipeline("token-classification", model=folder, device="cpu")


def agreement(tagger: Tagger, exported: dict[str, OnnxTagger], texts: list[str]) -> dict[str, int]:
    """How many texts each tags otherwise than the tagger does, and otherwise alone than in a batch."""
    expected = [answer.tags for answer in tagger.predict(texts)]
    found = {}
    for name, each in {"tagger": tagger, **exported}.items():
        answers = [answer.tags for answer in each.predict(texts)]
        alone = [each.predict(text).tags for text in texts]
        found[f"{name}, from the tagger"] = sum(map(ne, answers, expected))
        found[f"{name}, alone from batched"] = sum(map(ne, answers, alone))
    if any(number for kind, number in found.items() if kind != "onnx int8, from the tagger"):
        raise SystemExit(f"not the same tags, so nothing is timed; texts that differ: {found}")
    return found


def pieces(tagger: Tagger, texts: list[str]) -> dict[str, Any]:
    """Word pieces of the texts, and with the padding that the Tagger leaves out: what no timer's noise touches."""
    encoder = tagger.model.encoder
    lengths = encoder.compute_lengths([to_sentence(text, tagger.tokenizer) for text in texts])
    limit = default_forward_tokens(tagger.model)
    batches = even_batches(lengths, size=MAX_BATCH_SENTENCES, tokens=limit, workers=torch.get_num_threads())
    padded = sum(len(batch) * max(lengths[number] for number in batch) for batch in batches)
    return {"in_the_texts": sum(lengths), "padded": padded, "batches": len(batches)}


def runs(
    tagger: Tagger, exported: dict[str, OnnxTagger], pipeline: Any, texts: list[str]
) -> dict[tuple[str, str], Run]:
    """What is timed, by tagger and setting."""
    found: dict[tuple[str, str], Run] = {("pipeline", "default"): lambda: pipeline(texts)}
    for size in BATCHES:
        found["pipeline", f"batch {size}"] = lambda size=size: pipeline(texts, batch_size=size)
    for name, each in {**exported, "tagger": tagger}.items():
        found[name, "default"] = lambda each=each: each.predict(texts)
        for tokens in TOKENS:
            found[name, f"tokens {tokens}"] = partial(each.predict, texts, forward_tokens=tokens)
    return found


def measure(timed: dict[tuple[str, str], Run], rounds: int) -> dict[str, dict[tuple[str, str], float]]:
    """Least seconds of each by clock, all taken in turn."""
    clocks = {"wall": time.perf_counter, "processor": time.process_time}
    least = {name: dict.fromkeys(timed, float("inf")) for name in clocks}
    for _ in range(rounds):
        for key, run in timed.items():
            start = {name: clock() for name, clock in clocks.items()}
            run()
            for name, clock in clocks.items():
                least[name][key] = min(least[name][key], clock() - start[name])
    return least


def table(seconds: dict[tuple[str, str], float], texts: int, *, defaults: bool) -> Iterator[dict[str, Any]]:
    """Each tagger at its default and at its best, with the ratio to the pipeline at the same.

    Only on the default number of threads is there a target.
    """
    names = list(dict.fromkeys(name for name, _ in seconds))
    best = {name: min((s, setting) for (other, setting), s in seconds.items() if other == name) for name in names}
    for name in names:
        for kind, (spent, setting), peer in (
            ("default", (seconds[name, "default"], "default"), seconds["pipeline", "default"]),
            ("best", best[name], best["pipeline"][0]),
        ):
            yield {
                "what": name,
                "at": kind,
                "setting": setting,
                "seconds": round(spent, 4),
                "texts_per_second": round(texts / spent, 1),
                "times_the_pipeline": round(peer / spent, 2),
                "target": TARGETS.get((name, kind)) if defaults else None,
            }


def report(rows: list[dict[str, Any]]) -> None:
    """The rows as a table."""
    for row in rows:
        target = f"(target {row['target']})" if row["target"] else ""
        speed = f"{row['texts_per_second']:9.1f} texts/s {row['times_the_pipeline']:6.2f}x {target}"
        block = f"{row['threads']} threads {row['clock']:<10}"
        print(f"{block} {row['what']:<10} {row['at']:<8} {row['setting']:<12} {speed}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    main()
