"""The order of the work: clients take turns by tokens."""

import copy
import itertools

import pytest

from dragoman.services.endpoint.fair_queue import Lane, Request, tokens_of


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


@pytest.mark.parametrize("clients", [("", ""), ("a", "b")])
def test_requests_and_clients_take_turns_by_tokens(clients: tuple[str, str]) -> None:
    many, few = request(*[20] * 6, client=clients[0]), request(*[60] * 2, client=clients[1])
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
    lane = filled(request(60, client="again"))
    taken(lane, 1)
    again, other = request(20, client="again"), request(*[20] * 5, client="other")
    lane.add(again)
    lane.add(other)
    assert taken(lane, 6) == [other, other, other, again, other, other]


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


def waiting(lane: Lane) -> list[Request]:
    """The requests that wait in a lane, which stays as it is."""
    copied = copy.deepcopy(lane, {id(lane._number): itertools.count(10_000)})  # newer Pythons copy no count
    return copied.drain()
