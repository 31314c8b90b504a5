"""YAML as people write it: keys in their order, texts of several lines as blocks."""

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def yaml_text(*documents: Any) -> str:
    """The documents, parted by `---` where there are several."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))
