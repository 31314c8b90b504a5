"""A raylet is told the port that its agent is told."""

from split_ppo_trainer.ray_start import with_agent_port

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
