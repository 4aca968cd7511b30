"""Checks the chain of a run's records: a changed, removed or added line does not fit the stored heads.

`model/runs/journal.py` writes it. Whoever changes a line must write every later one again, then the checkpoints, the
bundle and the evaluations with the head; and then the bundle differs from the registry's.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.model.bundles.directory import read_facts
from dragoman.model.files import file_sha256
from dragoman.model.plural import plural
from dragoman.model.runs import attempts, checkpoints, journal, paths
from dragoman.model.runs.bundles import is_released
from dragoman.model.untrusted import read_json
from dragoman.pipelines.training.verification import DifferenceError, NotRecordedError, check, read_lines

CHAINS = (paths.STEPS, paths.STARTS, paths.SAVED, paths.EVALUATIONS, paths.OPENINGS)


def is_chained(run: Path) -> bool:
    """Returns True if anything of the run belongs to a chain: then everything after it must."""
    lines = (line for name in CHAINS[:2] for _, line in read_lines(run / name))
    return any(journal.BEFORE in line for line in lines) or any(named for _, named in named_heads(run))


def is_whole(run: Path) -> bool:
    """Returns True if the journal is a chain from its first line: then everything must be recorded."""
    first = next(iter(read_lines(run / paths.STEPS)), None)
    return first is not None and journal.BEFORE in first[1]


def named_heads(run: Path) -> Iterator[tuple[str, Mapping[str, str] | None]]:
    """Yields every file that stores heads of the chains, with the heads; None if it stores none."""
    for path in checkpoints.every(run).values():
        yield str(path), checkpoints.state(path).get("records")
    if is_released(run):
        yield str(run / paths.BUNDLE), read_facts(run / paths.BUNDLE).get("records")
    for path in paths.evaluations(run):
        yield str(path), (read_json(path) or {}).get("run_records")


@check("records")
def check_records(run: Path) -> str:
    """Checks the chains: each line names the one before, and every checkpoint, bundle and evaluation names a line."""
    if not is_chained(run):
        raise NotRecordedError("no chain: the run is from before there was one")
    heads, since = {}, {}
    for name in CHAINS:
        heads[name], since[name] = follow(run, name)
    _check_heads(run, heads, since[paths.STEPS])
    for number, start in read_lines(run / paths.STARTS):
        if journal.BEFORE in start and start["journal"] not in heads[paths.STEPS]:
            raise DifferenceError(f"{paths.STARTS}, line {number}: its start saw a journal that is not this one")
        if journal.BEFORE in start:
            _check_origin(run, number, start)
    _check_saved(run)
    _check_beginning(run)
    _check_evaluations(run)
    lines, first = len(heads[paths.STEPS]) - 1, since[paths.STEPS]
    before = f", from line {first} on: what comes before has no chain" if first > 1 else ""
    return f"a chain of {plural(lines, 'line')}, head {journal.head(run, paths.STEPS)[:12]}{before}"


def follow(run: Path, name: str) -> tuple[set[str], int]:
    """Returns the digest of every line and of the first link, and the number of the first line with a link.

    Raises DifferenceError: the chain is broken; names the line.
    """
    digests, before, since = [journal.first_link(run)], journal.first_link(run), 0
    for number, line in read_lines(run / name):
        linked = line.get(journal.BEFORE)
        if linked is None and since:
            raise DifferenceError(f"{name}, line {number}: the digest of the line before is missing")
        if linked is not None and linked != before:
            wrong = f"line {number - 1} was changed" if number > 1 else "run.json was changed"
            raise DifferenceError(f"{name}, line {number}: follows another line: {wrong}, or one is missing")
        since = since or (number if linked is not None else 0)
        before = journal.digest(line)
        digests.append(before)
    return set(digests), since


def _check_heads(run: Path, heads_of: Mapping[str, set[str]], since: int) -> None:
    """Raises DifferenceError if something lacks its head though there is a chain, or has an unknown one."""
    whole = since < 2  # otherwise a later start began it, and older lines have none
    for what, heads in named_heads(run):
        if not heads and whole:
            raise DifferenceError(f"{what}: names no head of the run's records")
        if not heads:
            continue
        if heads["journal"] not in heads_of[paths.STEPS]:
            raise DifferenceError(f"{what}: was made from other records than {paths.STEPS} holds")
        if heads["starts"] not in heads_of[paths.STARTS]:
            raise DifferenceError(f"{what}: was made from other records than {paths.STARTS} holds")
        if heads.get("saved", journal.first_link(run)) not in heads_of[paths.SAVED]:
            raise DifferenceError(f"{what}: was made from other records than {paths.SAVED} holds")
    for step, path in checkpoints.every(run).items():
        heads = checkpoints.state(path).get("records")
        last = next((line for _, line in reversed(read_lines(run / paths.STEPS)) if line["step"] <= step), None)
        if heads and (journal.first_link(run) if last is None else journal.digest(last)) != heads["journal"]:
            raise DifferenceError(f"{path}: was made from other records than {paths.STEPS} holds up to step {step:,}")


def _check_origin(run: Path, number: int, start: Mapping[str, Any]) -> None:
    """Raises DifferenceError if the checkpoint that a start resumed from exists and differs."""
    if start["step"] and not start["checkpoint"]:
        raise DifferenceError(f"{paths.STARTS}, line {number}: from step {start['step']:,}, but from no checkpoint")
    path = checkpoints.every(run).get(int(start["step"]))
    if path and start["checkpoint"] and file_sha256(path / checkpoints.MANIFEST) != start["checkpoint"]:
        raise DifferenceError(f"{path}: is not the checkpoint that attempt {start['attempt']} went on from")


def _check_saved(run: Path) -> None:
    """Raises DifferenceError if a checkpoint, with the optimizer's state in it, is not the one that was saved last.

    A kill may come between a checkpoint and its line; then the next start names it, and the newest may lack both. A run
    from before there were such lines that went on has older checkpoints, whose heads know none."""
    if not (run / paths.SAVED).is_file():  # a run from before there was this chain
        return
    saved = {int(line["step"]): line["manifest"] for _, line in read_lines(run / paths.SAVED)}
    resumed = {int(line["step"]): line["checkpoint"] for _, line in read_lines(run / paths.STARTS)}
    by_step = checkpoints.every(run)
    for step, path in by_step.items():
        unnamed = step not in saved and step not in resumed
        heads = checkpoints.state(path).get("records") or {}
        older = step < min(min(saved, default=0), max(resumed, default=0)) and "saved" not in heads
        if unnamed and (older or (step == max(by_step) and not is_released(run))):
            continue
        if file_sha256(path / checkpoints.MANIFEST) not in (saved.get(step), resumed.get(step)):
            raise DifferenceError(f"{path}: is not the checkpoint that was saved; {paths.SAVED} knows another")


def _check_beginning(run: Path) -> None:
    """Raises DifferenceError if the run begins from other files than at its last start."""
    recorded = [start["beginning"] for _, start in read_lines(run / paths.STARTS) if "beginning" in start]
    first = attempts.beginning(run)
    for name in sorted({*first, *recorded[-1]}) if recorded else ():
        if first.get(name) != recorded[-1].get(name):
            raise DifferenceError(f"{run / name}: is not what the run's last start began from")


def _check_evaluations(run: Path) -> None:
    """Raises DifferenceError if an evaluation is not the one written last."""
    written = {line["file"]: line["sha256"] for _, line in read_lines(run / paths.EVALUATIONS)}
    there = {path.name: path for path in paths.evaluations(run)}
    for name, path in there.items():
        if name not in written:
            raise DifferenceError(f"{path}: {paths.EVALUATIONS} does not know it")
        if file_sha256(path) != written[name]:
            raise DifferenceError(f"{path}: was changed after it was written")
    for name in written.keys() - there.keys():
        raise DifferenceError(f"{run / name}: is missing, and {paths.EVALUATIONS} knows it")
