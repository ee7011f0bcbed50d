"""Policies and kinds of resources are found by name, one at a time, and a broken one leaves the others alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from importlib.metadata import EntryPoint

import pytest

from bayplan.errors import InputError
from bayplan.files import plugins
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.policy import ENTRY_POINTS as POLICIES
from bayplan.resources.cpu import CpuResource
from bayplan.resources.plugin import ENTRY_POINTS as RESOURCES

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Entry points beside the installed ones: name=value."""

    def add(group: str, **values: str) -> None:
        real = metadata.entry_points

        def more(**asked: str) -> list[EntryPoint]:
            extra = [EntryPoint(name=name, value=value, group=group) for name, value in values.items()]
            return [*real(**asked), *(extra if asked["group"] == group else [])]

        monkeypatch.setattr(metadata, "entry_points", more)

    return add


def test_the_kubelet_is_a_policy_like_any_other() -> None:
    assert plugins.load_policy("kubelet") is KubeletPolicy
    assert "kubelet" in plugins.policy_names()
    loaded = plugins.load_policies()
    assert loaded.found["kubelet"] is KubeletPolicy
    assert loaded.problems == ()


def test_the_kinds_of_resources_of_the_tree_are_found() -> None:
    loaded = plugins.load_resources()
    assert {"cpu", "memory", "devices"} <= {plugin.name for plugin in loaded.found}
    assert loaded.problems == ()
    assert isinstance(plugins.load_resource("cpu"), CpuResource)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown policy: 'kublet' \(expected kubelet\)"):
        plugins.load_policy("kublet")
    with pytest.raises(InputError, match=r"unknown kind of resource: 'device' \(expected devices"):
        plugins.load_resource("device")
    with pytest.raises(InputError, match=r"expected cpu or devices or memory"):
        plugins.load_resource("xyzzy")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("bayplan.no_such_module:Policy", "cannot be loaded: ModuleNotFoundError"),
        ("bayplan.errors:NoSuchName", "cannot be loaded: AttributeError"),
        ("not a reference", "cannot be loaded"),
        ("bayplan.errors:InputError", "is no policy"),
        ("bayplan.errors:MAX_SHOWN_VALUE", "is no policy"),
    ],
)
def test_a_policy_that_does_not_load_is_named_and_others_work(value: str, problem: str, install: Install) -> None:
    install(POLICIES, broken=value)
    with pytest.raises(InputError, match=problem) as caught:
        plugins.load_policy("broken")
    assert caught.value.source == "bayplan.policies:broken"
    loaded = plugins.load_policies()
    assert "broken" not in loaded.found
    assert loaded.found["kubelet"] is KubeletPolicy
    assert [str(p) for p in loaded.problems] == [str(caught.value)]
    assert plugins.load_policy("kubelet") is KubeletPolicy


def test_a_resource_that_cannot_be_made_is_named_and_others_work(install: Install) -> None:
    install(RESOURCES, broken="bayplan.policies.policy:Policy", worse="bayplan.resources.plugin:ResourcePlugin")
    loaded = plugins.load_resources()
    assert {"cpu", "memory", "devices"} <= {plugin.name for plugin in loaded.found}
    told = [str(problem) for problem in loaded.problems]
    assert len(told) == 2
    assert "bayplan.resources:broken" in told[0]
    assert "is no kind of resource" in told[0]
    assert "cannot be made: TypeError" in told[1]


def test_two_plugins_of_one_name_are_an_error_unless_they_are_the_same(install: Install) -> None:
    install(RESOURCES, cpu="bayplan.resources.cpu:CpuResource")
    assert isinstance(plugins.load_resource("cpu"), CpuResource)
    install(RESOURCES, cpu="bayplan.resources.memory:MemoryResource")
    with pytest.raises(InputError, match="two plugins are called cpu"):
        plugins.load_resource("cpu")


def test_names_are_listed_and_one_is_loaded_without_importing_the_others() -> None:
    script = (
        "import sys\n"
        "from bayplan.files import plugins\n"
        "plugins.policy_names(), plugins.resource_names()\n"
        "assert 'bayplan.policies.kubelet' not in sys.modules\n"
        "assert 'bayplan.resources.cpu' not in sys.modules\n"
        "plugins.load_resource('cpu')\n"
        "assert 'bayplan.resources.memory' not in sys.modules\n"
        "assert 'bayplan.policies.kubelet' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_card_policies_are_found_whatever_the_case_and_dashes_of_their_names() -> None:
    from bayplan.fleet.cards import policy
    from bayplan.fleet.cards.literature.best_fit import BestFitPolicy

    assert policy.ENTRY_POINTS == plugins.CARD_POLICIES
    assert {"bestfit", "fgd", "pwr+fgd", "random"} <= set(plugins.card_policy_names())
    for name in ("bestfit", "BestFit", "best-fit", "BEST_FIT"):
        assert plugins.load_card_policy(name) is BestFitPolicy
    assert b"class BestFitPolicy" in plugins.card_policy_source("best-fit")


def test_of_an_unknown_card_policy_all_others_are_told_the_nearest_first() -> None:
    with pytest.raises(InputError) as caught:
        plugins.load_card_policy("bst-fit")
    assert caught.value.expected.split(" or ")[0] == "bestfit"
    assert set(plugins.card_policy_names()) == set(caught.value.expected.split(" or "))


def test_two_card_policies_whose_names_differ_in_a_dash_are_one_too_many(install: Install) -> None:
    install(plugins.CARD_POLICIES, **{"best-fit": "elsewhere:BestFit"})
    with pytest.raises(InputError, match="two plugins are called best_fit"):
        plugins.load_card_policy("best_fit")


def test_what_does_not_place_is_no_card_policy(install: Install) -> None:
    install(plugins.CARD_POLICIES, odd="collections:OrderedDict")
    with pytest.raises(InputError, match=r"no card policy .*expected a class with seen, place, scores"):
        plugins.load_card_policy("odd")
