"""What an environment is made of, as a CycloneDX 1.6 document: `python tools/sbom.py [folder …] > sbom.cdx.json`.

Reads the metadata that every installed distribution carries, of the folders given or of this interpreter. Standard library
only, no network: it runs inside an image build. The same packages give the same text, so two builds can be compared.
"""

import argparse
import json
import re
import sys
import uuid
from importlib import metadata
from typing import Any

Object = dict[str, Any]
PROJECT = "split-ppo"


def document(distributions: list[metadata.Distribution], *, name: str) -> Object:
    """Components sorted by name; the dependency graph holds only what is really there."""
    found = {normalised(d.metadata["Name"]): d for d in distributions if d.metadata["Name"]}
    components = [component(found[key]) for key in sorted(found)]
    graph = [
        {"ref": purl(found[key]), "dependsOn": sorted({purl(found[n]) for n in required(found[key]) if n in found})}
        for key in sorted(found)
    ]
    version = found[PROJECT].version if PROJECT in found else "0"
    subject = {"type": "application", "bom-ref": name, "name": name, "version": version}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join([name, *(c["purl"] for c in components)]))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": subject},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [c["purl"] for c in components]}, *graph],
    }


def component(distribution: metadata.Distribution) -> Object:
    about = distribution.metadata
    made: Object = {
        "type": "library",
        "bom-ref": purl(distribution),
        "name": about["Name"],
        "version": distribution.version,
        "purl": purl(distribution),
    }
    if about.get("Summary"):
        made["description"] = about["Summary"]
    expression, text = about.get("License-Expression"), about.get("License")
    if expression:
        made["licenses"] = [{"expression": expression}]
    elif named := classified(about.get_all("Classifier") or []) or (text or "").strip().split("\n")[0][:100]:
        made["licenses"] = [{"license": {"name": named}}]
    return made


def classified(classifiers: list[str]) -> str:
    return ", ".join(c.rsplit(" :: ", 1)[1] for c in classifiers if c.startswith("License ::"))


def required(distribution: metadata.Distribution) -> list[str]:
    """Names of what it needs, extras left out."""
    asked = [r for r in distribution.requires or [] if "extra ==" not in r]
    return [normalised(re.split(r"[^A-Za-z0-9._-]", r, maxsplit=1)[0]) for r in asked]


def purl(distribution: metadata.Distribution) -> str:
    return f"pkg:pypi/{normalised(distribution.metadata['Name'])}@{distribution.version}"


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    parser = argparse.ArgumentParser(description="Print a CycloneDX SBOM of installed Python packages.")
    parser.add_argument("folders", nargs="*", help="where they are installed (default: this interpreter's own)")
    parser.add_argument("--name", default=PROJECT, help="what the document is about")
    given = parser.parse_args()
    where = given.folders or sys.path
    print(json.dumps(document(list(metadata.distributions(path=where)), name=given.name), indent=2))


if __name__ == "__main__":
    main()
