"""A name never leads to another place than its own: HTTP clients resolve `..` before they ask."""

import pytest
from yarl import URL

from split_ppo.cli.api_server import ApiServer
from split_ppo.cli.refusals import ClusterError
from split_ppo_operator.cluster import SECRETS, SERVICES, ApiError

ASTRAY = ["../../other/secrets/x", "x/../../../../../kube-system/secrets/y", "a?b=c", "a#b", "%2e%2e/x", "..%2f..%2fx"]


@pytest.mark.parametrize("name", ASTRAY)
def test_in_the_operator(name: str) -> None:
    for resource, rest in ((SECRETS, None), (SERVICES, "proxy")):
        asked = URL(f"https://server{resource.path('ours', name, rest)}", encoded=False)
        assert asked.path.startswith(f"/api/v1/namespaces/ours/{resource.plural}/")
        assert asked.raw_path.count("/") == resource.path("ours", "name", rest).count("/")
        assert not asked.query


@pytest.mark.parametrize("name", ASTRAY)
def test_in_the_command_line(name: str) -> None:
    path = ApiServer(None, "", "ours", False).path("api/v1", "secrets", name)
    assert URL(f"https://server{path}").raw_path.count("/") == 6


@pytest.mark.parametrize("name", [".", ".."])
def test_a_folder_is_no_name(name: str) -> None:
    with pytest.raises(ApiError):
        SECRETS.path("ours", name)
    with pytest.raises(ClusterError):
        ApiServer(None, "", "ours", False).path("api/v1", "secrets", name)
