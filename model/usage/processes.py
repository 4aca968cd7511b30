"""Adds up what the processes of a job use, also those that have ended.

The processes are this one with all below it, and those that bear the job's variables, wherever Ray has put them. Linux
adds what a process used to its parent's count when the parent waits for it; of other processes that end, the count of
the last look is kept here.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import psutil

SETTLED = 60.0  # seconds after its start in which a process may still become one of a job's


class Count(NamedTuple):
    """Seconds of processors, and bytes read from and written to disks; ended children that were waited for included."""

    cpu: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def plus(self, other: "Count", sign: int = 1) -> "Count":
        return Count(*(value + sign * more for value, more in zip(self, other, strict=True)))


@dataclass(frozen=True)
class ProcessUse:
    """A process at a look."""

    parent: int
    count: Count
    memory: int  # resident, in bytes


@dataclass(frozen=True)
class Use:
    """The use of all processes until now, and the memory that they hold."""

    count: Count
    memory: int
    pids: frozenset[int]


class Processes:
    """The processes with these variables on this machine, and all below this process."""

    def __init__(self, marks: Mapping[str, str]) -> None:
        self.marks = marks
        self._last: dict[psutil.Process, ProcessUse] = {}
        self._others: set[psutil.Process] = set()  # processes that are not the job's
        self._ended = Count()

    def look(self) -> Use:
        seen = {process: sight for process in self._find() if (sight := self._see(process)) is not None}
        self._keep_ended(seen)
        self._last = seen
        count = self._ended
        for sight in seen.values():
            count = count.plus(sight.count)
        return Use(count, sum(sight.memory for sight in seen.values()), frozenset(sight.pid for sight in seen))

    def _find(self) -> set[psutil.Process]:
        me = psutil.Process()
        every = set(psutil.process_iter())
        self._others &= every
        return {
            me,
            *me.children(recursive=True),
            *(process for process in every - self._others if self._is_marked(process)),
        }

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            variables = process.environ()
            young = time.time() - process.create_time() < SETTLED
        except psutil.Error:  # of another user, or gone
            variables, young = {}, False
        marked = bool(self.marks) and self.marks.items() <= variables.items()
        if not marked and not young:
            self._others.add(process)
        return marked

    def _see(self, process: psutil.Process) -> ProcessUse | None:
        try:
            with process.oneshot():
                times, disk = process.cpu_times(), process.io_counters()
                cpu = times.user + times.system + times.children_user + times.children_system
                count = Count(cpu, disk.read_bytes, disk.write_bytes)
                return ProcessUse(process.ppid(), count, process.memory_info().rss)
        except (psutil.ZombieProcess, psutil.AccessDenied):  # it has ended, and its parent has not been told
            return self._last.get(process)
        except psutil.NoSuchProcess:
            return None

    def _keep_ended(self, seen: Mapping[psutil.Process, ProcessUse]) -> None:
        """Keeps the counts of ended processes that no living ancestor has got."""
        by_pid = {process.pid: process for process in self._last}
        lost: dict[psutil.Process | None, Count] = {}
        for process in self._last.keys() - seen.keys():
            heir: psutil.Process | None = process
            while heir is not None and heir not in seen:
                heir = by_pid.get(self._last[heir].parent)
            lost[heir] = lost.get(heir, Count()).plus(self._last[process].count)
        for heir, count in lost.items():
            got = seen[heir].count.plus(self._last[heir].count, -1) if heir is not None else Count()
            self._ended = self._ended.plus(Count(*(max(0.0, value) for value in count.plus(got, -1))))


def own_marks() -> dict[str, str]:
    """Returns the variables that the processes of this process's attempt have; empty: no job service started it."""
    names = ("DRAGOMAN_JOB", "DRAGOMAN_ATTEMPT")
    marks = {name: os.environ[name] for name in names if name in os.environ}
    return marks if len(marks) == len(names) else {}
