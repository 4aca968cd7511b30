"""People and what they share: their tokens, sign-ins, projects, quotas, models, and the accounts of all."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from dragoman.model.errors import UserError
from dragoman.services.jobs.bodies import Owner, SavedName
from dragoman.services.jobs.http.parts import Admin, Here, Name, Submitter, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.ledger.audit import AuditQuery
from dragoman.services.jobs.ledger.tables import account_of
from dragoman.services.jobs.service import people_schemas as schemas
from dragoman.services.jobs.service.retention import summary
from dragoman.services.jobs.service.sign_in import WAITS

router = APIRouter(prefix="/v1", responses=PROBLEMS)


@router.get("/me")
def me(here: Here, person: Viewer) -> schemas.MeView:
    """Returns who asks, and their role."""
    mine = [token.name.rpartition("/")[2] for token in here.own_tokens.of(person.owner) if token.digest == person.proof]
    return schemas.MeView(owner=person.owner, role=person.role, token=mine[0] if mine else None)


@router.get("/me/tokens")
def my_tokens(here: Here, person: Viewer) -> list[schemas.OwnTokenView]:
    """Returns the tokens that the asker made and not those of administrators; never the tokens themselves."""
    return [schemas.OwnTokenView.model_validate(token) for token in here.own_tokens.of(person.owner)]


@router.post("/me/tokens", status_code=201)
def make(here: Here, person: Viewer, body: schemas.OwnTokenRequest) -> schemas.IssuedToken:
    """Makes a token with an end and at most the asker's role; it is shown only once."""
    return schemas.IssuedToken(token=here.own_tokens.make(person, body.name, body.role, body.ends))


@router.delete("/me/tokens/{name}", status_code=204)
def revoke(here: Here, person: Viewer, name: Name) -> None:
    """Ends one of the asker's tokens at once, with its sessions and streams."""
    here.own_tokens.revoke(person.owner, name, person.owner)


AnyName = Annotated[str, Path(max_length=160, pattern=r"^[\w.+-]+(/[\w.+-]+)?$")]  # NAME, or OWNER/NAME


@router.get("/tokens")
def tokens(here: Here, person: Admin) -> list[schemas.TokenView]:
    """Returns the names, owners and roles of the tokens, never the tokens themselves."""
    return [schemas.TokenView.model_validate(token) for token in here.access.tokens()]


@router.post("/tokens", status_code=201)
def issue(here: Here, person: Admin, body: schemas.TokenRequest) -> schemas.IssuedToken:
    """Issues a new token, which is shown only once."""
    here.own_tokens.check_maker(person, first=True)
    return schemas.IssuedToken(token=here.access.issue(body.name, body.owner, body.role, person.owner))


@router.post("/tokens/{name}/rotate")
def rotate(here: Here, person: Admin, name: Name) -> schemas.IssuedToken:
    """Replaces a token by a new one, which is shown only once."""
    here.own_tokens.check_maker(person, first=True)
    return schemas.IssuedToken(token=here.access.rotate(name, person.owner))


@router.delete("/tokens/{name:path}", status_code=204)
def revoke_any(here: Here, person: Admin, name: AnyName) -> None:
    """Revokes a token with those that were made with it; OWNER/NAME is one that its owner made."""
    owner, slash, own = name.partition("/")
    if slash:
        here.own_tokens.revoke(owner, own, person.owner)
    else:
        here.access.revoke(name, person.owner)


LOGIN_PAUSE = 2.0  # seconds between two questions of a command line that waits


def _check_login(here: Here, request: Request) -> None:
    here.guard.count_address(request)
    here.guard.refuse_untyped(request)
    if not here.guard.keys:
        raise UserError("nobody is asked for a token here")


@router.post("/login", status_code=201)
def begin_login(here: Here, request: Request, _: schemas.Nothing) -> schemas.LoginView:
    """Begins a sign-in; needs no token."""
    _check_login(here, request)
    secret, code = here.devices.ask(request.client.host if request.client else "an unknown address")
    return schemas.LoginView(
        secret=secret, code=code, page=f"{here.url}/login/device", seconds=WAITS, pause=LOGIN_PAUSE
    )


@router.post("/login/token")
def finish_login(here: Here, request: Request, response: Response, body: schemas.LoginSecret) -> schemas.LoginToken:
    """Returns the token of a sign-in, once; null while nobody has typed the code."""
    _check_login(here, request)
    token = here.devices.take(body.secret)
    response.headers["Cache-Control"] = "no-store"
    return schemas.LoginToken(token=token)


ProjectName = Annotated[SavedName, Path()]


@router.get("/projects")
def projects(here: Here, person: Viewer) -> list[schemas.ProjectView]:
    """Returns the projects that the person is a member of; all for an admin."""
    return here.sharing.all(person)


@router.post("/projects", status_code=201)
def create(here: Here, person: Admin, body: schemas.ProjectRequest) -> schemas.ProjectView:
    """Makes a project without members."""
    here.projects.create(body.name, body.group, person.owner)
    return here.sharing.view(here.sharing.get(person, body.name))


@router.get("/projects/{project}")
def project(here: Here, person: Viewer, project: ProjectName) -> schemas.ProjectView:
    """Returns a project with its members, its quota and its use."""
    return here.sharing.view(here.sharing.get(person, project))


@router.delete("/projects/{project}", status_code=204)
def remove_project(here: Here, person: Admin, project: ProjectName) -> None:
    """Removes a project whose jobs have ended, and that has no models."""
    here.projects.remove(here.sharing.get(person, project).name, person.owner)


@router.put("/projects/{project}/quota", status_code=204)
def set_project_quota(here: Here, person: Admin, project: ProjectName, body: schemas.QuotaRequest) -> None:
    """Sets a project's quota for all of its jobs together."""
    here.sharing.set_quota(person, project, body)


@router.put("/projects/{project}/members/{owner}", status_code=204)
def enter(here: Here, person: Submitter, project: ProjectName, owner: Name, body: schemas.MemberRequest) -> None:
    """Makes somebody a member, or changes their role; for maintainers and admins."""
    here.sharing.enter(person, project, owner, body.role)


@router.delete("/projects/{project}/members/{owner}", status_code=204)
def leave(here: Here, person: Submitter, project: ProjectName, owner: Name) -> None:
    """Ends a membership; for maintainers, admins and the member."""
    here.sharing.leave(person, project, owner)


@router.get("/models")
def owned(here: Here, person: Viewer) -> list[schemas.ModelView]:
    """Returns the owners of registered models, people or projects; only an admin sees all of them."""
    names = here.loop.intake.ownership.names.all()
    return [schemas.ModelView.model_validate(name) for name in names if person.sees(name.owner)]


@router.put("/models/{name}", status_code=204)
def give(here: Here, person: Submitter, name: Name, body: schemas.ModelRequest) -> None:
    """Gives a registered model to an owner, or to a project; who is no admin gives their own to their projects."""
    ownership = here.loop.intake.ownership
    here.sharing.check_gift(person, ownership.names.owner(name), body)
    ownership.give(name, account_of(body.owner, body.project), person.owner)


@router.put("/places", status_code=204)
def give_place(here: Here, person: Submitter, body: schemas.PlaceRequest) -> None:
    """Gives shards or a run to an owner, or to a project; who is no admin gives their own to their projects."""
    places, path = here.loop.intake.places, (here.home / body.place).resolve()
    inside = path.is_dir() and any(here.home.joinpath(kind).resolve() in path.parents for kind in ("shards", "runs"))
    here.sharing.check_gift(person, places.owner(str(path)) if inside else None, body)
    if not inside:
        raise UserError(f"{body.place}: there is no such folder in the service's home")
    places.give(str(path), account_of(body.owner, body.project), person.owner)


@router.get("/bill")
def bill(here: Here, person: Viewer, owner: Owner | None = None) -> list[schemas.BillRow]:
    """Returns the tokens and seconds lost, by cause, job and owner."""
    return here.operations.bill(person, owner)


@router.get("/quotas")
def all_quotas(here: Here, person: Viewer) -> list[schemas.QuotaView]:
    """Returns the quotas of owners and projects; who is no admin sees their own and those of their projects."""
    quotas = sorted((owner, row) for owner, row in here.access.quotas().items() if person.sees(owner))
    return [schemas.QuotaView(owner=owner, **quota._asdict()) for owner, quota in quotas]


@router.put("/quotas/{owner}", status_code=204)
def set_quota(here: Here, person: Admin, owner: Name, body: schemas.QuotaRequest) -> None:
    """Sets an owner's quota for all jobs together."""
    here.access.set_quota(owner, body.cpus, body.gpus, person.owner, body.jobs)


@router.get("/retention")
def retention(here: Here, person: Viewer, query: Annotated[schemas.RetentionQuery, Query()]) -> schemas.RetentionView:
    """Returns the jobs that `service.keep`, or other rules, would delete now. Nothing is deleted."""
    rules = query.rules(here.config.keep)
    due = [expired for expired in here.retention.due(rules) if person.sees_job(expired.job)]
    going = [expired for expired in due if not expired.stays]
    jobs = [schemas.Expired.of(expired) for expired in going[: query.limit]]
    return schemas.RetentionView(rules=rules, jobs=jobs, total=len(going), stay=summary(due))


@router.get("/audit")
def audit(here: Here, person: Viewer, query: Annotated[AuditQuery, Query()]) -> schemas.AuditPage:
    """Returns changes that were asked for and refusals, newest first; of everybody only for an admin."""
    rows = here.operations.audit_rows(person, query, query.cursor, query.limit)
    more = rows[-1].id if len(rows) == query.limit else None
    return schemas.AuditPage(rows=[schemas.AuditView.model_validate(row) for row in rows], next=more)
