"""What holds for all deployment files: linters find nothing, settings are real ones, images are of this version."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

import salience
from salience import settings
from waiting import PATIENCE

RULES = YamlLintConfig("{extends: default, rules: {line-length: {max: 140}, document-start: disable}}")
SETTING = re.compile(r"\bSALIENCE_[A-Z0-9_]+")


def yamls(deploy: Path) -> list[Path]:
    found = sorted(deploy.rglob("*.yaml"))
    assert len(found) >= 10
    return found


def hadolint(file: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("hadolint")
    return subprocess.run([command, "--no-color", file], text=True, capture_output=True, timeout=PATIENCE)


def test_hadolint_finds_nothing_in_the_dockerfile(deploy):
    found = hadolint(deploy / "Dockerfile")
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_hadolint_finds_what_is_wrong(deploy, tmp_path):
    spoilt = tmp_path / "Dockerfile"
    spoilt.write_text((deploy / "Dockerfile").read_text().replace("WORKDIR /data", "WORKDIR data"))
    assert "DL3000" in hadolint(spoilt).stdout


def test_yamllint_finds_nothing(deploy):
    problems = [f"{file}: {found}" for file in yamls(deploy) for found in linter.run(file.read_text(), RULES)]
    assert problems == []


PAGES = [f"docs/how-to/{name}.md" for name in ("deployment", "compose", "kubernetes", "tls")]


@pytest.mark.parametrize("place", ["deploy", *PAGES, ".dockerignore"])
def test_every_variable_that_is_named_is_a_setting(root, place):
    files = (
        [root / place] if (root / place).is_file() else [file for file in (root / place).rglob("*") if file.is_file()]
    )
    known = {settings.variable(name) for name in settings.Settings.model_fields}
    strange = {
        (str(file), name)
        for file in files
        for name in SETTING.findall(file.read_text())
        if name not in known | IN_PROSE
    }
    assert strange == set()


IN_PROSE = {"SALIENCE_PORT"}
"""What Kubernetes would set; a comment says why it does not."""


def test_the_images_are_of_this_version(deploy):
    kustomization = yaml.safe_load((deploy / "kubernetes" / "kustomization.yaml").read_text())
    compose = yaml.safe_load((deploy / "compose.yaml").read_text())
    assert [image["newTag"] for image in kustomization["images"]] == [salience.__version__]
    assert compose["x-salience"]["image"] == f"salience:{salience.__version__}"
