"""The policy of a registered model: what a promotion must prove, set by the model's owner and the same for everybody.

It is the tag `policy` of the registered model. A promotion may set stricter values; one that bypasses the policy is a
promotion by force, with a reason, and the history says so.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from dragoman.conf import again
from dragoman.model.errors import UserError
from dragoman.model.ranges import Range, Whole, check_ranges
from dragoman.pipelines.tracking.author import OWNER_TAG, new_owner

TAG = "policy"
FLAG = "--policy"


@dataclass
class Policy:
    """The limits of every promotion of a model."""

    p_value: Annotated[float, Range(0, 0.5, above=True)] = 0.05  # error probability of all questions to a gate together
    questions: Whole = 0  # that a gate answers at most; 0: any number, each must prove more
    gates: Whole = 0  # held-out sets that may be used, each with its own budget; 0: any number

    def check(self) -> None:
        """Refuses values without effect. Raises UserError: names the key."""
        check_ranges("promote.policy", self)

    def refuse_wider(self, p_value: float) -> None:
        """Refuses a p-value above the policy's."""
        if p_value > self.p_value:
            change = again.command("promote", FLAG, f"promote.policy.p_value={p_value}", keep=_is_no_p_value)
            raise UserError(
                f"promote.p_value={p_value}: the policy of this model allows {self.p_value:g} at most. Its owner "
                f"changes that: {change}; or promote.force=true with a promote.reason"
            )

    def exhausted(self, number: int, gates: int) -> str:
        """Returns why question `number` to one of `gates` sets is not answered; empty if it is."""
        if self.questions and number > self.questions:
            return f"question {number} to this gate, and the policy allows {self.questions}: make shards with another"
        if self.gates and gates > self.gates:
            return f"a gate that was not asked before, and the policy allows {self.gates} of them"
        return ""

    def __str__(self) -> str:
        questions, gates = (f"{most:,} at most" if most else "any number" for most in (self.questions, self.gates))
        return f"p below {self.p_value:g} for all questions to a gate together; questions: {questions}; gates: {gates}"


def _is_no_p_value(key: str) -> bool:
    return key != "promote.p_value"


def read_policy(client: Any, name: str) -> Policy:
    """Returns the policy of the registered model `name`; the defaults if its owner has set none."""
    text = dict(client.get_registered_model(name).tags).get(TAG)
    return Policy(**json.loads(text)) if text else Policy()


def write_policy(client: Any, name: str, policy: Policy) -> None:
    """Sets the policy of a registered model."""
    policy.check()
    owner = dict(client.get_registered_model(name).tags).get(OWNER_TAG)
    if owner and owner != new_owner():
        raise UserError(
            f"registry.name={name}: the policy is set by the model's owner, {owner}; you are {new_owner()}. An admin "
            f"gives the model to an owner with: dragoman owner {name} OWNER"
        )
    client.set_registered_model_tag(name, TAG, json.dumps(asdict(policy)))


def policy_words(words: Sequence[str]) -> list[str]:
    """Returns the words of `promote --policy [KEY=VALUE...]` as overrides; others stay as they are."""
    if FLAG not in words:
        return list(words)
    keys = Policy.__dataclass_fields__
    named = [f"promote.policy.{word}" if word.partition("=")[0] in keys else word for word in words if word != FLAG]
    return [*named, "promote.show_policy=true"]
