"""Presets: submissions that a person keeps under a name, to submit them again."""

from typing import Annotated

from fastapi import APIRouter, Path

from dragoman.services.jobs.http.parts import Here, Submitter, Viewer
from dragoman.services.jobs.http.problems import PROBLEMS
from dragoman.services.jobs.service import schemas

router = APIRouter(prefix="/v1/presets", responses=PROBLEMS)
Preset = Annotated[schemas.SavedName, Path()]


@router.get("")
def presets(here: Here, person: Viewer) -> list[schemas.PresetView]:
    """Returns the person's own presets by name."""
    return [schemas.PresetView.of(one) for one in here.operations.presets.all(person.owner)]


@router.put("/{preset}")
def keep(here: Here, person: Submitter, preset: Preset, body: schemas.PresetRequest) -> schemas.PresetView:
    """Keeps a submission, in the place of one of the same name; its words are checked, and planned when it is used."""
    return schemas.PresetView.of(here.operations.keep(person, preset, body))


@router.delete("/{preset}", status_code=204)
def remove(here: Here, person: Submitter, preset: Preset) -> None:
    """Removes a preset."""
    here.operations.presets.remove(person.owner, preset)
