"""maskedcrf train."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maskedcrf.cli.options import DEVICE, MISFITS, OVERLAPS, AsJson, Misfit, Overlap, policies
from maskedcrf.cli.terminal import PrintableFormatter, echo

if TYPE_CHECKING:
    from maskedcrf.tagger.tagger import Tagger


def run(
    config: Annotated[Path | None, typer.Argument(help="TOML file of settings; flags win over it.")] = None,
    train: Annotated[list[str] | None, typer.Option(help="Labelled file; may be given several times.")] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Labelled file to choose the epoch; else 10% of train.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Labelled file to score the finished model on.")] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Folder for the model.")] = None,
    file_scheme: Annotated[str | None, typer.Option()] = None,
    scheme: Annotated[str | None, typer.Option(help="Scheme trained on.")] = None,
    output_scheme: Annotated[str | None, typer.Option()] = None,
    illegal_gold: Annotated[str | None, typer.Option(help="Illegal gold tags: error, repair or drop.")] = None,
    misfits: Annotated[Misfit | None, typer.Option(help=MISFITS)] = None,
    overlaps: Annotated[Overlap | None, typer.Option(help=OVERLAPS)] = None,
    head: Annotated[str | None, typer.Option(help="crf or softmax.")] = None,
    mask: Annotated[str | None, typer.Option(help="train, decode or off.")] = None,
    transformer: Annotated[str | None, typer.Option(help="Hugging Face encoder: folder or name.")] = None,
    vectors: Annotated[str | None, typer.Option(help="File of pretrained word vectors.")] = None,
    epochs: Annotated[int | None, typer.Option()] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run, or the first of --seeds.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of trainings; reports best, mean and std.")] = None,
    device: Annotated[str | None, typer.Option(help=DEVICE)] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting: --set optim.head_rate=2e-3.", metavar="KEY=VALUE")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start over and replace what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a tagger on labelled files and save it as a model folder.

    A run that was stopped goes on from its last checkpoint when the same command is given again. Several GPUs or
    machines: accelerate launch -m maskedcrf train ...

    \b
    Example:
      maskedcrf train --train train.conll --dev dev.conll -o model
      maskedcrf train ner.toml --transformer bert-base-cased --scheme BIOES -o model
      maskedcrf train ner.toml --seeds 10 --set epochs=5 --set minimum_steps=10000 -o runs
    """
    flags = {
        "train": train,
        "dev": dev,
        "test": test,
        "output": output,
        "file_scheme": file_scheme,
        "scheme": scheme,
        "output_scheme": output_scheme,
        "illegal_gold": illegal_gold,
        **{f"data.{name}": policy for name, policy in policies(misfits, overlaps).items()},
        "head": head,
        "mask": mask,
        "encoder.transformer": transformer,
        "encoder.vectors": vectors,
        "epochs": epochs,
        "seed": seed,
        "seeds": seeds,
        "device": device,
        "overwrite": overwrite or None,
    }
    with _log_lines():
        _train(config, _given(flags) | assignments(set_ or []), as_json=as_json)


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value not in (None, [])}


def describe(parameters: list[Any]) -> None:
    """Give options the defaults of their settings, and the words where they have none of their own."""
    from maskedcrf.training.settings import Settings

    for parameter in parameters:
        setting = Settings.model_fields.get(parameter.name)
        if setting is not None:
            parameter.default = setting.default
            parameter.help = parameter.help or setting.description


def assignments(pairs: list[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is TOML, or else a word."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE, such as epochs=5")
        try:
            values[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = value
    return values


def _train(config: Path | None, flags: dict[str, Any], *, as_json: bool) -> None:
    from maskedcrf.cli.streams import print_json
    from maskedcrf.training.distributed import is_main_process
    from maskedcrf.training.seeds import train_seeds
    from maskedcrf.training.settings import Settings
    from maskedcrf.training.settings_file import RunFiles, read_settings
    from maskedcrf.training.train import train

    values = read_settings(config, flags)
    files = RunFiles.of({name: values.pop(name) for name in RunFiles.model_fields if name in values})
    settings = Settings.of(values)  # wrong settings are refused before files are read
    seeds, output, overwrite = files.pop("seeds", None), files["output"], files.get("overwrite", False)
    if seeds is not None:
        with _explain_resume(output, overwrite=overwrite, several=True):
            _, summary = train_seeds(
                files.pop("train"), files.pop("dev", None), seeds=seeds, settings=settings, **files
            )
        if is_main_process():
            print_json(summary) if as_json else _show_seeds(summary)
        return
    with _explain_resume(output, overwrite=overwrite):
        tagger = train(files.pop("train"), files.pop("dev", None), settings=settings, **files)
    if not is_main_process():
        return
    if as_json:
        print_json({"model": output, **tagger.record.model_dump(mode="json")})
    else:
        _show(tagger, output)


@contextmanager
def _log_lines() -> Iterator[None]:
    """Our log lines on standard error where no terminal shows a bar; libraries with handlers would log theirs twice."""
    import logging

    from maskedcrf.training.distributed import is_main_process

    if sys.stderr.isatty():
        yield
        return
    logger, handler = logging.getLogger("maskedcrf"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if is_main_process() else logging.ERROR)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def _explain_resume(output: str, *, overwrite: bool, several: bool = False) -> Iterator[None]:
    """Of a run that is stopped with Ctrl-C, say what is left of it."""
    from maskedcrf.cli.streams import note
    from maskedcrf.training.distributed import is_main_process

    try:
        yield
    except KeyboardInterrupt:
        if is_main_process():
            note(f"stopped; {_left_of_seeds(overwrite) if several else _resume_hint(output, overwrite)}")
        raise


def _left_of_seeds(overwrite: bool) -> str:
    rest = "--overwrite does all of them anew" if overwrite else "the same command does the rest"
    return f"finished seeds are kept, {rest}"


def _resume_hint(output: str, overwrite: bool) -> str:
    from maskedcrf.training.checkpoint import checkpoints
    from maskedcrf.training.lock import sibling
    from maskedcrf.training.train import CHECKPOINT_SUFFIX

    work = sibling(Path(output), CHECKPOINT_SUFFIX)
    # With --overwrite the checkpoint is deleted, and without it the old model is in the way.
    if not checkpoints(work) or (overwrite and Path(output).exists()):
        return "nothing was finished, the same command begins anew"
    same = "the same command without --overwrite" if overwrite else "the same command"
    return f"{same} goes on from the last checkpoint, in {work}"


def _show(tagger: Tagger, output: str) -> None:
    for name, part in tagger.record.scores.items():
        both = f"{part['retain']['f1']:.2f} retain, {part['discard']['f1']:.2f} discard"
        print(f"{name}: F1 {both}, illegal {part['illegal']:.2f} %")
    threshold = "" if tagger.decoding == "path" else f", threshold {tagger.segment_threshold:.2f}"
    print(f"decoding by {tagger.decoding}{threshold}")
    echo(f"saved to {output}; try: maskedcrf predict {output} FILE")


def _show_seeds(summary: dict[str, Any]) -> None:
    for part in ("dev", "test"):
        for name, found in summary.get(part, {}).items():
            unit = "illegal %" if name == "illegal" else f"F1, {name}"
            print(f"{part} {unit}: best {found['best']:.2f}, mean {found['mean']:.2f}, std {found['std']:.2f}")
