"""One door for Hugging Face folders: our own form, and any token classifier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from numpy.typing import ArrayLike

from maskedcrf.encoders.transformer.pretrained import raw_config
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tags.labels import Labels
from maskedcrf.tags.scheme import Scheme

if TYPE_CHECKING:
    from maskedcrf.integrations.token_classifier import Words
    from maskedcrf.tagger.tagger import Tagger


class ClassifierOptions(TypedDict, total=False):
    """How a token classifier is read."""

    labels: Labels | None
    scheme: str | Scheme
    words: Words
    transitions: Mapping[str, ArrayLike] | ArrayLike | None


def open_pretrained(name: str | Path, **options: Unpack[ClassifierOptions]) -> Tagger:
    """The tagger that `save_pretrained` wrote, or that a token classifier becomes."""
    if (Path(name) / "config.json").is_file() and raw_config(str(name)).get("model_type") == "maskedcrf":
        from maskedcrf.integrations.huggingface import from_huggingface

        if options:
            raise MaskedCRFError(
                f"{name}: a tagger of ours, whose labels and scores are known; leave {', '.join(options)} out"
            )
        return from_huggingface(name)
    from maskedcrf.integrations.token_classifier import from_token_classifier

    return from_token_classifier(name, **options)
