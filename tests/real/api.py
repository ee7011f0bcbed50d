"""A Kubernetes API server as tests speak to it: objects are plain JSON, paths are those of the API.

Only the standard library, so that what is tested is never also what tests it. Safe from several threads: every call has
a connection of its own.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.real.processes import PATIENCE_SECONDS, wait_for

Json = dict[str, Any]
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
CALL_SECONDS = 30
TERMINATED = {"gracePeriodSeconds": 0}


class ApiError(Exception):
    """The server answered with something else than success; `status` is HTTP's, the text is the server's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    """The API at `url` with the rights of `token`; `ca` is the file of the certificate that the server's is held to."""

    def __init__(self, url: str, token: str, ca: Path) -> None:
        self.url = url
        self.token = token
        self.ca = ca
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._created: list[str] = []

    def call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> bytes:
        """One request; ApiError unless the answer is 2xx, OSError or HTTPException where there is no answer."""
        place = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            place.hostname or "", place.port, context=self._tls, timeout=CALL_SECONDS
        )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise ApiError(answer.status, content.decode(errors="replace"))
        return content

    def get(self, path: str) -> Json:
        """The object, or the list, at a path."""
        return self._json("GET", path)

    def find(self, path: str) -> Json | None:
        """The object at a path, or None where there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def create(self, obj: Json) -> Json:
        """Create an object of any kind that is served, in its namespace or in `default`; `clear` deletes it again."""
        collection = self.collection(obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace", "default"))
        made = self._json("POST", collection, obj)
        self._created.append(f"{collection}/{made['metadata']['name']}")
        return made

    def patch(self, path: str, patch: Json | list[Json], kind: str = "merge") -> Json:
        """Change the object at a path (or its subresource); `kind` is merge, strategic or json."""
        return self._json("PATCH", path, patch, PATCHES[kind])

    def replace(self, path: str, obj: Json) -> Json:
        """Put an object in the place of the one at a path; 409 if that has changed since."""
        return self._json("PUT", path, obj)

    def delete(self, path: str) -> None:
        """Delete the object at a path at once: there is no kubelet here to end a pod. Nothing is said if it is gone."""
        try:
            self.call("DELETE", path, TERMINATED)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def clear(self) -> None:
        """Delete what was made by `create`, the latest first."""
        while self._created:
            self.delete(self._created.pop())

    def collection(self, api_version: str, kind: str, namespace: str = "default") -> str:
        """The path of a kind's objects, as the server's discovery has it.

        Waits for a kind that is not served yet, as one whose definition has just been created.
        """
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        key = (api_version, kind)
        if key not in self._resources:
            self._resources[key] = wait_for(f"{kind} of {api_version} is served", lambda: self._discover(root, kind))
        plural, namespaced = self._resources[key]
        return f"{root}/namespaces/{namespace}/{plural}" if namespaced else f"{root}/{plural}"

    def node(
        self,
        name: str,
        labels: dict[str, str] | None = None,
        allocatable: dict[str, str] | None = None,
        *,
        annotations: dict[str, str] | None = None,
        taints: list[Json] | None = None,
    ) -> Json:
        """A node that says it is ready, so that the scheduler takes it: 4 CPUs, 8 GiB and 110 pods unless told."""
        labels = {"kubernetes.io/hostname": name, **(labels or {})}
        self.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
                "spec": {"taints": taints or []},
            }
        )
        room = {"cpu": "4", "memory": "8Gi", "pods": "110", **(allocatable or {})}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made for a test"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        return self.patch(f"/api/v1/nodes/{name}/status", {"status": status})

    def pod(
        self,
        name: str,
        requests: dict[str, str] | None = None,
        *,
        namespace: str = "default",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> Json:
        """A pod of one container with these requests; other keywords are fields of its specification.

        Extended resources (those with a domain) are limited to what is requested, as the API demands.
        """
        asked = requests or {}
        resources = {"requests": asked, "limits": {key: value for key, value in asked.items() if "/" in key}}
        spec.setdefault("containers", [{"name": "c", "image": "registry.invalid/c", "resources": resources}])
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}, "annotations": annotations or {}}
        return self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def node_of(self, pod: str, namespace: str = "default", seconds: float = PATIENCE_SECONDS) -> str:
        """The node that a pod is bound to; waits until it is."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        return wait_for(f"{pod} is bound", lambda: str(self.get(path)["spec"].get("nodeName", "")), seconds)

    def refusal(self, pod: str, namespace: str = "default", seconds: float = PATIENCE_SECONDS) -> Json:
        """The condition that says why a pod could not be scheduled; waits until there is one."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"

        def refused() -> Json | None:
            conditions = self.get(path)["status"].get("conditions", [])
            found = (c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False")
            return next(found, None)

        return wait_for(f"{pod} is refused", refused, seconds)

    def bind(self, pod: str, node: str, namespace: str = "default", uid: str = "") -> None:
        """Bind a pod to a node, as the scheduler and an extender that binds do."""
        metadata = {"name": pod, "namespace": namespace} | ({"uid": uid} if uid else {})
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        self.call("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", binding)

    def events(self, obj: Json) -> list[Json]:
        """The events about one object, not about an earlier one of its name, as `kubectl describe` shows them."""
        query = urlencode({"fieldSelector": f"involvedObject.uid={obj['metadata']['uid']}"})
        return list(self.get(f"/api/v1/namespaces/{obj['metadata']['namespace']}/events?{query}")["items"])

    def _discover(self, root: str, kind: str) -> tuple[str, bool] | None:
        served = self.find(root) or {"resources": []}
        for resource in served["resources"]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                return resource["name"], resource["namespaced"]
        return None

    def _json(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Json:
        answer: Json = json.loads(self.call(method, path, body, content_type))
        return answer
