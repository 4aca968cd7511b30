"""The order of the work, by itself and in a simulation with a clock of its own."""

import copy
import itertools
import random
import statistics

import pytest

from dragoman.model.text.sentences import split
from dragoman.services.endpoint.batcher import QUIET
from dragoman.services.endpoint.fair_queue import Lane, Request, is_long, tokens_of

TURN, LINES, TOKENS = 512, 64, 4096
STRAIN = random.Random(1)
HOSTILE = {
    "a": "a" * 4990,
    "no blanks": "".join(STRAIN.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4990)),
    "many lines": "Go.\n" * 1000,
}


def filled(*requests: Request, lines: int = 1) -> Lane:
    """A lane in which these requests wait, in their order."""
    lane = Lane(lines, 100)
    for each in requests:
        lane.add(each)
    return lane


def taken(lane: Lane, count: int) -> list[Request]:
    """The requests of the next batches, of which each takes one line."""
    return [lane.take()[0][0] for _ in range(count)]


def request(*costs: int, engine: str = "a", nbest: int = 1, priority: int = 0, client: str = "") -> Request:
    return Request(engine, list(range(len(costs))), list(costs), nbest, priority, client)


def test_requests_take_turns_by_tokens() -> None:
    many, few = request(*[20] * 6), request(*[60] * 2)
    lane = filled(many, few)
    assert taken(lane, 8) == [many, few, many, many, few, many, many, many]
    assert (lane.queued, lane.cost, lane.take()) == (0, 0, [])


def test_a_new_request_does_not_wait_for_what_others_were_given() -> None:
    old, new = request(*[10] * 5), request(10)
    lane = filled(old)
    taken(lane, 3)
    lane.add(new)
    assert taken(lane, 3) == [new, old, old]


def test_a_priority_is_twice_the_share_a_step() -> None:
    usual, urgent = request(*[10] * 50), request(*[10] * 50, priority=2)
    assert taken(filled(usual, urgent), 50).count(urgent) == 40


def test_many_requests_of_a_client_have_one_turn_together() -> None:
    crowd = [request(10, 10, client="crowd") for _ in range(20)]
    lane = filled(*crowd, request(*[10] * 10, client="one"))
    assert [each.client for each in taken(lane, 20)].count("one") == 10
    assert {each.client for each in taken(lane, 30)} == {"crowd"}
    assert (lane.queued, lane.take()) == (0, [])


def test_a_client_that_comes_again_has_not_forgotten_what_it_was_given() -> None:
    lane = filled(request(*[10] * 20, client="steady"))
    given = {"steady": 0, "again": 0}
    for _ in range(14):
        if given["again"] < 10 and not any(one.client == "again" for one in waiting(lane)):
            lane.add(request(30, client="again"))  # one after the other, each as soon as the last is taken
        ((asked, _),) = lane.take()
        given[asked.client] += sum(asked.costs[asked.taken - 1 : asked.taken])
    assert given["again"] <= given["steady"] + 30


def test_the_requests_of_a_client_take_turns_too() -> None:
    long, short = request(*[10] * 6, client="a"), request(10, 10, client="a")
    other = request(*[10] * 6, client="b")
    assert taken(filled(long, short, other), 8) == [long, other, short, other, long, other, short, other]


def test_a_full_queue_makes_room_for_a_client_with_fewer_lines() -> None:
    first, second, third = (request(1, 1, client="crowd") for _ in range(3))
    lane = filled(first, second, third)
    assert lane.crowding(request(1, client="one"), 1) == [third]
    assert lane.crowding(request(1, 1, client="one"), 3) == [third, second]
    assert lane.crowding(request(*[1] * 5, client="one"), 1) == []  # it would have more than the crowd
    assert lane.crowding(request(1, client="crowd"), 1) == []
    assert lane.take() == [(first, [0])]
    assert lane.crowding(request(1, client="one"), 5) == []  # what has begun stays


def test_words_that_are_searched_as_far_as_a_sentence_take_turns_with_one() -> None:
    lane = Lane(1, 100)
    order = []
    for _ in range(20):  # each asks again as soon as its line is taken
        for client, cost, nbest in (("words", 2, 5), ("sentences", 30, 1)):
            if not any(one.client == client for one in waiting(lane)):
                lane.add(request(cost, nbest=nbest, client=client))
        order.append(lane.take()[0][0].client)
    assert order.count("sentences") >= 9


def test_a_batch_ends_at_its_tokens_and_takes_any_first_line() -> None:
    lane = filled(request(500, 60, 40, 1), lines=64)
    assert [lane.take()[0][1] for _ in range(3)] == [[0], [1, 2], [3]]


def test_what_is_dropped_is_not_taken() -> None:
    gone, stays = request(1, 1, 1), request(1)
    lane = filled(gone, stays)
    assert lane.take() == [(gone, [0])]
    lane.drop(gone)
    lane.drop(gone)
    assert (lane.queued, lane.cost) == (1, 1)
    assert lane.take() == [(stays, [0])]
    assert lane.take() == []


def test_tokens_are_estimated_from_words_and_from_what_are_none() -> None:
    assert tokens_of("The dog sees the man.") == 8
    assert tokens_of("a" * 400) == 401
    assert tokens_of("") == 1


class Machine:
    """Two cores, a clock and an engine that takes 2 ms a batch and 0.2 ms a token on one core.

    A batch of several lines has two parts; the cores are shared evenly by the parts at work.
    """

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.now = 0.0
        self.quiet = 0.0  # when the last short batch had ended for QUIET
        self.lanes: list[Lane] = [Lane(LINES, TOKENS), Lane(LINES, min(turn, TOKENS))]
        self.work: list[tuple[list[tuple[Request, list[str]]], int, float]] = [([], 0, 0.0), ([], 0, 0.0)]
        self.done: dict[Request, float] = {}

    def submit(self, text: str, client: str = "") -> Request:
        lines = [piece.text for piece in split(text, 400, "en") if piece.text]
        asked = Request("a", lines, [tokens_of(line) for line in lines], client=client)
        self.lanes[is_long(asked.costs, self.turn)].add(asked)
        return asked

    def step(self, until: float) -> None:
        """Goes on to the next end of a batch, at most to `until`."""
        contended = self.now < self.quiet or self.lanes[0].queued > 0
        for number, lane in enumerate(self.lanes):
            if not self.work[number][0] and (batch := lane.take(1 if number and contended else None)):
                lines = [line for _, part in batch for line in part]
                self.work[number] = (batch, min(2, len(lines)), 0.002 + 0.0002 * sum(map(tokens_of, lines)))
        parts = sum(own for _, own, _ in self.work)
        if not parts:
            self.now = until
            return
        speed = min(1.0, 2 / parts)  # of a part
        passed = min(until - self.now, *(left / (own * speed) for _, own, left in self.work if own))
        self.now += passed
        for number, (batch, own, left) in enumerate(self.work):
            left -= passed * own * speed
            if not batch or left > 1e-12:
                self.work[number] = (batch, own, left)
                continue
            self.work[number] = ([], 0, 0.0)
            self.done |= {one: self.now for one, _ in batch if not one.left}
            if number == 0:
                self.quiet = self.now + QUIET


def neighbours(
    hostile: str | None,
    clients: int = 1,
    crowd: int = 1,
    waits: int = 1000,
) -> float:
    """Returns the 99th percentile of the seconds that neighbours wait, alone, or beside a client that sends
    `hostile` again and again, `crowd` times at once."""
    machine, seconds, began = Machine(TURN), [], {}
    strain = random.Random(2)

    def sentence() -> str:
        return " ".join(["word"] * strain.randrange(5, 25)) + "."

    free = [strain.random() * 0.02 for _ in range(clients)]
    asked: list[Request | None] = [None] * clients
    attacks: list[Request | None] = [None] * crowd
    while len(seconds) < waits:
        for number, attack in enumerate(attacks if hostile is not None else []):
            if attack is None or attack in machine.done:
                attacks[number] = machine.submit(hostile or "", "crowd")
        for number in range(clients):
            mine = asked[number]
            if mine is not None and mine in machine.done:
                seconds.append(machine.done[mine] - began[number])
                asked[number], free[number] = None, machine.now + strain.random() * 0.02
            if asked[number] is None and free[number] <= machine.now:
                asked[number], began[number] = machine.submit(sentence(), str(number)), machine.now
        machine.step(min([time for time in free if time > machine.now], default=float("inf")))
    return statistics.quantiles(seconds, n=100)[98]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_beside_a_hostile_text_a_neighbour_waits_at_most_twice_as_long(hostile: str) -> None:
    assert neighbours(HOSTILE[hostile], clients=8) <= 2 * neighbours(None, clients=8)


def test_neighbours_wait_no_longer_however_many_requests_another_client_has() -> None:
    few, many = (neighbours(" ".join(["word"] * 15), clients=8, crowd=crowd, waits=100) for crowd in (64, 300))
    assert many <= 1.1 * few


def waiting(lane: Lane) -> list[Request]:
    """The requests that wait in a lane, which stays as it is."""
    copied = copy.deepcopy(lane, {id(lane._number): itertools.count(10_000)})  # newer Pythons copy no count
    return copied.drain()
