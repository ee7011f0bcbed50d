"""When pods came and ended, from what a cluster or a person says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.workload.documents import Document
from bayplan.workload.fields import Fields
from bayplan.workload.manifests import read
from bayplan.workload.times import PodTimes, parse_length, parse_moment, read_times


def times_of(metadata: dict[str, Any], status: dict[str, Any] | None = None) -> PodTimes:
    return read_times(Fields({"metadata": metadata, "status": status or {}}))


def test_a_cluster_says_when_a_pod_was_made_and_deleted() -> None:
    created, deleted = "2026-01-31T12:00:00Z", "2026-01-31T13:00:00+00:00"
    found = times_of({"creationTimestamp": created, "deletionTimestamp": deleted})
    assert found.arrives_s == 1769860800
    assert found.ends_s == 1769860800 + 3600
    assert times_of({}) == PodTimes()


def test_a_pod_has_ended_when_the_last_of_its_containers_has() -> None:
    statuses = [{"state": {"terminated": {"finishedAt": f"1970-01-01T00:00:0{i}Z"}}} for i in (3, 5, 4)]
    created = {"creationTimestamp": "1970-01-01T00:00:01Z"}
    assert times_of(created, {"phase": "Failed", "containerStatuses": statuses}).ends_s == 5
    assert times_of(created, {"phase": "Running", "containerStatuses": statuses}).ends_s is None


def test_what_a_person_writes_comes_first() -> None:
    annotations = {"bayplan.dev/arrives": "90", "bayplan.dev/runs-for": "1h30m"}
    found = times_of({"creationTimestamp": "2026-01-31T12:00:00Z", "annotations": annotations})
    assert found == PodTimes(arrives_s=90, ends_s=90 + 5400)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("250ms", 0.25), ("1h2m3s", 3723), ("2h", 7200), ("1.5h", 5400)]
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert parse_length(text) == seconds


@pytest.mark.parametrize("text", ["", "1d", "-1s", "1h-2m", "1.2.3s", "h", "9" * 15 + "h", "nan", "inf", "1e3", "٣s"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a length of time"):
        parse_length(text)


@pytest.mark.parametrize("text", ["", "2026-01-31", "2026-01-31T12:00:00", "soon", "-5", "nan", "2026-13-01T00:00:00Z"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a moment"):
        parse_moment(text)


@given(st.text())
def test_any_text_is_a_time_or_an_input_error(text: str) -> None:
    for parse in (parse_length, parse_moment):
        try:
            assert parse(text) == parse(text)
        except InputError:
            continue


def test_times_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="ends before it arrives"):
        times_of({"creationTimestamp": "2026-01-31T12:00:00Z", "deletionTimestamp": "2026-01-31T11:00:00Z"})
    with pytest.raises(InputError, match="a time to run but none of arrival"):
        times_of({"annotations": {"bayplan.dev/runs-for": "1h"}})


def test_pods_that_have_ended_are_given_only_where_time_counts() -> None:
    ended = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:01Z"},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Succeeded"},
    }
    documents = [Document("pods.yaml", 1, ended)]
    assert read(documents).pods == ()
    found = read(documents, over_time=True)
    assert [pod.name for pod in found.pods] == ["a"]
    assert found.times == {found.pods[0].source: PodTimes(arrives_s=1)}


def test_a_time_that_is_none_is_named_with_its_document() -> None:
    value = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "creationTimestamp": "yesterday"},
        "spec": {"containers": [{"name": "c"}]},
    }
    with pytest.raises(InputError) as caught:
        read([Document("pods.yaml", 1, value)], over_time=True)
    assert str(caught.value).startswith(
        "pods.yaml: document 1 (Pod default/a): metadata.creationTimestamp: not a moment: 'yesterday'"
    )
