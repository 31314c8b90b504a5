"""The chart's README, from the comments in its values.yaml: `python tools/chart_readme.py [--check]`.

A comment that stands directly above a key is what that key means. A mapping whose keys have comments is a section; any other
value is one row of the table, with its default as JSON.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[1] / "charts" / "split-ppo"
HEAD = """\
# split-ppo

{description}

```console
$ helm install split-ppo charts/split-ppo --namespace split-ppo --create-namespace
$ helm test split-ppo --namespace split-ppo
```

Needs Kubernetes {kubernetes} and KubeRay 1.6 or newer ([docs/install.md](../../docs/install.md) says how to get both at once).
The CRD is part of the release: upgrades bring it up to date, uninstalling keeps it and with it every job.
A value that is not in this table is refused.

<!-- Written by `make generate` from values.yaml. -->
| value | default | |
|---|---|---|
"""


def readme() -> str:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    text = (CHART / "values.yaml").read_text()
    head = HEAD.format(description=chart["description"], kubernetes=chart["kubeVersion"].removesuffix("-0"))
    return head + "".join(f"| `{key}` | `{default}` | {words} |\n" for key, default, words in rows(text))


def rows(text: str) -> Iterator[tuple[str, str, str]]:
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    yield from _rows(root, yaml.safe_load(text), text.splitlines(), prefix="")


def _rows(
    node: yaml.MappingNode, values: dict[str, object], lines: list[str], *, prefix: str
) -> Iterator[tuple[str, str, str]]:
    for key, value in node.value:
        name, found = f"{prefix}{key.value}", values[key.value]
        if isinstance(value, yaml.MappingNode) and any(_comment(lines, k.start_mark.line) for k, _ in value.value):
            assert isinstance(found, dict)
            yield from _rows(value, found, lines, prefix=f"{name}.")
            continue
        words = _comment(lines, key.start_mark.line)
        if not words:
            raise SystemExit(f"values.yaml: {name} has no comment above it.")
        yield name, json.dumps(found), words


def _comment(lines: list[str], at: int) -> str:
    """The comment lines directly above line `at`, as one sentence."""
    above: list[str] = []
    while at > 0 and lines[at - 1].lstrip().startswith("# "):
        at -= 1
        above.insert(0, lines[at].lstrip()[2:])
    return " ".join(above)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the chart's README from its values.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it differs")
    check = parser.parse_args().check
    file = CHART / "README.md"
    if file.exists() and file.read_text() == readme():
        return 0
    if check:
        print(f"{file.parent.name}/README.md is not what values.yaml says: run `make generate`.", file=sys.stderr)
        return 1
    file.write_text(readme())
    print("wrote charts/split-ppo/README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
