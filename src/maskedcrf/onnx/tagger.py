"""OnnxTagger: predictions from a model.onnx with onnxruntime and numpy alone; torch need not be installed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import chain, tee
from pathlib import Path
from typing import Any, NamedTuple, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from maskedcrf.data.batching import prediction_batches
from maskedcrf.data.sentence import Sentence, with_context
from maskedcrf.data.texts import Numbered, TextInput, next_buffer, number_parts, require_list_of_texts, to_sentence
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.errors import IllegalPathError, MaskedCRFError, MissingExtraError
from maskedcrf.onnx import file
from maskedcrf.onnx.features import Features
from maskedcrf.onnx.file import Description, OnnxFileError
from maskedcrf.onnx.graph_check import GraphError, Scores, check_graph, digest_rules, read_scores
from maskedcrf.onnx.protobuf import DamagedError
from maskedcrf.onnx.session import TRY_SECONDS, open_session, run_within
from maskedcrf.segmentation.choice import require_threshold
from maskedcrf.tagger.fixed_tags import FixedTags
from maskedcrf.tagger.options import Decoding, NamedThreshold, PredictOptions, resolve_threshold
from maskedcrf.tagger.prediction import Prediction, RankedPath, join_by_text
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.segments import Segment, encode, read_paths

OUTPUTS, EMISSIONS = ["tags", "log_probability"], "emissions"
FORWARD_TOKENS = 512
"""Tokens in one run, word pieces where there are some, padding included: on one core, more only pad more."""
MIN_LENGTH_RATIO = 0.9
"""A run that is large enough takes no texts shorter than this times its longest: they would pad."""
MAX_BATCH_SENTENCES = 128
"""Texts in one run, however short."""
READ_AHEAD_BATCHES = 64
"""Batches' worth of texts read ahead, so that neighbours in length can share a batch."""


class Paths(NamedTuple):
    """Tag ids (B, T), -100 where no word stands, and the log-probability of each path (B,)."""

    tags: NDArray[np.int64]
    log_probability: NDArray[np.float32]
    emissions: NDArray[np.float32] | None = None
    """(B, T, D), where they were asked for."""


class OnnxTagger:
    """A model.onnx that tags text; the Viterbi over legal paths is inside the file.

    >>> tagger = OnnxTagger.load("model.onnx")                          # doctest: +SKIP
    >>> tagger.predict("Ann flew to Oslo.").entities                    # doctest: +SKIP
    [Entity(type='PER', text='Ann', start=0, end=3, ...), Entity(type='LOC', text='Oslo', start=12, end=16, ...)]
    """

    def __init__(
        self, session: Any, description: Description, *, threads: int = 1, scores: Scores | None = None
    ) -> None:
        self.session = session
        self._scores = scores
        self._pool = ThreadPoolExecutor(threads)
        self.description = description
        self.tags = description.tags
        self.scheme, self.output_scheme = description.schemes()
        self.decoding: Decoding = "segments" if description.decoding == "segments" else "path"
        """How it decodes unless it is told: as the tagger did that was exported."""
        self.segment_threshold = description.segment_threshold
        self.first_character = description.first_character
        self._features = Features(description.files)
        self.tokenizer = get_tokenizer(description.tokenizer, trusted=False, pieces=self._features.piece_tokenizer)

    @classmethod
    def load(cls, path: str | Path, *, threads: int | None = None, trusted: bool = False) -> OnnxTagger:
        """The tagger of a file that `maskedcrf export` wrote.

        Args:
            path: the file.
            threads: how many take a batch each; all cores by default.
            trusted: take any operators and any amount of memory; without, only what maskedcrf exports itself.
        """
        path = Path(path)
        content, description = file.read(path)
        scores = _scores(content, description, path, trusted=trusted)
        session = open_session(content, path, trusted=trusted)
        try:
            tagger = cls(session, description, threads=threads or _cores(), scores=scores)
            tagger._try_out()
        except MissingExtraError:
            raise
        except MaskedCRFError as error:
            raise OnnxFileError(f"{path}: {error}") from error
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:  # of numbers no model has
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise OnnxFileError(f"{path}: its parts do not fit each other ({reason}); export it again") from error
        return tagger

    @overload  # a string is a sequence of strings too: the first that fits counts
    def predict(  # type: ignore[overload-overlap]
        self, texts: str, **options: Unpack[PredictOptions]
    ) -> Prediction: ...
    @overload
    def predict(self, texts: Sequence[TextInput], **options: Unpack[PredictOptions]) -> list[Prediction]: ...
    def predict(
        self, texts: str | Sequence[TextInput], **options: Unpack[PredictOptions]
    ) -> Prediction | list[Prediction]:
        """Tags and entities of one text, or of each of many; options as in `stream`."""
        if isinstance(texts, str):
            return next(self.stream([texts], **options))
        return list(self.stream(texts, **options))

    def stream(
        self,
        texts: Iterable[TextInput],
        *,
        nbest: int = 0,
        probabilities: bool = False,
        threshold: float | None = None,
        decoding: Decoding | None = None,
        segment_threshold: float | NamedThreshold | None = None,
        beta: float = 1.0,
        fixed: Iterable[FixedTags | None] | None = None,
        gazetteer: Mapping[str, str] | None = None,
        forward_tokens: int | None = None,
    ) -> Iterator[Prediction]:
        """A prediction for each text, in order, read and answered a buffer at a time.

        Args:
            texts: raw texts, lists of tokens or `Sentence`s, any number of them.
            nbest: 1 for the probability of the path as well; for more paths ask the model folder.
            probabilities, threshold: refused, entities' probabilities need the model folder.
            decoding: "path" for the best path, "segments" for the disjoint entities that maximise the sum of
                (probability - threshold); that of the exported tagger if left out.
            segment_threshold: of decoding by segments; that of the exported tagger if left out.
            beta: of thresholds by name, which are refused.
            fixed, gazetteer: refused, the Viterbi in the file does not take known tags.
            forward_tokens: tokens, or word pieces, in one run; the answer does not depend on it.
        """
        if nbest not in (0, 1) or probabilities or threshold is not None:
            raise MaskedCRFError(
                "an ONNX file gives the best path and its probability (nbest=1), no further paths and no entity's "
                "probability; ask the model folder for those"
            )
        if fixed is not None or gazetteer is not None:
            raise MaskedCRFError("an ONNX file takes no fixed tags and no gazetteer; ask the model folder for those")
        require_list_of_texts(texts)
        by_segments = self.threshold_for(decoding, segment_threshold)
        limit = forward_tokens or FORWARD_TOKENS
        sentences = with_context(texts, self._features.context)
        read, kept = tee(to_sentence(text, self.tokenizer) for text in sentences)
        numbered = number_parts(read, self._features.context)
        return join_by_text(kept, self._answer_parts(numbered, limit, ranked=bool(nbest), threshold=by_segments))

    def _answer_parts(
        self, numbered: Iterator[Numbered], limit: int, *, ranked: bool, threshold: float | None
    ) -> Iterator[Prediction]:
        """A prediction for each sentence, in order, a buffer at a time."""
        while buffer := next_buffer(numbered, limit * READ_AHEAD_BATCHES):
            lengths = self._features.compute_lengths([sentence for _, sentence in buffer])
            batches = prediction_batches(lengths, size=MAX_BATCH_SENTENCES, tokens=limit, similar=MIN_LENGTH_RATIO)
            chosen = [[buffer[place] for place in batch] for batch in batches]
            # One text is not worth a thread.
            each = self._pool.map if len(batches) > 1 else map
            found = each(partial(self._answers, ranked=ranked, threshold=threshold), chosen)
            answers = dict(zip(chain.from_iterable(batches), chain.from_iterable(found), strict=True))
            yield from (answers[place] for place in range(len(buffer)))

    def threshold_for(
        self, decoding: Decoding | None = None, threshold: float | NamedThreshold | None = None
    ) -> float | None:
        """The threshold of decoding by segments, None for the best path; what is left out is the file's own."""
        found = resolve_threshold(decoding, threshold, own=(self.decoding, self.segment_threshold))
        if isinstance(found, str):
            raise MaskedCRFError(f"an ONNX file's segment_threshold is a number, not {found!r}; ask the model folder")
        if found is not None:
            require_threshold(found)
            if self._scores is None or EMISSIONS not in [node.name for node in self.session.get_outputs()]:
                raise MaskedCRFError("this file gives no emissions, so no segments by probability; export it again")
        return found

    def paths(self, sentences: Sequence[Sentence], *, seconds: float | None = None, emissions: bool = False) -> Paths:
        """The best legal path of each sentence, all in one run, which may take so many seconds; perhaps emissions."""
        arrays = self._features.prepare(sentences)
        wanted = [*OUTPUTS, EMISSIONS] if emissions else OUTPUTS
        try:
            run = self.session.run if seconds is None else partial(run_within, self.session, seconds=seconds)
            found = Paths(*run(wanted, arrays))
        except Exception as error:  # onnxruntime's errors have no common base of their own
            reason = str(error).splitlines()[0]
            raise OnnxFileError(f"onnxruntime cannot run it ({reason}); split the text, or export it again") from error
        on = found.tags[arrays["mask"]] if found.tags.shape == arrays["mask"].shape else np.array([-1])
        if np.isnan(found.log_probability).any():
            raise OnnxFileError("the file gives probabilities that are no numbers; export the model again")
        lost = np.isneginf(found.log_probability)
        if ((on < 0) | (on >= len(self.tags))).any() and not lost.any():
            raise OnnxFileError("the file gives tags that do not exist; export the model again")
        return found

    def _try_out(self) -> None:
        """Refuse a file whose description, tokenizer and graph are not of one model, before a text meets it."""
        for tag in self.tags:
            self.scheme.split(tag)
        example = Sentence(("a",))
        found = {node.name for node in self.session.get_inputs()}
        outputs = [node.name for node in self.session.get_outputs()]
        if found != self._features.prepare([example]).keys() or outputs not in (OUTPUTS, [*OUTPUTS, EMISSIONS]):
            raise OnnxFileError("its inputs and outputs are not those of a maskedcrf model; export it again")
        self.paths([example, Sentence(("a", "b"))], seconds=TRY_SECONDS)

    def _answers(self, numbered: Sequence[Numbered], *, ranked: bool, threshold: float | None) -> list[Prediction]:
        full = [(number, sentence) for number, sentence in numbered if sentence.tokens]
        found = iter(self._full_answers(full, ranked=ranked, threshold=threshold) if full else ())
        return [next(found) if sentence.tokens else Prediction(sentence, (), ()) for _, sentence in numbered]

    def _full_answers(
        self, numbered: Sequence[Numbered], *, ranked: bool, threshold: float | None
    ) -> Iterator[Prediction]:
        sentences = [sentence for _, sentence in numbered]
        found = self.paths(sentences, emissions=threshold is not None)
        for (place, _), share in zip(numbered, found.log_probability.tolist(), strict=True):
            if share == -np.inf:
                raise IllegalPathError(f"input {place.text} (counted from 0): no legal path has its length")
        best = [row[: len(sentence.tokens)] for sentence, row in zip(sentences, found.tags.tolist(), strict=True)]
        paths = best if threshold is None else self._by_segments(found, list(map(len, best)), threshold)
        written = self._tags_and_segments(paths)
        first = written if paths is best else self._tags_and_segments(best)
        shares = np.exp(found.log_probability, dtype=np.float64).tolist()
        for sentence, (tags, segments), (own, _), share in zip(sentences, written, first, shares, strict=True):
            yield Prediction(sentence, tags, segments, None, (RankedPath(own, share),) if ranked else ())

    def _by_segments(self, found: Paths, lengths: Sequence[int], threshold: float) -> list[list[int]]:
        """The tag ids of each row by the probabilities of segments."""
        from maskedcrf.onnx.segments import EmissionSegments

        assert found.emissions is not None, "asked for where there is a threshold"
        assert self._scores is not None, "a threshold without them is refused"
        mask = np.arange(found.tags.shape[1]) < np.array(lengths)[:, None]
        candidates = EmissionSegments(found.emissions, mask, self._scores, self._constraints, least=threshold)
        return [row.tags for row in candidates.choose(threshold)]

    @cached_property
    def _constraints(self) -> Constraints:
        return Constraints.from_scheme(self.tags, self.scheme)

    def _tags_and_segments(self, paths: Sequence[Sequence[int]]) -> list[tuple[tuple[str, ...], tuple[Segment, ...]]]:
        """Tags in the output scheme, and segments."""
        found = []
        for path, row in zip(paths, read_paths(paths, self.tags, self.scheme), strict=True):
            tags = tuple(self.tags[number] for number in path)
            if self.output_scheme != self.scheme:
                tags = tuple(encode(row, len(tags), self.output_scheme))
            found.append((tags, tuple(row)))
        return found


def _scores(content: bytes, description: Description, path: Path, *, trusted: bool) -> Scores | None:
    """The scores of the steps; without trust, of a graph that has our operators only, and the rules of its tags."""
    if trusted:
        try:
            return read_scores(content, states=len(description.tags))
        except (GraphError, DamagedError):  # somebody's own search for the best path
            return None
    try:
        scheme, _ = description.schemes()
        rules = Constraints.from_scheme(description.tags, scheme) if description.mask != "off" else None
        scores = check_graph(content, rules, states=len(description.tags))
    except (GraphError, DamagedError, MaskedCRFError) as error:
        raise OnnxFileError(f"{path}: {error}") from error
    if description.digest not in (None, digest_rules(description.tags, scores)):
        raise OnnxFileError(f"{path}: its tags are not those it was exported with; export the model again")
    return scores


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
