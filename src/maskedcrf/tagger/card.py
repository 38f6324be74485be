"""The model card, written from the run: data, scheme, scores both ways, settings, signature."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from maskedcrf.tags.scheme import Scheme

_CARD = """\
---
library_name: maskedcrf
pipeline_tag: token-classification
---
# A tagger of {types}

{kind}; {decoding}tags are {scheme}, written as {output_scheme}.

```python
from maskedcrf import Tagger

tagger = Tagger.load("this-folder")
print(tagger.predict("Some text.").entities)
```

## Types
{type_list}

## Data
{data}

## Scores
{scores}
{promise}
## Settings
```json
{settings}
```

Made with maskedcrf {version}{signature}.
"""

_KINDS = {
    ("crf", "train"): "A masked CRF, trained and decoded over legal paths only: it cannot output an illegal path",
    ("crf", "decode"): "A CRF, decoded over legal paths only: it cannot output an illegal path",
    ("crf", "off"): "A conventional CRF: its output may leave the scheme",
    ("softmax", "decode"): "A softmax tagger, decoded over legal paths only: it cannot output an illegal path",
    ("softmax", "off"): "A softmax tagger: its output may leave the scheme",
}


def model_card(config: Mapping[str, Any], *, void_promise: bool = False) -> str:
    """README.md of a model folder, from what its config.json says; a promise may have been another model's."""
    record = config["record"]
    scheme = Scheme.get(config["scheme"], delimiter=config["delimiter"], prefix_last=config["prefix_last"])
    types = sorted(scheme.matrices(config["tags"]).types)
    return _CARD.format(
        types=f"{len(types)} type{'s' if len(types) != 1 else ''}",
        kind=_KINDS.get((config["head"], config["mask"]), "A masked CRF"),
        decoding=_decoding(config),
        scheme=config["scheme"],
        output_scheme=config["output_scheme"],
        type_list=", ".join(f"`{kind}`" if kind else "one without a name" for kind in types) or "none",
        data=_data(record["data"]),
        scores=_scores(record["scores"]),
        promise=_promise(record["settings"].get("promise"), void=void_promise),
        settings=json.dumps(_short(record["settings"]), ensure_ascii=False, indent=2),
        version=config["version"],
        signature=f": `{record['signature']}`" if record["signature"] else "",
    )


def _short(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Without the promise, which has a place of its own, and the curve by which the decoding was chosen."""
    found = {name: value for name, value in settings.items() if name != "promise"}
    if isinstance(choice := found.get("decoding_choice"), Mapping):
        found["decoding_choice"] = {name: value for name, value in choice.items() if name != "curve"}
    return found


def _decoding(config: Mapping[str, Any]) -> str:
    """How it decodes, where that is not by the best path."""
    if config.get("decoding", "path") == "path":
        return ""
    return f"it decodes by segments, threshold {config['segment_threshold']:.2f}; "


def _promise(promise: Mapping[str, Any] | None, *, void: bool) -> str:
    """What is promised of redaction, if it was promised of this model."""
    if not isinstance(promise, Mapping) or "sentence" not in promise:
        return ""
    promised = f"{promise['sentence']}\nThreshold {promise['threshold']:.3g}."
    if void:
        promised = "Void: the model has changed since a miss rate was promised of it."
    return f"\n## Promised miss rate\n{promised}\n"


def _data(parts: Mapping[str, Any]) -> str:
    rows = [
        f"| {name} | {part['files'] or 'in memory'} | {part['sentences']} | {part['tokens']} | {part.get('gold', '')} |"
        for name, part in parts.items()
    ]
    if not rows:
        return "Not recorded."
    return "\n".join(["| part | files | sentences | tokens | gold check |", "|---|---|---|---|---|", *rows])


def _scores(parts: Mapping[str, Any]) -> str:
    rows = [
        f"| {name} | {part['retain']['f1']:.2f} | {part['discard']['f1']:.2f} | {part['illegal']:.2f} |"
        for name, part in parts.items()
    ]
    if not rows:
        return "Not measured."
    head = "| part | F1, illegal segments retained | F1, discarded | illegal % of predicted segments |"
    return "\n".join([head, "|---|---|---|---|", *rows])
