"""The HTTP service: a tagger behind FastAPI, with a page that shows its lattice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar

import torch
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from maskedcrf import __version__
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.texts import to_sentence
from maskedcrf.data.tokenizers import MODEL, Tokenizer
from maskedcrf.errors import MaskedCRFError
from maskedcrf.redaction.rules import Rules
from maskedcrf.report.lattice import lattice
from maskedcrf.service import limits, schemas
from maskedcrf.service.batcher import Batcher
from maskedcrf.service.collect import Collector, require_something_known
from maskedcrf.service.limits import Budget, Limits, cancel_on_disconnect, limit_body
from maskedcrf.service.metrics import CONTENT_TYPE, Metrics
from maskedcrf.service.middleware import LOOPBACK, SecurityMiddleware, refusal
from maskedcrf.service.redaction import RedactionService, RedactQuestion
from maskedcrf.tagger import Tagger, predict
from maskedcrf.tagger.fixed_tags import allowed_tags
from maskedcrf.tagger.model import to_device
from maskedcrf.tagger.predict import OutputOptions
from maskedcrf.tagger.prediction import Prediction

PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/lattice.js": ("lattice.js", "text/javascript"),
    "/redaction.js": ("redaction.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
# Whatever collector the process is set up for, no request is told to it. Older FastAPIs have none and ignore this.
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
Checked = TypeVar("Checked")
TOTAL = "tokens in one request that asks for this"
INLINE_WORK = 2000
"""Tokens, about, that are checked without leaving the event loop."""
POST_ERRORS = (400, 408, 413, 415, 422, 500, 503, 504)


@dataclass(frozen=True, slots=True)
class LatticeQuestion:
    """What is asked of one lattice."""

    nbest: int


class Service:
    """The tagger's answers as JSON, for requests that came through the queue."""

    def __init__(self, tagger: Tagger, rules: Rules | None = None) -> None:
        self.tagger = tagger
        self.redaction = RedactionService(tagger, rules)

    def sentences(self, given: Sequence[schemas.Sentence], most: int) -> list[Sentence]:
        """The sentences of a request, at most so many tokens in all: sizes are checked first, then fixed tags."""
        total = sum(len(one.tokens) for one in given)
        limits.at_most(total, most, TOTAL)
        found = list[Sentence]()
        for number, one in enumerate(given):
            with _name_sentence(number, of=len(given)):
                sentence = to_sentence(
                    one.text if "text" in one.model_fields_set else one.tokens, self.tagger.tokenizer
                )
                limits.at_most(len(sentence.tokens), limits.TOKENS, "tokens in one sentence")
                limits.at_most(
                    max(map(len, sentence.tokens), default=0), limits.TOKEN_CHARACTERS, "characters in one token"
                )
            total += len(sentence.tokens) - len(one.tokens)
            limits.at_most(total, most, TOTAL)
            found.append(sentence)
        for number, one in enumerate(given):
            with _name_sentence(number, of=len(given)):
                found[number] = self._with_fixed_tags(found[number], one)
        return found

    def _with_fixed_tags(self, sentence: Sentence, given: schemas.Sentence) -> Sentence:
        rules = self.tagger.model.crf.constraints
        fixed = {int(position): tags for position, tags in given.fixed.items()}
        allowed = allowed_tags(rules, sentence.tokens, fixed=fixed, gazetteer=None)
        narrowed = replace(sentence, allowed=allowed)
        if not all(part.allowed is None or rules.has_path(part.allowed) for part in narrowed.parts()):
            raise HTTPException(422, "the fixed tags leave no legal path; free some of them")
        return narrowed

    def question(self, options: schemas.Options) -> OutputOptions:
        """What is asked beside the tags."""
        scheme = self.tagger.output_scheme
        return OutputOptions(
            probabilities=options.probabilities,
            nbest=options.nbest,
            threshold=options.threshold,
            segment_threshold=self.tagger.threshold_for(),
            output_scheme=scheme if scheme != self.tagger.scheme else None,
        )

    def answer(self, question: Hashable, sentences: Sequence[Any]) -> list[bytes]:
        """An answer for each sentence, in JSON; runs on the model's thread."""
        if isinstance(question, RedactQuestion):
            return self.redaction.answer(question, sentences)
        if isinstance(question, LatticeQuestion):
            return [_json(self._lattice(sentence, question.nbest)) for sentence in sentences]
        assert isinstance(question, OutputOptions)
        return [_json(found.to_json()) for found in predict.stream(self.tagger.model, sentences, question=question)]

    def warm_up(self) -> None:
        """Compile what is compiled on first use, so that no request waits for it."""
        for question in (
            OutputOptions(),
            OutputOptions(segment_threshold=self.tagger.threshold_for()),
            OutputOptions(probabilities=True, nbest=2),
            OutputOptions(threshold=0.5),
            LatticeQuestion(2),
        ):
            self.answer(question, [to_sentence(["a", "b"], self.tagger.tokenizer)])
        self.redaction.warm_up()

    @torch.inference_mode()
    def _lattice(self, sentence: Sentence, nbest: int) -> dict[str, Any]:
        model = self.tagger.model
        scores = torch.empty(0, len(model.crf.tags))
        if sentence.tokens:
            features = to_device(model.encoder.prepare([sentence]), model.device)
            scores = model.emissions(features).float()[0][features["mask"][0]]
        allowed = None if sentence.allowed is None else torch.from_numpy(sentence.allowed).to(scores.device)
        found = lattice(model.crf, scores, sentence.tokens, allowed=allowed, nbest=nbest)
        prediction = Prediction(sentence, (), ())
        return {"text": prediction.text, "offsets": prediction.offsets, **found.as_dict()}


def create_app(
    tagger: Tagger,
    *,
    rules: Rules | None = None,
    limits: Limits | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    ready: Callable[[BaseException | None], None] = lambda problem: None,
    stopping: Callable[[], bool] = lambda: False,
    collector: Collector | None = None,
) -> FastAPI:
    """The service as an ASGI application.

    Args:
        tagger: whose answers are served.
        rules: patterns and dictionaries whose findings `/redact` hides too.
        limits: what the server may hold and how long it waits.
        hosts: the names it answers to, None any.
        ready: called once the model is warm, or with what went wrong.
        stopping: whether the server around it is about to end.
        collector: where sentences go that users have corrected; None keeps none.
    """
    limits = Limits() if limits is None else limits
    tagger.model.eval()
    service, metrics = Service(tagger, rules), Metrics()
    bodies = Budget(limits.bodies_bytes, what="too many bodies are being read")
    batcher = Batcher(service.answer, limits, observe=metrics.count_batch)
    metrics.add_gauge("queue_requests", "Requests waiting for the model.", lambda: batcher.waiting)
    metrics.add_gauge("queue_tokens", "Tokens of requests that wait or are in the model.", lambda: batcher.budget.used)
    metrics.add_gauge("body_bytes", "Bytes of bodies being read or answered.", lambda: bodies.used)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        warming = batcher.start(service.warm_up)
        warming.add_done_callback(lambda task: None if task.cancelled() else ready(task.exception()))
        yield
        await batcher.close()

    app = FastAPI(
        title="maskedcrf",
        version=__version__,
        description="Tags that never leave their scheme, with exact probabilities.",
        docs_url=None,  # both would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy, a redirect would name another server, and without encryption
        lifespan=lifespan,
        telemetry=NO_TELEMETRY,
    )
    app.state.batcher = batcher
    app.router.route_class = _limited_route(limits, bodies)
    app.add_middleware(SecurityMiddleware, hosts=hosts, metrics=metrics, stopping=stopping)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(MaskedCRFError, _on_library_error)
    _add_tagging(app, service, batcher)
    _add_redaction(app, service.redaction, batcher)
    if collector is not None:
        _add_collecting(app, service, batcher, collector)
    _add_monitoring(app, tagger, batcher, metrics, collects=collector is not None)
    _add_page(app)
    return app


def _limited_route(limits: Limits, bodies: Budget) -> type[APIRoute]:
    class LimitedRoute(APIRoute):
        """Reads no body beyond the limits."""

        def get_route_handler(self) -> Callable[[Request], Any]:
            return limit_body(super().get_route_handler(), limits, bodies)

    return LimitedRoute


async def _submit(
    service: Service,
    batcher: Batcher,
    client: Request,
    question: Hashable,
    given: Sequence[schemas.Sentence],
    *,
    weight: int = 1,
    most: int,
    whole: bool = False,
) -> list[bytes]:
    """What the model says of the sentences of a request; `whole` refuses a text of several."""
    batcher.require_ok()
    work = _work_of(given, service.tagger.tokenizer)
    sentences = await _off_the_loop(batcher, partial(service.sentences, given, most), work)
    if whole and sentences[0].breaks:
        raise HTTPException(422, f"this is for one sentence, and the text has {len(sentences[0].breaks) + 1}")
    return await cancel_on_disconnect(client, batcher.submit(question, sentences, weight=weight))


def _add_tagging(app: FastAPI, service: Service, batcher: Batcher) -> None:
    submit = partial(_submit, service, batcher)

    async def submit_tagging(
        client: Request, options: schemas.Options, given: Sequence[schemas.Sentence]
    ) -> list[bytes]:
        weight, question = _weight(options), service.question(options)
        return await submit(client, question, given, weight=weight, most=limits.REQUEST_TOKENS // weight)

    @app.post("/tag", response_model=schemas.Prediction, responses=schemas.declared(*POST_ERRORS))
    async def tag(request: schemas.TagRequest, client: Request) -> Response:
        """Tags and entities of one sentence."""
        return _json_response(await submit_tagging(client, request, [request]))

    @app.post("/tag/batch", response_model=schemas.Predictions, responses=schemas.declared(*POST_ERRORS))
    async def tag_batch(request: schemas.BatchRequest, client: Request) -> Response:
        """Tags and entities of many sentences."""
        answers = await submit_tagging(client, request, request.sentences)
        return _json_response([b'{"predictions": [', b", ".join(answers), b"]}"])

    @app.post("/lattice", response_model=schemas.LatticeAnswer, responses=schemas.declared(*POST_ERRORS))
    async def tag_lattice(request: schemas.LatticeRequest, client: Request) -> Response:
        """The lattice of one sentence: scores, marginals, the best legal path and what it is compared with."""
        question = LatticeQuestion(request.nbest)
        most, weight = limits.LATTICE_TOKENS, limits.RANKED_WEIGHT
        return _json_response(await submit(client, question, [request], weight=weight, most=most, whole=True))


def _add_collecting(app: FastAPI, service: Service, batcher: Batcher, collector: Collector) -> None:
    @app.post("/collect", response_model=schemas.Collected, responses=schemas.declared(*POST_ERRORS))
    async def collect(request: schemas.CollectRequest, client: Request) -> Response:
        """Keep a sentence as gold: its fixed tags, the others left open unless it is complete."""
        fixed = (int(at) for at, tags in request.fixed.items() if isinstance(tags, str) or len(tags) == 1)
        known = None if request.complete else list(fixed)
        question = service.question(schemas.Options())
        [answer] = await _submit(service, batcher, client, question, [request], most=limits.TOKENS, whole=True)
        prediction = json.loads(answer)
        require_something_known(known, len(prediction["tokens"]))
        try:
            return _json_response([_json(await asyncio.to_thread(collector.add, prediction, known))])
        except MaskedCRFError as error:
            raise HTTPException(500, str(error)) from error


def _add_redaction(app: FastAPI, service: RedactionService, batcher: Batcher) -> None:
    @app.post("/redact", response_model=schemas.Redaction, responses=schemas.declared(*POST_ERRORS))
    async def redact(request: schemas.RedactRequest, client: Request) -> Response:
        """A text with its entities hidden, at a threshold or with the miss rate that the model promises."""
        batcher.require_ok()
        job = await batcher.within_deadline(asyncio.to_thread(service.job, request))
        submission = batcher.submit(service.question(request), [job], weight=limits.RANKED_WEIGHT)
        return _json_response(await cancel_on_disconnect(client, submission))

    @app.get("/promise", response_model=schemas.PromiseAnswer, responses=schemas.declared(400))
    async def promise() -> Response:
        """Which share of the entities the model may miss when it redacts, and what other thresholds would promise."""
        return _json_response([_json(service.about())])


async def _off_the_loop(batcher: Batcher, check: Callable[[], Checked], work: int) -> Checked:
    """What `check` gives; where it is more than a moment's work, other requests are answered meanwhile."""
    return check() if work <= INLINE_WORK else await batcher.within_deadline(asyncio.to_thread(check))


def _work_of(given: Sequence[schemas.Sentence], tokenizer: Tokenizer) -> int:
    """About as many tokens; how long a tokenizer takes that came with a model, nobody knows."""
    if tokenizer.name == MODEL and any(one.text for one in given):
        return INLINE_WORK + 1
    return sum(len(one.text) // 4 + len(one.tokens) + 8 * len(one.fixed) for one in given)


def _add_monitoring(app: FastAPI, tagger: Tagger, batcher: Batcher, metrics: Metrics, *, collects: bool) -> None:
    @app.head("/health", include_in_schema=False)
    @app.get("/health", response_model=schemas.Health, responses=schemas.declared(400, 503))
    async def health() -> Response:
        """Whether the server takes requests, and which tags its model has."""
        batcher.require_ok()
        about = {"status": "ok", "version": __version__, "tags": tagger.tags}
        schemes = {"scheme": tagger.scheme.name, "output_scheme": tagger.output_scheme.name}
        return _json_response([_json({**about, **schemes, "mask": tagger.mask, "collects": collects})])

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **schemas.declared(400)},
    )
    async def read_metrics() -> Response:
        """Counters in the text format of Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)


def _add_page(app: FastAPI) -> None:
    folder = files("maskedcrf.service") / "page"
    for address, (name, kind) in PAGE.items():
        page = _file((folder / name).read_bytes(), kind)
        app.api_route(address, methods=["GET", "HEAD"], include_in_schema=False)(page)


def _file(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def read() -> Response:
        return Response(content, media_type=kind)

    return read


def _weight(options: schemas.Options) -> int:
    """How much more than the tags alone these options cost."""
    if options.threshold is not None:
        return limits.THRESHOLD_WEIGHT
    return limits.RANKED_WEIGHT if options.nbest or options.probabilities else 1


@contextmanager
def _name_sentence(number: int, *, of: int) -> Iterator[None]:
    """Refusals say which of several sentences they are about."""
    try:
        yield
    except (MaskedCRFError, HTTPException) as error:
        if of == 1:
            raise
        message = error.detail if isinstance(error, HTTPException) else str(error)
        raise HTTPException(422, f"sentences.{number}: {message}") from error


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _json_response(parts: Sequence[bytes]) -> Response:
    return Response(b"".join(parts), media_type="application/json")


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = refusal(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def _invalid(request: Request, error: Exception) -> Response:
    """Where the body is not what is asked for, without repeating it."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part)[:40] for part in first["loc"])
    return refusal(422, f"{where}: {first['msg']}")


async def _on_library_error(request: Request, error: Exception) -> Response:
    return refusal(422, str(error))
