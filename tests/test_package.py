"""The package: its wheel and sdist, its metadata, and the files around a release."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from yamllint import linter
from yamllint.config import YamlLintConfig

import salience
from waiting import PATIENCE

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = {name: [Requirement(text) for text in texts] for name, texts in PROJECT["optional-dependencies"].items()}
ADAPTERS = sorted(
    EXTRAS.keys() & {file.stem.replace("_", "-") for file in (ROOT / "src/salience/integrations").glob("*.py")}
)
PUBLISH = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text("utf-8"))["jobs"]
CHECKED = {
    "vendor.citation-file-format": ["CITATION.cff"],
    "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [f".github/ISSUE_TEMPLATE/{name}.yml" for name in ("bug", "feature", "ranking")],
    "vendor.github-workflows": [f".github/workflows/{name}.yml" for name in ("check", "publish")],
}


def test_there_are_adapters():
    assert {"anthropic", "langgraph", "llama-index"} <= set(ADAPTERS)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_extra_of_an_adapter_lists_only_its_framework(adapter):
    assert EXTRAS[adapter]
    assert [one.name for one in EXTRAS[adapter] if not canonicalize_name(one.name).startswith(adapter)] == []


def test_a_library_has_the_same_bound_in_dev_as_in_its_extra():
    plain = [Requirement(text) for text in PROJECT["dependencies"]]
    bounds = {one.name: str(one) for group, ones in EXTRAS.items() if group != "dev" for one in [*ones, *plain]}
    assert [str(one) for one in EXTRAS["dev"] if bounds.get(one.name, str(one)) != str(one)] == []


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == salience.__version__
    assert (citation["license"], citation["abstract"]) == (PROJECT["license"], PROJECT["description"])


def test_yamllint_finds_nothing_in_the_files_of_the_repository():
    rules = YamlLintConfig(
        "{extends: default, rules: {line-length: {max: 160}, document-start: disable,"
        " comments: {min-spaces-from-content: 1}}}"
    )
    files = [ROOT / "CITATION.cff", *sorted((ROOT / ".github").rglob("*.yml"))]
    assert len(files) >= 6
    assert [f"{file}: {found}" for file in files for found in linter.run(file.read_text("utf-8"), rules)] == []


def test_nothing_is_published_before_the_tests_pass():
    uploads = {"publish", "publish-client"}
    for name in uploads:
        assert set(PUBLISH[name]["needs"]) == PUBLISH.keys() - uploads - {"attach"}
    assert PUBLISH["attach"]["needs"] == "publish"
    check = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text("utf-8"))["jobs"]["check"]
    for steps in (PUBLISH["test"]["steps"], check["steps"]):
        assert "bash .ci/run" in [step.get("run") for step in steps]
    assert [name for name, job in PUBLISH.items() if "id-token" in job.get("permissions", {})] == [
        "publish",
        "publish-client",
    ]


def test_the_issue_forms_have_distinct_fields():
    for name in CHECKED["vendor.github-issue-forms"]:
        fields = [field.get("id") for field in yaml.safe_load((ROOT / name).read_text("utf-8"))["body"]]
        named = [field for field in fields if field]
        assert len(named) == len(set(named)) >= 3


@pytest.mark.slow
def test_tests_of_the_core_need_neither_the_server_nor_a_driver():
    missing = ("fastapi", "limits", "mcp", "psutil", "psycopg", "uvicorn")
    collect = ["--collect-only", *(f"tests/{name}" for name in ("extract", "golden", "models", "rank", "stories"))]
    program = f"import sys, pytest; sys.modules.update(dict.fromkeys({missing})); sys.exit(pytest.main({collect}))"
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, env=alone)
    assert run.returncode == 0, run.stdout[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("schema", CHECKED)
def test_files_for_others_follow_their_schemas(schema):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *CHECKED[schema]]
    run = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=PATIENCE)
    assert (run.returncode, run.stdout) == (0, "ok -- validation done\n")


@pytest.mark.slow
def test_two_builds_of_a_commit_are_byte_identical_and_pure_python(tmp_path):
    """`make dist` compares them, and checks what it built; there is no compiler, as on the machine of most users."""
    command = [sys.executable, "-m", "bench.dist", tmp_path / "dist"]
    run = subprocess.run(
        command, cwd=ROOT, text=True, capture_output=True, timeout=PATIENCE, env=os.environ | {"CC": "/nowhere"}
    )
    assert (run.returncode, run.stdout.splitlines()[-1]) == (0, "Two builds are byte-identical."), run.stderr
    wheel, sdist = sorted((tmp_path / "dist").iterdir())
    assert wheel.name.endswith("-py3-none-any.whl")
    with tarfile.open(sdist) as archive:
        tops = {Path(member.name).parts[1] for member in archive}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO", "src"} <= tops
    assert not tops & {"bench", "tests", "deploy"}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: true" in archive.read(about).decode()
        metadata = Metadata.from_email(archive.read(about.replace("WHEEL", "METADATA")), validate=True)
    assert not [name for name in names if name.endswith((".c", ".so", ".pyd"))]
    assert "salience/rank/profiles/precise.toml" in names
    assert "salience/evaluate/data/everyday/report/oskar.json" in names
    assert (metadata.name, str(metadata.version)) == ("salience", salience.__version__)
    assert metadata.metadata_version == "2.4"  # newer ones are not understood everywhere yet
    assert set(metadata.provides_extra) == EXTRAS.keys()
    missing = [name for name in metadata.license_files if not any(entry.endswith(name) for entry in names)]
    assert missing == []
