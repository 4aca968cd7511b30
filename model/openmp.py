"""How long the threads of OpenMP spin for each other before they sleep.

libgomp (torch, CTranslate2, scikit-learn and SentencePiece each bring one) lets a thread that waits at the end of a
parallel region spin for some 300,000 rounds, ten milliseconds or more. On an idle machine that is the fastest way to
wait. Where another process holds the core of the thread that is waited for, the waiting thread spins away its own core,
at every region: a step of two threads then takes up to a hundred times as long. A short spin bridges the gaps between
the operations of a step, and gives the core away where the other thread does not come.

libgomp reads its variables once, when it is loaded, so they are set when this package is imported, which every process
of ours does before it imports torch. Children inherit them. Figures: docs/speed.md.
"""

import os
from collections.abc import MutableMapping

SPINS = "GOMP_SPINCOUNT"
CHOICES = (SPINS, "OMP_WAIT_POLICY")  # a user who sets one of them has chosen
ROUNDS = "1000"  # twenty to fifty microseconds


def limit_spinning(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have OpenMP's threads spin for ROUNDS only, unless the environment says something else already."""
    if not any(name in environment for name in CHOICES):
        environment[SPINS] = ROUNDS
