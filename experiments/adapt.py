"""An encoder that has read the corpora: it guesses hidden pieces of the texts of train, before anything is tagged.

python -m experiments.adapt uer-zh-adapted --corpora DIR --encoders DIR
python -m experiments.adapt my-bert --encoder bert-base --texts msra weibo --epochs 10 --corpora DIR --encoders DIR

Neither tags nor dev nor test are looked at. The encoder is written beside the one it began as, an ordinary folder, so
that a recipe can name it as `{folder}/uer-zh-adapted`; one that is there already is left as it is. With `--layers` it
is made deeper first: the layers it has, then copies of the last one that add nothing until they learn to.
"""

from __future__ import annotations

import copy
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from experiments.candidates import ADAPTED, Adaptation
from experiments.command import command, parser_for
from experiments.extra import corpus_of
from maskedcrf.errors import DataError
from maskedcrf.folders import atomic_folder
from maskedcrf.training.optimiser import rate_factor
from maskedcrf.training.settings import OptimSettings

LENGTH, ROWS = 128, 64
"""Pieces a row and rows a step: rows are full, so that no padding is computed."""
HIDDEN, SHOWN_AS_MASK, SHOWN_AS_ANY = 0.15, 0.8, 0.1
"""The share of the pieces to be guessed; of those, how many are seen as [MASK] and how many as any piece."""
HEAD_RATE = 5
"""The layer that guesses starts from nothing: it learns so many times as fast as the encoder, and from the first step,
while the encoder waits for it to make sense."""


MARKS = (("<s>", "</s>", "<mask>"), ("[CLS]", "[SEP]", "[MASK]"))
"""What begins a row, what ends a sentence and what hides a piece; MPNet's vocabulary has both and means the first."""


class Marks(NamedTuple):
    """Numbers of an encoder's special pieces, and of how many there are."""

    begin: int
    end: int
    mask: int
    size: int


class Batch(NamedTuple):
    """Rows of pieces (B, P) with some hidden, the flat places of those (K,), and what stood there (K,)."""

    pieces: Tensor
    places: Tensor
    hidden: Tensor


def text_of(folder: Path, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Marks]:
    """The pieces of all sentences, one after the other with [SEP] between them."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    numbers = tokenizer.get_vocab()
    names = next((each for each in MARKS if set(each) <= set(numbers)), None)
    if names is None:
        raise DataError(
            f"{folder / 'tokenizer.json'}: has neither [MASK] nor <mask>; give an encoder like BERT or MPNet"
        )
    begin, end, mask = (numbers[name] for name in names)
    marks = Marks(begin, end, mask, len(numbers))
    read = tokenizer.encode_batch([list(words) for words in sentences], is_pretokenized=True, add_special_tokens=False)
    return torch.tensor([piece for each in read for piece in (*each.ids, marks.end)]), marks


def batches(text: Tensor, marks: Marks) -> Iterator[Tensor]:
    """The whole text once, cut into rows (B, P) anew and in any order, but for a rest that fills no batch."""
    text = text.roll(int(torch.randint(len(text), ())))
    length = min(LENGTH, len(text) + 1)
    rows = text[: len(text) // (length - 1) * (length - 1)].view(-1, length - 1)
    rows = torch.cat((rows.new_full((len(rows), 1), marks.begin), rows), dim=1)
    size = min(ROWS, len(rows))
    order = torch.randperm(len(rows), device=text.device)
    for chosen in order[: len(rows) // size * size].view(-1, size):
        yield rows[chosen]


def hide(rows: Tensor, marks: Marks) -> Batch:
    """Rows with a share of their pieces hidden, always as many, so that the host need not ask the GPU how many."""
    flat = rows.flatten()
    chance = torch.rand(flat.shape, device=rows.device)
    chance = chance.masked_fill((flat == marks.begin) | (flat == marks.end), -1)
    places = chance.topk(max(1, int(HIDDEN * len(flat)))).indices
    hidden = flat[places]
    draw = torch.rand(places.shape, device=rows.device)
    other = torch.where(draw < 1 - SHOWN_AS_ANY, hidden, torch.randint_like(hidden, marks.size))
    shown = torch.where(draw < SHOWN_AS_MASK, marks.mask, other)
    return Batch(flat.scatter(0, places, shown).view_as(rows), places, hidden)


def guess_loss(model: Any, batch: Batch) -> Tensor:
    """The mean loss of the hidden pieces; the other places' pieces are never scored."""
    vectors = model.base_model(input_ids=batch.pieces).last_hidden_state.flatten(0, 1)
    guess = getattr(model, "cls", None) or model.lm_head
    scores: Tensor = guess(vectors[batch.places])
    return nn.functional.cross_entropy(scores.float(), batch.hidden)


def adapt(model: Any, text: Tensor, marks: Marks, *, epochs: int, rate: float) -> list[float]:
    """Train the encoder on the text; the mean loss of each epoch."""
    device = text.device
    total = epochs * sum(1 for _ in batches(text, marks))
    encoder = list(model.base_model.parameters())
    own = {id(parameter) for parameter in encoder}
    head = [parameter for parameter in model.parameters() if id(parameter) not in own]
    groups = [
        {"params": encoder, "base": rate, "course": OptimSettings(schedule="linear", warm_up=0.1)},
        {"params": head, "base": HEAD_RATE * rate, "course": OptimSettings(schedule="linear", warm_up=0)},
    ]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01, fused=device.type == "cuda")
    losses: list[float] = []
    step = 0
    model.train()
    for _ in range(epochs):
        sum_, count = torch.zeros((), device=device), 0
        for rows in batches(text, marks):
            for group in optimiser.param_groups:
                group["lr"] = group["base"] * rate_factor(step, total, group["course"])
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = guess_loss(model, hide(rows, marks))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            sum_, count, step = sum_ + loss.detach(), count + 1, step + 1
        losses.append(float(sum_) / count)
        print(f"epoch {len(losses)}: loss {losses[-1]:.3f}", file=sys.stderr)
    return losses


@torch.no_grad()
def deepen(model: Any, layers: int) -> None:
    """Give a BERT so many layers: what the new ones would add to their input starts at zero."""
    stack = model.base_model.encoder.layer
    while len(stack) < layers:
        new = copy.deepcopy(stack[-1])
        for part in (new.attention.output.dense, new.output.dense):
            part.weight.zero_()
            part.bias.zero_()
        stack.append(new)
    model.config.num_hidden_layers = len(stack)


def write(model: Any, source: Path, target: Path) -> None:
    """The encoder without what guessed, in the form of the folder it came from, which gives the tokenizer."""
    with atomic_folder(target) as aside:
        model.base_model.save_pretrained(aside)
        for path in source.iterdir():
            if not (aside / path.name).exists():
                shutil.copy(path, aside / path.name)


@command
def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_for(__doc__, "corpora", "encoders")
    parser.add_argument("name", help=f"the folder to write, beside the encoders; known are {', '.join(ADAPTED)}")
    parser.add_argument("--encoder", help="the BERT to begin with, a folder of those")
    parser.add_argument("--texts", nargs="+", help="corpora whose train is read")
    parser.add_argument("--epochs", type=int, help="how many times they are read; 20 unless the name says otherwise")
    parser.add_argument("--layers", type=int, default=0, help="how many it is to have, if more than it has")
    parser.add_argument("--rate", type=float, help="of the encoder; 2e-4 unless the name says otherwise")
    parser.add_argument("--sentences", type=int, default=None, help="read only so many of each corpus")
    options = parser.parse_args(given)
    if options.name not in ADAPTED and not (options.encoder and options.texts):
        parser.error(f"{options.name} is none of those known: say what it is with --encoder and --texts")
    known = ADAPTED.get(options.name) or Adaptation(options.encoder, options.texts)
    source, target = (Path(options.encoders, name) for name in (options.encoder or known.encoder, options.name))
    if target.exists():
        print(f"{target}: is there already", file=sys.stderr)
        return 0
    if not (source / "config.json").exists():
        raise DataError(f"{source}: no encoder in this folder; give the folder of the encoders with --encoders")
    import transformers

    log: Any = transformers.utils.logging
    log.set_verbosity_error()  # it would say that the layer that guesses is new
    log.disable_progress_bar()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = transformers.AutoModelForMaskedLM.from_pretrained(source, dtype=torch.float32)
    deepen(model, options.layers or known.layers)
    read = [corpus_of(name, options.corpora).train[: options.sentences] for name in options.texts or known.texts]
    text, marks = text_of(source, [sentence.tokens for part in read for sentence in part])
    epochs, rate = options.epochs or known.epochs, options.rate or known.rate
    adapt(model.to(device), text.to(device), marks, epochs=epochs, rate=rate)
    write(model, source, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
