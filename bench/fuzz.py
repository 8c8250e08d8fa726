"""Schemathesis over the OpenAPI document of a server: every operation by itself, then chains along the links.

    python -m bench.fuzz --store sqlite|postgres

`ALLOWED` lists the answers that no schema can describe; every other difference is a failure, and the exit code is 1.
tests/server/rest/test_schemathesis.py shows that a wrong answer is found.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import httpx
import schemathesis
import typer
from hypothesis import strategies
from schemathesis import Case, Response
from schemathesis.checks import load_all_checks
from schemathesis.config import (
    GenerationConfig,
    PhasesConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
    StatefulPhaseConfig,
)
from schemathesis.config._phases import InferenceConfig
from schemathesis.core.failures import Failure
from schemathesis.engine import Status, events, from_schema
from schemathesis.generation import GenerationMode
from schemathesis.hooks import HookContext
from schemathesis.schemas import BaseSchema

from bench.driver import Seed, listed, report
from bench.served import empty_store, running
from salience import compose
from salience.server import auth as access

PHASES: Final = ("examples", "coverage", "fuzzing")
Body = Mapping[str, Any]
"""The JSON object of an answer."""


@dataclass
class Found:
    """Counts of requests by phase, checks, answers by status, links, let-through answers; and failures in words."""

    cases: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    links: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


# --- Answers that no schema can describe ------------------------------------------------------------------------------


def arguments(case: Case[Any]) -> dict[str, Any]:
    """Return every argument of a request by its name."""
    places = (case.path_parameters, case.query, case.headers, case.body)
    return {name: value for place in places if isinstance(place, Mapping) for name, value in place.items()}


def about(body: Body) -> str:
    """Return the field that a problem is about."""
    return str(body.get("field"))


def conditional(case: Case[Any], body: Body) -> bool:
    return any(name.lower() in ("if-match", "if_version") for name in arguments(case))


def given_twice(case: Case[Any], body: Body) -> bool:
    twice, named = {"idempotency-key": "key", "if-match": "if_version"}, {name.lower() for name in arguments(case)}
    header = about(body).lower()
    return header in twice and {header, twice[header]} <= named


def bad_tag(case: Case[Any], body: Body) -> bool:
    parameters = case.operation.definition.raw.get("parameters", ())
    pattern = next((one["schema"]["pattern"] for one in parameters if one["name"] == "If-Match"), "")
    return about(body) == "If-Match" and re.fullmatch(pattern, str(arguments(case).get("If-Match"))) is None


def long_ttl(case: Case[Any], body: Body) -> bool:
    place = re.fullmatch(r"(?:drafts\[(\d+)]\.)?ttl", about(body))
    given = arguments(case)
    return bool(place) and isinstance((given if place[1] is None else given["drafts"][int(place[1])]).get("ttl"), str)  # type: ignore[index]


def retried(case: Case[Any], body: Body) -> bool:
    receipts = body.get("receipts", [body])
    return bool(receipts) and all(receipt.get("status") == "unchanged" for receipt in receipts)


def forgotten(case: Case[Any], body: Body) -> bool:
    versions = body.get("versions", [{"memory": body.get("memory", body)}])
    return any(one["memory"].get("status") == "forgotten" for one in versions)


Rule = tuple[str, str, int, Callable[[Case[Any], Body], bool]]
POSITIVE, NEGATIVE, FREED = "RejectedPositiveData", "AcceptedNegativeData", "UseAfterFree"
ALLOWED: Final[tuple[Rule, ...]] = (
    ("which versions exist", POSITIVE, 412, conditional),
    ("which versions exist", POSITIVE, 422, lambda case, body: about(body).split(".")[-1].startswith("version")),
    ("a level of scope needs the project, another argument", POSITIVE, 422,
     lambda case, body: about(body) == "scope" and arguments(case).get("scope") in ("global", "project")),
    ("a cursor of a listing has the value by which it is sorted, another argument", POSITIVE, 422,
     lambda case, body: about(body) == "cursor" and bool(arguments(case).get("order"))),
    ("`since` before `until`, another argument", POSITIVE, 422,
     lambda case, body: about(body) == "since" and bool(arguments(case).get("until"))),
    ("a stale reflection alone needs no other memory", POSITIVE, 422, lambda case, body: about(body) == "other_id"),
    ("labels of weights are those of the profile", POSITIVE, 422, lambda case, body: about(body) == "weights"),
    ("a header and an argument of one meaning have to agree", POSITIVE, 422, given_twice),
    ("the bound of a duration in words", POSITIVE, 422, long_ttl),
    ("nested metadata", POSITIVE, 422,
     lambda case, body: re.search(r"(^|\.)metadata(\.| key$)", about(body)) is not None),
    ("a message needs content unless it calls tools", POSITIVE, 422,
     lambda case, body: re.fullmatch(r"messages\[\d+]\.content", about(body)) is not None),
    ("the clock says what is past", POSITIVE, 422,
     lambda case, body: about(body) in ("as_of", "now") and "past" in str(body.get("remedy"))),
    ("the largest limit is the profile's", POSITIVE, 422,
     lambda case, body: about(body) == "limit" and bool(arguments(case).get("profile"))),
    ("a header with quotes is generated as 0", POSITIVE, 422, bad_tag),
    ("no schema describes TOML or a profile", POSITIVE, 422,
     lambda case, body: isinstance(arguments(case).get("profile"), Mapping) and about(body).startswith("profile")),
    ("no schema describes the exports of other systems", POSITIVE, 422, lambda case, body: "source" in arguments(case)),
    ("the media types of an import depend on `source`", POSITIVE, 415,
     lambda case, body: case.operation.path == "/v1/import" and "source" not in arguments(case)),
    ("a condition on another version is checked first", NEGATIVE, 412, conditional),
    ("a retry returns the first receipt, whatever else it says", NEGATIVE, 200, retried),
    ("forgetting keeps every version and says so", FREED, 200, forgotten),
)  # fmt: skip
"""Rule that no schema can express, failure that it excuses, status, and a test of the request and the answer."""


def excuse(failure: Failure, case: Case[Any], response: Response, restored: set[str]) -> str | None:
    """Return why an answer is right although a check says otherwise; None: it is wrong."""
    kind = type(failure).__name__
    if kind == FREED and (case.path_parameters or {}).get("id") in restored:
        return "the forgotten memory was restored since"
    if not response.headers.get("content-type", [""])[0].startswith(("application/json", "application/problem")):
        return None
    body = response.json()
    near = (rule for rule in ALLOWED if rule[1:3] == (kind, response.status_code) and isinstance(body, Mapping))
    return next((reason for reason, _, _, holds in near if holds(case, body)), None)


# --- The run ----------------------------------------------------------------------------------------------------------


def fuzz(url: str, token: str | None, *, cases: int, chains: int, seed: int, phases: Sequence[str] = PHASES) -> Found:
    """Try every operation of a server `cases` times by itself, and `chains` chains along the links.

    Args:
        url: of a server on a store of its own.
        token: a key with every right; None for a server without keys.
        cases: for each operation.
        chains: along the links.
        seed: of everything generated.
        phases: some of `PHASES`.
    """
    load_all_checks()
    schemathesis.openapi.media_type("application/x-ndjson", drafts())
    found, alone = Found(), PhasesConfig()
    alone.update(phases=list(phases))
    run(found, schema_of(url, token, seed, alone, GenerationConfig(max_examples=cases, database="none")))
    linked = PhasesConfig(stateful=StatefulPhaseConfig(max_steps=25, inference=InferenceConfig(algorithms=[])))
    linked.update(phases=["stateful"])
    valid = GenerationConfig(max_examples=chains, modes=[GenerationMode.POSITIVE], database="none")
    schema = schema_of(url, token, seed, linked, valid)
    run(found, schema.include(operation_id=on_links(schema.raw_schema)))
    return found


def schema_of(url: str, token: str | None, seed: int, phases: PhasesConfig, generation: GenerationConfig) -> BaseSchema:
    """Return the document of a server, ready to run."""
    document = httpx.get(f"{url}/openapi.json").raise_for_status().json()
    if token is None:
        del document["security"]
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    project = ProjectConfig(
        base_url=url, headers=headers, continue_on_failure=True, phases=phases, generation=generation
    )
    config = SchemathesisConfig(seed=seed, projects=ProjectsConfig(default=project))
    return schemathesis.openapi.from_dict(document, config=config)


def on_links(document: Mapping[str, Any]) -> list[str]:
    """Return the operations from which or to which a link leads."""
    found: set[str] = set()
    for operation in (one for path in document["paths"].values() for one in path.values()):
        links = [link for answer in operation["responses"].values() for link in answer.get("links", {}).values()]
        found.update(link["operationId"] for link in links)
        found.update([operation["operationId"]] if links else [])
    return sorted(found)


def drafts() -> strategies.SearchStrategy[bytes]:
    """Return bodies of an import: a draft on each line."""
    name = strategies.text(strategies.characters(min_codepoint=33, exclude_categories=("C", "Z")), min_size=1)
    more = {"kind": name, "tags": strategies.lists(name, max_size=3), "importance": strategies.floats(0, 1)}
    draft = strategies.fixed_dictionaries({"content": name}, optional=more)
    return strategies.lists(draft, max_size=3).map(
        lambda lines: "".join(json.dumps(one) + "\n" for one in lines).encode()
    )


def run(found: Found, schema: BaseSchema) -> None:
    """Run a schema and count its results."""
    restored: set[str] = set()

    def after_call(_: HookContext, case: Case[Any], response: Response) -> None:
        if case.path.endswith("/restore") and response.status_code == 200:
            restored.add(response.json()["memory"]["id"])

    def filter_failure(_: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
        reason = excuse(failure, case, response, restored)
        found.allowed.update([reason] if reason else [])
        return reason is None

    schema.hook(after_call)
    schema.hook(filter_failure)
    for event in from_schema(schema).execute():
        match event:
            case events.ScenarioFinished():
                found.cases[event.phase.value] += len(event.recorder.cases)
                found.failures += count_results(found, event.recorder)
            case events.NonFatalError():
                found.failures.append(f"{event.label}: {event.info.format()}")
            case events.FatalError():
                found.failures.append(f"it could not be run: {event.exception}")


def count_results(found: Found, recorder: Any) -> Iterator[str]:
    """Count requests and checks of a scenario; yield its failures."""
    for made in recorder.cases.values():
        if made.transition is not None and made.is_transition_applied and not made.transition.is_inferred:
            found.links[made.transition.id] += 1
    found.statuses.update(one.response.status_code for one in recorder.interactions.values() if one.response)
    for name, checks in recorder.checks.items():
        found.checks.update(check.name for check in checks)
        for check in (one for one in checks if one.status is not Status.SUCCESS):
            label, answer = recorder.cases[name].value.operation.label, recorder.interactions[name].response
            said = "" if answer is None else f"\n{answer.status_code} {answer.text[:500]}"
            info = check.failure_info
            what = f"{check.name} could not run" if info is None else f"{info.failure.title}: {info.failure.message}"
            yield f"{label}: {what}{'' if info is None else f'{chr(10)}{info.code_sample[:2000]}'}{said}"


def main(
    store: Annotated[str, typer.Option(help="sqlite or postgres.")] = "sqlite",
    cases: Annotated[int, typer.Option(min=1, help="Requests for each operation.")] = 100,
    chains: Annotated[int, typer.Option(min=1, help="Chains along the links.")] = 100,
    seed: Seed = 1,
) -> None:
    """Try every operation of a server that asks for a key, with all checks of Schemathesis."""
    logging.disable(logging.WARNING)
    with TemporaryDirectory() as folder, empty_store(store, Path(folder)) as target:
        token, key = access.create_key("default", ("admin",), {}, None, None, datetime.now(UTC))
        with closing(compose.keyring(target)) as keyring:
            keyring.add(key)
        with running(target, Path(folder) / "log", embedder="static") as served:
            found = fuzz(served.url, token, cases=cases, chains=chains, seed=seed)
    report(
        {
            "requests": listed(found.cases),
            "checks": found.checks.total(),
            "answers": listed(found.statuses),
            "links followed": f"{len(found.links)}, {found.links.total():,} times",
            **{f"allowed: {reason}": count for reason, count in found.allowed.most_common()},
        },
        [*dict.fromkeys(found.failures), *(f"an answer had status {one}" for one in found.statuses if one >= 500)],
    )


if __name__ == "__main__":
    typer.run(main)
