"""Structured logs: one JSON object a line on standard error, or words where a person looks on."""

from __future__ import annotations

import logging
import sys
from typing import cast

import structlog

# klog's verbosity, which the users of TAS and GAS have in their Deployments: 4 and up is for debugging.
_DEBUG_VERBOSITY = 4


def set_up_logs(verbosity: int) -> None:
    """Send everything to standard error. `verbosity` is klog's: 0 to 3 tell what happens, from 4 on how."""
    level = logging.DEBUG if verbosity >= _DEBUG_VERBOSITY else logging.INFO
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # The HTTP client tells of every request; its warnings are of interest, its chat is not.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")


def logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """A log for one part of the program."""
    return cast("structlog.typing.FilteringBoundLogger", structlog.get_logger(part=name))
