"""Limits how long OpenMP's threads spin before they sleep.

libgomp (torch, CTranslate2, scikit-learn and SentencePiece each bring one) lets a thread that waits at the end of a
parallel region spin for some 300,000 rounds, ten milliseconds or more. On an idle machine this is the fastest way to
wait. But if another process holds the core of the late thread, the waiting thread burns its own core in every region,
and a step of two threads takes up to a hundred times as long. A short spin covers the gaps between the operations of a
step, and gives the core away when the other thread does not come.

libgomp reads its variables once, when it is loaded. So importing this package sets them, and each of our processes
imports it before torch. Child processes inherit them. Figures: docs/speed.md.
"""

import os
from collections.abc import MutableMapping

SPINS = "GOMP_SPINCOUNT"
CHOICES = (SPINS, "OMP_WAIT_POLICY")  # if the user sets either, it is left alone
ROUNDS = "1000"  # twenty to fifty microseconds


def limit_spinning(environment: MutableMapping[str, str] = os.environ) -> None:
    """Makes OpenMP's threads spin for ROUNDS only, unless the environment sets a policy already."""
    if not any(name in environment for name in CHOICES):
        environment[SPINS] = ROUNDS
