"""The ground: text, checks, ids, settings and the walls between the rooms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience import InputError, settings
from salience.batch import cosines
from salience.records import ANY, Draft, Filter, Scope, checks
from salience.records.ids import TimeOrderedIds, short_id
from salience.text import NO_LANGUAGE, Tokeniser, content_hash, normalise, phrases, words


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Users' preferences", ("user", "prefer")),
        ("Alice's RUNNING in 2026, v3.12", ("alic", "run", "2026", "v3", "12", "v3.12")),
        ("Straße STRASSE", ("strass", "strass")),
        ("don’t can't", ()),
        ("fact_key user.theme", ("fact", "key", "user", "theme", "fact_key", "user.theme")),
        ("ｆｕｌｌｗｉｄｔｈ ﬁne", ("fullwidth", "fine")),
        ("東京に行く", ("東京", "京に", "に行", "行く")),
        ("🎉 !!!", ("🎉",)),
        ("Привет мир", ("привет", "мир")),
    ],
)
def test_terms(text, terms):
    assert Tokeniser().terms(text) == terms


def test_other_languages_by_setting():
    assert Tokeniser("german").terms("Die Häuser sind nicht groß") == ("haus", "gross")
    assert Tokeniser(NO_LANGUAGE).terms("The Users") == ("the", "users")
    with pytest.raises(InputError, match=r"^language 'klingon' is unknown.*english"):
        Tokeniser("klingon")


@given(st.text())
def test_any_text_can_be_tokenised_and_normal_form_is_stable(text):
    assert all(term and " " not in term for term in Tokeniser().terms(text))
    assert normalise(normalise(text)) == normalise(text)
    assert words(text) == words(normalise(text))


def test_phrases_are_the_names_a_query_may_hold():
    found = phrases("Does Alice Smith use `pytest.ini`?")
    assert {"alice", "alice smith", "pytest.ini"} <= set(found)
    assert len(found) == len(set(found))


@given(st.text(alphabet="aB '\u2019s.,!\u3000\u00e9", max_size=24), st.integers(1, 5))
def test_phrases_are_the_runs_of_each_form_of_the_words(text, longest):
    tokens = normalise(text).split()
    stripped = [token.strip("\"'`.,;:!?()[]{}<>") for token in tokens]
    bare = [token.removesuffix("'s") for token in stripped]
    runs = [
        " ".join(form[start : start + length])
        for form in (tokens, stripped, bare)
        for length in range(1, longest + 1)
        for start in range(len(form) - length + 1)
    ]
    assert phrases(text, longest) == tuple(dict.fromkeys(run for run in runs if run))


def test_content_hash_is_sha256():
    assert content_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_ids_increase_also_when_the_clock_steps_back():
    new_id = TimeOrderedIds()
    now = datetime(2026, 5, 1, tzinfo=UTC)
    made = [new_id(now), new_id(now), new_id(now - timedelta(days=1)), new_id(now + timedelta(days=1))]
    assert made == sorted(made)
    assert all(len(id) == 32 and int(id, 16) for id in made)
    assert short_id(made[0]) == made[0][-8:]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("24h", 86400), ("7d", 604800), ("90m", 5400), ("30", 30), (30, 30), (0.5, 0.5), ("1.5h", 5400), ("2W", 1209600)],
)
def test_ttl(value, seconds):
    assert checks.duration("ttl", value) == timedelta(seconds=seconds)


def test_instants_come_back_in_utc():
    east = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert checks.instant("now", east).isoformat() == "2026-05-01T10:00:00+00:00"
    assert checks.instant("now", "2026-05-01T12:00:00Z") == datetime(2026, 5, 1, 12, tzinfo=UTC)


SOME = st.sampled_from([None, "a", "b"])
ASKED = st.sampled_from([None, "a", "b", ANY])


@given(home=st.tuples(SOME, SOME, SOME), asked=st.tuples(ASKED, ASKED, ASKED))
def test_visibility_is_each_coordinate_null_or_equal_or_any(home, asked):
    lives = Scope("t", "e", *home)
    caller = Scope("t", "e", *asked)
    expected = all(there is None or here is ANY or here == there for there, here in zip(home, asked, strict=True))
    assert caller.sees(lives) == expected
    assert not Scope("other", "e", *asked).sees(lives)
    assert not Scope("t", "other", *asked).sees(lives)


def test_frozen_values_cannot_be_changed():
    draft = Draft(content="x", metadata={"a": 1})
    with pytest.raises(AttributeError):
        draft.content = "y"
    with pytest.raises(TypeError):
        draft.metadata["a"] = 2
    assert Filter(tags=["b", "b"]).tags == ("b",)


def test_settings_come_from_the_environment_then_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "salience").mkdir()
    (tmp_path / "salience" / "config.toml").write_text('tenant = "file"\nlanguage = "german"\n')
    monkeypatch.setenv("SALIENCE_TENANT", "environment")
    loaded = settings.load()
    assert (loaded.tenant, loaded.language, loaded.content_limit) == ("environment", "german", 65_536)


@pytest.mark.parametrize(
    ("name", "value"), [("CONTENT_LIMIT", "many"), ("BUSY_TIMEOUT", "-1"), ("OPENAI_DIMENSION", "0")]
)
def test_a_bad_setting_names_the_variable(monkeypatch, name, value):
    monkeypatch.setenv(f"SALIENCE_{name}", value)
    with pytest.raises(InputError, match=f"SALIENCE_{name}"):
        settings.load()


def test_an_unknown_key_in_the_config_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "salience").mkdir()
    (tmp_path / "salience" / "config.toml").write_text("tennant = 'x'\n")
    with pytest.raises(InputError, match=r"^tennant"):
        settings.load()


def test_a_secret_setting_is_never_shown(monkeypatch):
    monkeypatch.setenv("SALIENCE_OPENAI_API_KEY", "sk-very-secret")
    assert "very" not in repr(settings.load())


@pytest.mark.parametrize(("rows", "queries"), [(0, 0), (0, 3), (5, 0), (1, 1), (40, 7)])
def test_cosines_have_the_same_bits_for_one_query_and_for_many(rows, queries):
    random = np.random.default_rng(7)
    vectors, asked = (random.standard_normal((count, 384)).astype(np.float32) / 20 for count in (rows, queries))
    found = cosines(vectors, asked)
    assert (found.shape, found.dtype) == ((rows, queries), np.float64)
    for place in range(queries):
        assert np.array_equal(found[:, place], cosines(vectors, asked[place]))
    assert np.abs(found).max(initial=0.0) <= 1
