"""The commands as a user with exactly some rights would run them."""

from pathlib import Path

from click.testing import CliRunner, Result

from split_ppo.cli.main import cli
from testbed.api import Manifest
from testbed.cluster import Namespace

RBAC = "rbac.authorization.k8s.io"
ALL_OF_JOBS = {"apiGroups": ["splitppo.io"], "resources": ["splitppojobs"], "verbs": ["*"]}


def call(kubeconfig: Path, namespace: str, *arguments: str, text: str | None = None) -> Result:
    given = [*arguments, "--kubeconfig", str(kubeconfig), "-n", namespace]
    return CliRunner().invoke(cli, given, input=text, catch_exceptions=False)


class User:
    """Somebody with these rules in a namespace, and with a ClusterRole's if one is named."""

    def __init__(
        self, namespace: Namespace, folder: Path, *rules: Manifest, name: str = "ann", role: str | None = None
    ) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        own = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": name}, "rules": list(rules)}
        namespace.apply(account, own, self._binding(namespace, name, "Role", name))
        if role is not None:
            namespace.apply(self._binding(namespace, f"{name}-{role}", "ClusterRole", role))
        self.namespace = namespace.name
        self.kubeconfig = namespace.cluster.kubeconfig_for(name, namespace=namespace.name, path=folder / name)

    def _binding(self, namespace: Namespace, name: str, kind: str, role: str) -> Manifest:
        return {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name.split("-")[0], "namespace": namespace.name}],
        }

    def __call__(self, *arguments: str, text: str | None = None) -> Result:
        return call(self.kubeconfig, self.namespace, *arguments, text=text)
