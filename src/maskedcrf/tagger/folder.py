"""The model folder: model.safetensors, config.json, encoder/, README.md; nothing in it is ever run.

A folder from elsewhere is read as if its author meant harm: every file must lie inside it, weights come from
safetensors alone and must fit the model that the JSON describes, and keys that we did not write are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from maskedcrf import __version__
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.encoders.config import EncoderConfig, Head
from maskedcrf.encoders.encoder import load_encoder
from maskedcrf.encoders.files import first_validation_error
from maskedcrf.errors import MaskedCRFError, ModelFolderError
from maskedcrf.files import atomic_file
from maskedcrf.folders import FolderFiles, atomic_folder, read_consistently, read_plain_file
from maskedcrf.tagger.card import model_card
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.options import DEFAULT_THRESHOLD, Decoding
from maskedcrf.tagger.weights import (
    OneNumberDrawn,
    building_at_most,
    check_header,
    digest_weights,
    read_header,
    read_weights,
)
from maskedcrf.tags.constraints import MAX_TAGS, Constraints, MaskMode
from maskedcrf.tags.scheme import SCHEMES, Scheme

WEIGHTS, CONFIG, ENCODER, CARD = "model.safetensors", "config.json", "encoder", "README.md"
METRICS = "metrics.jsonl"
"""Of a tagger just trained: its history, one line an epoch. Written for people and plots."""
REPORT = "report.html"
"""Of a tagger just trained: what is wrong with it on dev, a page for people."""
MODEL_FILES = {WEIGHTS, CONFIG, ENCODER, CARD, METRICS, REPORT}
"""What a model folder holds."""
LARGEST_JSON = 64 << 20
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_CODE_KEYS = ("auto_map", "trust_remote_code", "_attn_implementation_internal", "custom_pipelines")
"""Keys by which a configuration file has made other libraries run code."""


class TrainingRecord(BaseModel):
    """How a model was made: what its card is written from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: dict[str, Any] = Field(default_factory=dict)
    """Of train, dev and test: the files' names, sentences, tokens, and what the gold check did."""
    settings: dict[str, Any] = Field(default_factory=dict)
    scores: dict[str, Any] = Field(default_factory=dict)
    """Of dev and test, under retain and discard."""
    epoch: int | None = None
    """The epoch whose weights these are."""
    signature: str | None = None
    fingerprint: str | None = None
    """Of settings and data: equal for runs that must give equal weights."""


class FolderConfig(BaseModel):
    """config.json: all there is to know but the weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["maskedcrf tagger"] = "maskedcrf tagger"
    version: str = __version__
    tags: tuple[str, ...]
    scheme: str = Field(max_length=100)
    """The scheme trained on; `output_scheme` is that of the tags given out."""
    output_scheme: str = Field(max_length=100)
    delimiter: str = Field("-", max_length=100)
    prefix_last: bool = False
    head: Head
    mask: MaskMode
    decoding: Decoding = "path"
    segment_threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1)
    dropout: float = Field(ge=0, lt=1)
    encoder: EncoderConfig
    tokenizer: dict[str, Any] = Field(default_factory=lambda: {"name": "simple"})
    """What cuts raw text into words; folders of older versions used the one named `simple`."""
    record: TrainingRecord = TrainingRecord()
    digests: dict[str, str] = Field(default_factory=dict)
    """Of the weights and of each file in encoder/, so that files of two models are never taken for one."""


def save(
    target: Path,
    model: TaggerModel,
    *,
    output_scheme: Scheme,
    record: TrainingRecord,
    decoding: Decoding = "path",
    segment_threshold: float = DEFAULT_THRESHOLD,
    history: Sequence[dict[str, Any]] = (),
    overwrite: bool = False,
) -> Path:
    """Write a model folder, whole or not at all."""
    if target.exists() and not overwrite:
        raise MaskedCRFError(f"{target}: there is something already; give another folder, or overwrite=True")
    require_replaceable(target)
    scheme = model.scheme
    if len(model.crf.tags) > MAX_TAGS:
        raise MaskedCRFError(f"{target}: {len(model.crf.tags)} tags, a model folder holds {MAX_TAGS:,} at most")
    for one in (scheme, output_scheme):
        require_builtin_scheme(one, str(target), like=scheme)
    config = FolderConfig(
        tags=model.crf.tags,
        scheme=scheme.name,
        output_scheme=output_scheme.name,
        delimiter=scheme.delimiter,
        prefix_last=scheme.prefix_last,
        head=model.head,
        mask=model.crf.mask_mode,
        decoding=decoding,
        segment_threshold=segment_threshold,
        dropout=model.dropout.p,
        encoder=model.encoder.config,
        tokenizer=model.tokenizer.to_json(),
        record=record,
    )
    with atomic_folder(target) as aside:
        (aside / ENCODER).mkdir()
        model.encoder.save(aside / ENCODER)
        weights = cpu_state_dict(model)
        save_weights(weights, aside / WEIGHTS)
        (aside / WEIGHTS).chmod((aside / ENCODER).stat().st_mode & 0o666)  # safetensors' own is for nobody else to read
        digests = {**_written_digests(aside / ENCODER), WEIGHTS: digest_weights(weights)}
        config = config.model_copy(update={"digests": digests})
        write_json(aside / CONFIG, config.model_dump(mode="json"))
        void = _is_void(record.settings.get("promise"), model)
        (aside / CARD).write_text(model_card(config.model_dump(mode="json"), void_promise=void), encoding="utf-8")
        if history:
            write_metrics(aside / METRICS, history)
    return target


def digest_model(model: TaggerModel) -> str:
    """Of everything that decides which probabilities a text gets: weights, rules, encoder, tokenizer."""
    scheme = model.scheme
    with tempfile.TemporaryDirectory() as folder:
        model.encoder.save(Path(folder))
        digests = _written_digests(Path(folder))
    parts = {
        "tags": model.crf.tags,
        "scheme": [scheme.name, scheme.delimiter, scheme.prefix_last],
        "mask": model.crf.mask_mode,
        "tokenizer": model.tokenizer.to_json(),
        "digests": {**digests, WEIGHTS: digest_weights(cpu_state_dict(model))},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _is_void(promise: Any, model: TaggerModel) -> bool:
    return isinstance(promise, Mapping) and promise.get("model") != digest_model(model)


def _written_digests(encoder: Path) -> dict[str, str]:
    files = FolderFiles(encoder)
    for path in encoder.iterdir():
        files.read(path.name)
    return _encoder_digests(files)


def require_replaceable(target: Path) -> None:
    """Overwriting replaces a model, never what else somebody has put there."""
    if target.name in ("", ".."):
        raise MaskedCRFError(f"{target}: give the folder of the model a name of its own, such as {target / 'model'}")
    if target.exists() and not target.is_dir():
        raise MaskedCRFError(f"{target}: a file, which is not overwritten by a model folder; give another folder")
    foreign = sorted(each.name for each in target.iterdir() if each.name not in MODEL_FILES) if target.is_dir() else []
    if foreign:
        raise MaskedCRFError(f"{target}: {foreign[0]} is no part of a model and would be lost; give another folder")


def require_builtin_scheme(scheme: Scheme, where: str, *, like: Scheme | None = None) -> None:
    """What is saved names its scheme, and tags are written `like` one: a scheme that would not come back is refused."""
    form = like or scheme
    known = SCHEMES.get(scheme.name)
    if known is None or replace(known, delimiter=form.delimiter, prefix_last=form.prefix_last) != scheme:
        raise MaskedCRFError(
            f"{where}: scheme {scheme.name!r} is your own table or way of writing tags, and only the name of a known "
            f"one is saved; build the model on one of {', '.join(SCHEMES)}"
        )


def update_record(target: Path, record: TrainingRecord) -> None:
    """Give a model folder another record, whole or not at all; a card that somebody has written in stays as it is."""
    with atomic_folder(target) as aside:
        read_consistently(target, lambda: _copy(target, aside))
        old = read_config(aside)
        new = old.model_copy(update={"record": record})
        write_json(aside / CONFIG, new.model_dump(mode="json"))
        card = aside / CARD
        cards = {model_card(old.model_dump(mode="json"), void_promise=void).encode(): void for void in (True, False)}
        void = cards.get(card.read_bytes()) if card.is_file() else None
        if void is not None:
            same = old.record.settings.get("promise") == record.settings.get("promise")
            text = model_card(new.model_dump(mode="json"), void_promise=void and same)
            card.write_text(text, encoding="utf-8")


def _copy(source: Path, folder: Path) -> None:
    """Make the folder a copy, whatever an attempt before this one has left in it."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(source, folder, dirs_exist_ok=True)


def save_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write the tensors; what the disk refuses is an OSError, as of any other file."""
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(str(error)) from error


def cpu_state_dict(model: torch.nn.Module) -> dict[str, Tensor]:
    """The state dict with every tensor on the CPU in memory of its own, as safetensors wants it."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in model.state_dict().items()}


def write_json(path: Path, value: Any) -> None:
    """Write JSON to be read by people too."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_metrics(path: Path, history: Iterable[dict[str, Any]]) -> None:
    """One line of JSON an epoch, all of them anew, so that a resumed run has each epoch once."""
    with atomic_file(path) as handle:
        handle.writelines(json.dumps(entry).encode() + b"\n" for entry in history)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The history that `write_metrics` wrote; none where there is no such file."""
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in read_plain_file(path).splitlines()]
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path}: not one JSON object a line; delete it, or train again") from error


def load(directory: Path) -> tuple[TaggerModel, FolderConfig, Scheme]:
    """The model of a folder, its config.json, and the scheme it writes; all from one version of the folder."""
    return read_consistently(directory, lambda: _load(directory))


def _load(directory: Path) -> tuple[TaggerModel, FolderConfig, Scheme]:
    files = FolderFiles(directory / ENCODER)
    _check_tree(directory, files)
    config = read_config(directory)
    if len(config.tags) > MAX_TAGS:
        raise ModelFolderError(f"{directory / CONFIG}: {len(config.tags)} tags, {MAX_TAGS:,} are the most")
    try:
        scheme, output_scheme = (
            Scheme.get(name, delimiter=config.delimiter, prefix_last=config.prefix_last)
            for name in (config.scheme, config.output_scheme)
        )
        rules = Constraints.from_scheme(config.tags, scheme)
        tokenizer = get_tokenizer(config.tokenizer, trusted=False)
    except MaskedCRFError as error:
        raise ModelFolderError(f"{directory / CONFIG}: {error}") from error
    header = read_header(directory / WEIGHTS)

    def build() -> TaggerModel:
        encoder = load_encoder(files)
        if encoder.config != config.encoder:
            raise ModelFolderError(
                f"{directory}: {CONFIG} and {ENCODER}/ describe different encoders; save or fetch the model again"
            )
        return TaggerModel(encoder, rules, head=config.head, mask=config.mask, dropout=config.dropout)

    # Random numbers would be overwritten, and the caller's are not ours to use up.
    with torch.random.fork_rng(devices=[]), OneNumberDrawn():
        # Sizes first: a lying configuration must not cost memory.
        with torch.device("meta"), building_at_most(header, str(directory)):
            outline = build()
        check_header(directory / WEIGHTS, header, outline)
        model = build()
    weights = read_weights(directory / WEIGHTS)
    _check_digests(directory, config.digests, {**_encoder_digests(files), WEIGHTS: digest_weights(weights)})
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:  # replaced since its header was read
        raise ModelFolderError(f"{directory / WEIGHTS}: changed while it was being read; load it again") from error
    model.use_tokenizer(tokenizer)
    return model, config, output_scheme


def _encoder_digests(files: FolderFiles) -> dict[str, str]:
    return {f"{ENCODER}/{name}": digest for name, digest in files.digests().items()}


def _check_digests(directory: Path, saved: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Refuse files of several models in one folder; folders of older versions have no digests to compare."""
    for name, digest in saved.items():
        if found.get(name) != digest:
            raise ModelFolderError(
                f"{directory / name}: not the one that {CONFIG} was saved with; copy or save the whole folder again"
            )


def is_huggingface(name: str | Path) -> bool:
    """Whether this is a folder in Hugging Face's form or, where nothing has the name, owner/model on the hub."""
    path = Path(name)
    if path.is_dir():
        file = path / CONFIG
        config = read_json(file) if file.is_file() else {}
        return isinstance(config, dict) and "format" not in config and "model_type" in config
    return not path.exists() and not path.parent.exists() and bool(_HUB_NAME.fullmatch(str(name)))


def _check_tree(directory: Path, encoder: FolderFiles) -> None:
    """A folder of plain files that all lie inside it, with weights that need no pickle."""
    if not directory.is_dir():
        there = "a file" if directory.is_file() else "no such folder"
        onnx = "; maskedcrf predict and maskedcrf tag take ONNX files" if directory.suffix == ".onnx" else ""
        raise ModelFolderError(f"{directory}: {there}; a model folder is what `maskedcrf train` writes{onnx}")
    root = directory.resolve()
    for path in directory.rglob("*"):
        _check_place(path, root)
    if not (directory / WEIGHTS).is_file():
        pickles = [
            path.name for path in sorted(directory.iterdir()) if path.suffix in {".bin", ".pt", ".pth", ".pkl", ".ckpt"}
        ]
        found = f"only {pickles[0]}, a pickle, which can run code and is never read" if pickles else "nothing like it"
        raise ModelFolderError(f"{directory}: no {WEIGHTS}, {found}; save the model with Tagger.save")
    for path in directory.rglob("*.json"):
        if path.name != "tokenizer.json":  # a vocabulary: large, and no library takes instructions from it
            _refuse_code(
                path, _parse(path, encoder.read(path.name)) if path.parent == encoder.path else read_json(path)
            )


def _check_place(path: Path, root: Path) -> None:
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise ModelFolderError(f"{path}: a link that leads nowhere; refused") from None
        raise
    except (OSError, RuntimeError) as error:  # links in a circle
        raise ModelFolderError(f"{path}: a link that leads nowhere; refused") from error
    if not real.is_relative_to(root):
        raise ModelFolderError(f"{path}: leads outside the model folder; refused, a folder must hold all of its model")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ModelFolderError(f"{path}: not a plain file")


def read_json(path: Path) -> Any:
    """The JSON of a file of bounded size."""
    if not path.is_file():
        raise ModelFolderError(f"{path}: no such file, so no whole model folder; make it again, or copy it anew")
    with path.open("rb") as handle:
        content = handle.read(LARGEST_JSON + 1)
    if len(content) > LARGEST_JSON:
        raise ModelFolderError(f"{path}: larger than {LARGEST_JSON >> 20} MiB")
    return _parse(path, content)


def _parse(path: Path, content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path}: not readable as JSON ({str(error).splitlines()[0]})") from error


def _refuse_code(path: Path, value: Any) -> None:
    for key in _CODE_KEYS if isinstance(value, dict) else ():
        if value.get(key):
            raise ModelFolderError(f"{path}: {key!r} asks to run code from the folder; refused")


def read_config(directory: Path) -> FolderConfig:
    """What the folder's config.json says."""
    try:
        return FolderConfig.model_validate(read_json(directory / CONFIG))
    except ValidationError as error:
        raise ModelFolderError(f"{directory / CONFIG}: {first_validation_error(error)}") from error
