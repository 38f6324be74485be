"""Tagger: train, predict, save, load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import torch

from maskedcrf.crf import validation
from maskedcrf.data.labelled import LabelledData, read_labelled
from maskedcrf.data.sentence import Sentence, with_context
from maskedcrf.data.texts import TextInput, require_list_of_texts, to_sentence
from maskedcrf.data.tokenizers import Tokenizer
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import adaptation, folder, predict
from maskedcrf.tagger.adaptation import Calibration, Progress
from maskedcrf.tagger.decoding import DecodingChoice, choose_decoding, find_threshold, keep_choice
from maskedcrf.tagger.device import choose_device
from maskedcrf.tagger.fitting import FOLDS, Fit
from maskedcrf.tagger.fixed_tags import FixedTags, with_fixed_tags
from maskedcrf.tagger.folder import TrainingRecord
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.options import DEFAULT_THRESHOLD, Decoding, NamedThreshold, PredictOptions
from maskedcrf.tagger.predict import OutputOptions
from maskedcrf.tagger.prediction import Prediction
from maskedcrf.tagger.scores import Scores, score
from maskedcrf.tags.constraints import MaskMode
from maskedcrf.tags.scheme import Scheme

if TYPE_CHECKING:
    from maskedcrf.integrations.pretrained import ClassifierOptions
    from maskedcrf.redaction.promise import Promise, PromiseOptions
    from maskedcrf.redaction.redactor import Redaction, RedactOptions
    from maskedcrf.training.settings import Settings
    from maskedcrf.training.settings_dict import SettingsDict


class Tagger:
    """A model that tags text and never outputs an illegal tag sequence.

    >>> tagger = Tagger.load("my-model")                                # doctest: +SKIP
    >>> tagger.predict("Ann flew to Oslo.").entities                    # doctest: +SKIP
    [Entity(type='PER', text='Ann', start=0, end=3, ...), Entity(type='LOC', text='Oslo', start=12, end=16, ...)]
    """

    def __init__(
        self, model: TaggerModel, *, output_scheme: Scheme | None = None, record: TrainingRecord | None = None
    ) -> None:
        self.model = model
        self.output_scheme = output_scheme or self.scheme
        self.record = record or TrainingRecord()
        """What is known of how the model was made: data, settings, scores."""
        self.history: list[dict[str, Any]] = []
        """Of a tagger just trained, one entry an epoch: loss, dev scores; saved as `metrics.jsonl`."""
        self.decoding: Decoding = "path"
        """How it decodes unless it is told; this and the threshold of "segments" are saved with the model."""
        self.segment_threshold = DEFAULT_THRESHOLD

    @classmethod
    def train(
        cls,
        train: LabelledData,
        dev: LabelledData | None = None,
        *,
        test: LabelledData | None = None,
        settings: Settings | None = None,
        output: str | Path | None = None,
        overwrite: bool = False,
        progress: bool = True,
        **changes: Unpack[SettingsDict],
    ) -> Tagger:
        """A tagger trained on labelled data, saved to `output` if given.

        A run that was stopped goes on from its last checkpoint when it is started again with the same settings and
        data; one that had finished is loaded.

        Args:
            train: a path, several paths, a `datasets.Dataset`, `Sentence`s or (tokens, tags) pairs.
            dev: the same, to choose the best epoch by; a part of train if left out.
            test: the same, to score the finished model on.
            settings: all settings at once.
            output: the folder of the model; its checkpoints stand beside it while it trains.
            overwrite: start anew, whatever is there.
            progress: show a bar where a terminal can show one.
            **changes: single settings, such as `epochs=3`, over those of `settings`.
        """
        from maskedcrf.training.train import train as run_training  # a layer above, of which this is only the door

        return run_training(
            train,
            dev,
            test=test,
            settings=settings,
            output=output,
            overwrite=overwrite,
            progress=progress,
            **changes,
        )

    @property
    def scheme(self) -> Scheme:
        """The scheme the model was trained on."""
        return self.model.scheme

    @property
    def tags(self) -> tuple[str, ...]:
        """The model's tags, in the order of their ids."""
        return self.model.crf.tags

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts raw text into words, and before that into sentences; saved with the model."""
        return self.model.tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer) -> None:
        self.model.tokenizer = tokenizer

    @property
    def first_character(self) -> bool:
        """Whether it was trained on tokens cut to their first character; column files to be tagged need the same."""
        return bool(self.record.settings.get("data", {}).get("first_character"))

    @property
    def mask(self) -> MaskMode:
        """The paper's variant: "train", "decode" or "off". A model trained with "off" may be switched to "decode"."""
        return self.model.crf.mask_mode

    @mask.setter
    def mask(self, mode: MaskMode) -> None:
        validation.one_of(mode, "mask", MaskMode)
        self.model.crf.mask_mode = mode

    def to(self, device: str | torch.device) -> Tagger:
        """The same tagger, its weights moved to this device."""
        self.model.to(choose_device(device))
        return self

    @overload  # a string is a sequence of strings too: the first that fits counts
    def predict(  # type: ignore[overload-overlap]
        self, texts: str, *, fixed: FixedTags | None = None, **options: Unpack[PredictOptions]
    ) -> Prediction: ...
    @overload
    def predict(
        self,
        texts: Sequence[TextInput],
        *,
        fixed: Iterable[FixedTags | None] | None = None,
        **options: Unpack[PredictOptions],
    ) -> list[Prediction]: ...
    def predict(
        self,
        texts: str | Sequence[TextInput],
        *,
        fixed: FixedTags | Iterable[FixedTags | None] | None = None,
        **options: Unpack[PredictOptions],
    ) -> Prediction | list[Prediction]:
        """Tags and entities of one text, or of each of many; options as in `stream`.

        A string is raw text; a list holds texts, lists of tokens or `Sentence`s, so one list of tokens is `[tokens]`.
        """
        if isinstance(texts, str):
            (answer,) = self.stream([texts], fixed=[fixed] if isinstance(fixed, Mapping) else fixed, **options)
            return answer
        return list(self.stream(texts, fixed=fixed, **options))

    def stream(
        self,
        texts: Iterable[TextInput],
        *,
        probabilities: bool = False,
        nbest: int = 0,
        threshold: float | None = None,
        decoding: Decoding | None = None,
        segment_threshold: float | NamedThreshold | None = None,
        beta: float = 1.0,
        fixed: FixedTags | Iterable[FixedTags | None] | None = None,
        gazetteer: Mapping[str, str] | None = None,
        forward_tokens: int | None = None,
    ) -> Iterator[Prediction]:
        """A prediction for each text, in order; texts are read a buffer at a time.

        Args:
            texts: raw texts, lists of tokens or `Sentence`s, any number of them. An encoder with a context reads a
                `Sentence` with its neighbours in the document; everything else stands alone.
            probabilities: also the exact probability of each entity.
            nbest: also the n best paths, with their probabilities.
            threshold: list all entities with at least this probability, which may overlap; tags stay as they are.
            decoding: "path" for the best path, "segments" for the disjoint entities that maximise the sum of
                (probability - threshold); the tagger's own `decoding` if left out.
            segment_threshold: of decoding by segments, a number, "f1" for the one chosen on labelled sentences, or
                "expected" for the best by the model's own account of these texts; the tagger's own if left out.
            beta: of "expected": recall counts so many times as much as precision.
            fixed: one entry per text, None or the tags you know: {token position: tag or tags}. With a single string,
                `predict` takes that entry alone.
            gazetteer: names and their types, {"New York": "LOC"}: every occurrence of a name gets its type.
            forward_tokens: tokens, or word pieces for a transformer, with padding in one forward pass; the answer
                does not depend on it.
        """
        require_list_of_texts(texts)
        in_context = with_context(texts, self._context)
        sentences: Iterable[Sentence] = (
            (to_sentence(text, self.tokenizer) for text in in_context)
            if fixed is None and not gazetteer
            else with_fixed_tags(in_context, fixed, gazetteer, self.model.crf.constraints, self.tokenizer)
        )
        if segment_threshold == "expected":
            sentences = list(sentences)
        own = find_threshold(self, sentences, decoding, segment_threshold, beta)
        other_scheme = self.output_scheme if self.output_scheme != self.scheme else None
        question = OutputOptions(probabilities, nbest, threshold, segment_threshold=own, output_scheme=other_scheme)
        return predict.stream(self.model, sentences, question=question, forward_tokens=forward_tokens)

    def threshold_for(self, decoding: Decoding | None = None, segment_threshold: float | None = None) -> float | None:
        """The threshold of decoding by segments, None for the best path; what is left out is the tagger's own."""
        return find_threshold(self, (), decoding, segment_threshold)

    @property
    def _context(self) -> int:
        return self.model.encoder.config.context

    def pipeline(self, texts: str | Sequence[str], *, aggregation_strategy: str = "simple") -> list[Any]:
        """Entities as a Hugging Face pipeline gives them: dicts for one text, a list of such lists for several."""
        if aggregation_strategy == "none":
            raise MaskedCRFError("whole entities come out of here, whatever the strategy; for tags ask predict")
        if isinstance(texts, str):
            return self.predict(texts, probabilities=True).to_pipeline()
        return [answer.to_pipeline() for answer in self.predict(texts, probabilities=True)]

    def evaluate(
        self,
        data: LabelledData,
        *,
        scheme: str | Scheme | None = None,
        decoding: Decoding | None = None,
        segment_threshold: float | NamedThreshold | None = None,
        beta: float = 1.0,
    ) -> Scores:
        """Scores against gold tags, under retain and discard.

        Args:
            data: a path, several paths, a `datasets.Dataset`, `Sentence`s or (tokens, tags) pairs; files are read as
                those the tagger was trained on.
            scheme: that of the gold; the one the tagger answers in if left out.
            decoding: "path" or "segments"; the tagger's own if left out.
            segment_threshold, beta: of decoding by segments, as in `stream`; the tagger's own if left out.
        """
        sentences = self.read_gold(data, scheme)
        threshold = find_threshold(self, sentences, decoding, segment_threshold, beta)
        return score(self.model, sentences, gold_scheme=self._gold_scheme(scheme), segment_threshold=threshold)

    def choose_decoding(
        self, gold: LabelledData, *, scheme: str | Scheme | None = None, beta: float = 1.0
    ) -> DecodingChoice:
        """Decode by path or by segments, whichever has the higher F1 on labelled sentences; in place.

        Give sentences that the tagger was not trained on. Recall counts `beta` times as much. Print what comes back.
        """
        sentences = self.read_gold(gold, scheme)
        choice = choose_decoding(self.model, sentences, gold_scheme=self._gold_scheme(scheme), beta=beta)
        keep_choice(self, choice)
        return choice

    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """The model folder: safetensors, JSON and a model card; written aside, then moved into place."""
        return folder.save(
            Path(directory),
            self.model,
            output_scheme=self.output_scheme,
            record=self.record,
            decoding=self.decoding,
            segment_threshold=self.segment_threshold,
            history=self.history,
            overwrite=overwrite,
        )

    def save_pretrained(self, directory: str | Path) -> None:
        """The tagger in Hugging Face's form, model and tokenizer; its encoder must be a transformer alone."""
        from maskedcrf.integrations.huggingface import to_huggingface

        for part in to_huggingface(self):
            part.save_pretrained(directory)

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, device: str | torch.device = "auto", **options: Unpack[ClassifierOptions]
    ) -> Tagger:
        """The tagger of a Hugging Face folder or hub name: what `save_pretrained` wrote, or any token classifier.

        A token classifier keeps its scores and answers with legal paths from now on; nothing is trained.

        Args:
            name: a folder, or a name on the hub. Weights come from safetensors, and nothing there is run.
            device: "auto" is the GPU if there is one.
            **options: of a token classifier, `labels`, `scheme`, `words` and `transitions`; see
                `maskedcrf.integrations.token_classifier.from_token_classifier`.
        """
        from maskedcrf.integrations.pretrained import open_pretrained  # a layer above, of which this is only the door

        return open_pretrained(name, **options).to(device)

    @classmethod
    def load(cls, directory: str | Path, *, device: str | torch.device = "auto") -> Tagger:
        """The tagger of a model folder, or of a Hugging Face token classifier; nothing in it is ever run as code."""
        place = choose_device(device)
        if folder.is_huggingface(directory):
            return cls.from_pretrained(directory, device=place)
        model, config, output_scheme = folder.load(Path(directory))
        tagger = cls(model.to(place).eval(), output_scheme=output_scheme, record=config.record)
        tagger.decoding, tagger.segment_threshold = config.decoding, config.segment_threshold
        return tagger

    def fit_transitions(
        self,
        gold: LabelledData,
        *,
        scheme: str | Scheme | None = None,
        folds: int = FOLDS,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Fit:
        """Fit transitions to labelled sentences, the encoder frozen: seconds for some thousand of them; in place.

        The recipe with the best F1 by cross-validation is taken, and "mask only" is among them. One temperature over
        the whole lattice comes last, then the decoding is chosen anew. Print what comes back for the table of recipes.

        Args:
            gold: a file, or sentences with tags; 300 to 3,000 are plenty.
            scheme: the gold's scheme, if it is not the one the tagger answers in.
            folds: parts of the cross-validation.
            seed: of the folds.
            progress: told after each batch how many sentences it had.
        """
        sentences = self.read_gold(gold, scheme)
        return adaptation.fit_transitions(
            self, sentences, scheme=self._gold_scheme(scheme), folds=folds, seed=seed, progress=progress
        )

    def calibrate(self, gold: LabelledData, *, scheme: str | Scheme | None = None) -> Calibration:
        """One temperature over the lattice, which changes no best path; the decoding is chosen anew. In place."""
        return adaptation.calibrate(self, self.read_gold(gold, scheme), scheme=self._gold_scheme(scheme))

    def promise(
        self,
        gold: LabelledData,
        miss_rate: float = 0.01,
        *,
        scheme: str | Scheme | None = None,
        **options: Unpack[PromiseOptions],
    ) -> Promise:
        """A threshold at which on average at most this share of entities is missed; kept with the model, in place.

        The promise is for texts drawn like the gold, and void, an error when used, once the model has changed.

        Args:
            gold: labelled data that the tagger was not trained on; for 0.01, at least 99 units with entities.
            miss_rate: the share that may be missed on average.
            scheme: the gold's scheme, if it is not the one the tagger answers in.
            **options: `confidence`, `types`, `unit`, `loss`; see `maskedcrf.redaction.promise.PromiseOptions`.
        """
        from maskedcrf.redaction.promise import make_promise  # a layer above, of which this is only the door

        sentences = self.read_gold(gold, scheme)
        return make_promise(self, sentences, scheme=self._gold_scheme(scheme), miss_rate=miss_rate, **options)

    @overload
    def redact(self, texts: str, **options: Unpack[RedactOptions]) -> Redaction: ...  # type: ignore[overload-overlap]
    @overload
    def redact(self, texts: Iterable[str], **options: Unpack[RedactOptions]) -> list[Redaction]: ...
    def redact(self, texts: str | Iterable[str], **options: Unpack[RedactOptions]) -> Redaction | list[Redaction]:
        """One text, or each of many, with its entities hidden; everything else is kept to the character.

        Each text is a document of its own. For options see `maskedcrf.redaction.redactor.RedactOptions`.
        """
        from maskedcrf.redaction.redactor import Redactor

        redactor = Redactor(self, **options)
        return redactor.text(texts) if isinstance(texts, str) else list(redactor.texts(texts))

    def read_gold(self, data: LabelledData, scheme: str | Scheme | None = None) -> list[Sentence]:
        """Gold sentences in their documents; files are read as in training, whatever their format."""
        reading = {**self.record.settings.get("data", {}), "format": "auto", "sentences": self.tokenizer.sentences}
        found = read_labelled(data, self._gold_scheme(scheme), cut=self.tokenizer, **reading)
        return list(with_context(found, self._context))

    def _gold_scheme(self, scheme: str | Scheme | None) -> Scheme:
        """By its name a scheme is written as the tagger writes tags: with its delimiter, prefix first or last."""
        if scheme is None:
            return self.output_scheme
        if isinstance(scheme, Scheme):
            return scheme
        return Scheme.get(scheme, delimiter=self.scheme.delimiter, prefix_last=self.scheme.prefix_last)
