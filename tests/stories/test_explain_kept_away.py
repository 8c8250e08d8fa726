"""Why a memory was not ranked at all: the filter, the scope, that it was forgotten; and who may know of it."""

from __future__ import annotations

import re

import pytest

from salience import ANY, NotFoundError


def returned_at(text: str | None) -> int:
    assert text is not None
    return int(re.fullmatch(r".* would return it at rank (\d+)\.", text)[1])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tags": ["a", "c"]}, "It has no tag 'c'."),
        ({"kinds": ["rule", "decision"]}, "Its kind is 'fact', not 'rule' or 'decision'."),
        ({"tiers": ["semantic"]}, "Its tier is 'episodic', not 'semantic'."),
        ({"sessions": ["t"]}, "It comes from session 's', not from 't'."),
        (
            {"since": "2026-05-02T00:00:00+00:00"},
            "It was created on 2026-05-01T12:00:00+00:00, before 2026-05-02T00:00:00+00:00.",
        ),
        (
            {"until": "2026-05-01T00:00:00+00:00"},
            "It was created on 2026-05-01T12:00:00+00:00, not before 2026-05-01T00:00:00+00:00.",
        ),
        ({"scope": "project", "project": "p"}, "It belongs to no project, and scope is 'project'."),
        ({"tags": ["b"], "kinds": ["rule"]}, "It has no tag 'b'; its kind is 'fact', not 'rule'."),
    ],
)
def test_a_filtered_memory_tells_what_it_has_instead(planted, asked, said):
    memory = planted({"text": 0.9})
    stored = memory.remember("text", tags=["a"], session_id="s").memory.id
    found = memory.explain("query", stored, **asked)
    assert (found.stage, found.reason, found.rank) == ("filtered", said, None)
    assert returned_at(found.counterfactual) == 1
    assert found.score_detail == memory.recall("query", dry_run=True)[0].score_detail


def test_only_the_conditions_that_fail_are_left_out(planted):
    memory = planted({"text": 0.9, "better": 0.95, "best": 0.99}, profile="zeromemory")
    stored = memory.remember("text", tags=["a"]).memory.id
    memory.remember("better", tags=["a"])
    memory.remember("best")
    found = memory.explain("query", stored, tags=["a"], kinds=["rule"])
    assert found.counterfactual == "Leaving out kinds=['rule'] would return it at rank 2."


def test_explaining_a_filtered_memory_changes_no_other_score(planted):
    memory = planted({"text": 0.9, "other": 0.5}, profile="salience")
    stored, other = (memory.remember(text, tags=[text]).memory.id for text in ("text", "other"))
    alone = memory.recall("query", tags=["other"], dry_run=True)
    assert memory.explain("query", stored, tags=["other"]).stage == "filtered"
    found = memory.explain("query", other, tags=["other"])
    assert (found.rank, found.score_detail) == (1, alone[0].score_detail)


def test_a_forgotten_memory_is_explained_by_either_id(planted):
    memory = planted({"text": 0.9})
    stored = memory.remember("text", user_id="u").memory
    memory.forget(stored.id, user_id="u")
    for id in (stored.id, stored.short_id):
        found = memory.explain("query", id, user_id="u")
        assert (found.id, found.stage, found.score_detail, found.rank) == (stored.id, "forgotten", None, None)
        assert found.reason.startswith("It was forgotten on 2026-05-01T12:00:00+00:00;")
        with pytest.raises(NotFoundError):
            memory.explain("query", id, user_id="v")


@pytest.mark.parametrize(
    ("home", "asked", "said", "change"),
    [
        ({"project": "p"}, {"user_id": "u"}, "Its project is 'p', and the query names none.", "project='p'"),
        ({"user_id": "u"}, {"project": "p"}, "Its user_id is 'u', and the query names none.", "user_id='u'"),
        (
            {"project": "p"},
            {"project": "q"},
            "Its project is 'p', and the query names 'q'.",
            "project='p'",
        ),
        ({"user_id": "u", "agent_id": "a"}, {"user_id": "u"}, "Its agent_id is 'a', and ", "agent_id='a'"),
        ({"environment": "staging"}, {}, "Its environment is 'staging', and the ", "environment='staging'"),
        (
            {"project": "p", "environment": "staging"},
            {"user_id": "u"},
            "Its environment is 'staging', and the query names 'default'; its project is 'p', and ",
            "environment='staging', project='p'",
        ),
    ],
)
def test_a_memory_of_the_same_user_elsewhere_is_out_of_scope(planted, home, asked, said, change):
    memory = planted({"text": 0.9})
    stored = memory.remember("text", **home).memory
    for id in (stored.id, stored.short_id):
        found = memory.explain("query", id, **asked)
        assert (found.stage, found.rank, found.by) == ("out_of_scope", None, None)
        assert found.reason.startswith(said)
        assert found.counterfactual == f"Asking with {change} would put it at rank 1."
        assert found.path[0].outcome == "fell"
        assert {step.outcome for step in found.path[1:]} == {"not reached"}
    assert found.score_detail == memory.recall("query", dry_run=True, **{**asked, **home})[0].score_detail


@pytest.mark.parametrize(
    ("home", "asked"),
    [
        ({"user_id": "u"}, {"user_id": "v"}),
        ({"user_id": "u", "project": "p"}, {"user_id": "v", "project": "p"}),
        ({"user_id": "u", "project": "p"}, {"user_id": "v", "project": ANY, "agent_id": ANY, "environment": ANY}),
    ],
)
def test_a_memory_of_another_user_looks_like_an_unknown_id(planted, home, asked):
    memory = planted({"text": 0.9})
    stored = memory.remember("text", **home).memory
    for id, absent in ((stored.id, "0" * 32), (stored.short_id, "0" * 8)):
        with pytest.raises(NotFoundError) as other:
            memory.explain("query", id, **asked)
        with pytest.raises(NotFoundError) as nobody:
            memory.explain("query", absent, **asked)
        assert str(other.value).replace(id, absent) == str(nobody.value)
    assert memory.explain("query", stored.id, **{**asked, "user_id": ANY, "project": ANY}).stage == "returned"
