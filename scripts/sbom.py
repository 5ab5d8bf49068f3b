"""Say what is in each image: ``make sbom``, once the images are built.

For each image a software bill of materials as CycloneDX 1.6 (``dist/sbom/IMAGE.cdx.json``), and the
same as a table of licences (``dist/sbom/IMAGE.licences.txt``): Python packages as their metadata
names them, Debian's packages as their copyright files do. Needs Docker and
deploy/release-requirements.txt.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

FOLDER = Path(__file__).resolve().parent.parent / "dist" / "sbom"
# Runs in the image, where there is nothing but the standard library to count on.
LOOK = r"""
import json, pathlib, re
from importlib.metadata import distributions

def field(text, name):
    found = re.search(rf"^{name}: (.*)$", text, re.M)
    return found and found[1]

def python(package):
    known = package.metadata
    named = [each.rpartition(" :: ")[2] for each in known.get_all("Classifier") or ()
             if each.startswith("License :: ") and not each.endswith(" :: OSI Approved")]
    text = known.get("License-Expression") or ", ".join(named) or known.get("License") or ""
    return {"name": known["Name"], "version": package.version, "licence": text.partition("\n")[0]}

def debian(entry):
    name, version = field(entry, "Package"), field(entry, "Version")
    notice = pathlib.Path("/usr/share/doc", name, "copyright")
    text = notice.read_text(errors="replace") if notice.is_file() else ""
    named = sorted(set(re.findall(r"^License: (\S.*)$", text, re.M)))
    common = sorted(set(re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text)))
    return {"name": name, "version": version, "machine": field(entry, "Architecture"),
            "licence": ", ".join(named or common) or f"see {notice}"}

status = pathlib.Path("/var/lib/dpkg/status").read_text().split("\n\n")
print(json.dumps({
    "pypi": sorted(map(python, distributions()), key=lambda each: each["name"].lower()),
    "deb": [debian(each) for each in status if field(each, "Status") == "install ok installed"],
}))
"""


def main(images: list[str]) -> int:
    """Write both files for each image; 1 where a Python package names no licence."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    nameless = []
    for image in images:
        found = contents(image)
        name = image.partition(":")[0]
        (FOLDER / f"{name}.cdx.json").write_text(bill(image, found))
        (FOLDER / f"{name}.licences.txt").write_text(table(found))
        nameless += [f"{image}: {each['name']}" for each in found["pypi"] if not each["licence"]]
        print(f"{image}: {len(found['pypi'])} Python packages, {len(found['deb'])} of Debian")
    for each in nameless:
        print(f"names no licence: {each}", file=sys.stderr)
    return 1 if nameless else 0


def contents(image: str) -> dict[str, list[dict[str, str]]]:
    """The packages of an image, by kind: name, version, licence."""
    run = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "python", image]
    done = subprocess.run([*run, "-c", LOOK], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, list[dict[str, str]]] = json.loads(done.stdout)
    return found


def bill(image: str, found: dict[str, list[dict[str, str]]]) -> str:
    """The bill of materials as JSON.

    Raises:
        ValueError: it does not fit CycloneDX's schema.
    """
    bom = Bom()
    name, _, version = image.partition(":")
    bom.metadata.component = Component(name=name, version=version, type=ComponentType.CONTAINER)
    for kind, packages in found.items():
        for package in packages:
            bom.components.add(component(kind, package))
    bom.register_dependency(bom.metadata.component, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise ValueError(f"{image}: {problem}")
    return text


def component(kind: str, package: dict[str, Any]) -> Component:
    """One package."""
    name, version, licence = package["name"], package["version"], package["licence"]
    machine = {"arch": package["machine"]} if "machine" in package else None
    url = PackageURL(kind, "debian" if kind == "deb" else None, name, version, machine)
    licences = [LicenseFactory().make_from_string(licence)] if licence else []
    return Component(name=name, version=version, purl=url, bom_ref=str(url), licenses=licences)


def table(found: dict[str, list[dict[str, str]]]) -> str:
    """The packages and their licences, a line each."""
    lines = []
    for kind, title in (("pypi", "Python"), ("deb", "Debian")):
        lines += ["", title] if lines else [title]
        lines += [f"{e['name']} {e['version']}: {e['licence']}" for e in found[kind]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:  # Docker has said why
        sys.exit(error.returncode)
