"""Who is at work, as records name them."""

import getpass
import os
import socket


def user() -> str:
    """The login name; the number of a container's user that has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def user_and_machine() -> str:
    """`user@machine`."""
    return f"{user()}@{socket.gethostname()}"
