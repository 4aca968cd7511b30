"""People sign in at an OpenID Connect issuer: pages, command line, REST; and everything that must not let them in."""

import base64
import contextlib
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import RSAKey

from dragoman.model.errors import UserError
from dragoman.services.http.listening import bind
from dragoman.services.jobs.client import saved, sign_in, verbs
from dragoman.services.jobs.client.admin import people
from dragoman.services.jobs.client.client import JobClient
from dragoman.services.jobs.client.settings import JobsConfig
from dragoman.services.jobs.http.listening import serving
from dragoman.services.jobs.http.parts import Parts
from dragoman.services.jobs.ledger.audit import Audit, AuditFilter
from dragoman.services.jobs.ledger.own_tokens import SESSION
from dragoman.services.jobs.oidc_settings import OidcConfig
from dragoman.services.jobs.pages.sign_in import inside
from dragoman.services.jobs.service import devices, issuer
from dragoman.services.jobs.settings import ServiceConfig
from dragoman.services.jobs.up.app import create_app
from tests.services.jobs.oidc_server import CLIENT, SECRET, Issuer, unsigned
from tests.services.jobs.processes import make_loop, words

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ROLES = {"viewer": ["*"], "submitter": ["research", "a, b"], "admin": ["ops/admins"]}


class Scene:
    """The service with an issuer, and a way to be a browser."""

    def __init__(self, home: Path, stack: contextlib.ExitStack, **settings: Any) -> None:
        self.issuer = Issuer()
        stack.callback(self.issuer.close)
        self.config = OidcConfig(self.issuer.name, CLIENT, roles=ROLES, **settings)
        self.loop = make_loop(f"sqlite:///{home}/ledger.db", home, oidc=self.config)
        stack.callback(self.loop.ledger.database.close)
        self.loop.capacity = self.loop.executor.capacity()
        self.access, self.stack = self.loop.scheduler.access, stack
        listening = bind("127.0.0.1", 0, "service")
        self.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.known = issuer.Issuer(
            self.config, SECRET, f"{self.address}/login/callback", lambda: self.loop.ledger.now()
        )
        parts = Parts(
            *(self.loop.ledger, self.access, self.loop, self.loop.config, home, True),
            **{"url": self.address, "issuer": self.known},
        )
        stack.enter_context(serving(create_app(parts), listening))
        self.be("anna", groups=["research"])

    def be(self, name: Any, sub: str = "", **claims: Any) -> None:
        """Who signs in from now on."""
        self.issuer.person = {"sub": sub or f"id-{name}", "preferred_username": name, **claims}

    def browser(self) -> httpx.Client:
        return self.stack.enter_context(httpx.Client(base_url=self.address, headers={"Accept": "text/html"}))

    def callback(self, browser: httpx.Client, next: str = "/cluster") -> str:
        """Begins a sign-in, and returns the address that the issuer sends the browser back to."""
        begun = browser.get("/login/issuer", params={"next": next})
        assert begun.status_code == 303, begun.text
        return httpx.get(begun.headers["location"]).headers["location"]

    def sign_in(self, next: str = "/cluster") -> tuple[httpx.Client, httpx.Response]:
        browser = self.browser()
        return browser, browser.get(self.callback(browser, next))

    def ask(self, token: str, path: str = "/v1/me", method: str = "GET", **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.request(method, self.address + path, headers=headers, timeout=60, **more)

    def later(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        monkeypatch.setattr(self.loop.ledger, "now", lambda: time.time() + seconds)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with contextlib.ExitStack() as stack:
        yield Scene(tmp_path, stack)


def csrf(page: str) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', page)
    assert found is not None
    return found[1]


def test_a_person_signs_in_and_out(scene: Scene) -> None:
    browser = scene.browser()
    asked = browser.get("/jobs/none?x=1")
    assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=/jobs/none%3Fx%3D1")
    assert f"At {scene.issuer.name}" in browser.get(asked.headers["location"]).text
    begun = browser.get("/login/issuer?next=/cluster")
    query = {key: values[0] for key, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    assert query["scope"] == "openid profile email" and len(query["nonce"]) > 30 and len(query["state"]) > 30
    for mark in ("HttpOnly", "SameSite=lax", "Path=/login", "Max-Age=600"):
        assert mark in begun.headers["set-cookie"]
    answer = browser.get(httpx.get(begun.headers["location"]).headers["location"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/cluster")
    assert "anna" in browser.get("/cluster").text
    assert 'href="/submit"' in browser.get("/cluster").text  # a submitter
    copy = dict(browser.cookies)
    left = browser.post("/logout", content=f"csrf={csrf(browser.get('/cluster').text)}", headers=FORM)
    assert left.status_code == 303
    assert (
        httpx.get(f"{scene.address}/cluster", cookies=copy).status_code == 303
    )  # to the login: the copy is worth nothing


@pytest.mark.parametrize(
    "spoil",
    [
        *("nonce", "no nonce", "wrong audience", "expired", "issuer", "azp", "at_hash", "future"),
        *("unsigned", "none", "other key"),
    ],
)
def test_a_token_that_is_not_right_lets_nobody_in(scene: Scene, spoil: str) -> None:
    scene.issuer.spoil = spoil
    browser, answer = scene.sign_in()
    assert answer.status_code == 401 and "No: the token is not accepted" in answer.text, answer.text
    assert browser.get("/cluster").status_code == 303
    assert not scene.access.tokens()


def test_the_answer_of_another_sign_in_is_refused(scene: Scene) -> None:
    """Login CSRF, a replayed code, an answer that is changed, mixed-up issuers, a refusal with script in it."""
    mine = scene.browser()
    address = scene.callback(mine)
    assert scene.browser().get(address).status_code == 400  # sent to a browser that has begun nothing
    victim = scene.browser()
    scene.callback(victim)
    refused = victim.get(address)  # to one that has begun another
    assert refused.status_code == 401 and "begun elsewhere" in refused.text
    kept = dict(mine.cookies)
    for changed in (
        address.replace("state=", "state=x"),
        re.sub(r"state=[^&]+", "", address),
        re.sub(r"code=[^&]+", "", address),
        address.replace("iss=", "iss=http%3A%2F%2Fevil.example"),
        re.sub(r"code=[^&]+", "error=<script>alert(1)</script>&error_description=<script>", address),
    ):
        answer = httpx.get(changed, cookies=kept)
        assert answer.status_code == 401 and "alert(1)" not in answer.text, changed
    assert mine.get(address).status_code == 303
    assert mine.get(address).status_code == 400  # the cookie is gone
    replayed = httpx.get(address, cookies=kept)
    assert replayed.status_code == 401 and "refuses this sign-in" in replayed.text and "used up" not in replayed.text
    assert len([one for one in scene.access.tokens() if one.kind == SESSION]) == 1


@pytest.mark.parametrize(
    "next", ["//evil.example", "/\\evil.example", "https://evil.example", "\t//evil.example", "javascript:alert(1)", ""]
)
def test_nobody_is_sent_to_another_site(scene: Scene, next: str) -> None:
    _, answer = scene.sign_in(next)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert inside(next) == "/"


def test_a_tab_in_an_address_leads_nowhere_else(scene: Scene) -> None:
    _, answer = scene.sign_in("/\t/evil.example")
    assert answer.headers["location"] == "/%09/evil.example"


def test_a_session_is_new_with_every_sign_in(scene: Scene) -> None:
    """Fixation: a cookie from before is none of the signed-in session."""
    browser = scene.browser()
    browser.cookies.set("dragoman_session", "fixed-by-an-attacker", domain="127.0.0.1")
    browser.get(scene.callback(browser))
    first = [one.value for one in browser.cookies.jar if one.name == "dragoman_session"]
    assert "fixed-by-an-attacker" not in first or len(first) > 1
    assert (
        httpx.get(f"{scene.address}/cluster", cookies={"dragoman_session": "fixed-by-an-attacker"}).status_code == 303
    )
    other, _ = scene.sign_in()
    assert other.cookies["dragoman_session"] not in first


def test_bearer_tokens_of_the_issuer_are_checked(scene: Scene) -> None:
    token = scene.issuer.token()
    assert scene.ask(token).json() == {"owner": "anna", "role": "submitter", "token": None}
    body = {"verb": "train", "overrides": words(scene.loop.home, "x", 3)}
    assert scene.ask(token, "/v1/jobs", "POST", json=body).status_code == 201
    assert scene.ask(token, "/v1/tokens").status_code == 403
    public = scene.issuer.keys[0].as_pem(private=False)
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": scene.issuer.keys[0].kid}).encode()).rstrip(b"=")
    said = head + b"." + token.split(".")[1].encode()
    made = base64.urlsafe_b64encode(hmac.digest(public, said, "sha256")).rstrip(b"=")
    confused = (said + b"." + made).decode()
    now = int(time.time())
    wrong = {
        "another audience": scene.issuer.token(aud="another"),
        "no audience": scene.issuer.token(aud=None),
        "several, issued to another": scene.issuer.token(aud=[CLIENT, "b"], azp="b"),
        "another issuer": scene.issuer.token(iss="http://127.0.0.1:1/realms/team"),
        "expired": scene.issuer.token(exp=now - 61),
        "without an end": scene.issuer.token(exp=None),
        "not yet": scene.issuer.token(nbf=now + 90),
        "without a subject": scene.issuer.token(sub=None),
        "none": unsigned(token),
        "unsigned": token.rpartition(".")[0] + ".",
        "changed": ".".join(
            [*token.split(".")[:1], scene.issuer.token(groups=["ops/admins"]).split(".")[1], token.split(".")[2]]
        ),
        "another's key": scene.issuer.token(RSAKey.generate_key(2048, {"kid": scene.issuer.keys[0].kid})),
        "key in the header": scene.issuer.token(
            (own := RSAKey.generate_key(2048, {"kid": "own"})), {"jwk": own.as_dict(private=False)}
        ),
        "public key as a secret": confused,
        "a token for logging out": scene.issuer.token(header={"typ": "logout+jwt"}),
        "events": scene.issuer.token(events={"http://schemas.openid.net/event/backchannel-logout": {}}),
        "no token": "a.b.c",
        "empty": "..",
        "long": "a" * 5000 + ".b.c",
    }
    for what, one in wrong.items():
        answer = scene.ask(one)
        assert answer.status_code == 401, (what, answer.text)
        assert one not in answer.text
    assert scene.ask(scene.issuer.token(exp=now - 30)).status_code == 200  # clocks differ
    assert scene.ask(token).status_code == 200


def test_access_tokens_are_taken_for_their_audience(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        scene = Scene(
            tmp_path, stack, audience="https://jobs.example", groups="realm_access.roles", domain="example.org"
        )
        scene.be("anna@example.org", realm_access={"roles": ["ops/admins"]})
        token = scene.issuer.token(aud=["account", "https://jobs.example"], header={"typ": "at+jwt"}, azp="cli")
        assert scene.ask(token).json()["role"] == "admin"
        assert scene.ask(token).json()["owner"] == "anna"
        assert scene.ask(scene.issuer.token(aud="account")).status_code == 401
        scene.be("anna@evil.example")
        assert scene.ask(scene.issuer.token()).status_code == 401


def test_new_keys_are_fetched_and_old_ones_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scene.issuer.token()
    assert scene.ask(before).status_code == 200
    scene.issuer.rotate()
    scene.later(monkeypatch, 40)
    assert scene.ask(scene.issuer.token()).status_code == 200  # an unknown key: they are read again
    assert scene.ask(before).status_code == 401
    asked = scene.issuer.asked.count("/realms/team/keys")
    for _ in range(5):  # a flood of unknown keys is none for the issuer
        stranger = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})
        assert scene.ask(scene.issuer.token(stranger)).status_code == 401
    assert scene.issuer.asked.count("/realms/team/keys") == asked


@pytest.mark.parametrize("spoil", ["down", "metadata"])
def test_without_the_issuer_tokens_let_people_in_and_the_service_says_so(scene: Scene, spoil: str) -> None:
    scene.issuer.spoil = spoil
    root = scene.access.issue("r", "root", "admin", "root")
    assert scene.ask(scene.issuer.token()).status_code == 503
    assert scene.ask(root).status_code == 200
    assert httpx.get(f"{scene.address}/status").json()["issuer"] == "away"
    refused = scene.browser().get("/login/issuer")
    assert refused.status_code == 503 and "does not answer" in refused.text and 'name="token"' in refused.text
    assert "does not answer" in scene.browser().get("/login").text
    browser = scene.browser()
    assert browser.post("/login", content=f"token={root}", headers=FORM).status_code == 303
    assert browser.get("/cluster").status_code == 200


def test_keys_that_are_known_count_while_the_issuer_is_away(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scene.ask(scene.issuer.token()).status_code == 200
    scene.issuer.spoil = "down"
    scene.later(monkeypatch, issuer.KEPT + 10)
    assert scene.ask(scene.issuer.token(exp=int(time.time()) + 9999, iat=None)).status_code == 401  # no iat
    late = int(time.time() + issuer.KEPT)
    assert scene.ask(scene.issuer.token(iat=late, exp=late + 300)).status_code == 200
    assert scene.known.trouble is not None


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["research"], "submitter"),
        (["ops/admins", "research"], "admin"),
        ("research", "submitter"),
        (["a, b"], "submitter"),
        (["a", "b"], "viewer"),
        (["OPS/ADMINS", "ops/admins ", "*", "admin", "../ops/admins", "ops\x00/admins"], "viewer"),
        ([["ops/admins"], {"ops/admins": 1}, None, 7], "viewer"),
        ({"ops/admins": True}, "viewer"),
        (None, "viewer"),
    ],
)
def test_groups_become_a_role(scene: Scene, groups: Any, role: str) -> None:
    scene.be("anna", groups=groups)
    assert scene.ask(scene.issuer.token()).json()["role"] == role


@pytest.mark.parametrize(
    "name",
    [
        *("../root", "anna\n", "anna/laptop", "", ".", "a b", "scheduler", "another owner", "<script>", "x" * 161),
        *(None, 7, ["anna"], "-rf", "anna@example.org"),
    ],
)
def test_a_strange_name_lets_nobody_in(scene: Scene, name: Any) -> None:
    scene.be(name)
    assert scene.ask(scene.issuer.token()).status_code == 401
    _, answer = scene.sign_in()
    assert answer.status_code == 403 and "<script>" not in answer.text


def test_the_audit_has_sign_ins_at_the_issuer_and_those_that_it_refused(scene: Scene) -> None:
    browser, _ = scene.sign_in()
    browser.post("/logout", content=f"csrf={csrf(browser.get('/cluster').text)}", headers=FORM)
    scene.be("anna", sub="somebody-else", groups=["research"])
    scene.sign_in()
    assert scene.ask("a.b.c").status_code == 401
    program, refused, out, came = Audit(scene.loop.ledger).rows(AuditFilter())
    assert (came.person, came.method, came.resource, came.status) == ("anna", "GET", "/login/callback", 303)
    assert came.detail == "signed in (session)" and came.token.startswith("anna/session-")
    assert (out.person, out.resource) == ("anna", "/logout") and out.detail.startswith("revoked session-")
    assert (refused.person, refused.resource, refused.status) == ("", "/login/callback", 403)
    assert (program.resource, program.status) == ("/v1/me", 401)
    assert "code=" not in str([vars(one) for one in (program, refused, out, came)])


def test_a_name_is_one_accounts(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that tokens or jobs have are given by an administrator; a second account of the same name waits."""
    root = scene.access.issue("r", "root", "admin", "root")
    scene.be("root", groups=["ops/admins"])
    assert "is in use here" in scene.ask(scene.issuer.token()).json()["error"]
    with JobClient(scene.address, root) as admin:
        people(JobsConfig(), admin, ["allow", "root"])
        assert scene.ask(scene.issuer.token()).status_code == 200
        scene.be("root", sub="somebody-else", groups=["ops/admins"])
        assert "another account's" in scene.ask(scene.issuer.token()).json()["error"]
        with pytest.raises(UserError, match="an account has that name"):
            people(JobsConfig(), admin, ["allow", "root"])
        people(JobsConfig(), admin, ["forget", "root"])
        assert "is in use here" in scene.ask(scene.issuer.token()).json()["error"]
        with pytest.raises(UserError, match="no account has that name"):
            people(JobsConfig(), admin, ["forget", "nobody"])
    assert "root" in capsys.readouterr().out


def test_what_was_lent_ends_when_the_issuer_gives_less(scene: Scene) -> None:
    root = scene.access.issue("r", "root", "admin", "root")
    scene.be("anna", groups=["ops/admins"])
    browser, _ = scene.sign_in()
    word = csrf(browser.get("/tokens").text)

    def make(name: str, role: str) -> str:
        made = browser.post("/tokens", data={"csrf": word, "name": name, "role": role, "ends": "30d"})
        return re.search(r"dgm_[\w-]{40,}", made.text)[0]  # type: ignore[index]

    strong, weak = make("strong", "admin"), make("weak", "viewer")
    assert (scene.ask(strong).status_code, scene.ask(weak).status_code) == (200, 200)
    scene.be("anna", groups=["research"])
    assert scene.ask(scene.issuer.token()).json()["role"] == "submitter"
    assert (scene.ask(strong).status_code, scene.ask(weak).status_code) == (401, 200)
    assert browser.get("/cluster").status_code == 303  # the admin's session has ended too
    assert scene.ask(root, "/v1/people/anna", "DELETE").status_code == 204
    assert scene.ask(weak).status_code == 401


def test_a_sign_in_ends(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, _ = scene.sign_in()
    assert browser.get("/cluster").status_code == 200
    scene.later(monkeypatch, scene.config.session + 5)
    assert browser.get("/cluster").status_code == 303


def test_claims_that_the_token_lacks_come_from_userinfo(scene: Scene) -> None:
    person = dict(scene.issuer.person)
    real = scene.issuer.token

    def bare(*args: Any, **claims: Any) -> str:
        return real(*args, **{"preferred_username": None, "groups": None, **claims})

    scene.issuer.token = bare  # type: ignore[method-assign]
    browser, answer = scene.sign_in()
    assert answer.status_code == 303 and person["preferred_username"] in browser.get("/cluster").text
    scene.issuer.spoil = "userinfo"  # of another person
    _, answer = scene.sign_in()
    assert answer.status_code == 401


def test_the_command_line_is_let_in_by_a_code(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dragoman.services.jobs.http.sign_in.PAUSE", 0.05)
    browser, _ = scene.sign_in()
    with JobClient(scene.address) as service:
        asked: list[dict[str, Any]] = []
        real = service.begin_login
        monkeypatch.setattr(service, "begin_login", lambda: asked.append(real()) or asked[0])
        done = threading.Thread(target=sign_in.login, args=(service, tmp_path, []))
        done.start()
        while not asked:
            time.sleep(0.02)
        page = browser.get("/login/device").text
        assert asked[0]["page"] == f"{scene.address}/login/device" and asked[0]["code"] not in page
        sent = {"csrf": csrf(page), "do": "allow"}
        assert browser.post("/login/device", data={**sent, "code": asked[0]["code"], "csrf": "x"}).status_code == 403
        assert browser.post("/login/device", data={**sent, "code": "BBBB-BBBB"}).status_code == 400
        assert "is let in" in browser.post("/login/device", data={**sent, "code": asked[0]["code"].lower()}).text
        done.join(30)
        with pytest.raises(UserError, match="run dragoman login again"):
            service.finish_login(asked[0]["secret"])  # the token is given once
    assert "signed in as anna (submitter)" in capsys.readouterr().out
    path = saved.path_of(tmp_path)
    token = json.loads(path.read_text())[scene.address]
    assert path.stat().st_mode & 0o077 == 0
    assert saved.read_token(tmp_path, "http://evil.example") is None
    with verbs.client(JobsConfig(), scene.address, home=tmp_path) as service:
        assert service.me()["owner"] == "anna"
        with pytest.raises(UserError, match="makes no other"):
            service.make_token("more")
        sign_in.logout(service, tmp_path, [])
    assert scene.ask(token).status_code == 401
    assert saved.read_token(tmp_path, scene.address) is None


def test_codes_cannot_be_guessed_and_are_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, _ = scene.sign_in()
    sent = {"csrf": csrf(browser.get("/login/device").text), "do": "allow"}
    with JobClient(scene.address) as service:
        asked = service.begin_login()
        assert service.finish_login(asked["secret"]) is None
        browser.post("/login/device", data={**sent, "do": "refuse", "code": asked["code"]})
        with pytest.raises(UserError, match="was refused"):
            service.finish_login(asked["secret"])
        with pytest.raises(UserError, match="was refused"):
            service.finish_login("guessed")
        asked = service.begin_login()
        for _ in range(devices.GUESSES):
            assert browser.post("/login/device", data={**sent, "code": "BCDF-BCDF"}).status_code == 400
        assert "too many" in browser.post("/login/device", data={**sent, "code": asked["code"]}).text
        scene.later(monkeypatch, devices.WAITS + 1)
        with pytest.raises(UserError, match="older than 10 minutes"):
            service.finish_login(asked["secret"])
    form = httpx.post(f"{scene.address}/v1/login", content="x=1", headers=FORM)
    assert form.status_code in (415, 422)
    foreign = httpx.post(f"{scene.address}/v1/login", json={}, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"issuer": "http://issuer.example"}, "https://HOST"),
        ({"issuer": "issuer.example"}, "https://HOST"),
        ({"issuer": "https://issuer.example?x=1"}, "https://HOST"),
        ({"issuer": "https://anna:secret@issuer.example"}, "https://HOST"),
        ({"client_id": None}, "client_id: is missing"),
        ({"scopes": ["profile"]}, "needs openid"),
        ({"scopes": ["openid profile"]}, "needs openid"),
        ({"roles": {}}, "nobody could sign in"),
        ({"roles": {"admin": []}}, "nobody could sign in"),
        ({"roles": {"metrics": ["x"]}}, "metrics"),
        ({"roles": {"root": ["x"]}}, "root"),
        ({"owner": ""}, "owner: is missing"),
        ({"skew": 301.0}, "skew"),
        ({"session": 0.0}, "session"),
        ({"issuer": None}, "issuer: is missing"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_the_start(settings: dict[str, Any], said: str) -> None:
    values = {"issuer": "https://issuer.example", "client_id": "c", "roles": {"viewer": ["*"]}, **settings}
    with pytest.raises(UserError, match=said):
        ServiceConfig(oidc=OidcConfig(**values)).check()


def test_the_issuer_needs_to_know_the_way_back() -> None:
    oidc = OidcConfig("https://issuer.example", "c", roles={"viewer": ["*"]})
    ServiceConfig(oidc=oidc).check()
    with pytest.raises(UserError, match="url: is missing"):
        ServiceConfig(host="0.0.0.0", oidc=oidc).check()
    with pytest.raises(UserError, match="https://HOST"):
        ServiceConfig(host="0.0.0.0", url="http://jobs.example", oidc=oidc).check()
