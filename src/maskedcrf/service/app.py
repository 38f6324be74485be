"""The HTTP service: a tagger behind FastAPI, with a page that shows its lattice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import torch
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from maskedcrf import __version__
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.texts import to_sentence
from maskedcrf.errors import MaskedCRFError
from maskedcrf.report.lattice import lattice
from maskedcrf.service import limits as caps
from maskedcrf.service import schemas
from maskedcrf.service.batcher import Batcher
from maskedcrf.service.limits import Budget, Limits, bounded, unless_gone
from maskedcrf.service.metrics import Metrics
from maskedcrf.service.middleware import LOOPBACK, Guard, refusal
from maskedcrf.tagger import Tagger, predict
from maskedcrf.tagger.fixed_tags import allowed_tags
from maskedcrf.tagger.model import to_device
from maskedcrf.tagger.predict import Question
from maskedcrf.tagger.prediction import Prediction
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Bools

PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/lattice.js": ("lattice.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
# Whatever collector the process is set up for, no request is told to it. Older FastAPIs have none and ignore this.
SILENT: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
POSTED = (400, 408, 413, 415, 422, 500, 503, 504)


@dataclass(frozen=True, slots=True)
class LatticeQuestion:
    """What is asked of one lattice."""

    nbest: int


class Service:
    """The tagger's answers as JSON, for requests that came through the queue."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    def sentence(self, given: schemas.Sentence) -> Sentence:
        """The sentence of a request, its size and its fixed tags checked."""
        rules = self.tagger.model.crf.constraints
        sentence = to_sentence(given.text if "text" in given.model_fields_set else given.tokens)
        _at_most(len(sentence.tokens), caps.TOKENS, "tokens in one sentence")
        _at_most(max(map(len, sentence.tokens), default=0), caps.TOKEN_CHARACTERS, "characters in one token")
        fixed = {int(position): tags for position, tags in given.fixed.items()}
        allowed = allowed_tags(rules, sentence.tokens, fixed=fixed, gazetteer=None)
        if allowed is not None and not _has_path(rules, allowed):
            raise HTTPException(422, "the fixed tags leave no legal path; free some of them")
        return replace(sentence, allowed=allowed)

    def question(self, options: schemas.Options) -> Question:
        """What is asked beside the tags."""
        scheme = self.tagger.output_scheme
        return Question(
            probabilities=options.probabilities,
            nbest=options.nbest,
            threshold=options.threshold,
            output_scheme=scheme if scheme != self.tagger.scheme else None,
        )

    def answer(self, question: Hashable, sentences: Sequence[Any]) -> list[bytes]:
        """An answer for each sentence, in JSON; runs on the model's thread."""
        if isinstance(question, LatticeQuestion):
            return [_json(self._lattice(sentence, question.nbest)) for sentence in sentences]
        assert isinstance(question, Question)
        return [_json(found.to_json()) for found in predict.stream(self.tagger.model, sentences, question=question)]

    def warm_up(self) -> None:
        """Compile what is compiled on first use, so that no request waits for it."""
        for question in (
            Question(),
            Question(probabilities=True, nbest=2),
            Question(threshold=0.5),
            LatticeQuestion(2),
        ):
            self.answer(question, [to_sentence("a b")])

    @torch.inference_mode()
    def _lattice(self, sentence: Sentence, nbest: int) -> dict[str, Any]:
        model = self.tagger.model
        scores = torch.empty(0, len(model.crf.tags))
        if sentence.tokens:
            features = to_device(model.encoder.prepare([sentence]), model.device)
            scores = model.emissions(features).float()[0][features["mask"][0]]
        allowed = None if sentence.allowed is None else torch.from_numpy(sentence.allowed).to(scores.device)
        found = lattice(model.crf, scores, sentence.tokens, allowed=allowed, nbest=nbest)
        shown = Prediction(sentence, (), ())
        return {"text": shown.text, "offsets": shown.offsets, **found.as_dict()}


def create_app(tagger: Tagger, *, limits: Limits | None = None, hosts: Collection[str] | None = LOOPBACK) -> FastAPI:
    """The service as an ASGI application; `hosts` are the names it answers to, None any."""
    limits = Limits() if limits is None else limits
    tagger.model.eval()
    service = Service(tagger)
    bodies = Budget(limits.bodies_bytes, what="too many bodies are being read")
    metrics = Metrics({})
    batcher = Batcher(service.answer, limits, observe=metrics.batch)
    metrics.gauges = {
        "queue_requests": ("Requests waiting for the model.", lambda: batcher.waiting),
        "queue_tokens": ("Tokens of requests that wait or are in the model.", lambda: batcher.budget.used),
        "body_bytes": ("Bytes of bodies being read or answered.", lambda: bodies.used),
    }

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.warm_up()
        batcher.start()
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
        telemetry=SILENT,
    )
    app.router.route_class = _bounded_route(limits, bodies)
    app.add_middleware(Guard, hosts=hosts, metrics=metrics)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(MaskedCRFError, _impossible)
    _add_tagging(app, service, batcher)
    _add_watching(app, tagger, batcher, metrics)
    _add_page(app)
    return app


def _bounded_route(limits: Limits, bodies: Budget) -> type[APIRoute]:
    class BoundedRoute(APIRoute):
        """Reads no body beyond the limits."""

        def get_route_handler(self) -> Callable[[Request], Any]:
            return bounded(super().get_route_handler(), limits, bodies)

    return BoundedRoute


def _add_tagging(app: FastAPI, service: Service, batcher: Batcher) -> None:
    async def submit(client: Request, options: schemas.Options, sentences: Sequence[Sentence]) -> list[bytes]:
        weight = _weight(options)
        most, tokens = caps.REQUEST_TOKENS // weight, sum(len(sentence.tokens) for sentence in sentences)
        _at_most(tokens, most, "tokens in one request that asks for this")
        return await unless_gone(client, batcher.submit(service.question(options), sentences, weight=weight))

    @app.post("/tag", response_model=schemas.Prediction, responses=schemas.declared(*POSTED))
    async def tag(request: schemas.TagRequest, client: Request) -> Response:
        """Tags and entities of one sentence."""
        return _answered(await submit(client, request, [service.sentence(request)]))

    @app.post("/tag/batch", response_model=schemas.Predictions, responses=schemas.declared(*POSTED))
    async def tag_batch(request: schemas.BatchRequest, client: Request) -> Response:
        """Tags and entities of many sentences."""
        sentences = list[Sentence]()
        for number, given in enumerate(request.sentences):
            with _located(f"sentences.{number}"):
                sentences.append(service.sentence(given))
        answers = await submit(client, request, sentences)
        return _answered([b'{"predictions": [', b", ".join(answers), b"]}"])

    @app.post("/lattice", response_model=schemas.LatticeAnswer, responses=schemas.declared(*POSTED))
    async def tag_lattice(request: schemas.LatticeRequest, client: Request) -> Response:
        """The lattice of one sentence: scores, marginals, the masked and the unmasked path."""
        sentence = service.sentence(request)
        _at_most(len(sentence.tokens), caps.LATTICE_TOKENS, "tokens in one lattice")
        question = LatticeQuestion(request.nbest)
        return _answered(await unless_gone(client, batcher.submit(question, [sentence], weight=caps.RANKED_WEIGHT)))


def _add_watching(app: FastAPI, tagger: Tagger, batcher: Batcher, metrics: Metrics) -> None:
    @app.head("/health", include_in_schema=False)
    @app.get("/health", response_model=schemas.Health, responses=schemas.declared(400, 503))
    async def health() -> Response:
        """Whether the server takes requests, and which tags its model has."""
        if not batcher.alive:
            raise caps.busy("the server is stopping")
        about = {"status": "ok", "version": __version__, "tags": tagger.tags}
        schemes = {"scheme": tagger.scheme.name, "output_scheme": tagger.output_scheme.name}
        return _answered([_json({**about, **schemes, "mask": tagger.mask})])

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **schemas.declared(400)},
    )
    async def read_metrics() -> Response:
        """Counters in the text format of Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


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
        return caps.THRESHOLD_WEIGHT
    return caps.RANKED_WEIGHT if options.nbest or options.probabilities else 1


def _has_path(rules: Constraints, allowed: Bools) -> bool:
    """Whether a legal path stays inside the `allowed` (T, D) tags."""
    reached = rules.start & allowed[0]
    for tags in allowed[1:]:
        reached = rules.legal[reached].any(axis=0) & tags
    return bool((reached & rules.end).any())


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Refusals say where in the body they come from."""
    try:
        yield
    except MaskedCRFError as error:
        raise HTTPException(422, f"{where}: {error}") from error
    except HTTPException as error:
        raise HTTPException(error.status_code, f"{where}: {error.detail}") from error


def _at_most(count: int, most: int, what: str) -> None:
    if count > most:
        raise HTTPException(422, f"at most {most} {what}, got {count}")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _answered(parts: Sequence[bytes]) -> Response:
    return Response(b"".join(parts), media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
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


async def _impossible(request: Request, error: Exception) -> Response:
    return refusal(422, str(error))
