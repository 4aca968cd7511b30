"""POST /next and POST /fill: the likeliest tokens after a text, or at its masks, with probabilities."""

from collections.abc import Awaitable, Callable
from typing import Any, Self

import pydantic
from fastapi import FastAPI, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from dragoman.services.endpoint import schemas
from dragoman.services.endpoint.call import Call
from dragoman.services.endpoint.endpoint import Endpoint
from dragoman.services.endpoint.openapi import Routes
from dragoman.services.endpoint.requests import Parameters, Text, validate, whole_number
from dragoman.services.http.answers import as_json
from dragoman.services.models.loaded_guesser import Ask, GuessedText, LoadedGuesser
from dragoman.services.settings import Limits

NONE = "This endpoint has no language model (the server's setting serve.guesser names one)"
KINDS = {"next": "language", "fill": "masked"}
MOST_STEPS = 100


class GuessRequest(Parameters):
    """The parameters of both routes; `steps` has an effect on /next alone."""

    q: Text = Field(examples=["I was eating"])
    k: int = 5
    steps: int = 1

    @classmethod
    def within(cls, limits: Limits) -> type[Self]:
        """Returns the class with the limits on tokens and steps."""
        k = whole_number(min(5, limits.neighbours), 1, limits.neighbours)
        return pydantic.create_model(cls.__name__, __base__=cls, k=k, steps=whole_number(1, 1, MOST_STEPS))


def add_routes(app: FastAPI, endpoint: Endpoint) -> None:
    """Adds the routes; without a queue they answer that there is no language model here."""
    queue, limits, keys = endpoint.guesser, endpoint.limits, endpoint.keys
    model = GuessRequest.within(limits)

    def route(name: str) -> Callable[[Call], Awaitable[Response]]:
        async def answer(call: Call) -> Response:
            if queue is None:
                raise HTTPException(404, NONE)
            request = validate(model, call.parameters)
            served = queue.model()
            check(name, request.q, served, limits)
            keys.charge(call.key, len(request.q))
            (guesses,) = await queue.ask(served, [Ask(request.q, request.k, request.steps)], key=call.key)
            if isinstance(guesses, str):
                raise HTTPException(400, f"Invalid request: {guesses}")
            return as_json(shape(guesses), headers=served.origin.headers())

        return answer

    for name, summary in (("next", "The likeliest next tokens of a text"), ("fill", "The likeliest tokens at masks")):
        Routes(app).add("POST", f"/{name}", route(name), summary, schemas.Guesses, model, origin=True)


def check(name: str, text: str, served: LoadedGuesser, limits: Limits) -> None:
    """Raises HTTPException 400 for a model of the other kind, a text that is too long, or one without a mask."""
    if served.bundle.kind != KINDS[name]:
        other = "/fill" if name == "next" else "/next"
        raise HTTPException(400, f"Invalid request: the model is a {served.bundle.kind} model: ask {other}")
    if len(text) > limits.characters:
        raise HTTPException(400, f"Invalid request: request ({len(text)}) exceeds text limit ({limits.characters})")
    if name == "fill":
        from dragoman.model.decoding.likely import has_mask  # loads torch, as the model has

        if not has_mask(text):
            raise HTTPException(400, "Invalid request: q has no [MASK]")


def shape(guesses: GuessedText) -> dict[str, Any]:
    """Returns the answer as `dragoman next guess.format=json` prints it."""
    steps = [
        {"text": step.text, "tokens": [prediction._asdict() for prediction in step.predictions]}
        for step in guesses.steps
    ]
    return {"text": guesses.text, "steps": steps}
