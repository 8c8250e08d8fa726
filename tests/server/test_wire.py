"""What passes over the wire comes back as it was: records, errors, and the names of arguments."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic_core import to_json

from salience import errors
from salience.engine import Engine
from salience.errors import ImportLineError, InputError, LimitError, NotFoundError, SalienceError, Words
from salience.rank.profile import LIMIT
from salience.records import ANY, Erased, Relation, Scope, ScoreDetail
from salience.verbs import VERBS
from salience.wire import errors as problems
from salience.wire.responses import Schemas

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: WORDS,
    bool: st.booleans(),
    int: st.integers(-(2**53), 2**53),
    float: FINITE,
    type(None): st.none(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    Any: st.recursive(
        st.none() | st.booleans() | FINITE | WORDS, lambda inner: st.lists(inner).map(tuple), max_leaves=3
    ),
}
NAMED = WORDS.filter(lambda word: word != ANY.value)  # which is no name, but every value
COORDINATE = st.none() | NAMED


@cache
def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a kind of value, read off the annotations as the wire reads it."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if kind is Scope:
        wild = COORDINATE | st.just(ANY)
        return st.builds(Scope, environment=NAMED, project=wild, user_id=wild, session_id=COORDINATE)
    if kind is Erased:
        return st.builds(Erased, PLAIN[int], PLAIN[int])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(any_of, inner))
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*map(any_of, inner))
    if origin in (tuple, Sequence, list):
        return st.lists(any_of(inner[0]), max_size=2).map(list if origin is list else tuple)
    if origin is Mapping:
        return st.dictionaries(WORDS, any_of(inner[1]), max_size=2)
    assert is_dataclass(kind), kind
    hints = get_type_hints(kind)
    parts = {item.name: st.deferred(lambda hint=hints[item.name]: any_of(hint)) for item in fields(kind) if item.init}
    if kind is Relation:  # which checks itself
        parts["probability"] = st.floats(0, 1)
    built: st.SearchStrategy[Any] = st.builds(kind, **parts)
    return built.filter(_has_distinct_parts) if kind is ScoreDetail else built


def _has_distinct_parts(detail: ScoreDetail) -> bool:
    """Return whether each part has a name of its own, as it has in a profile, and none that Python has a use for."""
    names = [part.signal for part in detail.parts]
    return len({*names}) == len(names)


KINDS = {str(verb.response): verb for verb in VERBS.values()}
"""A verb for each kind of answer."""


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(data=st.data())
def test_results_survive_a_round_trip_and_match_their_schema(kind: str, data: st.DataObject) -> None:
    verb = KINDS[kind]
    result = data.draw(any_of(verb.response))
    found = json.loads(to_json(verb.to_json(result)))
    assert found == json.loads(json.dumps(verb.to_json(result)))
    assert verb.from_json(found) == result
    assert getattr(verb.from_json(found), "recalls", None) == getattr(result, "recalls", None)
    schemas = Schemas()
    schema = verb.response_schema(schemas)
    Draft202012Validator({**schema, "$defs": schemas.named}).validate(found)


@pytest.mark.parametrize("told", [{}, {"hits": 3}, {"memory": {"id": 1}}, {"versions": [None]}])
def test_invalid_results_are_refused(told: dict[str, Any]) -> None:
    for name in ("remember", "recall", "list"):
        with pytest.raises(InputError):
            VERBS[name].from_json(told)


def every(kind: type[SalienceError]) -> list[type[SalienceError]]:
    """Return an error and all that are made of it."""
    return [kind, *(one for under in kind.__subclasses__() for one in every(under))]


ERRORS = [kind for kind in every(SalienceError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", ERRORS)
@given(text=WORDS, number=st.integers(1, 10**6), seconds=st.floats(0.1, 1e6))
def test_errors_survive_a_round_trip(kind: type[SalienceError], text: str, number: int, seconds: float) -> None:
    error = made(kind, text, number, seconds)
    result = json.loads(to_json(problems.to_problem(error)))
    Draft202012Validator(problems.schema()).validate(result)
    back = problems.from_problem(result)
    there = errors.ServerError if kind is errors.MissingExtraError else kind  # what is missing is missing there
    assert (type(back), str(back)) == (there, str(error))
    for name in ("field", "remedy", "id", "line", "retry_after"):
        assert getattr(back, name, None) == getattr(error, name, None)


def made(kind: type[Any], text: str, number: int, seconds: float) -> SalienceError:
    """Return an error of a kind."""
    found: SalienceError
    if issubclass(kind, ImportLineError):
        found = kind(number, text, f"Mend {text}.")
    elif issubclass(kind, InputError):
        found = kind("limit", text, f"Give less than {text}.")
    elif issubclass(kind, NotFoundError):
        found = kind(text, "supersedes")
    elif issubclass(kind, errors.MissingExtraError):
        found = kind(text, text)
    else:
        found = kind(text, seconds) if issubclass(kind, LimitError) else kind(text)
    return found


def test_limit_errors_are_413_or_429() -> None:
    assert [problems.problem_of(LimitError("x", after)).status for after in (None, 1.0)] == [413, 429]


@pytest.mark.parametrize(
    "error",
    [
        InputError("limit", 5000, "Give a whole number from 0 to 1000."),
        InputError("query", "", "Give some text."),
        InputError("content", Words("text of 70,000 bytes"), "Split it.", "has 70,000 bytes"),
        ImportLineError(3, "importance is 7", "Give a number from 0 to 1."),
    ],
)
def test_input_errors_survive_a_round_trip(error: InputError) -> None:
    result = json.loads(to_json(problems.to_problem(error)))
    back = problems.from_problem(result)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert isinstance(back, InputError)
    assert (back.field, back.remedy, back.problem) == (error.field, error.remedy, error.problem)
    old = {key: value for key, value in result.items() if key != "problem"}  # of a server that does not tell it
    assert str(problems.from_problem(old)).startswith(error.field)


def test_unknown_problems_are_server_errors() -> None:
    for result in ({}, {"type": "about:blank", "detail": "Bad Gateway"}, {"type": "urn:salience:problem:input"}):
        assert type(problems.from_problem(result)) is errors.ServerError


@pytest.mark.parametrize("verb", VERBS)
def test_the_arguments_of_a_verb_are_the_engines(verb: str) -> None:
    taken = inspect.signature(getattr(Engine, verb)).parameters
    assert {*VERBS[verb].request.model_fields} == {*taken} - {"self", *OURS}


OURS = ("progress", "file", "overwrite", "format")
"""Arguments of the engine that no request can hold."""


@pytest.mark.parametrize("verb", VERBS)
def test_required_arguments_are_the_engines(verb: str) -> None:
    taken = inspect.signature(getattr(Engine, verb)).parameters
    needed = {name for name, one in taken.items() if one.default is one.empty and name not in ("self", *OURS)}
    assert {name for name, field in VERBS[verb].request.model_fields.items() if field.is_required()} == needed


def test_integers_can_be_written_as_floats() -> None:
    asks = VERBS["recall"].request
    assert [asks.model_validate_json(f'{{"query": "x", "limit": {n}}}').arguments()["limit"] for n in ("2", "2.0")] == [
        2,
        2,
    ]
    with pytest.raises(ValueError, match="limit"):
        asks.model_validate_json('{"query": "x", "limit": 2.5}')


def test_the_limit_of_hits_is_the_profiles() -> None:
    limit, _ = VERBS["recall"].request.model_json_schema()["properties"]["limit"]["anyOf"]
    assert (limit["minimum"], limit["maximum"]) == (0, LIMIT)
