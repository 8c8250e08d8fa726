"""All operations of a server, tried by Schemathesis with all of its checks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import httpx
import schemathesis
from hypothesis import strategies
from schemathesis import Response
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
from schemathesis.engine.recorder import CheckNode, ScenarioRecorder
from schemathesis.generation import GenerationMode
from schemathesis.hooks import HookContext
from schemathesis.schemas import BaseSchema

from bench.fuzz_server import allowed

LINES: Final = "application/x-ndjson"
"""Media type of what is imported."""

PHASES: Final = ("examples", "coverage", "fuzzing")
"""How operations are tried by themselves: as the document's examples are, at each bound of each argument, at will."""
STEPS: Final = 25
"""Most operations of a chain."""


@dataclass(slots=True)
class Found:
    """What came of it, counted.

    Attributes:
        cases: requests that were made, by phase.
        checks: how often each check was made, by its name.
        statuses: of the answers.
        links: how often each link of the document was followed, by where it leads from and to.
        linked: how many links there are.
        excused: what was let pass, by the reason.
        failures: what is wrong, in words.
    """

    cases: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    links: Counter[str] = field(default_factory=Counter)
    linked: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def fuzz(url: str, token: str | None, *, cases: int, chains: int, seed: int, phases: Sequence[str] = PHASES) -> Found:
    """Return what came of trying every operation of a server, by itself and in chains.

    Args:
        url: of the server, on a store for this alone.
        token: a key that may do everything; None: of a server that asks for none.
        cases: how many are made up for each operation.
        chains: how many are made up along the links of the document.
        seed: of all that is made up.
        phases: some of `PHASES`.
    """
    load_all_checks()
    schemathesis.openapi.media_type(LINES, _lines())
    found = Found()
    each = PhasesConfig()
    each.update(phases=list(phases))
    _run(found, _schema(url, token, seed, each, GenerationConfig(max_examples=cases, database="none")))
    linked = PhasesConfig(stateful=StatefulPhaseConfig(max_steps=STEPS, inference=InferenceConfig(algorithms=[])))
    linked.update(phases=["stateful"])
    # of what the document allows alone, since what is refused leads nowhere
    valid = GenerationConfig(max_examples=chains, modes=[GenerationMode.POSITIVE], database="none")
    schema = _schema(url, token, seed, linked, valid)
    _run(found, schema.include(operation_id=_on_links(schema.raw_schema)))
    return found


def _schema(url: str, token: str | None, seed: int, phases: PhasesConfig, generation: GenerationConfig) -> BaseSchema:
    """Return the document of a server; of one that asks for no key, without what it says of keys."""
    document = httpx.get(f"{url}/openapi.json").raise_for_status().json()
    if token is None:
        del document["security"]
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    project = ProjectConfig(
        base_url=url, headers=headers, continue_on_failure=True, phases=phases, generation=generation
    )
    config = SchemathesisConfig(seed=seed, projects=ProjectsConfig(default=project))
    return schemathesis.openapi.from_dict(document, config=config)


def _on_links(document: Mapping[str, Any]) -> list[str]:
    """Return the operations of a document from which a link leads, or to which one does."""
    found: set[str] = set()
    for operation in (one for path in document["paths"].values() for one in path.values()):
        links = [link for answer in operation["responses"].values() for link in answer.get("links", {}).values()]
        found.update(link["operationId"] for link in links)
        found.update([operation["operationId"]] if links else [])
    return sorted(found)


def _run(found: Found, schema: BaseSchema) -> None:
    _excuse(schema, found)
    for event in from_schema(schema).execute():
        _count(found, event)


def _excuse(schema: BaseSchema, found: Found) -> None:
    """Let pass what is allowed, and count it by its reason."""
    restored: set[str] = set()

    def after_call(_context: HookContext, case: allowed.AnyCase, response: Response) -> None:
        if case.path.endswith("/restore") and response.status_code == HTTPStatus.OK:
            restored.add(response.json()["memory"]["id"])

    def filter_failure(_context: HookContext, failure: Failure, case: allowed.AnyCase, response: Response) -> bool:
        reason = allowed.reason(failure, case, response, restored)
        if reason is not None:
            found.excused[reason] += 1
        return reason is None

    schema.hook(after_call)
    schema.hook(filter_failure)


def _count(found: Found, event: events.EngineEvent) -> None:
    match event:
        case events.ScenarioFinished():
            found.cases[event.phase.value] += len(event.recorder.cases)
            _look_through(found, event.recorder)
        case events.PhaseStarted() if event.payload is not None:
            found.linked = event.payload.transitions_total
        case events.NonFatalError():
            found.failures.append(f"{event.label}: {event.info.format()}")
        case events.FatalError():
            found.failures.append(f"It could not be run: {event.exception}")


def _look_through(found: Found, recorder: ScenarioRecorder) -> None:
    for made in recorder.cases.values():
        if made.transition is not None and made.is_transition_applied and not made.transition.is_inferred:
            found.links[made.transition.id] += 1
    found.statuses.update(one.response.status_code for one in recorder.interactions.values() if one.response)
    for name, checks in recorder.checks.items():
        found.checks.update(check.name for check in checks)
        found.failures += [_said(recorder, name, check) for check in checks if check.status is not Status.SUCCESS]


def _said(recorder: ScenarioRecorder, name: str, check: CheckNode) -> str:
    label = recorder.cases[name].value.operation.label
    if check.failure_info is None:
        return f"{label}: {check.name} could not be made"
    failure, answer = check.failure_info.failure, recorder.interactions[name].response
    said = "" if answer is None else f"\n{answer.status_code} {answer.text[:500]}"
    return f"{label}: {failure.title}: {failure.message}\n{check.failure_info.code_sample[:2000]}{said}"


def _lines() -> strategies.SearchStrategy[bytes]:
    """Return what makes up the body of an import: drafts, a line each; that they are, no schema of a text can say."""
    name = strategies.text(strategies.characters(min_codepoint=33, exclude_categories=("C", "Z")), min_size=1)
    draft = strategies.fixed_dictionaries(
        {"content": name},
        optional={"kind": name, "tags": strategies.lists(name, max_size=3), "importance": strategies.floats(0, 1)},
    )
    return strategies.lists(draft, max_size=3).map(_written)


def _written(drafts: Sequence[Any]) -> bytes:
    return "".join(f"{json.dumps(draft)}\n" for draft in drafts).encode()
