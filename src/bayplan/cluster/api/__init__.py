"""The Kubernetes API server for the scheduler side: calls, lists and watches, and what is written back.

async with Api.connect(find_config(), Settings(qps=50, burst=100)) as api:
    reflector = Reflector(api, PODS, store, rng=random.Random())
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reflector.run())
        await reflector.synced.wait()
"""

from bayplan.cluster.api.binding import bind
from bayplan.cluster.api.client import Api, PatchKind, Settings
from bayplan.cluster.api.connection import find_config
from bayplan.cluster.api.decoding import Bookmark, Change, Page, Unreadable, WatchEvent
from bayplan.cluster.api.errors import (
    AlreadyBoundError,
    ApiError,
    BadRequestError,
    Cause,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from bayplan.cluster.api.eviction import Eviction, Outcome, evict
from bayplan.cluster.api.leadership import Leadership, LeaseTimes
from bayplan.cluster.api.limiter import Limiter, Priority, TokenBucket
from bayplan.cluster.api.patches import patch_metadata, patch_status
from bayplan.cluster.api.recorder import EventCounters, EventRecorder
from bayplan.cluster.api.reflector import Counters, Reflector, Store
from bayplan.cluster.api.resource import EVENTS, LEASES, NODES, PODS, AnyObject, KubernetesObject, ObjectRef, Resource

__all__ = [
    "EVENTS",
    "LEASES",
    "NODES",
    "PODS",
    "AlreadyBoundError",
    "AnyObject",
    "Api",
    "ApiError",
    "BadRequestError",
    "Bookmark",
    "Cause",
    "Change",
    "ConflictError",
    "Counters",
    "EventCounters",
    "EventRecorder",
    "Eviction",
    "ForbiddenError",
    "GoneError",
    "InvalidError",
    "KubernetesObject",
    "Leadership",
    "LeaseTimes",
    "Limiter",
    "NotFoundError",
    "ObjectRef",
    "Outcome",
    "Page",
    "PatchKind",
    "Priority",
    "Reflector",
    "Resource",
    "Settings",
    "Store",
    "TokenBucket",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnavailableError",
    "Unreadable",
    "WatchEvent",
    "bind",
    "evict",
    "find_config",
    "patch_metadata",
    "patch_status",
]
