"""Time for a Ray node to start on a busy machine. Ray has none to give in two places, both written into its code.

A raylet waits 15 s for its dashboard agent to write down the port it listens on, then dies. It knows a flag for that port
and does not wait when it is given, but Ray passes the number to the agent alone. And a node that has not registered after
half a minute is given up.
"""

import re
import time
from typing import Any

NODE_STARTS_S = 120.0


def start_patiently() -> None:
    """In this process: raylets are told their agent's port, and nodes get two minutes."""
    from ray._private import services

    start, ask = services.start_ray_process, services.get_node

    def start_with_port(command: list[str], *args: Any, **kwargs: Any) -> Any:
        return start(with_agent_port(command), *args, **kwargs)

    def ask_longer(gcs_address: str, node_id: str) -> Any:
        deadline = time.monotonic() + NODE_STARTS_S
        while True:
            try:
                return ask(gcs_address, node_id)
            except RuntimeError:  # not there yet; Ray has waited a while
                if time.monotonic() > deadline:
                    raise

    services.start_ray_process, services.get_node = start_with_port, ask_longer


def with_agent_port(command: list[str]) -> list[str]:
    """A raylet's command line with the port that it hands to its agent; any other as it is."""
    agent = next((word for word in command if word.startswith("--dashboard_agent_command=")), "")
    port = re.search(r"--listen-port=([1-9]\d*)", agent)
    return [*command, f"--dashboard_agent_listen_port={port[1]}"] if port else command
