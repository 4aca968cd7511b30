"""An HTTP server and a mail server on the loopback interface, which keep what they receive."""

import base64
import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = b"a key of twenty-four byte"  # signs webhooks


def write_key(folder: Path) -> Path:
    """Writes the file that service.notify.secret names."""
    path = folder / "key"
    path.write_text(f"whsec_{base64.b64encode(KEY).decode()}\n")
    return path


@dataclass
class Received:
    """The requests that the servers received, and the statuses that they answer with first."""

    posts: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    mails: list[tuple[str, str]] = field(default_factory=list)  # receiver, text
    answers: list[int] = field(default_factory=list)
    http: int = 0  # ports
    smtp: int = 0


@contextmanager
def receiving() -> Iterator[Received]:
    """Runs both servers until the block ends."""
    found = Received()

    class Http(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.posts.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            self.send_response(found.answers.pop(0) if found.answers else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    class Smtp(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            to, say = "", lambda text: self.wfile.write(f"{text}\r\n".encode())
            say("220 here")
            while line := self.rfile.readline().decode().strip():
                word = line.split(":")[0].upper()
                if word == "RCPT TO":
                    to = line.partition("<")[2].rstrip(">")
                    say("550 nobody" if to.startswith("nobody") else "250 ok")
                elif word == "DATA":
                    say("354 go on")
                    lines = iter(lambda: self.rfile.readline().decode(), ".\r\n")
                    found.mails.append((to, "".join(lines)))
                    say("250 ok")
                else:
                    say("221 bye" if word == "QUIT" else "250 ok")

    with ExitStack() as stack:
        for kind, handler in ((ThreadingHTTPServer, Http), (socketserver.ThreadingTCPServer, Smtp)):
            server: Any = stack.enter_context(kind(("127.0.0.1", 0), handler))  # type: ignore[operator]  # of both
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            setattr(found, "http" if handler is Http else "smtp", server.server_address[1])
        yield found
