"""Everything here needs Kubernetes."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if {"real_cluster", "real_namespace", "local_real_cluster"} & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.nodes)
