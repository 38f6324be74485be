"""flair's transition scores in our layer.

flair keeps one matrix, [to, from], in which `<START>` and `<STOP>` are tags like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.errors import ConstraintError
from maskedcrf.tags.constraints import Constraints, MaskMode

START, STOP = "<START>", "<STOP>"


def from_flair(
    transitions: Tensor, names: Sequence[str], scheme: str | None = None, *, mask: MaskMode = "train"
) -> MaskedCRF:
    """The layer with the scores of a flair tagger: its `crf.transitions` (D + 2, D + 2) and the names of its tags.

    The layer's tags are the names less `<START>` and `<STOP>`, in their order; without a scheme every path is legal.
    """
    if not {START, STOP} <= set(names) or tuple(transitions.shape) != (len(names), len(names)):
        raise ConstraintError(
            f"flair's transitions need a row and a column for each name, {START} and {STOP} among them: "
            f"got {tuple(transitions.shape)} for {', '.join(names)}"
        )
    start, stop = names.index(START), names.index(STOP)
    kept = [number for number in range(len(names)) if number not in (start, stop)]
    tags = [names[number] for number in kept]
    rules = Constraints.from_scheme(tags, scheme) if scheme else Constraints.free(tags)
    crf = MaskedCRF(rules, mask=mask).to(transitions)
    crf.load_state_dict(
        {
            "transitions": transitions[kept][:, kept].T,
            "start_transitions": transitions[kept, start],
            "end_transitions": transitions[stop, kept],
        }
    )
    return crf
