"""`make generate` and `make verify`: write the files that come from the types, or fail where one differs."""

import argparse
import json
import sys
from pathlib import Path

import yaml

from split_ppo.api.reference import reference_page
from split_ppo.api.schema import custom_resource_definition, json_schema, structural_schema

ROOT = Path(__file__).resolve().parents[2]
_HEADER = "# Written by `make generate` from the types in split_ppo/api.\n"
_CHART_METADATA = """\
  labels: {{- include "split-ppo.labels" . | nindent 4 }}
  {{- if .Values.crds.keep }}
  annotations: {helm.sh/resource-policy: keep}
  {{- end }}
"""


def generated_files() -> dict[str, str]:
    """Every generated file by its path in the repository."""
    crd = _HEADER + yaml.safe_dump(custom_resource_definition(), sort_keys=False, width=120, allow_unicode=True)
    return {
        "crds/splitppo.io_splitppojobs.yaml": crd,
        "charts/split-ppo/templates/crd.yaml": chart_template(crd),
        "docs/splitppojob.schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
        "docs/reference.md": reference_page(structural_schema()),
    }


def chart_template(crd: str) -> str:
    """The CRD as a template of the chart: what is in a chart's crds/ folder is never upgraded."""
    head, tail = crd.split("spec:\n", 1)
    text = head + _CHART_METADATA + "spec:\n" + tail.replace("{{", '{{ "{{" }}')
    return "{{- if .Values.crds.install }}\n" + text + "{{- end }}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the files that are generated from the API types.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    check = parser.parse_args().check
    drifted = []
    for name, text in generated_files().items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        drifted.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if check and drifted:
        print(
            f"not what the types say: {', '.join(drifted)}. Run `make generate` and commit the result.", file=sys.stderr
        )
        return 1
    print("generated files agree with the types" if not drifted else f"wrote {', '.join(drifted)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
