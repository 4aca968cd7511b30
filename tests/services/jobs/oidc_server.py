"""An OpenID Connect issuer on this machine: discovery, keys that are made on the spot, codes with PKCE, tokens.

`spoil` names what it does wrong.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "dragoman", "the client's secret"


class Issuer:
    """`person` holds the claims of whoever signs in next."""

    def __init__(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.issuer = self  # type: ignore[attr-defined]  # the handler reads it
        self.port = self.server.server_address[1]
        self.name = f"http://127.0.0.1:{self.port}/realms/team"
        self.person: dict[str, Any] = {}
        self.spoil = ""
        self.asked: list[str] = []  # paths
        self.codes: dict[str, dict[str, str]] = {}  # what each code was asked with
        self.keys: list[RSAKey] = []
        self.rotate()
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def rotate(self) -> None:
        """A new key alone is valid from now on."""
        self.keys = [RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"})]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def token(self, key: RSAKey | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A signed ID token; a claim that is None is left out."""
        signer, now = key or self.keys[0], int(time.time())
        found = {"iss": self.name, "aud": CLIENT, "iat": now, "exp": now + 300, **self.person, **claims}
        found = {name: value for name, value in found.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": signer.kid, **(header or {})}, found, signer)

    def answer_code(self, sent: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(sent.get("code", ""), None)
        if asked is None or sent["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "the code <b>is</b> used up"}
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        nonce = "another" if self.spoil == "nonce" else None if self.spoil == "no nonce" else asked["nonce"]
        more = {"wrong audience": {"aud": "another"}, "expired": {"exp": int(time.time()) - 999}}.get(self.spoil, {})
        more |= {"issuer": {"iss": "http://127.0.0.1:1"}, "azp": {"azp": "another"}}.get(self.spoil, {})
        more |= {"at_hash": {"at_hash": "AAAA"}, "future": {"iat": int(time.time()) + 999}}.get(self.spoil, {})
        token = self.token(**{"nonce": nonce, **more})
        if self.spoil == "unsigned":
            token = token.rpartition(".")[0] + "."
        if self.spoil == "none":
            token = unsigned(token)
        if self.spoil == "other key":
            token = self.token(RSAKey.generate_key(2048, {"kid": self.keys[0].kid}), nonce=nonce)
        return 200, {"access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "id_token": token}


def unsigned(token: str) -> str:
    """The same claims with `alg: none`."""
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    return f"{header}.{token.split('.')[1]}."


class Handler(BaseHTTPRequestHandler):
    """Answers as the issuer."""

    def do_GET(self) -> None:
        issuer: Issuer = self.server.issuer  # type: ignore[attr-defined]
        parts = urlsplit(self.path)
        issuer.asked.append(parts.path)
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        base = issuer.name
        match parts.path.removeprefix("/realms/team"):
            case "/.well-known/openid-configuration":
                found = {"issuer": base, "authorization_endpoint": f"{base}/auth", "token_endpoint": f"{base}/token"}
                found |= {"jwks_uri": f"{base}/keys", "userinfo_endpoint": f"{base}/me"}
                found |= {"issuer": f"{base}/other"} if issuer.spoil == "metadata" else {}
                self.answer(500 if issuer.spoil == "down" else 200, found)
            case "/keys":
                self.answer(200, KeySet(issuer.keys).as_dict())
            case "/me":
                self.answer(200, {**issuer.person, "sub": "x" if issuer.spoil == "userinfo" else issuer.person["sub"]})
            case "/auth":
                assert asked["code_challenge_method"] == "S256" and asked["response_type"] == "code"
                code = secrets.token_hex(8)
                issuer.codes[code] = asked
                query = urlencode({"code": code, "state": asked["state"], "iss": base})
                self.send_response(302)
                self.send_header("Location", f"{asked['redirect_uri']}?{query}")
                self.end_headers()
            case _:
                self.answer(404, {})

    def do_POST(self) -> None:
        issuer: Issuer = self.server.issuer  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        login = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if login != f"{CLIENT}:{SECRET}":
            self.answer(401, {"error": "invalid_client"})
            return
        self.answer(*issuer.answer_code({key: values[0] for key, values in parse_qs(body).items()}))

    def answer(self, code: int, found: Any) -> None:
        body = json.dumps(found).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
