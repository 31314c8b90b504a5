"""Where the weights of a rank meet its rollout server: a socket of this run alone.

verl names that socket in /tmp by Ray's job id, which is the same in every new Ray cluster. Two runs on one machine then
take each other's sockets, and both wait for ever. So verl's name gets another place: whatever SPLIT_PPO_SOCKETS holds is
put before it. `split-ppo run` sets a folder that goes with the run; elsewhere the driver draws a prefix in /tmp, where
verl removes each socket after use. Both ends read the same variable, so they agree or keep verl's name.

The server is called before the rank listens. If it comes first it is refused, and ZeroMQ tries again only after a tenth of
a second or two, in which nothing happens: in half of all steps. So it looks for the socket before it connects.
"""

import secrets
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

PREFIX = "SPLIT_PPO_SOCKETS"
IPC = "ipc://"
LISTENS_WITHIN_S = 2.0  # else ZeroMQ goes on trying by itself
LOOK_S = 0.001


def own_handle(handle: str, environment: Mapping[str, str]) -> str:
    """verl's address of a socket, moved to this run's place."""
    prefix = environment.get(PREFIX)
    if not prefix or not handle.startswith(IPC):
        return handle
    return f"{IPC}{prefix}{PurePosixPath(handle.removeprefix(IPC)).name}"


def own_prefix(environment: Mapping[str, str]) -> str:
    """The one that is set, or a new one."""
    return environment.get(PREFIX) or f"/tmp/split-ppo-{secrets.token_hex(4)}-"


def await_listener(handle: str) -> None:
    """Until the socket is there. Other addresses than files are not waited for."""
    if not handle.startswith(IPC):
        return
    socket, deadline = Path(handle.removeprefix(IPC)), time.monotonic() + LISTENS_WITHIN_S
    while not socket.exists() and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    time.sleep(LOOK_S)  # the file is there an instant before anybody listens
