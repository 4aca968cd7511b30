"""Both ends of the bridge between a command and its first rank on another node: the files of a run that cross it."""

import secrets
from functools import partial
from pathlib import Path

from dragoman.model.runs.paths import ATTEMPT, BEHIND, PAUSE, PRECISION, RAY, STARTS, STEPS
from dragoman.model.storage.mirror import remote_of
from dragoman.pipelines.cluster.bridge import BridgeEnds, Have, Piece, new_pieces
from dragoman.pipelines.config import Config, PathsConfig
from dragoman.pipelines.training import stopping

FILES = (STEPS, STARTS, ATTEMPT, PRECISION)  # files of the first rank that the command follows


def ends_of(config: Config) -> BridgeEnds:
    """Returns the ends for a run. A mark in its folder tells the first rank whether it works in that very folder."""
    run = config.run_dir
    mark = run / RAY / f"command-{secrets.token_hex(8)}"
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    there = (config.paths, config.name, mark.name)
    return BridgeEnds(
        begin=partial(_begin, *there),
        ask=partial(_ask, *there),
        pause=partial(_pause, *there),
        tell=partial(_tell, *there),
        asked=partial(stopping.request_text, run),
        stop=partial(_stop, run),
        files={name: run / name for name in FILES} if remote_of(run) is not None else {},
    )


def _folder(paths: PathsConfig, name: str) -> Path:
    here = paths.on_node()
    return here.local(here.runs) / name


def _own(paths: PathsConfig, name: str, mark: str) -> bool:
    """Returns True if the first rank's folder is the command's."""
    return (_folder(paths, name) / RAY / mark).exists()


def _begin(paths: PathsConfig, name: str, mark: str) -> None:
    run = _folder(paths, name)
    (run / PAUSE).unlink(missing_ok=True)
    if not _own(paths, name, mark):
        stopping.forget(run)
        run.mkdir(parents=True, exist_ok=True)
        (run / BEHIND).touch()  # the files here may be old until the rank has fetched the rest


def _ask(paths: PathsConfig, name: str, mark: str, text: str) -> None:
    if not _own(paths, name, mark):
        code, _, reason = text.partition("\n")
        stopping.request_stop(_folder(paths, name), int(code), reason)


def _pause(paths: PathsConfig, name: str, mark: str) -> None:
    stopping.request_pause(_folder(paths, name))


def _tell(paths: PathsConfig, name: str, mark: str, have: Have) -> dict[str, Piece]:
    run = _folder(paths, name)
    behind = (run / BEHIND).exists()
    return {} if behind or _own(paths, name, mark) else new_pieces(run, have, FILES)


def _stop(run: Path, reason: str) -> None:
    stopping.request_stop(run, stopping.YIELDED, reason)
