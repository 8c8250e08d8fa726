"""Prompts, resources and completions: what a session starts with."""

from __future__ import annotations

import pytest

from mcp_servers import TABS, TEA, grant

pytestmark = pytest.mark.anyio


@pytest.fixture
def stored(engine):
    engine.remember("Be brief", kind="bootstrap", importance=0.9)
    engine.remember("Parcels are grey", kind="bootstrap", importance=0.5, project="parcel")
    engine.remember("Letters are white", kind="bootstrap", project="letter")
    engine.remember("Gone by now", kind="bootstrap", ttl=60)
    engine.remember(TABS, project="parcel")
    return engine


async def text(client, uri):
    (content,) = (await client.read_resource(uri)).contents
    assert content.uri == uri
    assert content.mime_type == "text/plain"
    return content.text


async def test_the_bootstrap_is_what_holds_everywhere(opened, stored, clock):
    clock.advance(hours=1)
    async with opened() as client:
        (listed,) = (await client.list_resources()).resources
        found = await text(client, listed.uri)
    assert listed.uri == "salience://bootstrap"
    assert "Be brief" in found
    assert not any(other in found for other in ("Parcels", "Letters", "Gone", TABS))


async def test_the_bootstrap_of_a_project_has_what_is_its_own_besides(opened, stored):
    async with opened() as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        found = await text(client, template.uri_template.replace("{project}", "parcel"))
    assert found.index("Be brief") < found.index("Parcels are grey")
    assert "Letters" not in found
    assert TABS not in found


async def test_the_name_of_a_project_may_need_escapes(opened, engine):
    engine.remember("Umlauts", kind="bootstrap", project="Grüße / 1")
    async with opened() as client:
        assert "Umlauts" in await text(client, "salience://bootstrap/Gr%C3%BC%C3%9Fe%20%2F%201")


async def test_a_default_project_is_the_one_of_the_bare_bootstrap(opened, stored):
    async with opened(project="parcel") as client:
        assert "Parcels are grey" in await text(client, "salience://bootstrap")


async def test_without_any_the_bootstrap_says_how_one_is_stored(opened):
    async with opened() as client:
        assert 'kind="bootstrap"' in await text(client, "salience://bootstrap")


@pytest.mark.parametrize("uri", ["salience://bootstrap/", "salience://bootstraps", "file:///etc/passwd", "nonsense"])
async def test_what_is_no_resource_is_refused(opened, uri):
    async with opened() as client:
        with pytest.raises(Exception, match="Read salience://bootstrap or") as raised:
            await client.read_resource(uri)
    assert (raised.value.code, raised.value.data) == (-32602, {"uri": uri})


async def test_a_bootstrap_beyond_a_bound_is_refused(opened, stored):
    async with opened(grant("read", project="letter")) as client:
        with pytest.raises(Exception, match="outside the bound of this key"):
            await client.read_resource("salience://bootstrap/parcel")


async def test_reading_the_bootstrap_leaves_no_trace(opened, stored):
    before = stored.list().memories
    async with opened() as client:
        await client.read_resource("salience://bootstrap")
    assert stored.list().memories == before


PROMPTS = {
    "start_session": ({"project": "parcel"}, ["Parcels are grey", "'parcel'", "recall"]),
    "remember_this": ({"text": "The van is red", "project": "parcel"}, ["The van is red", "'parcel'", "remember"]),
    "recall_about": ({"topic": "query", "project": "parcel"}, [TABS, "query"]),
    "end_session": ({"session_id": "monday"}, ["end_session", "'monday'", "remember"]),
}


async def test_the_prompts_are_listed_with_their_arguments(opened):
    async with opened() as client:
        listed = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    assert set(listed) == set(PROMPTS)
    required = {(name, one.name) for name, prompt in listed.items() for one in prompt.arguments if one.required}
    assert required == {("remember_this", "text"), ("recall_about", "topic")}


@pytest.mark.parametrize("name", PROMPTS)
async def test_a_prompt_says_what_to_do_and_what_is_known(opened, stored, name):
    arguments, parts = PROMPTS[name]
    async with opened() as client:
        (message,) = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    assert all(part in message.content.text for part in parts)


@pytest.mark.parametrize("name", ["start_session", "end_session"])
async def test_a_prompt_needs_no_argument_that_may_be_left_out(opened, name):
    async with opened() as client:
        assert (await client.get_prompt(name)).messages


REFUSED = [
    ("recall_about", {}, "topic is missing. Give some text."),
    ("remember_this", {"text": " "}, "text is missing. Give some text."),
    ("start_session", {"user": "x"}, "user is an unknown field. Known fields: project."),
    ("nonsense", {}, "Unknown prompt: 'nonsense'"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), REFUSED)
async def test_a_prompt_that_cannot_be_made_is_refused(opened, name, arguments, message):
    async with opened() as client:
        with pytest.raises(Exception, match=message) as raised:
            await client.get_prompt(name, arguments)
    assert raised.value.code == -32602


async def test_projects_are_completed(opened, stored):
    from mcp.types import PromptReference, ResourceTemplateReference

    stored.remember(TEA, project="party")
    async with opened() as client:
        for ref in (
            ResourceTemplateReference(uri="salience://bootstrap/{project}"),
            PromptReference(name="start_session"),
        ):
            found = await client.complete(ref, {"name": "project", "value": "par"})
            assert found.completion.values == ["parcel", "party"]
        found = await client.complete(PromptReference(name="recall_about"), {"name": "topic", "value": "par"})
        assert found.completion.values == []


async def test_completion_tells_no_project_beyond_a_bound(opened, stored):
    from mcp.types import PromptReference

    async with opened(grant("read", project="letter")) as client:
        found = await client.complete(PromptReference(name="start_session"), {"name": "project", "value": ""})
    assert found.completion.values == ["letter"]


async def test_unexpected_errors_reveal_nothing(opened, engine, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("SECRET of a memory")

    monkeypatch.setattr(type(engine), "context", broken)
    async with opened() as client:
        with pytest.raises(Exception, match="failed unexpectedly") as raised:
            await client.read_resource("salience://bootstrap")
    assert raised.value.code == -32603
    assert "SECRET" not in caplog.text


async def test_the_instructions_say_how_to_begin(opened):
    async with opened(mode="legacy") as client:
        assert "salience://bootstrap" in client.instructions
        assert "remember" in client.instructions
