from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.files.card_layouts import layout_names, open_layout
from bayplan.fleet.cards.partitions.document import read_layouts
from bayplan.fleet.cards.partitions.fleet import Instance, PartitionFleet, Placement, Site
from bayplan.fleet.cards.partitions.layout import EMPTY, Layout, Occupancy, largest_fit, starts, taken_with
from bayplan.fleet.cards.partitions.worth import Worth
from bayplan.resources.decision import Refusal
from bayplan.workload.documents import read_documents

A100 = open_layout("a100-80gb")
SMALL = "nvidia.com/mig-1g.10gb"


def site(layout: Layout = A100, cards: int = 1, name: str = "n", only: str = "") -> Site:
    return Site(name=name, layout=layout, cards=cards, only=only)


def put(fleet: PartitionFleet, resource: str, count: int = 1) -> Placement:
    answer = fleet.place({resource: count})
    assert not isinstance(answer, Refusal)
    fleet.take(answer)
    return answer


def refused(fleet: PartitionFleet, resource: str, count: int = 1) -> Refusal:
    answer = fleet.place({resource: count})
    assert isinstance(answer, Refusal)
    return answer


def filled(layout: Layout, *instances: tuple[str, int]) -> Occupancy:
    taken = EMPTY
    for name, start in instances:
        assert start in starts(layout, taken, layout.by_name[name])
        taken = taken_with(layout, taken, layout.by_name[name], start)
    return taken


@pytest.mark.parametrize(
    ("card", "counts"),
    [
        (
            "a100-80gb",
            {"1g.10gb": 7, "1g.10gb+me": 1, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
        ),
        ("a30-24gb", {"1g.6gb": 4, "1g.6gb+me": 1, "2g.12gb": 2, "2g.12gb+me": 1, "4g.24gb": 1}),
        ("mi300x-192gb", {"cpx-nps1": 8, "qpx-nps4": 4, "dpx-nps1": 2, "spx-nps1": 1}),
    ],
)
def test_an_empty_card_holds_as_many_as_the_vendor_says(card: str, counts: dict[str, int]) -> None:
    layout = open_layout(card)
    worth = Worth(layout)
    assert {name: worth.most(EMPTY, layout.by_name[name]) for name in counts} == counts


@pytest.mark.parametrize("name", layout_names())
def test_every_layout_that_comes_along_names_a_resource_for_each_profile(name: str) -> None:
    layout = open_layout(name)
    assert layout.name == name
    assert all(profile.resource for profile in layout.profiles)
    assert layout.resource


def test_the_first_small_instance_leaves_the_half_that_a_large_one_can_have() -> None:
    fleet = PartitionFleet([site()])
    spot = put(fleet, SMALL)
    # 3g.40gb and 4g.40gb still fit beside position 4, 5 or 6, and at 6 two of 2g.20gb beside them.
    assert spot.instances == (Instance(0, 6, "1g.10gb"),)
    assert fleet.room(0).largest == "4g.40gb"
    assert (fleet.room(0).compute, fleet.room(0).memory) == (6, 7)


def test_free_slices_and_the_largest_fit_are_told_apart() -> None:
    fleet = PartitionFleet([site()])
    fleet.take(Placement(0, (Instance(0, 0, "1g.10gb"), Instance(0, 4, "1g.10gb"))))
    room = fleet.room(0)
    assert (room.memory, room.compute) == (6, 5)
    assert room.largest == "2g.20gb"


def test_only_one_instance_has_the_media_engines() -> None:
    fleet = PartitionFleet([site()])
    put(fleet, "nvidia.com/mig-1g.10gb.me")
    refusal = refused(fleet, "nvidia.com/mig-1g.10gb.me")
    assert (refusal.asked, refusal.free) == (1, 0)
    put(fleet, SMALL)


def test_a_uniform_card_is_in_one_mode_until_it_is_empty() -> None:
    fleet = PartitionFleet([site(open_layout("mi300x-192gb"))])
    half = put(fleet, "amd.com/dpx_nps1")
    refused(fleet, "amd.com/cpx_nps1")
    put(fleet, "amd.com/dpx_nps1")
    fleet.give_back(half)
    refused(fleet, "amd.com/cpx_nps1")
    fleet.give_back(Placement(0, fleet.instances(0)))
    put(fleet, "amd.com/cpx_nps1", 8)


def test_a_pod_has_all_its_instances_on_one_node_or_none() -> None:
    fleet = PartitionFleet([site(name="a"), site(name="b", cards=2)])
    spot = put(fleet, "nvidia.com/mig-3g.40gb", 3)
    assert spot.node == 1
    refusal = refused(fleet, "nvidia.com/mig-3g.40gb", 3)
    assert (refusal.asked, refusal.free) == (3, 2)


def test_a_node_of_one_profile_is_asked_for_whole_cards() -> None:
    fleet = PartitionFleet([site(only="2g.20gb")])
    put(fleet, "nvidia.com/gpu", 3)
    refused(fleet, "nvidia.com/gpu")
    with pytest.raises(InputError, match="asks for no partition"):
        fleet.place({SMALL: 1})


def test_what_is_given_back_is_free_again() -> None:
    fleet = PartitionFleet([site()])
    whole = put(fleet, "nvidia.com/mig-7g.80gb")
    refused(fleet, SMALL)
    fleet.give_back(whole)
    put(fleet, "nvidia.com/mig-7g.80gb")
    with pytest.raises(ValueError, match="is not on n"):
        fleet.give_back(Placement(0, (Instance(0, 0, "1g.10gb"),)))
    with pytest.raises(ValueError, match="does not fit"):
        fleet.take(Placement(0, (Instance(0, 0, "1g.10gb"),)))


def test_a_known_mix_decides() -> None:
    """After 1g at 4 and 2g at 0: of what is left, 2:2 is of use to 2g alone, 6:1 and 5:1 to small ones."""
    layout = A100
    taken = filled(layout, ("1g.10gb", 4), ("2g.20gb", 0))
    small = layout.by_name["1g.10gb"]
    for mix in ({"2g.20gb": 1}, {"1g.20gb": 1}):
        best = Worth(layout, mix).best(taken, small)
        assert best is not None
        assert best[1] == 5
        assert best[0][0] == 0


PROFILES = st.lists(st.sampled_from([profile.name for profile in A100.profiles]), min_size=1, max_size=9)


@given(PROFILES, st.integers(1, 2))
def test_a_pod_is_refused_only_where_no_way_exists(names: list[str], cards: int) -> None:
    fleet = PartitionFleet([site(cards=cards)])
    amounts: dict[str, int] = {}
    for name in names:
        resource = A100.profiles[A100.by_name[name]].resource
        amounts[resource] = amounts.get(resource, 0) + 1
    answer = fleet.place(amounts)
    assert isinstance(answer, Refusal) is not exists(A100, [A100.by_name[name] for name in names], (EMPTY,) * cards)
    if not isinstance(answer, Refusal):
        assert sorted(each.profile for each in answer.instances) == sorted(names)
        fleet.take(answer)


def exists(layout: Layout, profiles: list[int], taken: tuple[Occupancy, ...]) -> bool:
    """By trying everything, card states that were met are not met again."""
    states = {tuple(sorted(taken))}
    for profile in profiles:
        states = {
            tuple(sorted((*state[:card], taken_with(layout, state[card], profile, at), *state[card + 1 :])))
            for state in states
            for card in range(len(state))
            for at in starts(layout, state[card], profile)
        }
    return bool(states)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 7)), max_size=7))
def test_the_most_instances_are_those_of_trying_all_subsets(wishes: list[tuple[int, int]]) -> None:
    taken = EMPTY
    for profile, start in wishes:
        if start in starts(A100, taken, profile):
            taken = taken_with(A100, taken, profile, start)
    worth = Worth(A100)
    for profile, each in enumerate(A100.profiles):
        assert worth.most(taken, profile) == by_subsets(taken, profile)
        if worth.most(taken, profile) == 0:
            continue
        largest = largest_fit(A100, taken)
        assert largest is not None
        assert A100.profiles[largest].size >= each.size


def by_subsets(taken: Occupancy, profile: int) -> int:
    wanted = A100.profiles[profile]
    most = 0
    for chosen in product((False, True), repeat=len(wanted.starts)):
        mask, count = taken.mask, 0
        for start, on in zip(wanted.starts, chosen, strict=True):
            if on and not mask & wanted.mask(start):
                mask |= wanted.mask(start)
                count += 1
            elif on:
                count = -100
        if taken.compute + count * wanted.compute <= 7 and taken.media + count * wanted.media <= 1:
            most = max(most, count)
    return most


GOOD = """
apiVersion: bayplan.dev/v1alpha1
kind: CardLayout
name: mine
compute: 2
memory: 2
profiles:
- {name: half, compute: 1, memory: 1, starts: [0, 1], resource: example.com/half}
"""


def test_a_card_of_ones_own_is_read() -> None:
    (layout,) = read_layouts(read_documents(GOOD, "mine.yaml"))
    assert (layout.name, layout.profiles[0].starts) == ("mine", (0, 1))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("starts: [0, 1]", "starts: [0, 2]", "profiles[0].starts[1]: not a position: 2 (expected 0 to 1"),
        ("starts: [0, 1]", "starts: [0, true]", "profiles[0].starts[1]: not a position: True"),
        ("starts: [0, 1]", "starts: []", "profiles[0].starts: none, or one twice"),
        ("starts: [0, 1]", "starts: [1, 1]", "profiles[0].starts: none, or one twice"),
        ("compute: 1,", "compute: 3,", "profiles[0].compute: out of range: 3 (expected 0..2)"),
        ("memory: 1,", "memory: 0,", "profiles[0].memory: out of range: 0"),
        ("memory: 2", "memory: 99", "memory: out of range: 99"),
        ("memory: 2", "", "memory: missing"),
        ("kind: CardLayout", "kind: Cluster", "kind: wrong: 'Cluster' (expected CardLayout)"),
        ("resource: example.com/half", "resource: '!'", "profiles[0].resource: not a valid key"),
        ("name: mine", "name: 'a b'", "name: not a name: 'a b'"),
        ("compute: 2", "compute: 2\nslices: 3", "slices"),
        (
            "profiles:\n- {name: half, compute: 1, memory: 1, starts: [0, 1], resource: example.com/half}",
            "",
            "profiles",
        ),
    ],
)
def test_what_no_card_can_be_is_told_with_its_place(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as error:
        read_layouts(read_documents(GOOD.replace(old, new, 1), "mine.yaml"))
    assert str(error.value).startswith("mine.yaml: document 1")
    assert says in str(error.value)


def test_two_of_one_name_and_none_are_refused() -> None:
    twice = GOOD + GOOD.splitlines()[-1].replace("example.com/half", "example.com/other")
    with pytest.raises(InputError, match=r"profiles\[1\].name: in two profiles: 'half'"):
        read_layouts(read_documents(twice, "mine.yaml"))
    with pytest.raises(InputError, match="two layouts of one name"):
        read_layouts(read_documents(f"{GOOD}---{GOOD}", "mine.yaml"))
    with pytest.raises(InputError, match="no layout"):
        read_layouts(())


def test_an_unknown_card_or_mix_names_what_there_is() -> None:
    with pytest.raises(InputError, match="a100-80gb"):
        open_layout("a100-80")
    with pytest.raises(InputError, match="no such profile"):
        Worth(A100, {"1g.5gb": 1})
    with pytest.raises(InputError, match="cards that are not there"):
        PartitionFleet([site()], {"h100-80gb": {"1g.10gb": 1}})


def test_more_is_served_than_at_the_lowest_free_position() -> None:
    """Four small ones, then a half: at the lowest positions they would have taken both halves."""
    fleet = PartitionFleet([site(cards=2)])
    for _ in range(6):
        put(fleet, SMALL)
    put(fleet, "nvidia.com/mig-7g.80gb")
    assert [fleet.room(0, card).largest for card in (0, 1)] == ["1g.10gb", ""]
