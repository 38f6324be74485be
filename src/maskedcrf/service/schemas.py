"""What the HTTP service takes and gives, as the OpenAPI schema shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from maskedcrf.service import limits

Text = Annotated[str, Field(max_length=limits.CHARACTERS)]
Token = Annotated[str, Field(min_length=1, max_length=limits.TOKEN_CHARACTERS)]
Tag = Annotated[str, Field(max_length=limits.TOKEN_CHARACTERS)]
Position = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,3})$")]


class Sentence(BaseModel):
    """A raw text or a list of tokens, and the tags that are known already."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"oneOf": [{"required": ["text"]}, {"required": ["tokens"]}]}
    )

    text: Text = Field(default="", description="Raw text, tokenised by the server.")
    tokens: list[Token] = Field(
        default=[], max_length=limits.TOKENS, fail_fast=True, description="Tokens, taken as they are."
    )
    fixed: dict[Position, Tag | Annotated[list[Tag], Field(min_length=1, max_length=1000, fail_fast=True)]] = Field(
        default={},
        max_length=limits.TOKENS,
        description="Token position, from 0, to the tag or tags (of /health) it may carry.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Sentence:
        if len({"text", "tokens"} & self.model_fields_set) != 1:
            raise ValueError("give either text or tokens")
        return self


class Options(BaseModel):
    """What is asked beside the tags: at most 16,000 tokens a request, 4,000 or 1,000 with these options."""

    model_config = ConfigDict(extra="forbid", strict=True)

    probabilities: bool = Field(default=False, description="The exact probability of each entity.")
    nbest: int = Field(default=0, ge=0, le=limits.NBEST, description="How many of the best paths to give.")
    threshold: float | None = Field(
        default=None,
        ge=limits.THRESHOLD,
        le=1,
        allow_inf_nan=False,
        description="In place of the best path's entities, all with at least this probability; they may overlap.",
    )


class TagRequest(Sentence, Options):
    """One sentence to tag."""

    model_config = ConfigDict(
        json_schema_extra={
            **Sentence.model_config["json_schema_extra"],  # type: ignore[dict-item]
            "examples": [{"text": "Ann flew to Oslo.", "probabilities": True}],
        }
    )


class BatchRequest(Options):
    """Many sentences to tag."""

    sentences: list[Sentence] = Field(min_length=1, max_length=limits.SENTENCES, fail_fast=True)


class LatticeRequest(Sentence):
    """One sentence whose lattice is wanted."""

    nbest: int = Field(default=5, ge=1, le=limits.NBEST, description="How many of the best paths to give.")


class CollectRequest(Sentence):
    """A sentence whose fixed tags are right, to be kept as gold."""

    complete: bool = Field(default=False, description="Every tag is right: that of the best path where none is fixed.")


class Collected(BaseModel):
    """The sentence stands in the file."""

    sentences: int = Field(description="Kept by this server so far.")
    open: int = Field(description="Tokens of this one that are left open, because nobody has fixed their tags.")


class Entity(BaseModel):
    """text[start:end], counted in Unicode code points, carries this type."""

    type: str
    text: str
    start: int
    end: int
    tokens: list[int] = Field(min_length=2, max_length=2, description="First token, and the one after the last.")
    probability: float | None = Field(default=None, description="Exact probability, if asked for.")


class Ranked(BaseModel):
    """One of the best paths."""

    tags: list[str]
    probability: float


class Prediction(BaseModel):
    """One tag for each token, and the entities they spell."""

    text: str
    tokens: list[str]
    tags: list[str]
    entities: list[Entity]
    nbest: list[Ranked] | None = None


class Predictions(BaseModel):
    """A prediction for each sentence, in order."""

    predictions: list[Prediction]


class Step(BaseModel):
    """A step into a position; `start` and `end` are the sentence's edges."""

    position: int
    previous: str
    tag: str


class Path(BaseModel):
    """A path of tag ids and its exact probability."""

    tags: list[int]
    probability: float


class Found(BaseModel):
    """Tokens [start, end) carry this type with this exact probability."""

    start: int
    end: int
    type: str
    probability: float


class LatticeAnswer(BaseModel):
    """What the model sees in a sentence, and what its best legal path is compared with."""

    text: str
    offsets: list[tuple[int, int]] = Field(description="Of each token in the text, in Unicode code points.")
    tokens: list[str]
    tags: list[str]
    emissions: list[list[float]]
    marginals: list[list[float]]
    transitions: list[list[float]] = Field(description="[from][to], as learnt, illegal ones included.")
    legal: list[list[bool]] = Field(description="[from][to].")
    start: list[bool]
    end: list[bool]
    path: list[int]
    comparison: Literal["unmasked", "per_token"] = Field(
        description="What `comparison_path` is: the unmasked path of a model trained without the mask, or, where the "
        "illegal transitions were never trained, the encoder's best tag for each token alone."
    )
    comparison_path: list[int]
    broken: list[Step] = Field(description="The illegal steps of `comparison_path`.")
    illegal_mass: float | None = Field(
        description="Probability the unmasked model spends on illegal paths; null if it was trained with the mask."
    )
    nbest: list[Path]
    entities: list[Found]


class RedactRequest(BaseModel):
    """One text whose entities are to be hidden: at most 4,000 tokens."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"text": "Ann flew to Oslo.", "threshold": 0.2, "replace": "name"}]},
    )

    text: Text = Field(description="Raw text, a document of its own, tokenised by the server.")
    threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Words at least so probably part of an entity are hidden; left out, the one of /promise.",
    )
    types: list[Tag] | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        fail_fast=True,
        description="Types to hide; those of /promise, or all.",
    )
    replace: Literal["type", "name", "blank"] = Field(
        default="type",
        description="[PER]; [PER-1], the same for the same name throughout the text; or as many blanks.",
    )


class HiddenEntity(BaseModel):
    """text[start:end] of the request, counted in Unicode code points, was hidden."""

    start: int
    end: int
    type: str
    probability: float = Field(description="Of its likeliest word to lie in an entity; 1 if a rule is certain of it.")
    source: str = Field(description="model, pattern:NAME or dictionary:NAME; joined by + where both took part.")


class Redaction(BaseModel):
    """The text with its entities hidden; everything else is as it was."""

    text: str
    hidden: list[HiddenEntity]
    threshold: float
    miss_rate: float | None = Field(
        description="The share of entities that at most stays readable on average, for text like the sample of "
        "/promise; null if nothing is promised at this threshold, or for these types."
    )


class Promise(BaseModel):
    """A threshold with a promised miss rate, and the sample it was learnt from."""

    sentence: str = Field(description="The promise in words.")
    threshold: float
    miss_rate: float
    confidence: float | None = Field(description="The share of samples it holds for; null promises their mean.")
    at_most: float | None = Field(description="What this one sample may miss, with 97.5 % confidence, of such a mean.")
    types: list[str]
    unit: str
    loss: str
    units: int
    sentences: int
    entities: int
    hidden: float = Field(description="The share of the sample's other words that are hidden too.")
    model: str
    data: str
    version: str
    curve: list[tuple[float, float, float]] = Field(description="Miss rate, threshold, share of other words hidden.")


class PromiseAnswer(BaseModel):
    """The promise of the model that is served."""

    promise: Promise | None
    reason: str | None = Field(description="Why there is none.")


class Health(BaseModel):
    """The server answers, with this model."""

    status: str
    version: str
    tags: list[str] = Field(description="The model's own, which `fixed` takes.")
    scheme: str = Field(description="Of these tags.")
    output_scheme: str = Field(description="Of the tags that are answered.")
    mask: str
    collects: bool = Field(description="Whether corrected sentences are kept: POST /collect.")


class Error(BaseModel):
    """Why a request was refused, in one line."""

    error: str = Field(description="The same word for the same status.")
    message: str


REASONS = {
    400: ("bad_request", "The body is not UTF-8 or not JSON, or the Host header names another server."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "The address does not take this method."),
    408: ("too_slow", "The client took too long to send the body."),
    413: ("too_large", "The body is too large."),
    415: ("not_json", "The body is not declared as JSON."),
    422: ("refused", "The body is JSON but not what is asked for, or exceeds a limit, or no legal path fits it."),
    500: ("failed", "The model failed."),
    503: (
        "busy",
        "Too many requests wait, or the server starts, stops or is stuck; Retry-After says when to try again.",
    ),
    504: ("deadline", "There was no answer before the deadline."),
}


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These refusals for an OpenAPI operation."""
    found: dict[int | str, dict[str, Any]] = {
        status: {"model": Error, "description": REASONS[status][1]} for status in statuses
    }
    if 503 in found:
        found[503]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return found
