"""salience config: every setting with its source, and nothing secret."""

from __future__ import annotations

import json

import pytest

from salience import settings
from salience.errors import ConfigError, InputError


@pytest.fixture
def config(monkeypatch, tmp_path):
    """Return a function that writes the config file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "salience" / "config.toml"
    file.parent.mkdir()
    return lambda written: file.write_bytes(written if isinstance(written, bytes) else written.encode())


def shown(run, *options):
    """Return value and source of each setting as a pipe gets them."""
    lines = run(*options, "config", "show").stdout.splitlines()
    return {name: (value, source) for name, value, source in (line.split("\t") for line in lines)}


def test_each_setting_is_shown_with_its_source(run, config, monkeypatch):
    config('tenant = "acme"\nlanguage = "german"\nserver_hosts = ["a.example", "b.example"]\n')
    monkeypatch.setenv("SALIENCE_TENANT", "zebra")
    monkeypatch.delenv("SALIENCE_TEST_DATA", raising=False)  # no setting: it would be told of as one that is misspelt
    result = shown(run)
    assert list(result) == list(settings.Settings.model_fields)
    assert result["tenant"] == ("zebra", "environment SALIENCE_TENANT")
    assert result["language"] == ("german", "config file")
    assert result["server_hosts"] == ("a.example,b.example", "config file")
    assert result["server_port"] == ("8484", "default")
    assert result["url"][1] == "--store"
    assert result["llm_api_key"] == ("-", "default")


def test_values_are_shown_as_they_can_be_given(run, monkeypatch):
    result = shown(run)
    assert [result[name][0] for name in ("keep_versions", "keep_touches", "server_upkeep")] == ["forever", "90d", "10m"]
    assert result["prepared_statements"][0] == "true"
    before = settings.load()
    for name, (value, _) in result.items():
        if value != "-":
            monkeypatch.setenv(settings.variable(name), value)
    assert settings.load() == before.model_copy(update={"url": result["url"][0]})


SECRET = "hunter2"
URLS = {
    f"postgresql://agents:{SECRET}@db/memory": "postgresql://agents:***@db/memory",
    f"postgresql://agents:{SECRET}/@x?@h1,h2:5433/memory": "postgresql://agents:***@h1,h2:5433/memory",
    f"postgresql://db/memory?user=a&password={SECRET}&sslmode=require": (
        "postgresql://db/memory?user=a&password=***&sslmode=require"
    ),
    f"https://host:8484/v1?api_key={SECRET}": "https://host:8484/v1?api_key=***",
    "https://host:8484/v1": "https://host:8484/v1",
    "postgresql:///memory?host=/run/postgresql": "postgresql:///memory?host=/run/postgresql",
    "/data/memory.db": "/data/memory.db",
}


@pytest.mark.parametrize("url", URLS)
def test_the_password_in_a_url_is_masked(run, monkeypatch, url):
    monkeypatch.setenv("SALIENCE_OTLP_ENDPOINT", url)
    for form in ([], ["--json"]):
        result = run("--store", url, "config", "show", *form).stdout
        assert SECRET not in result
        assert result.count(URLS[url]) >= 2
    assert SECRET not in run("--store", url, "config", "show", terminal=True).stdout


@pytest.mark.parametrize("name", ["openai_api_key", "llm_api_key", "metrics_token"])
def test_a_secret_is_never_shown_and_one_that_is_empty_is(run, monkeypatch, name):
    monkeypatch.setenv(settings.variable(name), SECRET)
    assert shown(run)[name] == ("***", f"environment {settings.variable(name)}")
    assert SECRET not in run("config", "show", "--json").stdout + run("config", "show", terminal=True).stdout
    monkeypatch.setenv(settings.variable(name), "")
    assert shown(run)[name][0] == ""


@pytest.mark.parametrize(
    "written", [f"metrics_token = 12345\nllm_api_key = ['{SECRET}']", f"api_kay = '{SECRET}'", "metrics_token = 12345"]
)
def test_an_error_shows_no_secret(run, config, written):
    config(written)
    result = run("config", "show", code=2).stderr
    assert "is ***. " in result
    assert SECRET not in result
    assert "12345" not in result


def test_a_password_in_a_setting_that_is_refused_is_masked(config):
    config(f'log_level = "https://user:{SECRET}@host"')
    with pytest.raises(InputError, match=r"is 'https://user:\*\*\*@host'\. ") as raised:
        settings.load()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(("written", "message"), [("url = [", "is not TOML: "), (b"url = '\xff'", "is not UTF-8. ")])
def test_a_config_file_that_cannot_be_read_is_reported_with_its_path(run, config, written, message):
    config(written)
    result = run("config", "show", code=2).stderr
    assert message in result
    assert run("config", "path").stdout.strip() in result


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.write_bytes(b"url = ["), "is not TOML"),
        (lambda file: file.write_bytes(b"url = '\xff'"), "Save it in UTF-8"),
        (lambda file: file.mkdir(), "Remove or rename the folder"),
        (lambda file: file.symlink_to(file), "config.toml"),
    ],
)
def test_an_unreadable_config_file_is_a_config_error_that_names_it(config, tmp_path, damage, message):
    file = tmp_path / "salience" / "config.toml"
    damage(file)
    with pytest.raises(ConfigError, match=message) as raised:
        settings.load()
    assert str(file) in str(raised.value)


def test_a_misspelt_variable_is_reported_without_its_value(run, monkeypatch):
    monkeypatch.setenv("SALIENCE_SERVER_PROT", SECRET)
    monkeypatch.setenv("salience_tenant", "acme")
    result = run("config", "show").stdout
    assert "SALIENCE_SERVER_PROT\t-\tenvironment, unknown" in result
    assert "tenant\tacme\tenvironment SALIENCE_TENANT" in result
    assert SECRET not in result
    assert "SALIENCE_SERVER_PROT" in json.loads(run("config", "show", "--json").stdout)["unknown"]
    assert "SALIENCE_SERVER_PROT sets nothing" in run("config", "show", terminal=True).stdout


def test_the_path_of_the_config_file_is_reported_whether_it_is_there_or_not(run, config, tmp_path):
    path = str(tmp_path / "salience" / "config.toml")
    assert run("config", "path").stdout == f"{path}\n"
    assert json.loads(run("config", "path", "--json").stdout) == {"path": path, "exists": False}
    config("")
    assert json.loads(run("config", "path", "--json").stdout)["exists"]
