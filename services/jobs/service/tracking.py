"""Questions to MLflow over its REST interface, and the addresses of its pages. Loads nothing of MLflow."""

import time
from typing import Any

import httpx

from dragoman.model import mlflow_pages
from dragoman.model.addresses import mask_address, mlflow_login
from dragoman.model.errors import ServiceError
from dragoman.model.model_owner import OWNER_TAG

TIMEOUT = 5.0  # seconds
AGAIN = 30.0  # seconds before MLflow is asked again for a run that it did not know


class Tracking:
    """MLflow at `address`; its pages are at `pages`. An empty address means none."""

    def __init__(self, address: str, pages: str) -> None:
        self.address, self.pages = address.rstrip("/"), (pages or address).rstrip("/")
        self._runs: dict[str, tuple[str, float]] = {}  # run -> its experiment, when to ask again

    def model_owner(self, name: str) -> str | None:
        """Returns the owner in a registered model's tag, empty if it has none; None if there is no such model.

        Raises ServiceError: MLflow does not answer.
        """
        model = self._get("registered-models/get", name=name).get("registered_model")
        if model is None:
            return None
        tags = {tag["key"]: str(tag.get("value", "")) for tag in model.get("tags", [])}
        return tags.get(OWNER_TAG, "")

    @property
    def home(self) -> str:
        """Returns the address of MLflow's first page; empty without MLflow."""
        return f"{self.pages}/{mlflow_pages.HOME}" if self.pages else ""

    def run_page(self, run_id: str, part: str = "") -> str:
        """Returns the address of a run's page, or of a part such as `artifacts`; empty without MLflow."""
        if not self.pages or not run_id:
            return ""
        experiment = self._experiment_of(run_id)
        return f"{self.pages}/{mlflow_pages.run_page(experiment, run_id, part)}" if experiment else ""

    def _experiment_of(self, run_id: str) -> str:
        """Returns the experiment of a run; MLflow is asked once, or again after a while."""
        experiment, until = self._runs.get(run_id, ("", 0.0))
        if not experiment and time.monotonic() > until:
            try:
                run = self._get("runs/get", run_id=run_id).get("run") or {}
            except ServiceError:
                run = {}
            experiment = str((run.get("info") or {}).get("experiment_id") or "")
            self._runs[run_id] = experiment, time.monotonic() + AGAIN
        return experiment

    def version_page(self, name: str, number: str) -> str:
        return f"{self.pages}/{mlflow_pages.version_page(name, number)}" if self.pages else ""

    def _get(self, path: str, /, **params: Any) -> dict[str, Any]:
        return self._ask("GET", path, params=params)

    def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Returns MLflow's answer; empty if the object does not exist."""
        if not self.address:
            raise ServiceError("no MLflow server belongs to this service (service.tracking=false)")
        try:
            where = f"{self.address}/api/2.0/mlflow/{path}"
            answer = httpx.request(method, where, **self._login(), **more)
            content = answer.json() if answer.content else {}
        except (httpx.HTTPError, ValueError) as problem:
            raise ServiceError(f"MLflow at {mask_address(self.address)} does not answer ({problem})") from None
        if answer.status_code == 404 or content.get("error_code") == "RESOURCE_DOES_NOT_EXIST":
            return {}
        if answer.is_error:
            raise ServiceError(
                f"MLflow at {mask_address(self.address)}: {answer.status_code} {content.get('message', '')}"
            )
        return dict(content)

    def _login(self) -> dict[str, Any]:
        """Returns how every request is made: the timeout, and the service's login."""
        login = mlflow_login()
        if "username" in login and "password" in login:
            return {"timeout": TIMEOUT, "auth": (login["username"], login["password"])}
        if "token" in login:
            return {"timeout": TIMEOUT, "headers": {"Authorization": f"Bearer {login['token']}"}}
        return {"timeout": TIMEOUT}
