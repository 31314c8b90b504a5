"""Where the weights of a rank meet its rollout server: a socket of this run alone.

verl names that socket in /tmp by Ray's job id, which is the same in every new Ray cluster. Two runs on one machine then
take each other's sockets, and both wait for ever. So verl's name gets another place: whatever SPLIT_PPO_SOCKETS holds is
put before it. `split-ppo run` sets a folder that goes with the run; elsewhere the driver draws a prefix in /tmp, where
verl removes each socket after use. Both ends read the same variable, so they agree or keep verl's name.
"""

import secrets
from collections.abc import Mapping
from pathlib import PurePosixPath

PREFIX = "SPLIT_PPO_SOCKETS"
IPC = "ipc://"


def own_handle(handle: str, environment: Mapping[str, str]) -> str:
    """verl's address of a socket, moved to this run's place."""
    prefix = environment.get(PREFIX)
    if not prefix or not handle.startswith(IPC):
        return handle
    return f"{IPC}{prefix}{PurePosixPath(handle.removeprefix(IPC)).name}"


def own_prefix(environment: Mapping[str, str]) -> str:
    """The one that is set, or a new one."""
    return environment.get(PREFIX) or f"/tmp/split-ppo-{secrets.token_hex(4)}-"
