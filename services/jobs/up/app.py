"""The routes of the job service's REST interface, each a line or two over the ledger.

GET /status, /metrics            POST /v1/plans        POST, GET /v1/jobs       GET, DELETE /v1/jobs/{id}
POST /v1/jobs/{id}/stop, yield, retry, priority        GET /v1/jobs/{id}/why, logs, curves, report
GET /v1/events                   GET /v1/jobs/{id}/log-events                   (server-sent events)
GET /v1/bill   GET /v1/quotas    PUT /v1/quotas/{owner}   GET, POST /v1/tokens   DELETE /v1/tokens/{name}
GET /v1/models PUT /v1/models/{name}                                            POST /v1/tokens/{name}/rotate
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path as Folder
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException as StarletteHTTPException

from model.errors import ServiceError, UserError, reason
from services.endpoint.answer import refusal
from services.endpoint.body_limit import BodyLimit
from services.endpoint.documentation import add_documentation
from services.jobs.http import events
from services.jobs.http.guard import Guard, Rate
from services.jobs.ledger.access import Access, Person
from services.jobs.ledger.ledger import ConflictError, Ledger, UnknownJobError
from services.jobs.pages.routes import add_pages
from services.jobs.pages.sessions import Sessions
from services.jobs.pages.site import Site
from services.jobs.service import schemas
from services.jobs.service.curves import read_curves, released, run_of
from services.jobs.service.forecaster import Forecaster
from services.jobs.service.loop import Loop
from services.jobs.service.metrics import Metrics
from services.jobs.service.observer import Observer
from services.jobs.service.operations import Operations
from services.jobs.service.report import report
from services.jobs.service.tracking import Tracking
from services.jobs.settings import ServiceConfig
from services.jobs.states import PRIORITIES, State
from services.telemetry.telemetry import FORMAT, current
from services.telemetry.traceparent import parse
from services.version import version

Id = Annotated[str, Path(max_length=40, pattern=schemas.NAME)]
WORDS = {
    400: "the request cannot be carried out",
    401: "the token is missing or wrong",
    403: "this person may not do it, or the request is from a foreign page",
    404: "nothing has that name",
    409: "its state does not allow it, or it changed in the meantime",
    413: "the body is too large",
    415: "the body is not JSON",
    422: "a field is missing, unknown or out of its bounds",
    429: "too many requests: Retry-After says when to come again",
    503: "the ledger, the planner or the cluster does not answer",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": words} for code, words in WORDS.items()
}
Answers = dict[int | str, dict[str, Any]]
STREAM: Answers = {200: {"content": {"text/event-stream": {}}, "description": "events, until the job ends"}}
TEXT: Answers = {200: {"content": {"text/plain": {}}, "description": "a piece of the log"}}
PAGE: Answers = {200: {"content": {"text/html": {}}, "description": "the page"}}


@dataclass(frozen=True)
class Parts:
    """The objects that the application uses."""

    ledger: Ledger
    access: Access
    loop: Loop
    config: ServiceConfig
    home: Folder
    keys: bool  # True: a token is required even if none was issued
    metrics: Metrics = field(default_factory=Metrics)
    tracking: str = ""  # MLflow's address for the service; empty: none
    tracking_pages: str = ""  # and for browsers, if it is another
    endpoint: str = ""


def create_app(parts: Parts) -> FastAPI:
    """Returns the application. It starts and stops nothing; its caller runs the loop's threads."""
    telemetry = parts.metrics.telemetry
    app = FastAPI(
        title="Dragoman jobs",
        version=version(),
        docs_url=None,
        redoc_url=None,
        telemetry=telemetry.make_fastapi_options(),  # type: ignore[arg-type]  # a dictionary of its keys
    )
    app.add_middleware(BodyLimit, limit=parts.config.body, patience=15.0)
    guard = Guard(parts.access, parts.keys, Rate(parts.config.rate, parts.config.burst))
    forecaster = Forecaster(parts.loop)
    operations = Operations(parts.ledger, parts.loop, parts.config, forecaster)
    _add_handlers(app)
    add_documentation(app)

    def asks(role: Any) -> Callable[..., Coroutine[Any, Any, Person]]:
        async def check(request: Request) -> Person:
            # a token is looked up in the ledger; where none is required, a thread would cost more than the answer
            person = await run_in_threadpool(guard.person, request) if guard.keys else guard.person(request)
            if not person.may(role):
                raise HTTPException(403, f"needs the role {role}")
            return person

        return check

    Scraper = Annotated[Person, Depends(asks("metrics"))]  # noqa: N806  # types
    Viewer = Annotated[Person, Depends(asks("viewer"))]  # noqa: N806
    Submitter = Annotated[Person, Depends(asks("submitter"))]  # noqa: N806
    Admin = Annotated[Person, Depends(asks("admin"))]  # noqa: N806

    @app.get("/status", responses={503: PROBLEMS[503]})
    def status() -> schemas.StatusView:
        """Returns the service's health; needs no token and names nobody."""
        loop = parts.loop
        nodes = [schemas.NodeView.model_validate(node) for node in loop.capacity.nodes] if loop.capacity else []
        return schemas.StatusView(
            status="degraded" if loop.trouble else "ok",
            trouble=loop.trouble,
            version=version(),
            counts=parts.ledger.counts(),
            nodes=nodes,
            keys=guard.keys,
            pass_seconds=loop.scheduler.seconds,
        )

    observer = Observer(parts.ledger, parts.metrics)
    app.state.observer = observer
    parts.loop.scheduler.took = parts.metrics.passes.observe
    parts.loop.accounts.judged = parts.metrics.judge
    parts.metrics.show(parts.ledger, parts.access, parts.loop.resources, parts.home)

    @app.get("/metrics", include_in_schema=False)
    def metrics(person: Scraper) -> Response:
        """Returns metrics for Prometheus, whose token has the role `metrics`; others see no owner but themselves."""
        observer.look()
        return Response(telemetry.text(person.sees), headers={"Content-Type": FORMAT})

    @app.post("/v1/plans", responses=PROBLEMS)
    def plan(person: Submitter, body: schemas.PlanRequest) -> dict[str, Any]:
        """Returns the plan of a submission; nothing is queued."""
        return operations.plan(person, body)

    # The most frequent requests use one thread; FastAPI takes another for the answer of a plain function.
    @app.post("/v1/jobs", status_code=201, responses=PROBLEMS)
    async def submit(request: Request, person: Submitter, body: schemas.Submission) -> schemas.JobView:
        """Creates a job; it is planned, then it waits. The header `traceparent` is kept for its attempts."""
        place = current() or parse(request.headers.get("traceparent"))
        job = await run_in_threadpool(operations.submit, person, body, str(place) if place else None)
        return schemas.JobView.model_validate(job)

    @app.get("/v1/jobs", responses=PROBLEMS)
    async def jobs(
        person: Viewer,
        state: Annotated[list[State] | None, Query(max_length=20)] = None,
        owner: schemas.Owner | None = None,
        cursor: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> schemas.JobPage:
        """Returns jobs, the newest first, one page at a time."""
        return await run_in_threadpool(operations.page, person, state or (), owner, cursor, limit)

    @app.get("/v1/jobs/{id}", responses=PROBLEMS)
    def job(person: Viewer, id: Id) -> schemas.JobDetail:
        """Returns a job, its attempts and every change of its state."""
        detail = schemas.JobDetail.model_validate(operations.job(person, id))
        detail.why = operations.waits_for([detail]).get(id, "")
        detail.attempts = [schemas.AttemptView.model_validate(one) for one in parts.ledger.attempts(id)]
        detail.changes = operations.changes(person, id)
        return detail

    @app.get("/v1/jobs/{id}/why", responses=PROBLEMS)
    def why(person: Viewer, id: Id) -> schemas.WhyView:
        """Returns what a job waits for, who holds that, and the range of its expected start."""
        return operations.why(person, id)

    @app.get("/v1/jobs/{id}/logs", responses={**TEXT, **PROBLEMS}, response_class=Response)
    def logs(
        person: Viewer,
        id: Id,
        attempt: Annotated[int, Query(ge=0, le=10**6)] = 0,
        offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=1 << 20)] = 1 << 18,
    ) -> Response:
        """Returns a piece of an attempt's log (0: the newest attempt); X-Next-Offset says where the next begins."""
        text, number = operations.log(person, id, attempt, offset, limit)
        headers = {"X-Next-Offset": str(offset + len(text)), "X-Attempt": str(number)}
        return Response(text, headers=headers, media_type="text/plain; charset=utf-8")

    @app.get("/v1/jobs/{id}/curves", responses=PROBLEMS)
    def curves(person: Viewer, id: Id) -> schemas.CurvesView:
        """Returns a training's curves (losses, learning rate, speed) and the version that its end released."""
        found = operations.job(person, id)
        run = run_of(found)
        return schemas.CurvesView(run=found.run, curves=read_curves(run), released=released(run))

    @app.get("/v1/jobs/{id}/report", responses={**PAGE, **PROBLEMS}, response_class=Response)
    def page(person: Viewer, id: Id) -> Response:
        """Returns a report of the job: one page that needs no other files."""
        found = operations.job(person, id)
        text = report(found, parts.ledger.attempts(id), operations.changes(person, id), parts.home)
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
        return Response(text, headers={"Content-Security-Policy": policy}, media_type="text/html; charset=utf-8")

    @app.get("/v1/events", responses={**STREAM, **PROBLEMS}, response_class=StreamingResponse)
    def stream(
        person: Viewer,
        request: Request,
        job: schemas.JobId | None = None,
        after: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    ) -> StreamingResponse:
        """Streams changes as they happen; continues after `after` or the header Last-Event-ID."""
        if job is not None:
            operations.job(person, job)
        last = _last_id(request, after)
        source = events.changes(parts.ledger, last, job, person)
        return StreamingResponse(source, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @app.get("/v1/jobs/{id}/log-events", responses={**STREAM, **PROBLEMS}, response_class=StreamingResponse)
    def log_stream(
        person: Viewer, request: Request, id: Id, attempt: Annotated[int, Query(ge=0, le=10**6)] = 0
    ) -> StreamingResponse:
        """Streams the job's log; continues after the header Last-Event-ID."""
        operations.job(person, id)
        number, _, offset = request.headers.get("last-event-id", "").partition(":")
        known = number.isdecimal() and offset.isdecimal() and len(number) < 8 and len(offset) < 16
        start = (int(number), int(offset)) if known else (attempt, 0)
        source = events.logs(parts.ledger, parts.home, id, start)
        return StreamingResponse(source, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @app.post("/v1/jobs/{id}/stop", responses=PROBLEMS)
    def stop(person: Submitter, id: Id) -> schemas.JobView:
        """Stops a job in order; a waiting one never starts."""
        return schemas.JobView.model_validate(operations.stop(person, id))

    @app.post("/v1/jobs/{id}/yield", responses=PROBLEMS)
    def make_room(person: Submitter, id: Id) -> schemas.JobView:
        """Asks a job to make room: it saves a checkpoint and waits again."""
        return schemas.JobView.model_validate(operations.make_room(person, id))

    @app.post("/v1/jobs/{id}/retry", responses=PROBLEMS)
    def retry(person: Submitter, id: Id) -> schemas.JobView:
        """Queues an ended job again; it continues from its newest checkpoint."""
        return schemas.JobView.model_validate(operations.retry(person, id))

    @app.post("/v1/jobs/{id}/priority", responses=PROBLEMS)
    def priority(person: Submitter, id: Id, body: schemas.PriorityRequest) -> schemas.JobView:
        """Sets a job's priority."""
        return schemas.JobView.model_validate(operations.set_priority(person, id, PRIORITIES[body.priority]))

    @app.delete("/v1/jobs/{id}", status_code=204, responses=PROBLEMS)
    def remove(person: Submitter, id: Id) -> None:
        """Removes an ended job; the audit trail keeps it."""
        operations.remove(person, id)

    @app.get("/v1/bill", responses=PROBLEMS)
    def bill(person: Viewer, owner: schemas.Owner | None = None) -> list[schemas.BillRow]:
        """Returns the tokens and seconds lost, by cause, job and owner."""
        return operations.bill(person, owner)

    @app.get("/v1/quotas", responses=PROBLEMS)
    def all_quotas(person: Viewer) -> list[schemas.QuotaView]:
        """Returns the owners' quotas; only an admin sees all of them."""
        found = sorted((owner, row) for owner, row in parts.access.quotas().items() if person.sees(owner))
        return [schemas.QuotaView(owner=owner, cpus=cpus, gpus=gpus) for owner, (cpus, gpus) in found]

    @app.put("/v1/quotas/{owner}", status_code=204, responses=PROBLEMS)
    def set_quota(person: Admin, owner: Annotated[schemas.Owner, Path()], body: schemas.QuotaRequest) -> None:
        """Sets an owner's quota for all jobs together."""
        parts.access.set_quota(owner, body.cpus, body.gpus, person.owner)

    @app.get("/v1/models", responses=PROBLEMS)
    def owned(person: Viewer) -> list[schemas.ModelView]:
        """Returns the owners of registered models; only an admin sees all of them."""
        names = parts.loop.intake.ownership.names.all()
        return [schemas.ModelView.model_validate(one) for one in names if person.sees(one.owner)]

    @app.put("/v1/models/{name}", status_code=204, responses=PROBLEMS)
    def give(person: Admin, name: Annotated[schemas.Owner, Path()], body: schemas.ModelRequest) -> None:
        """Gives a registered model to an owner."""
        parts.loop.intake.ownership.give(name, body.owner, person.owner)

    @app.get("/v1/tokens", responses=PROBLEMS)
    def tokens(person: Admin) -> list[schemas.TokenView]:
        """Returns the names, owners and roles of the tokens, never the tokens themselves."""
        return [schemas.TokenView.model_validate(token) for token in parts.access.tokens()]

    @app.post("/v1/tokens", status_code=201, responses=PROBLEMS)
    def issue(person: Admin, body: schemas.TokenRequest) -> schemas.IssuedToken:
        """Issues a new token, which is shown only once."""
        return schemas.IssuedToken(token=parts.access.issue(body.name, body.owner, body.role, person.owner))

    @app.post("/v1/tokens/{name}/rotate", responses=PROBLEMS)
    def rotate(person: Admin, name: Annotated[schemas.Owner, Path()]) -> schemas.IssuedToken:
        """Replaces a token by a new one, which is shown only once."""
        return schemas.IssuedToken(token=parts.access.rotate(name, person.owner))

    @app.delete("/v1/tokens/{name}", status_code=204, responses=PROBLEMS)
    def revoke(person: Admin, name: Annotated[schemas.Owner, Path()]) -> None:
        """Revokes a token."""
        parts.access.revoke(name, person.owner)

    access = Sessions(guard, parts.home)
    tracking = Tracking(parts.tracking, parts.tracking_pages)
    add_pages(app, Site(operations, access, forecaster, tracking, parts.endpoint, parts.home))
    return app


def _last_id(request: Request, after: int | None) -> int:
    text = request.headers.get("last-event-id", "")
    return int(text) if text.isdecimal() and len(text) < 10 else after or 0


def _add_handlers(app: FastAPI) -> None:
    """Answers every problem with {"error": ...} and the fitting status."""

    @app.exception_handler(StarletteHTTPException)
    async def refuse(_request: Request, problem: StarletteHTTPException) -> Response:
        return refusal(problem.status_code, str(problem.detail), problem.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, problem: RequestValidationError) -> Response:
        first = problem.errors()[0]
        return refusal(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")

    async def known(_request: Request, problem: Exception) -> Response:
        codes = {UserError: 400, UnknownJobError: 404, ConflictError: 409}
        if isinstance(problem, UnknownJobError):
            return refusal(404, f"job {problem.args[0]!r} is not known")
        return refusal(codes.get(type(problem), 503), reason(problem))

    for kind in (UserError, UnknownJobError, ConflictError, ServiceError, SQLAlchemyError):
        app.add_exception_handler(kind, known)
