"""Memory for bodies: bounded, in line, used again."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.http.bodies import SMALL, BodyMemory

LARGE = 4 * SMALL


def test_a_buffer_is_at_least_as_large_as_asked_and_can_be_written() -> None:
    memory, got = BodyMemory(1000, 0), list[memoryview]()
    memory.take(10, got.append)
    [buffer] = got
    assert len(buffer) >= 10
    buffer[:10] = b"0123456789"
    assert bytes(buffer[:10]) == b"0123456789"
    assert memory.bytes_out == len(buffer)


def test_who_comes_too_late_waits_in_line() -> None:
    memory = BodyMemory(100, 0)
    got: list[tuple[str, memoryview]] = []
    memory.take(80, lambda buffer: got.append(("first", buffer)))
    memory.take(30, lambda buffer: got.append(("second", buffer)))
    memory.take(10, lambda buffer: got.append(("third, which would fit", buffer)))
    assert [name for name, _ in got] == ["first"]
    memory.give_back(got[0][1])
    assert [name for name, _ in got] == ["first", "second", "third, which would fit"]
    assert memory.bytes_out == 40


def test_more_than_there_is_is_given_alone() -> None:
    memory, got = BodyMemory(100, 0), list[memoryview]()
    memory.take(1, got.append)
    memory.take(500, got.append)
    assert len(got) == 1
    memory.give_back(got[0])
    assert len(got) == 2
    memory.take(1, got.append)
    assert len(got) == 2


def test_who_waits_no_more_lets_the_next_one_go() -> None:
    memory, got = BodyMemory(100, 0), list[memoryview]()
    other = list[memoryview]()
    memory.take(50, got.append)
    memory.take(80, other.append)
    memory.take(50, got.append)
    memory.withdraw(other.append)
    assert (len(got), other) == (2, [])


def test_a_large_buffer_is_used_again_for_a_body_of_its_size() -> None:
    memory, got = BodyMemory(100 * LARGE, 10 * LARGE), list[memoryview]()
    memory.take(LARGE, got.append)
    memory.give_back(got[0])
    assert memory.bytes_spare == LARGE
    memory.take(LARGE // 3, got.append)
    assert got[1] is not got[0]
    memory.take(LARGE - 1000, got.append)
    assert got[2] is got[0]
    assert memory.bytes_spare == 0


def test_small_buffers_are_not_kept() -> None:
    memory, got = BodyMemory(LARGE, LARGE), list[memoryview]()
    memory.take(SMALL, got.append)
    memory.give_back(got[0])
    assert memory.bytes_spare == 0


def test_newer_buffers_take_the_room_of_older_ones() -> None:
    """Bodies grow with the cluster: what was kept of smaller ones must not keep the present ones from being kept."""
    memory, got = BodyMemory(100 * LARGE, 4 * LARGE), list[memoryview]()
    for _ in range(4):
        memory.take(LARGE, got.append)
    for buffer in got:
        memory.give_back(buffer)
    memory.take(3 * LARGE, got.append)
    memory.give_back(got[-1])
    assert memory.bytes_spare == 4 * LARGE
    memory.take(3 * LARGE, got.append)
    assert got[-1] is got[-2]


def test_one_larger_than_may_be_kept_is_let_go_and_displaces_nothing() -> None:
    memory, got = BodyMemory(100 * LARGE, 2 * LARGE), list[memoryview]()
    memory.take(LARGE, got.append)
    memory.take(3 * LARGE, got.append)
    for buffer in got:
        memory.give_back(buffer)
    assert memory.bytes_spare == LARGE


@given(st.lists(st.tuples(st.sampled_from(["take", "give", "withdraw"]), st.integers(1, 5 * SMALL)), max_size=60))
def test_whatever_is_taken_and_given_back(steps: list[tuple[str, int]]) -> None:
    most, spare = 10 * SMALL, 6 * SMALL
    memory = BodyMemory(most, spare)
    out: list[memoryview] = []
    waiting: list[Callable[[memoryview], None]] = []
    for kind, size in steps:
        if kind == "take":

            def ready(buffer: memoryview, size: int = size) -> None:
                assert len(buffer) >= size
                out.append(buffer)
                waiting.remove(ready)

            waiting.append(ready)
            memory.take(size, ready)
        elif kind == "give" and out:
            memory.give_back(out.pop(size % len(out)))
        elif waiting:
            memory.withdraw(waiting.pop(size % len(waiting)))
        assert memory.bytes_out == sum(map(len, out))
        # A spare buffer that is given again may be twice as large as what was asked.
        assert memory.bytes_out <= most + 5 * SMALL
        assert memory.bytes_spare <= spare
        assert out or not waiting
        views = [id(buffer.obj) for buffer in out]
        assert len(set(views)) == len(views)
