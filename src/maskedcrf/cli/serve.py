"""maskedcrf serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maskedcrf.cli.options import (
    DEVICE,
    DecodingChoice,
    Dictionary,
    OwnSplitter,
    OwnTokenizer,
    Patterns,
    SegmentThreshold,
    read_rules,
    stream_decoding,
)


def run(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    host: Annotated[str, typer.Option(help="Address to listen on; the default is this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    name: Annotated[list[str] | None, typer.Option(help="Further host name to answer to; may be repeated.")] = None,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    tokenizer: OwnTokenizer = None,
    sentences: OwnSplitter = None,
    decoding: DecodingChoice = None,
    segment_threshold: SegmentThreshold = None,
    deadline: Annotated[float, typer.Option(help="Seconds until a request is refused with 504.", min=0.1)] = 30.0,
    queue: Annotated[int, typer.Option(help="Tokens that may wait for the model; beyond them, 503.", min=1)] = 64_000,
    patterns: Patterns = None,
    dictionary: Dictionary = None,
    collect: Annotated[Path | None, typer.Option(help="JSON lines file that corrected sentences are added to.")] = None,
    log: Annotated[bool, typer.Option("--log", help="Log each request on standard error, never its text.")] = False,
) -> None:
    """Serve a model over HTTP, with a page that shows its lattice: open the address it prints.

    Stop it with Ctrl-C or SIGTERM: what has begun is answered first.

    \b
    Example:
      maskedcrf serve my-model
      maskedcrf serve my-model --collect corrections.jsonl
      curl -s localhost:8000/tag -H 'Content-Type: application/json' -d '{"text": "Ann flew to Oslo."}'
    """
    import logging
    import os

    from maskedcrf.cli import INTERRUPTED
    from maskedcrf.cli.streams import note
    from maskedcrf.data.tokenizers import change_tokenizer
    from maskedcrf.errors import MissingExtraError
    from maskedcrf.tagger import Tagger
    from maskedcrf.tagger.decoding import change_decoding

    try:
        from maskedcrf.service.limits import Limits
        from maskedcrf.service.listen import serve
    except ImportError as error:
        raise MissingExtraError(f"serving needs {error.name}: pip install 'maskedcrf[serve]'") from error
    if log:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    tagger = Tagger.load(model, device=device)
    change_tokenizer(tagger, tokenizer, sentences)
    change_decoding(tagger, **stream_decoding(decoding, segment_threshold))
    serve(
        tagger,
        host=host,
        port=port,
        hosts=name or (),
        rules=read_rules(patterns, dictionary),
        collect=collect,
        limits=Limits(deadline=deadline, queue_tokens=queue),
        announce=lambda address: note(f"serving {model} on {address}"),
        # Python would wait for a thread that compiles, or end under it.
        stopped=lambda at_rest: None if at_rest else os._exit(INTERRUPTED),
    )
