"""Which proxy, if any, stands before the API server."""

import pytest
from kubernetes.aio import client

from split_ppo_operator.cluster import proxy_for


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def server(host: str, proxy: str | None = None) -> client.Configuration:
    configuration = client.Configuration(host=host)
    configuration.proxy = proxy
    return configuration


def test_none_unless_somebody_says_so() -> None:
    assert proxy_for(server("https://10.96.0.1:443")) is None


def test_the_environment_by_scheme_and_with_its_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.96.0.1,.inside")
    assert proxy_for(server("https://api.example:6443")) == "http://proxy:3128"
    assert proxy_for(server("http://api.example:8080")) is None
    assert proxy_for(server("https://10.96.0.1:443")) is None
    assert proxy_for(server("https://api.inside:6443")) is None


def test_the_kubeconfig_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "api.example")
    assert proxy_for(server("https://api.example:6443", "http://mine:1")) == "http://mine:1"
