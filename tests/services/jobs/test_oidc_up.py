"""A whole `dragoman up` with an OpenID Connect issuer: a command line and a browser sign in, a job runs, both leave."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from dragoman.services.jobs.client import saved
from tests.services.jobs.oidc_server import CLIENT, SECRET, Issuer
from tests.services.jobs.team import User, serving, state, wait

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)"),
]


def test_a_command_line_is_let_in_at_an_issuer_and_its_job_runs(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    issuer = Issuer()
    issuer.person = {"sub": "id-anna", "preferred_username": "anna", "groups": ["research"]}
    settings = [
        *["service.port=0", "service.ports=0", "service.cpus=1", "service.endpoint=false", "service.tracking=false"],
        *[f"service.oidc.issuer={issuer.name}", f"service.oidc.client_id={CLIENT}"],
        *[f"service.oidc.client_secret={tmp_path}/secret", "+service.oidc.roles.submitter=[research]"],
    ]
    try:
        with serving(tmp_path / "home", *settings) as address:
            anna = User(tmp_path / "anna", address)
            anna.run("jobs", code=2)
            sign_in(anna)
            token = saved.read_token(anna.folder, address)
            assert saved.path_of(anna.folder).stat().st_mode & 0o077 == 0
            job = anna.submit("doctor")
            wait(
                lambda: state(tmp_path / "home", job) in ("succeeded", "failed")
            )  # what the doctor finds is this machine's
            assert "cores" in anna.run("logs", job)
            (shown,) = anna.rows("job", job)
            assert (shown["owner"], shown["attempts"][0]["code"] in (0, 1)) == ("anna", True)
            anna.run("token", code=2)  # no admin
            assert "signed out" in anna.run("logout")
            anna.run("jobs", code=2)
            ask = httpx.get(f"{address}/v1/me", headers={"Authorization": f"Bearer {token}"}, timeout=60)
            assert ask.status_code == 401
    finally:
        issuer.close()


def sign_in(user: User) -> None:
    """`dragoman login`, whose code is typed by a browser that signs in at the issuer."""
    from playwright.sync_api import sync_playwright

    asking = user.start("login", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert asking.stderr is not None
    said = next(line for line in asking.stderr if "type this code there" in line)
    found = re.search(r"open (\S+) and type this code there: (\S+)", said)
    assert found is not None, said
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=180_000)
        page = browser.new_page()
        page.set_default_timeout(180_000)
        page.goto(found[1])
        page.get_by_role("link", name="Sign in").click()
        page.fill("input[name=code]", found[2])
        page.get_by_role("button", name="Let it in").click()
        page.get_by_text("is let in").wait_for()
        browser.close()
    out, error = asking.communicate(timeout=60)
    assert (asking.returncode, "signed in as anna (submitter)" in out) == (0, True), out + error
