"""The card's SBOM is valid CycloneDX and lists every package: check_sbom.py SBOM.json PACKAGES"""
import json
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = Path(sys.argv[1]).read_text()
fault = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
if fault:
    sys.exit(f"image: FAILED: the SBOM: {fault}")
listed = {(c["name"], c["version"]) for c in json.loads(text)["components"]}
there = {tuple(line.split()[:2]) for line in Path(sys.argv[2]).read_text().splitlines()}
if listed != there:
    sys.exit(f"image: FAILED: the SBOM and dpkg differ in {sorted(listed ^ there)[:5]}")
print(f"image: the SBOM lists {len(there)} packages, valid CycloneDX 1.5")
