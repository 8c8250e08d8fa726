"""All operations of a server, tried by Schemathesis with all of its checks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import schemathesis
from hypothesis import strategies
from schemathesis import Case, Response
from schemathesis.checks import load_all_checks
from schemathesis.config import GenerationConfig, PhasesConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.core.failures import Failure
from schemathesis.engine import Status, events, from_schema
from schemathesis.engine.recorder import CheckNode, ScenarioRecorder
from schemathesis.hooks import HookContext
from schemathesis.schemas import BaseSchema

from salience.lab.fuzz_server import allowed
from salience.web.reading import LINES

PHASES: Final = ("examples", "coverage", "fuzzing", "stateful")
"""What can be run: the document's examples, each bound of each argument by itself, made-up cases, chains of them."""


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


def fuzz(
    url: str, token: str | None, *, cases: int, seed: int, phases: Sequence[str] = PHASES, workers: int = 1
) -> Found:
    """Return what came of trying every operation of a server.

    Args:
        url: of the server, on a store for this alone.
        token: a key that may do everything; None: of a server that asks for none.
        cases: how many are made up for each operation, and how many chains.
        seed: of all that is made up.
        phases: some of `PHASES`.
        workers: threads that ask at once.
    """
    load_all_checks()
    schemathesis.openapi.media_type(LINES[0], _lines())
    found = Found()
    schema = schemathesis.openapi.from_url(
        f"{url}/openapi.json", config=_config(token, cases, seed, phases, workers), headers=_shown(token)
    )
    _excuse(schema, found)
    for event in from_schema(schema).execute():
        _count(found, event)
    return found


def _shown(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _config(token: str | None, cases: int, seed: int, phases: Sequence[str], workers: int) -> SchemathesisConfig:
    chosen = PhasesConfig()
    chosen.update(phases=list(phases))
    generation = GenerationConfig(max_examples=cases, database="none")
    project = ProjectConfig(
        headers=_shown(token), workers=workers, continue_on_failure=True, phases=chosen, generation=generation
    )
    return SchemathesisConfig(seed=seed, projects=ProjectsConfig(default=project))


def _excuse(schema: BaseSchema, found: Found) -> None:
    """Let pass what is allowed, and count it by its reason."""

    def filter_failure(_context: HookContext, failure: Failure, case: Case, response: Response) -> bool:
        reason = allowed.reason(failure, case, response)
        if reason is not None:
            found.excused[reason] += 1
        return reason is None

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
