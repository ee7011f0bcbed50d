"""Policy objects from their bytes, or from what YAML made of them.

One bad strategy leaves the others alone: it is told among the policy's `problems`, so that the extender can answer with
the reason and the controller can write it into the object's status. Only what has no identity raises `InputError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.errors import InputError
from bayplan.fleet.telemetry import own, tas
from bayplan.fleet.telemetry.model import Policy, Problem, TelemetrySettings
from bayplan.workload.documents import read_documents
from bayplan.workload.fields import INT32_MAX, Fields, as_fields, shown
from bayplan.workload.names import MAX_SUBDOMAIN
from bayplan.workload.notes import Notes

_Read = Callable[[Fields, Policy, TelemetrySettings, Notes], Policy]
_KINDS: dict[tuple[str, str], _Read] = {
    (tas.API_VERSION, tas.KIND): tas.read_spec,
    (own.API_VERSION, own.KIND): own.read_spec,
}


def read_policy(data: bytes | dict[str, Any], settings: TelemetrySettings, source: str = "") -> Policy:
    """A TASPolicy or a TelemetryPolicy, as JSON, as YAML, or decoded already.

    Raises `InputError` where there is no such object with a name; whatever else is wrong is in `problems`.
    """
    try:
        value = _one_document(data) if isinstance(data, bytes) else data
        return _read(as_fields(value, ""), settings)
    except InputError as error:
        raise error.within(source=source) from error


def is_policy(value: object) -> bool:
    """Whether a decoded document says that it is a policy of either kind."""
    return isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) in _KINDS


def _one_document(data: bytes) -> Any:
    documents = read_documents(data, "")
    if len(documents) != 1:
        raise InputError(f"{len(documents)} documents", expected="one policy")
    return documents[0].value


def _read(fields: Fields, settings: TelemetrySettings) -> Policy:
    version, kind = fields.text("apiVersion"), fields.text("kind")
    read = _KINDS.get((version, kind))
    if read is None:
        expected = " or ".join(f"{known_kind} of {known}" for known, known_kind in _KINDS)
        raise fields.error("kind", "not a policy", value=f"{kind} of {version}", expected=expected)
    metadata = fields.mapping("metadata")
    name, namespace = metadata.required_text("name"), metadata.text("namespace", "default")
    for field, value in (("name", name), ("namespace", namespace)):
        if len(value) > MAX_SUBDOMAIN:
            raise metadata.error(field, "too long", value=shown(value), expected=f"at most {MAX_SUBDOMAIN} characters")
    policy = Policy(kind=kind, namespace=namespace, name=name)
    notes = Notes()
    try:
        generation = metadata.integer("generation", 0, INT32_MAX * 2**31)
        policy = Policy(kind=kind, namespace=namespace, name=name, generation=generation)
        if fields.optional("spec") is None:
            raise fields.error("spec", "missing", expected="a mapping with strategies")
        return read(fields.mapping("spec"), policy, settings, notes)
    except InputError as error:
        problem = Problem(strategy="", why=str(error))
        return Policy(
            kind=kind,
            namespace=namespace,
            name=name,
            generation=policy.generation,
            problems=(problem,),
            notices=notes.all(),
        )
