"""What holds for all deployment files: linters find nothing, settings are real ones, images are of this version."""

from __future__ import annotations

import configparser
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


def test_actions_are_named_by_commit_and_images_by_digest(root, deploy):
    workflows = "".join(file.read_text() for file in (root / ".github" / "workflows").glob("*.yml"))
    actions = re.findall(r"uses: (.*)", workflows)
    assert len(actions) > 10
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action) for action in actions)
    files = "".join((deploy / name).read_text() for name in ("Dockerfile", "compose.yaml"))
    images = re.findall(r"^(?:FROM|\s+image:|\s+container:) (?!salience:)(\S+)", files + workflows, re.MULTILINE)
    assert len(images) == 5
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in images)


def test_updates_of_everything_that_is_pinned_are_proposed(root):
    proposed = yaml.safe_load((root / ".github" / "dependabot.yml").read_text())["updates"]
    assert {(one["package-ecosystem"], one["directory"]) for one in proposed} == {
        ("github-actions", "/"), ("docker", "/deploy"), ("docker-compose", "/deploy"), ("pip", "/deploy"),
        ("npm", "/clients/typescript"),
    }  # fmt: skip


def test_a_release_gets_the_software_bill_of_materials(root):
    jobs = yaml.safe_load((root / ".github" / "workflows" / "publish.yml").read_text())["jobs"]
    steps = jobs["attach"]["steps"]
    assert any("gh release upload" in step.get("run", "") and ".cdx.json" in step["run"] for step in steps)
    assert jobs["attach"]["permissions"] == {"contents": "write"}


def test_the_service_may_do_little(deploy):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(deploy / "salience.service")
    service = dict(unit["Service"])
    shut = {name for name in service if name.startswith(("Protect", "Private", "Restrict"))}
    assert len(shut) == 15
    assert service["CapabilityBoundingSet"] == ""
    assert service["SystemCallErrorNumber"] == "EPERM"
    assert {service[name] for name in shut} <= {"yes", "strict", "invisible", "AF_INET AF_INET6 AF_UNIX"}
    assert int(service["TimeoutStopSec"]) > settings.Settings.model_fields["server_shutdown"].default


def test_the_images_are_of_this_version(deploy):
    kustomization = yaml.safe_load((deploy / "kubernetes" / "kustomization.yaml").read_text())
    compose = yaml.safe_load((deploy / "compose.yaml").read_text())
    assert [image["newTag"] for image in kustomization["images"]] == [salience.__version__]
    assert compose["x-salience"]["image"] == f"salience:{salience.__version__}"
