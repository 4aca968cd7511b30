"""Linux' Landlock: a thread gives up the right to open files, for itself and everything it starts.

The kernel's documentation is https://docs.kernel.org/userspace-api/landlock.html. The C library has no functions for
it, so we call it by system call number, which is the same on every processor.
"""

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls
VERSION_FLAG, PATH_BENEATH, NO_NEW_PRIVILEGES = 1, 1, 38
LEAST = 2  # the version (Linux 5.19) from which a file may be renamed into another folder

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM, REFER, TRUNCATE = 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14
READ = EXECUTE | READ_FILE | READ_DIR
MAKE = WRITE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | REFER | TRUNCATE | REMOVE_DIR | REMOVE_FILE
ALL = READ | MAKE | MAKE_CHAR | MAKE_BLOCK
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE  # rights that a rule for a single file may have


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """Returns the kernel's version of Landlock; 0 if it has none that is usable."""
    if sys.platform != "linux":
        return 0
    abi: int = ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_FLAG)
    return abi if abi >= LEAST else 0


def restrict(rules: Iterable[tuple[Path, int]]) -> None:
    """Restricts this thread, and every process and thread that it starts, to the files that `rules` allow.

    A rule is a path and the rights on it and everything below; missing paths are ignored. It cannot be undone.

    Raises OSError: the kernel has no Landlock, or refuses.
    """
    available = version()
    handled = ALL if available >= 3 else ALL & ~TRUNCATE
    library = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: object) -> int:
        result: int = library.syscall(number, *arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"Landlock: {os.strerror(code)}")
        return result

    attributes = _Ruleset(handled)
    ruleset = call(CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)), 0)
    try:
        for path, rights in rules:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                kept = rights & handled & (ALL if path.is_dir() else OF_FILES)
                rule = _PathBeneath(kept, place)
                call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
            finally:
                os.close(place)
        if library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "Landlock: new privileges cannot be given up")
        call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
