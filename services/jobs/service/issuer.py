"""An OpenID Connect issuer: its addresses and keys, a sign-in by code with PKCE, and the tokens that it has signed.

OpenID Connect Core 1.0 and Discovery 1.0; PKCE: RFC 7636; the issuer in the answer against mix-up: RFC 9207.
"""

import hmac
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import requests
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.claims import JWTClaims
from authlib.oidc.core import CodeIDToken, IDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from dragoman.model.errors import ServiceError, UserError
from dragoman.services.jobs.oidc_settings import OidcConfig, check_web_address

KEPT = 3600.0  # seconds that addresses and keys are kept
AGAIN = 30.0  # seconds between two attempts to get them: unknown keys and a dead issuer bring no flood
TIMEOUT = 10.0  # seconds for one request to the issuer
TURN = 2.0  # seconds that a request waits for another's first attempt; a dead issuer keeps one request, not all
# Signatures by a private key. `none` needs no key, and with HS256 the public key would be the secret.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
TYPES = ("", "jwt", "at+jwt", "application/at+jwt")  # a token for logging out is none for logging in
NEEDED = ("iss", "sub", "aud", "exp", "iat")  # claims of a token
logger = logging.getLogger(__name__)


class RejectedError(Exception):
    """A token or an answer of the issuer that is not accepted; the message does not hold it."""


@dataclass(frozen=True)
class Pending:
    """A sign-in that a browser has begun; the browser keeps it, signed by the service."""

    state: str
    nonce: str
    verifier: str

    def plain(self) -> dict[str, str]:
        return asdict(self)


class Issuer:
    """One issuer, with this service as its client."""

    def __init__(self, config: OidcConfig, secret: str | None, redirect: str, now: Callable[[], float]) -> None:
        """`redirect` is the address that people come back to; `now` is the clock."""
        self.config, self.redirect, self._secret, self._now = config, redirect, secret, now
        self.name = str(config.issuer)
        self.trouble: str | None = None  # why the issuer did not answer lately
        self._lock = threading.Lock()
        self._metadata: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._read = self._tried = float("-inf")  # times of the last success and of the last attempt

    def prepare(self) -> None:
        """Reads addresses and keys in the background."""
        threading.Thread(target=self._refresh, name="issuer", daemon=True).start()

    def begin(self) -> tuple[str, Pending]:
        """Returns the issuer's address to send a browser to, and what its answer is checked against.

        Raises:
            ServiceError: the issuer does not answer.
        """
        pending = Pending(*(secrets.token_urlsafe(32) for _ in range(3)))
        with self._client() as client:
            address, _ = client.create_authorization_url(
                self._address("authorization_endpoint"),
                **{"state": pending.state, "nonce": pending.nonce, "code_verifier": pending.verifier},
            )
        return address, pending

    def finish(self, pending: Pending, answer: Mapping[str, str]) -> dict[str, Any]:
        """Returns the verified claims of who signed in; `answer` is the query that the browser came back with.

        Raises:
            RejectedError: the answer is another's, or the issuer refuses the code.
            ServiceError: the issuer does not answer.
        """
        if not hmac.compare_digest(answer.get("state", "").encode(), pending.state.encode()):
            raise RejectedError("this sign-in was begun elsewhere")
        supports = self._known().get("authorization_response_iss_parameter_supported") is True
        if ("iss" in answer or supports) and answer.get("iss") != self.name:
            raise RejectedError("the answer is another issuer's")
        if "error" in answer or not answer.get("code"):
            raise RejectedError("the issuer did not let you in")
        try:
            with self._client() as client:
                sent = {"grant_type": "authorization_code", "code": answer["code"], "code_verifier": pending.verifier}
                token = client.fetch_token(self._address("token_endpoint"), **sent, allow_redirects=False)
        except (AuthlibBaseError, ValueError) as problem:  # requests' errors of JSON are ValueErrors too
            logger.info("the issuer refuses a code: %s", type(problem).__name__)
            raise RejectedError("the issuer refuses this sign-in; begin again") from None
        except requests.RequestException as problem:
            raise self._away(problem) from None
        params = {"nonce": pending.nonce, "client_id": self.config.client_id, "access_token": token.get("access_token")}
        claims = self._claims(CodeIDToken, str(token.get("id_token", "")), self.config.client_id, params)
        missing = [key for key in (self.config.owner, self.config.groups.partition(".")[0]) if key not in claims]
        return (
            {**self._userinfo(str(token.get("access_token", "")), claims["sub"]), **claims} if missing else dict(claims)
        )

    def verify(self, token: str) -> dict[str, Any]:
        """Returns the claims of an ID token for this client, or of an access token for `audience`.

        Raises:
            RejectedError: it is neither, another issuer's, expired or not signed.
            ServiceError: the issuer's keys are not known, and it does not answer.
        """
        try:
            return dict(self._claims(IDToken, token, self.config.client_id, {"client_id": self.config.client_id}))
        except RejectedError:
            if self.config.audience is None:
                raise
        return dict(self._claims(JWTClaims, token, self.config.audience, {}))

    def _claims(self, kind: type[JWTClaims], token: str, audience: str | None, params: dict[str, Any]) -> JWTClaims:
        try:
            found = self._decode(token)
            if str(found.header.get("typ", "")).lower() not in TYPES or "events" in found.claims:
                raise RejectedError("the token is not for signing in")
            options: dict[str, Any] = {name: {"essential": True} for name in NEEDED}
            options["iss"]["values"], options["aud"]["values"] = [self.name], [audience]
            claims = kind(found.claims, found.header, options, params)
            claims.validate(int(self._now()), self.config.skew)
        except (JoseError, ValueError, TypeError, KeyError) as problem:
            raise RejectedError(
                f"the token is not accepted: {getattr(problem, 'error', '') or type(problem).__name__}"
            ) from None
        return claims

    def _decode(self, token: str) -> jwt.Token:
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        self._known()
        try:
            return jwt.decode(token, self._key_set(), registry=registry)
        except InvalidKeyIdError:  # the issuer may have new keys
            if not self._refresh():
                raise
            return jwt.decode(token, self._key_set(), registry=registry)

    def _userinfo(self, access_token: str, subject: str) -> dict[str, Any]:
        """Returns the claims that the issuer tells apart from the ID token; none where it tells none."""
        address = self._known().get("userinfo_endpoint")
        if not address or not access_token:
            return {}
        found = self._get(self._checked("userinfo_endpoint", address), {"Authorization": f"Bearer {access_token}"})
        if found.get("sub") != subject:
            raise RejectedError("the issuer told of another person")
        return found

    def _client(self) -> OAuth2Session:
        return OAuth2Session(
            **{
                "client_id": self.config.client_id,
                "client_secret": self._secret,
                "scope": " ".join(self.config.scopes),
            },
            **{"redirect_uri": self.redirect, "code_challenge_method": "S256", "default_timeout": TIMEOUT},
        )

    def _key_set(self) -> KeySet:
        if self._keys is None:
            raise self._away(None)
        return self._keys

    def _known(self) -> dict[str, Any]:
        """Returns the issuer's metadata; old ones where it does not answer."""
        if self._now() - self._read >= KEPT:
            self._refresh()
        if not self._metadata:
            raise self._away(None)
        return self._metadata

    def _refresh(self) -> bool:
        """Reads metadata and keys again, if that was not tried just now; returns True if it has new ones."""
        if not self._lock.acquire(timeout=0.0 if self._metadata else TURN):
            return False
        try:
            now = self._now()
            if now - self._tried < AGAIN:
                return False
            self._tried = now
            metadata = self._get(f"{self.name.rstrip('/')}/.well-known/openid-configuration")
            if metadata.get("issuer") != self.name:
                raise ValueError("it calls itself by another name")
            keys = KeySet.import_key_set(self._get(self._checked("jwks_uri", metadata.get("jwks_uri"))))  # type: ignore[arg-type]
            self._metadata, self._keys, self._read, self.trouble = metadata, keys, now, None
            return True
        except (requests.RequestException, UserError, JoseError, ValueError, TypeError, KeyError) as problem:
            self._away(problem)
            return False
        finally:
            self._lock.release()

    def _get(self, address: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        answer = requests.get(address, headers=headers, timeout=TIMEOUT, allow_redirects=False)
        if answer.status_code != 200 or not isinstance(found := answer.json(), dict):
            raise ValueError(f"it answers {answer.status_code}")
        return found

    def _address(self, key: str) -> str:
        return self._checked(key, self._known().get(key))

    def _checked(self, key: str, address: object) -> str:
        """Returns an address that the issuer names. Raises UserError if it is no https, or is missing."""
        check_web_address(f"{self.name}: {key}", str(address))
        return str(address)

    def _away(self, problem: Exception | None) -> ServiceError:
        """Remembers why the issuer did not answer, and returns it as the error to raise."""
        if problem is not None:
            said = str(problem) if isinstance(problem, ValueError | UserError) else type(problem).__name__
            self.trouble = f"the issuer {self.name} does not answer: {said}"[:300]
            logger.warning("%s", self.trouble)
        return ServiceError(f"{self.trouble or f'the issuer {self.name} does not answer'}; tokens still let people in")
