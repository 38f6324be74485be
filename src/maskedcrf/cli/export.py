"""maskedcrf export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maskedcrf.cli.options import AsJson

if TYPE_CHECKING:
    from maskedcrf.onnx.export import ExportComparison


def run(
    model: Annotated[Path, typer.Argument(help="Model folder, as `maskedcrf train` writes it.")],
    output: Annotated[Path, typer.Argument(help="ONNX file to write.")] = Path("model.onnx"),
    int8: Annotated[
        bool, typer.Option("--int8", help="A transformer's matrices and large word tables in 8 bits; some tags change.")
    ] = False,
    check: Annotated[
        list[str] | None,
        typer.Option(help="Tag this file with the folder and with the ONNX file and compare; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as one ONNX file with the Viterbi inside; `maskedcrf predict` then needs no torch.

    The file takes word numbers or word pieces and gives the best legal path and its log-probability. It holds tags,
    scheme and tokenizer as well. --check says how many tags differ and, where the file has gold tags, both F1. A
    sentence gets the same tags alone or in any batch, in 8 bits too; in 8 bits some differ from the model folder's.

    \b
    Example:
      maskedcrf export model model.onnx
      maskedcrf export model small.onnx --int8 --check dev.conll
      maskedcrf predict model.onnx news.txt
    """
    from maskedcrf.cli.streams import note, print_json
    from maskedcrf.data.formats import read_sentences
    from maskedcrf.evaluation.check import check as check_tags
    from maskedcrf.onnx.export import compare_with_export, export
    from maskedcrf.onnx.tagger import OnnxTagger
    from maskedcrf.tagger import Tagger

    tagger = Tagger.load(model, device="cpu")
    cut = tagger.first_character
    sentences = [sentence for name in check or () for sentence in read_sentences(name, first_character=cut)]
    check_tags(sentences, tagger.output_scheme)  # a file whose tags do not fit is refused before anything is written
    export(tagger, output, int8=int8)
    size = output.stat().st_size
    found = compare_with_export(tagger, OnnxTagger.load(output), sentences) if sentences else None
    if as_json:
        print_json({"file": str(output), "bytes": size, "int8": int8, "check": None if found is None else vars(found)})
        return
    note(f"{output}: {size / 1e6:.1f} MB, {'int8' if int8 else 'float32'}")
    if found is not None:
        print(_format_comparison(found))


def _format_comparison(found: ExportComparison) -> str:
    text = f"{found.sentences} sentences, {found.tokens} tokens: {found.different_tags} tags differ"
    text += f" in {found.different_sentences} sentences"
    if found.f1_model is None or found.f1_onnx is None:
        return text
    change = found.f1_onnx - found.f1_model
    return f"{text}; F1 {found.f1_model:.2f} in the folder, {found.f1_onnx:.2f} in the file ({change:+.2f})"
