"""Leader election with a Lease of our own: one replica acts, the others wait.

Whether a Lease has run out is measured by how long *we* have seen it unchanged, on the monotonic clock; wall clocks of two
machines are never compared. On exit the Lease is given back, so that the next one need not wait.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from split_ppo_operator.cluster import LEASES, ApiError, Cluster

Object = dict[str, Any]
log = logging.getLogger("split_ppo.operator")


class LeaseLost(Exception):
    """Another replica took over, or the Lease could not be renewed in time."""


class Lease:
    """`seconds` is how long the others wait for a holder that fell silent; it is renewed three times as often."""

    def __init__(self, cluster: Cluster, *, namespace: str, name: str, identity: str, seconds: float) -> None:
        self._cluster, self._namespace, self._name, self._identity = cluster, namespace, name, identity
        self._seconds = max(seconds, 3.0)
        self._seen: tuple[str, float] | None = None
        self._said = ""
        self.held = False

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        while not self.held:
            self.held = await self._try()
            if not self.held:
                await asyncio.sleep(self._seconds / 7)

    async def keep(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Renew until it can't be; raises LeaseLost before anybody else may think it free."""
        renewed = clock()
        while True:
            await asyncio.sleep(self._seconds / 3)
            began = clock()
            if await self._try():
                renewed = began
            elif clock() - renewed > self._seconds * 2 / 3 or not self.held:
                self.held = False
                raise LeaseLost(f"the Lease {self._namespace}/{self._name} could not be renewed")

    async def release(self) -> None:
        if not self.held:
            return
        self.held = False
        try:
            found = await self._cluster.get(LEASES, self._name, namespace=self._namespace)
            if found and found["spec"].get("holderIdentity") == self._identity:
                found["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._cluster.replace(LEASES, found, namespace=self._namespace)
        except ApiError:
            return  # it runs out by itself

    async def _try(self) -> bool:
        """Whether it is ours now. An answer that comes too late is none: by then it may be somebody else's."""
        try:
            async with asyncio.timeout(self._seconds / 3):
                return await self._claim()
        except TimeoutError:
            return False
        except ApiError as error:
            if not error.transient and error.message != self._said:
                self._said = error.message
                log.error("can't use the Lease %s/%s: %s", self._namespace, self._name, error.message)
            return False

    async def _claim(self) -> bool:
        found = await self._cluster.get(LEASES, self._name, namespace=self._namespace)
        if found is None:
            manifest = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
            await self._cluster.create(LEASES, {**manifest, "spec": self._spec({})}, namespace=self._namespace)
            return True
        holder = found["spec"].get("holderIdentity")
        if holder and holder != self._identity and not self._expired(found):
            self.held = False
            return False
        found["spec"] = self._spec(found["spec"])
        # The resourceVersion goes along: if somebody was faster, this is refused.
        await self._cluster.replace(LEASES, found, namespace=self._namespace)
        return True

    def _expired(self, found: Object) -> bool:
        version, now = found["metadata"]["resourceVersion"], time.monotonic()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
            return False
        return now - self._seen[1] > float(found["spec"].get("leaseDurationSeconds", self._seconds))

    def _spec(self, old: Object) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        mine = old.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._seconds),
            "acquireTime": old.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": old.get("leaseTransitions", 0) + (0 if mine or not old else 1),
        }
