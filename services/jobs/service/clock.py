"""A clock that nobody sets: the wall's time when the service started, and the monotonic seconds since then."""

import time


class SteadyClock:
    """Seconds since 1970; where the machine's clock jumps this one does not, so no job is ended for it."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._offset + time.monotonic()
