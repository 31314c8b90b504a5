"""How Ray's nodes start on one machine, however busy: settings, ports, and time.

Ray has no time to give in two places, both written into its code. A raylet waits 15 s for its dashboard agent to write
down the port it listens on, then dies; it knows a flag for that port and does not wait when it is given, but Ray passes
the number to the agent alone. And a node that has not registered after half a minute is given up.
"""

import random
import re
import socket
import time
from typing import Any

NODE_STARTS_S = 120.0

RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",  # the log holds everything
    "RAY_memory_monitor_refresh_ms": "0",  # it kills by the machine's memory, which others use too
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Where cores are few and busy, Ray's own helpers and the warm process take longer than Ray waits for them.
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_raylet_start_wait_time_s": "3",  # no signal is obeyed during this wait; Ray repeats it
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "0",  # Ray waits for it even when told to leave it out
    # What Ray does beside the training takes from the same few cores, and nobody here looks at tasks or at each process' usage.
    "RAY_task_events_report_interval_ms": "0",
    "REPORTER_UPDATE_INTERVAL_MS": "60000",
    # Each of these workers wakes a hundred times a second and gets nothing to do: the trainer runs actors, which have their own.
    "RAY_prestart_worker_first_driver": "0",
    # Names of log files are looked for ten times a second up to this number of files, twice above it.
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
}

# Ray's helpers can choose their own ports, but then a raylet waits for each to write its number down, and dies when that
# takes a busy machine longer than 15 seconds. Given numbers it does not wait: it is up at once.
AGENT_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")


_reserved: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, from below those that the system hands out by itself; nobody else is given them.

    Ray's helpers take seconds before they listen, and a node dies of one whose port is taken. So each port is held
    until this process ends by a socket that never listens: it keeps other runs off, and lets a server in, because
    servers bind with SO_REUSEADDR and this looks without.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        holder = socket.socket()
        try:
            holder.bind(("", port))
        except OSError:
            holder.close()
            continue
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _reserved.append(holder)
        found.append(port)
    return found


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
