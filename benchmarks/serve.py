"""The HTTP service under load: latency and sentences a second at 1, 8 and 64 clients, with and without batching.

Models of realistic size with random weights, since speed does not depend on what a model has learnt. The server is a
process of its own and the clients are another; each client sends its next sentence when it has the last one's answer.
An answer that is not 200, or not what the tagger itself says, stops the run.

    python benchmarks/serve.py [REQUESTS]    # prints a table, writes benchmarks/results/serve.json
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import quantiles
from typing import Any

from maskedcrf.data.demo_corpus import TYPES, demo_corpus
from maskedcrf.evaluation.compare import signature

RESULTS = Path(__file__).parent / "results" / "serve.json"
CLIENTS = (1, 8, 64)
MODES = {"batched": None, "one by one": 1}
"""Mode -> tokens in a batch, None for the default; with 1, every request is a batch."""
ROUNDS = 3


def main() -> None:
    """Measure, print, write."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    texts = sentences()
    rows, memory = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, build in MODELS.items():
            saved = Path(folder, name)
            build(saved)
            rows += loads(name, saved, texts, requests)
            if name == "lstm":
                memory = memory_growth(saved, texts) | memory_under_attack(saved, texts)
    ratios = {name: gain(rows, name) for name in MODELS}
    for name, ratio in ratios.items():
        print(f"{name}: batching raises sentences a second at 64 clients {ratio:.2f} times")
    print(f"resident memory: {memory}")
    tokens = sum(len(text.split()) for text in texts) / len(texts)
    answer = {
        "signature": signature(
            benchmark="serve", requests=requests, tokens_per_sentence=round(tokens, 1), rounds=ROUNDS
        ),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} during the run",
        "versions": {"python": platform.python_version()} | {n: version(n) for n in ("torch", "uvicorn", "fastapi")},
        "rows": rows,
        "batching_ratio_at_64": ratios,
        "memory": memory,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(answer, indent=2) + "\n")


def sentences() -> list[str]:
    """Texts of two utterances each, some twenty tokens long."""
    test = demo_corpus().test
    return [" ".join((*one.tokens, *other.tokens)) for one, other in zip(test[::2], test[1::2], strict=True)]


def lstm(folder: Path) -> None:
    """Words, characters and a bidirectional LSTM, 200 wide each way: the default tagger with its character part."""
    from maskedcrf.encoders.config import EncoderConfig

    save(folder, EncoderConfig(words=100, characters=50, lstm_hidden=200))


def minilm(folder: Path) -> None:
    """A transformer of MiniLM's size: 6 layers, 384 wide, 12 heads."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from maskedcrf.encoders.config import EncoderConfig

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = sorted({token for each in demo_corpus().train for token in each.tokens})
    vocabulary = {piece: number for number, piece in enumerate([*special, *words])}
    cutter = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    cutter.pre_tokenizer = pre_tokenizers.Whitespace()
    cutter.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    source = folder.with_name("minilm-source")
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=cutter, model_max_length=512, **names).save_pretrained(source)
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(source)
    save(folder, EncoderConfig(transformer=str(source)))


MODELS = {"lstm": lstm, "minilm": minilm}


def save(folder: Path, config: Any) -> None:
    """A tagger of this shape, as a model folder."""
    import torch

    from maskedcrf.encoders.encoder import build_encoder
    from maskedcrf.tagger.model import TaggerModel
    from maskedcrf.tagger.tagger import Tagger
    from maskedcrf.tags.constraints import Constraints

    torch.manual_seed(0)
    tags = ["O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI")]
    encoder = build_encoder(config, demo_corpus().train)
    Tagger(TaggerModel(encoder, Constraints.from_scheme(tags, "BIO"), dropout=0.0).eval()).save(folder)


@contextmanager
def serving(folder: Path, batch_tokens: int | None) -> Iterator[tuple[int, int]]:
    """Port and process of a server of this model."""
    command = [sys.executable, __file__, "--serve", str(folder), str(batch_tokens or 0)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def serve(folder: str, batch_tokens: str) -> None:
    """Be the server."""
    from maskedcrf.service.limits import Limits
    from maskedcrf.service.listen import serve
    from maskedcrf.tagger import Tagger

    limits = Limits(batch_tokens=int(batch_tokens), window=0.0) if int(batch_tokens) else Limits()
    serve(Tagger.load(folder), port=0, limits=limits, announce=lambda address: print(address, flush=True))


def loads(name: str, folder: Path, texts: list[str], requests: int) -> list[dict[str, Any]]:
    """The best of a few rounds for each mode and number of clients; the modes take turns."""
    expected = answers(folder, texts)
    best: dict[tuple[str, int], dict[str, Any]] = {}
    with ExitStack() as stack:
        ports = {mode: stack.enter_context(serving(folder, tokens))[0] for mode, tokens in MODES.items()}
        for _, clients, (mode, port) in product(range(ROUNDS), CLIENTS, ports.items()):
            count = requests if clients > 1 else requests // 4
            found = asyncio.run(load(port, texts, expected, clients=clients, requests=count))
            row = {"model": name, "mode": mode, "clients": clients, **found}
            if found["sentences_per_s"] >= best.get((mode, clients), row)["sentences_per_s"]:
                best[mode, clients] = row
    for row in best.values():
        times = "  ".join(f"{key} {row[key]:7.1f}" for key in ("p50_ms", "p95_ms", "p99_ms"))
        print(
            f"{name:<8}{row['mode']:<12}{row['clients']:>3} clients {row['sentences_per_s']:8.0f} sentences/s  {times}"
        )
    return list(best.values())


def gain(rows: list[dict[str, Any]], name: str) -> float:
    """How much faster batching is with the most clients."""
    rate = {
        row["mode"]: row["sentences_per_s"] for row in rows if (row["model"], row["clients"]) == (name, CLIENTS[-1])
    }
    return round(rate["batched"] / rate["one by one"], 2)


def answers(folder: Path, texts: list[str]) -> list[list[str]]:
    """The tags that the tagger itself gives."""
    from maskedcrf.tagger import Tagger

    return [list(found.tags) for found in Tagger.load(folder).predict(texts)]


async def load(
    port: int, texts: list[str], expected: list[list[str]], *, clients: int, requests: int
) -> dict[str, Any]:
    """Latency and rate of this many requests from this many clients; each answer is checked."""
    seconds: list[float] = []
    numbers = iter(range(requests))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            place = number % len(texts)
            start = time.perf_counter()
            status, body = await ask(reader, writer, {"text": texts[place]})
            seconds.append(time.perf_counter() - start)
            if status != 200 or json.loads(body)["tags"] != expected[place]:
                raise SystemExit(f"request {number}: status {status}, {body[:200]!r}")
        writer.close()
        await writer.wait_closed()

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    took = time.perf_counter() - start
    cuts = quantiles(seconds, n=100)
    latency = {f"p{share}_ms": round(1000 * cuts[share - 1], 2) for share in (50, 95, 99)}
    return {"requests": requests, "errors": 0, "sentences_per_s": round(requests / took, 1), **latency}


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, question: object, path: str = "/tag"
) -> tuple[int, bytes]:
    """One request on an open connection: status and body."""
    body = json.dumps(question).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    size = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
    return int(lines[0].split()[1]), await reader.readexactly(size)


def memory_growth(folder: Path, texts: list[str]) -> dict[str, float]:
    """Resident memory of the server after 1,000 and after 10,000 requests of 64 clients."""
    expected = answers(folder, texts)
    with serving(folder, None) as (port, process):
        asyncio.run(load(port, texts, expected, clients=64, requests=1_000))
        early = resident(process)
        asyncio.run(load(port, texts, expected, clients=64, requests=9_000))
        late = resident(process)
    return {"after_1000_mib": early, "after_10000_mib": late, "growth_percent": round(100 * (late / early - 1), 2)}


def memory_under_attack(folder: Path, texts: list[str]) -> dict[str, Any]:
    """Most memory above that of normal work, while 240 clients send the largest bodies at once, good and bad."""
    words = " ".join(texts).split()
    bodies = [
        ("/tag/batch", {"sentences": [{"tokens": words[62 * row : 62 * row + 62]} for row in range(150)]}),
        ("/tag/batch", {"sentences": [{"tokens": ["a"] * 2000}] * 100}),
        ("/tag", {"tokens": [f"{number:04d}" * 64 for number in range(2000)]}),
        ("/tag", "x" * ((1 << 20) - 2)),
    ]
    statuses: Counter[int] = Counter()

    async def send(path: str, body: object) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        statuses[(await ask(reader, writer, body, path))[0]] += 1
        writer.close()

    async def attack() -> None:
        await asyncio.gather(*(send(*body) for body in bodies * 60))

    with serving(folder, None) as (port, process):
        asyncio.run(load(port, texts, answers(folder, texts), clients=64, requests=1_000))
        before = resident(process)
        asyncio.run(attack())
        peak = resident(process, "VmHWM")
    if bad := [status for status in statuses if status not in (200, 422, 503)]:
        raise SystemExit(f"undeclared or failed answers under attack: {bad}")
    return {"attack_statuses": dict(statuses), "attack_above_mib": round(peak - before, 1)}


def resident(process: int, what: str = "VmRSS") -> float:
    """Resident memory of a process in MiB: now, or with VmHWM its highest so far."""
    status = Path(f"/proc/{process}/status").read_text()
    return round(int(status.partition(f"{what}:")[2].split()[0]) / 1024, 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
    else:
        main()
