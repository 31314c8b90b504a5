"""Ray's Jobs API of a job's RayCluster, through the API server's proxy: works in and out of the cluster alike."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from split_ppo_operator.cluster import SECRETS, ApiError, Cluster, segment
from split_ppo_operator.snapshot import SubmissionView


class RayNotAnswering(Exception):
    """The dashboard can't be reached, or refused; the text is for the user."""


@dataclass(frozen=True)
class RayApi:
    """One RayCluster's dashboard. The token is KubeRay's, in a Secret named like the cluster (its last 50 characters)."""

    cluster: Cluster
    namespace: str
    name: str

    async def nodes(self) -> frozenset[str]:
        """Addresses of the nodes that Ray counts as alive."""
        answer = await self._json("GET", "/api/v0/nodes?limit=10000&detail=true")
        listed = answer.get("data", {}).get("result", {}).get("result", [])
        return frozenset(str(n["node_ip"]) for n in listed if n.get("state") == "ALIVE")

    async def submission(self, sid: str) -> SubmissionView:
        status, text = await self._request("GET", f"/api/jobs/{segment(sid)}")
        if status == 404:
            return SubmissionView(sid, None)
        if status != 200:
            raise RayNotAnswering(f"Ray's dashboard answers {status}: {text[:200]}")
        found = json.loads(text)
        return SubmissionView(sid, found["status"], found.get("message") or "", found.get("driver_exit_code"))

    async def submit(self, sid: str, entrypoint: str, metadata: dict[str, str]) -> None:
        """Hand it over. An id that Ray knows already was handed over before, which is as good."""
        body = {"entrypoint": entrypoint, "submission_id": sid, "metadata": metadata}
        status, text = await self._request("POST", "/api/jobs/", body)
        if status != 200 and "already exists" not in text:
            raise RayNotAnswering(f"Ray refuses the submission with {status}: {text.strip()[-300:]}")

    async def stop(self, sid: str) -> None:
        await self._request("POST", f"/api/jobs/{segment(sid)}/stop")

    async def _json(self, method: str, path: str) -> dict[str, Any]:
        status, text = await self._request(method, path)
        if status != 200:
            raise RayNotAnswering(f"Ray's dashboard answers {status}: {text[:200]}")
        return dict(json.loads(text))

    async def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        secret = await self.cluster.get(SECRETS, self.name[-50:], namespace=self.namespace)
        if secret is None:
            raise RayNotAnswering("KubeRay has not made the token of the Ray cluster yet.")
        token = base64.b64decode(secret["data"]["auth_token"]).decode()
        service = f"{self.name}-head-svc:dashboard"
        try:
            return await self.cluster.proxy(
                method, path, namespace=self.namespace, service=service, token=token, body=body
            )
        except ApiError as error:
            if error.status in (403, 401):
                raise
            raise RayNotAnswering(f"Ray's dashboard can't be reached: {error.message}") from error
