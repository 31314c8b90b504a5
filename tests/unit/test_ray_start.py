"""A raylet is told the port that its agent is told."""

import socket

import pytest

from split_ppo_trainer.ray_start import free_ports, with_agent_port

RAYLET = [
    "raylet",
    "--node_id=1",
    "--dashboard_agent_command=python agent.py --grpc-port=1 --listen-port=23456 --minimal",
]


def test_a_raylet_learns_its_agents_port() -> None:
    assert with_agent_port(RAYLET) == [*RAYLET, "--dashboard_agent_listen_port=23456"]


def test_what_chooses_its_own_port_and_what_is_no_raylet_stays() -> None:
    chooses = ["raylet", "--dashboard_agent_command=python agent.py --listen-port=0"]
    assert with_agent_port(chooses) == chooses
    assert with_agent_port(["gcs_server", "--port=1"]) == ["gcs_server", "--port=1"]


def test_a_port_is_nobody_elses_until_its_server_listens() -> None:
    (port,) = free_ports(1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("", port))
    with socket.create_server(("", port)) as server, socket.create_connection(("127.0.0.1", port)):
        server.accept()[0].close()
