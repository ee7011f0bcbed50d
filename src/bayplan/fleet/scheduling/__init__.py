"""What an extender of kube-scheduler answers: the checks of telemetry, cards and zones, one after the other.

Pure and mutable: events change what is known, questions are answered from it. The same events and questions in the same
order get the same answers, which is what `bayplan replay` shows.
"""

from bayplan.fleet.scheduling.checks import Check, Objections, Promise, Question
from bayplan.fleet.scheduling.scheduling import FilterDecision, Scheduling

__all__ = ["Check", "FilterDecision", "Objections", "Promise", "Question", "Scheduling"]
