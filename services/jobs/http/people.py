"""People: who asks, tokens, quotas."""

from fastapi import APIRouter

from dragoman.services.jobs.http.parts import Admin, Here, Name, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import people_schemas as schemas

router = APIRouter(prefix="/v1", responses=PROBLEMS)


@router.get("/me")
def me(here: Here, person: Viewer) -> schemas.MeView:
    """Returns who asks, and their role."""
    return schemas.MeView(owner=person.owner, role=person.role, teams=sorted(person.teams))


@router.get("/tokens")
def tokens(here: Here, person: Viewer) -> list[schemas.TokenView]:
    """Returns names, owners, roles and ends of tokens, never the tokens themselves; who is no admin sees their own."""
    owners = () if person.may("admin") else person.owners
    return [schemas.TokenView.model_validate(token) for token in here.access.tokens(*owners)]


@router.post("/tokens", status_code=201)
def issue(here: Here, person: Admin, body: schemas.TokenRequest) -> schemas.IssuedToken:
    """Issues a new token, which is shown only once."""
    return schemas.IssuedToken(token=here.access.issue(body.name, body.owner, body.role, person.owner, body.ends))


@router.post("/tokens/{name}/rotate")
def rotate(here: Here, person: Admin, name: Name) -> schemas.IssuedToken:
    """Replaces a token by a new one, which is shown only once."""
    return schemas.IssuedToken(token=here.access.rotate(name, person.owner))


@router.delete("/tokens/{name}", status_code=204)
def revoke(here: Here, person: Admin, name: Name) -> None:
    """Revokes a token."""
    here.access.revoke(name, person.owner)


@router.get("/quotas")
def all_quotas(here: Here, person: Viewer) -> list[schemas.QuotaView]:
    """Returns the quotas of owners; who is no admin sees their own."""
    quotas = sorted((owner, row) for owner, row in here.access.quotas().items() if person.sees(owner))
    return [schemas.QuotaView(owner=owner, **quota._asdict()) for owner, quota in quotas]


@router.put("/quotas/{owner}", status_code=204)
def set_quota(here: Here, person: Admin, owner: Name, body: schemas.QuotaRequest) -> None:
    """Sets an owner's quota for all jobs together."""
    here.access.set_quota(owner, body.cpus, body.gpus, person.owner, body.jobs)
