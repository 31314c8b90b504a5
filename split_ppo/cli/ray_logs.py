"""The driver's log of a Ray cluster that is there: through the API server's proxy, with the cluster's token."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass

from split_ppo.api import GROUP
from split_ppo.api.status import AttemptStatus
from split_ppo.cli.api_server import ApiServer, Object, ServiceRefusal
from split_ppo.cli.refusals import ClusterError

TOKEN_PURPOSE = "It holds the token without which Ray answers nobody."


@dataclass(frozen=True)
class RayLog:
    """The log of one attempt, and the addresses of the pools' pods."""

    server: ApiServer
    cluster: str
    submission: str
    head_ip: str
    pools: dict[str, str]

    def lines(self, *, follow: bool) -> Iterator[str]:
        """From the first line on; with `follow` without an end, until the connection is lost."""
        query = {"node_ip": self.head_ip, "filename": f"job-driver-{self.submission}.log", "lines": "-1"}
        query |= {"interval": "0.5"} if follow else {"timeout": "600"}
        path = self.server.path("api/v1", "services", f"{self.cluster}-head-svc:dashboard", "proxy")
        kind = "stream" if follow else "file"
        try:
            response = self.server.open(
                "GET",
                f"{path}/api/v0/logs/{kind}",
                query=query,
                headers={"x-ray-authorization": f"Bearer {ray_token(self.server, self.cluster)}", "Accept": "*/*"},
                patience=None,
                purpose="Ray's logs are read through the API server's proxy.",
            )
        except ServiceRefusal as refusal:
            raise ClusterError(f"Ray's dashboard answers {refusal}") from None
        return self.server.lines(response)


def find_ray_log(server: ApiServer, attempt: AttemptStatus | None) -> RayLog | None:
    """The attempt's log in Ray, if it was handed to Ray and its head is there."""
    if attempt is None or attempt.cluster is None or attempt.submission_id is None:
        return None
    pods = cluster_pods(server, attempt.cluster)
    head = running_head(pods)
    if head is None or not (attempt.head or "").startswith(head["metadata"]["uid"]):
        return None
    pools = {
        str(pod["status"]["podIP"]): str(pod["metadata"]["labels"][f"{GROUP}/pool"])
        for pod in pods
        if pod["status"].get("podIP") and f"{GROUP}/pool" in pod["metadata"]["labels"]
    }
    return RayLog(server, attempt.cluster, attempt.submission_id, head["status"]["podIP"], pools)


def cluster_pods(server: ApiServer, cluster: str) -> list[Object]:
    return server.find(
        "pods", labels=f"ray.io/cluster={cluster}", purpose="Logs are told apart by the pods' addresses."
    )


def running_head(pods: list[Object]) -> Object | None:
    heads = [p for p in pods if p["metadata"]["labels"].get("ray.io/node-type") == "head"]
    alive = [p for p in heads if p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp")]
    return alive[0] if alive else None


def ray_token(server: ApiServer, cluster: str) -> str:
    """KubeRay names the Secret like the cluster, by its last 50 characters."""
    secret = server.get(server.path("api/v1", "secrets", cluster[-50:]), purpose=TOKEN_PURPOSE)
    return base64.b64decode(secret["data"]["auth_token"]).decode()
