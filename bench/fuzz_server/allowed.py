"""What the server may answer though the document does not say so: where no schema could, and for no more than that."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from schemathesis import Case, Response
from schemathesis.core.failures import Failure

AnyCase = Case[Any]
Answered = Mapping[str, Any]
"""The JSON object of an answer."""
_PLACE: Final = re.compile(r"(drafts\[(?P<draft>\d+)]\.)?(?P<name>\w+)")
TAG: Final = "If-Match"
_TWICE: Final = {"Idempotency-Key": "key", TAG: "if_version"}
"""Headers, and the argument that says the same."""
_OBJECTS: Final = ("application/json", "application/problem+json")
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
    holds: Callable[[AnyCase, Answered], bool]


def _refuses(*fields: str) -> Callable[[AnyCase, Answered], bool]:
    """Return whether a problem is of one of these arguments, wherever it stands."""
    return lambda _, told: str(told.get("field", "")).split(".")[-1].partition("[")[0] in fields


def _given(case: AnyCase) -> Iterator[tuple[str, Any]]:
    """Yield every argument of a case by its name."""
    for place in (case.path_parameters, case.query, case.headers, case.body):
        if isinstance(place, Mapping):
            yield from place.items()


def _is_conditional(case: AnyCase, _: Answered) -> bool:
    return any(name.lower() in _CONDITIONS for name, _ in _given(case))


def _names_a_level(case: AnyCase, told: Answered) -> bool:
    return told.get("field") == "scope" and dict(_given(case)).get("scope") in ("global", "project")


def _is_own_profile(case: AnyCase, told: Answered) -> bool:
    profile = dict(_given(case)).get("profile")
    return isinstance(profile, Mapping) and str(told.get("field")).startswith("profile")


def _spans(case: AnyCase, told: Answered) -> bool:
    given = dict(_given(case))
    return told.get("field") == "since" and bool(given.get("since")) and bool(given.get("until"))


def _says_it_twice(case: AnyCase, told: Answered) -> bool:
    named = {name.lower() for name, _ in _given(case)}
    field = str(told.get("field"))
    return field in _TWICE and {field.lower(), _TWICE[field]} <= named


def _is_long(case: AnyCase, told: Answered) -> bool:
    return isinstance(_value(case, told, "ttl"), str)


def _is_in_metadata(_: AnyCase, told: Answered) -> bool:
    return re.search(r"(^|\.)metadata(\.| key$)", str(told.get("field"))) is not None


def _says_nothing(_: AnyCase, told: Answered) -> bool:
    return (
        re.fullmatch(r"messages\[\d+]\.content", str(told.get("field"))) is not None and told["value"] == "empty text"
    )


def _value(case: AnyCase, told: Answered, name: str) -> Any:
    """Return the value of an argument that a problem is of, by its name; None: it is of another."""
    found = _PLACE.fullmatch(str(told.get("field")))
    if found is None or found["name"] != name:
        return None
    given = dict(_given(case))
    return (given if found["draft"] is None else given["drafts"][int(found["draft"])]).get(name)


def _is_future(_: AnyCase, told: Answered) -> bool:
    return told.get("field") in ("as_of", "now") and "past" in str(told.get("remedy"))


def _exceeds_profile(case: AnyCase, told: Answered) -> bool:
    given = dict(_given(case))
    return told.get("field") == "limit" and bool(given.get("profile"))


def _is_no_tag(case: AnyCase, told: Answered) -> bool:
    """Return whether a condition has not the form that the document gives it."""
    said = case.operation.definition.raw.get("parameters", ())
    pattern = next((one["schema"]["pattern"] for one in said if one["name"] == TAG), "")
    return told.get("field") == TAG and re.fullmatch(pattern, str(dict(_given(case)).get(TAG))) is None


def _names_weights(case: AnyCase, told: Answered) -> bool:
    return told.get("field") == "weights" and bool(dict(_given(case)).get("weights"))


def _is_retry(_: AnyCase, told: Answered) -> bool:
    receipts = told.get("receipts", [told])
    return bool(receipts) and all(receipt.get("status") == "unchanged" for receipt in receipts)


def _is_forgotten(_: AnyCase, told: Answered) -> bool:
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
    Allowed("what a header says has to be what the argument of the same meaning does", _POSITIVE, 422, _says_it_twice),
    Allowed("a length of time in words has a bound that no pattern can state", _POSITIVE, 422, _is_long),
    Allowed("what metadata hold may be nested, each level with names and numbers of its own", _POSITIVE, 422,
            _is_in_metadata),
    Allowed("a message has to say something unless it calls tools, in whatever part of it", _POSITIVE, 422,
            _says_nothing),
    Allowed("what is past, the clock says", _POSITIVE, 422, _is_future),
    Allowed("most hits are those of the profile, another argument", _POSITIVE, 422, _exceeds_profile),
    Allowed("made up against the pattern: a header with quotes in it comes out as 0", _POSITIVE, 422, _is_no_tag),
    Allowed("no schema says what is TOML, let alone a profile", _POSITIVE, 422, _is_own_profile),
    Allowed("what is asked of another version is refused before anything else of it is read", _NEGATIVE, 412,
            _is_conditional),
    Allowed("a retry under a key returns the first receipt, whatever else it says now", _NEGATIVE, 200, _is_retry),
    Allowed("forgetting keeps every version, and says so: erase alone deletes", _FREED, 200, _is_forgotten),
)  # fmt: skip


def reason(failure: Failure, case: AnyCase, response: Response, restored: Container[str]) -> str | None:
    """Return why an answer is none of the server's faults, though a check says so; None: it is one.

    Args:
        failure: what the check says.
        case: what was asked.
        response: what was answered.
        restored: ids of memories that were brought back.
    """
    kind = type(failure).__name__
    if kind == _FREED and (case.path_parameters or {}).get("id") in restored:
        return "what was forgotten was restored since"
    near = [one for one in ALLOWED if one.check == kind and one.status == response.status_code]
    if not near or response.headers.get("content-type", [""])[0] not in _OBJECTS:
        return None
    told = response.json()
    return next((one.reason for one in near if isinstance(told, Mapping) and one.holds(case, told)), None)
