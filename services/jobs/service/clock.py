"""A clock that nothing can set: the wall time at the service's start plus the monotonic seconds since then."""

import time


class SteadyClock:
    """Seconds since 1970; it does not jump with the machine's clock, so a jump ends no job."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._offset + time.monotonic()
