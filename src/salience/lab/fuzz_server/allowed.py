"""What the server may answer though the document does not say so: where no schema could, and for no more than that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from schemathesis import Case, Response
from schemathesis.core.failures import Failure

Answered = Mapping[str, Any]
"""The JSON object of an answer."""
_CHANGES: Final = ("update", "forget", "restore")
_STORES: Final = ("remember", "ingest", "import_")
_CONDITIONS: Final = ("if-match", "if_version")


@dataclass(frozen=True, slots=True)
class Allowed:
    """One thing that may be answered.

    Attributes:
        reason: why the document cannot say it.
        check: the failure of which it is an excuse.
        status: of the answer.
        holds: whether a case and its answer are what is meant.
    """

    reason: str
    check: str
    status: int
    holds: Callable[[Case, Answered], bool]


def _refuses(*fields: str) -> Callable[[Case, Answered], bool]:
    """Return whether a problem is of one of these arguments, wherever it stands."""
    return lambda _, told: str(told.get("field", "")).split(".")[-1].partition("[")[0] in fields


def _given(case: Case) -> Iterator[tuple[str, Any]]:
    """Yield every argument of a case by its name."""
    for place in (case.path_parameters, case.query, case.headers, case.body):
        if isinstance(place, Mapping):
            yield from place.items()


def _is_conditional(case: Case, _: Answered) -> bool:
    return any(name.lower() in _CONDITIONS for name, _ in _given(case))


def _names_a_level(case: Case, told: Answered) -> bool:
    return told.get("field") == "scope" and dict(_given(case)).get("scope") in ("global", "project")


def _is_own_profile(case: Case, told: Answered) -> bool:
    profile = dict(_given(case)).get("profile")
    return isinstance(profile, Mapping) and str(told.get("field")).startswith("profile")


def _spans(case: Case, told: Answered) -> bool:
    given = dict(_given(case))
    return told.get("field") == "since" and bool(given.get("since")) and bool(given.get("until"))


def _names_weights(case: Case, told: Answered) -> bool:
    return told.get("field") == "weights" and bool(dict(_given(case)).get("weights"))


def _is_retry(_: Case, told: Answered) -> bool:
    receipts = told.get("receipts", [told])
    return bool(receipts) and all(receipt.get("status") == "unchanged" for receipt in receipts)


def _is_forgotten(_: Case, told: Answered) -> bool:
    versions = told.get("versions", [{"memory": told.get("memory", told)}])
    return bool(versions) and any(one["memory"].get("status") == "forgotten" for one in versions)


_POSITIVE: Final = "RejectedPositiveData"
_NEGATIVE: Final = "AcceptedNegativeData"
_FREED: Final = "UseAfterFree"
ALLOWED: Final = (
    Allowed("which versions there are is known to the store alone", _POSITIVE, 412, _is_conditional),
    Allowed("which versions there are is known to the store alone", _POSITIVE, 422, _refuses("version")),
    Allowed("a level of scope has to go with the project, which is another argument", _POSITIVE, 422, _names_a_level),
    Allowed("`since` has to be before `until`, which is another argument", _POSITIVE, 422, _spans),
    Allowed("the labels that weights can have are those of the profile, another argument", _POSITIVE, 422,
            _names_weights),
    Allowed("no schema says what is TOML, let alone a profile", _POSITIVE, 422, _is_own_profile),
    Allowed("a retry under a key returns the first receipt, whatever else it says now", _NEGATIVE, 200, _is_retry),
    Allowed("forgetting keeps every version, and says so: erase alone deletes", _FREED, 200, _is_forgotten),
)  # fmt: skip


def reason(failure: Failure, case: Case, response: Response) -> str | None:
    """Return why an answer is none of the server's faults, though a check says so; None: it is one."""
    kind = type(failure).__name__
    near = [one for one in ALLOWED if one.check == kind and one.status == response.status_code]
    if not near:
        return None
    told = response.json()
    return next((one.reason for one in near if isinstance(told, Mapping) and one.holds(case, told)), None)
