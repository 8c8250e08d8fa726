"""Profiles: the six that ship are what they say, and a TOML of one's own is refused with the key and the remedy."""

from __future__ import annotations

import pytest

from salience import ProfileError
from salience.batch import COLUMNS, PARTS
from salience.rank import profiles
from salience.rank.confidence import Model
from salience.rank.profile import Profile, parse
from salience.rank.signals import SIGNALS
from salience.rank.stages import STAGES

CHOOSE_A_SIGNAL = rf"Choose one of: {', '.join(sorted(SIGNALS))}\.$"

GOOD = """
name = "mine"
summary = "Mine."
combine = "sum"
stages = ["expired", "score", "threshold", "trim"]
[signal.similarity]
weight = 0.5
[signal.recency]
weight = 0.5
clock = "created_at"
half_life_days = 10.0
[intent.time]
words = ["recent"]
weights = { recency = 0.9 }
"""


def test_the_profiles_load_and_their_columns_are_known():
    assert profiles.NAMES == ("salience", "precise", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")
    for name in profiles.NAMES:
        profile = profiles.load(name)
        assert profile.name == name
        assert profile.columns <= COLUMNS.keys()
        assert profile.stages[-1] == "trim"


def test_every_signal_and_stage_is_documented_and_reads_known_columns():
    for signal in SIGNALS.values():
        assert "Return" in (signal.formula.__doc__ or "")
    for stage in STAGES.values():
        assert stage.step.__doc__
        assert set(stage.reads) <= COLUMNS.keys() | PARTS


def test_a_profile_of_ones_own():
    profile = parse(GOOD, "mine.toml")
    assert profile.columns == {"cosine", "created_at", "expires_at"}
    assert profile.weights("time") == {"similarity": 0.5, "recency": 0.9}
    assert profile.weights("unknown") == {"similarity": 0.5, "recency": 0.5}
    assert not any(part in profile.parts for part in ("terms", "entities", "vectors"))


def test_a_model_of_confidence_reads_its_features():
    table = "[confidence]\nintercept = -1\nweights = { match = 2, similarity = -0.5 }\n"
    profile = parse(GOOD + table, "mine.toml")
    assert profile.confidence == Model(-1.0, {"match": 2.0, "similarity": -0.5}, 0.5)
    assert "cosine" in profile.columns
    assert "terms" in profile.parts


def test_derived_values_follow_a_changed_profile():
    profile = parse(GOOD, "mine.toml")
    before = (profile.columns, profile.weights("time"), profile.favours_latest, ("entities" in profile.parts))
    other = profile.with_weights({"recency": 0.1})
    graph = profile.for_graph(0.3, 2)
    assert other.weights("time") == {"similarity": 0.5, "recency": 0.1}
    assert (graph.columns, graph.favours_latest, ("entities" in graph.parts)) == ({"cosine", "expires_at"}, False, True)
    assert before == (profile.columns, profile.weights("time"), profile.favours_latest, ("entities" in profile.parts))
    assert profile == parse(GOOD, "other.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "mine"', "", "name is missing. Set it"),
        (
            'name = "mine"',
            'name = "mine"\ncolour = 1',
            "colour is an unknown key. Known keys here: candidates, combine",
        ),
        ('combine = "sum"', 'combine = "mean"', "combine 'mean' is unknown. .* product, sum"),
        ('combine = "sum"', "combine =", "TOML"),
        ("[signal.similarity]", "[signal.closeness]", "signal.closeness is not a signal. " + CHOOSE_A_SIGNAL),
        (
            "[signal.similarity]",
            "[signal.similarity]\npower = 2",
            "signal.similarity.power is an unknown key. Known keys here: combine",
        ),
        ("weight = 0.5\n[signal.recency]", "weight = -1\n[signal.recency]", "signal.similarity.weight is -1"),
        ("weight = 0.5\n[signal.recency]", "weight = nan\n[signal.recency]", "signal.similarity.weight is nan"),
        ('clock = "created_at"', 'clock = "wall"', "signal.recency.clock 'wall' is unknown. .* accessed_at"),
        ("half_life_days = 10.0", "", "signal.recency is .* half_life_days"),
        ("half_life_days = 10.0", "half_life_days = 10.0\nrate_per_day = 1.0", "signal.recency is .*Set one of"),
        ("half_life_days = 10.0", "rate_per_hour = { working = 1.0 }", "signal.recency.rate_per_hour.episodic"),
        ("half_life_days = 10.0", "rate_per_hour = { dreaming = 1.0 }", "signal.recency.rate_per_hour.dreaming"),
        ('"expired", "score"', '"expired", "sieve", "score"', "stages 'sieve' is unknown. .* near_duplicate"),
        ('"score", "threshold"', '"threshold", "score"', "stages has 'threshold' .* after 'score'"),
        ('"expired", "score"', '"score", "expired"', "stages has 'expired' .* before 'score'"),
        ('"threshold", "trim"', '"threshold"', "stages is .*'trim' last"),
        ('"score", ', "", "stages is .*'score' once"),
        (
            "[intent.time]",
            "[stage.spread]\nhops = 1\n[intent.time]",
            "stage.spread is an unknown key. Known keys here: expired, score",
        ),
        ("[intent.time]", "[graph]\nmax_hops = 1.5\n[intent.time]", "graph.max_hops is 1.5. Give a whole number"),
        ("[intent.time]", "[stage.score]\nhops = 1\n[intent.time]", "stage.score.hops is an unknown key. .* none"),
        ('words = ["recent"]', 'words = "recent"', "intent.time.words has the type str. Give a list of texts"),
        ("recency = 0.9", "freshness = 0.9", "intent.time.weights.freshness is an unknown key. .* recency, similarity"),
        ("[intent.time]", "[on_recall]\naccess_count = 1.5\n[intent.time]", "on_recall.access_count is 1.5"),
        ("[intent.time]", "[on_recall]\nactivate = 1\n[intent.time]", "on_recall.activate is 1"),
        ("[intent.time]", "[on_remember]\ncontradiction_above = 2\n[intent.time]", "contradiction_above is 2"),
        ("[intent.time]", "[candidates]\nper_limit = 3\n[intent.time]", "candidates.minimum is missing"),
        ("[intent.time]", "[graph]\nweight = 3\n[intent.time]", "graph.weight is 3"),
        ("[signal.similarity]", "limit = 0\n[signal.similarity]", "limit is 0"),
        ("[signal.similarity]", "limit = 9\nmax_limit = 5\n[signal.similarity]", "limit is 9. .* from 1 to 5"),
        ("[signal.similarity]", 'threshold_scale = "log"\n[signal.similarity]', "threshold_scale 'log' is unknown"),
        ("[signal.similarity]", "signal = 1\n#", "TOML"),
        ("[intent.time]", "[confidence]\nintercept = 1\n[intent.time]", "confidence.weights is missing"),
        ("[intent.time]", "[confidence]\nweights = {}\n[intent.time]", "confidence.intercept is missing"),
        (
            "[intent.time]",
            "[confidence]\nintercept = 1\nweights = { luck = 1 }\n[intent.time]",
            "confidence.weights.luck is an unknown key. Known keys here: .*match, .*rank, recency, .*similarity",
        ),
        (
            "[intent.time]",
            "[confidence]\nintercept = 1\nweights = {}\nconfident_from = 2\n[intent.time]",
            "confidence.confident_from is 2",
        ),
        (
            "[signal.similarity]",
            "weak_below = 1\n[confidence]\nintercept = 1\nweights = {}\n[signal.similarity]",
            r"weak_below excludes the table \[confidence\]",
        ),
    ],
)
def test_a_broken_profile_names_the_key_and_the_remedy(old, new, message):
    assert old in GOOD
    with pytest.raises(ProfileError, match=message) as caught:
        parse(GOOD.replace(old, new, 1), "mine.toml")
    assert str(caught.value).startswith("mine.toml")


@pytest.mark.parametrize("label", ["final", "parts", "via", "recompute", "as_dict", "__class__"])
def test_a_label_that_a_score_detail_has_of_its_own_is_refused(label):
    broken = GOOD.replace("[signal.similarity]", f'[signal.similarity]\nlabel = "{label}"')
    with pytest.raises(ProfileError, match=rf"^mine\.toml: signal\.similarity\.label '{label}' is taken\. "):
        parse(broken, "mine.toml")


@pytest.mark.parametrize(
    "labels", [("recency", None), ("twice", "twice"), (None, "similarity")], ids=["other's name", "same", "own name"]
)
def test_two_signals_of_one_label_are_refused(labels):
    broken = GOOD
    for signal, label in zip(("similarity", "recency"), labels, strict=True):
        if label is not None:
            broken = broken.replace(f"[signal.{signal}]", f'[signal.{signal}]\nlabel = "{label}"')
    shared = next(label for label in labels if label)
    with pytest.raises(ProfileError, match=rf"^mine\.toml: signal\.(similarity|recency)\.label '{shared}' is taken"):
        parse(broken, "mine.toml")


@pytest.mark.parametrize(
    ("key", "table"),
    [
        *((f"stage.spread.{key}", f"[stage.spread]\n{key}") for key in ("hops", "neighbours", "links")),
        ("signal.graph_proximity.max_hops", "[signal.graph_proximity]\nmax_hops"),
        ("graph.max_hops", "[graph]\nmax_hops"),
        ("on_recall.access_count", "[on_recall]\naccess_count"),
        ("candidates.minimum", "[candidates]\nper_limit = 3\nminimum"),
    ],
)
def test_what_is_counted_is_a_whole_number(key, table):
    spreading = GOOD.replace('"threshold", "trim"', '"threshold", "spread", "trim"')
    assert parse(f"{spreading}\n{table} = 2\n", "mine.toml")
    with pytest.raises(ProfileError, match=rf"^mine\.toml: {key} is 1\.5\. Give a whole number"):
        parse(f"{spreading}\n{table} = 1.5\n", "mine.toml")


@pytest.mark.parametrize("stage", [name for name in STAGES if name not in ("threshold", "score", "trim")])
def test_only_the_threshold_may_stand_twice(stage):
    order = ([stage, "score"], ["score", stage])[STAGES[stage].after_score]
    good = GOOD.replace('["expired", "score", "threshold", "trim"]', str([*order, "threshold", "threshold", "trim"]))
    assert parse(good, "mine.toml").stages.count("threshold") == 2
    with pytest.raises(ProfileError, match=rf"^mine\.toml: stages has '{stage}' twice\. Name it once"):
        parse(good.replace(f"'{stage}'", f"'{stage}', '{stage}'"), "mine.toml")


@pytest.mark.parametrize(
    "text", [f"a = {'[' * 5000}", f"combine{'.a' * 2000} = 1", f"limit = {'1' * 5000}"], ids=["lists", "keys", "digits"]
)
def test_what_is_too_deep_or_too_long_is_no_profile(text):
    with pytest.raises(ProfileError, match=r"^mine\.toml is nested too deeply, or has a number too long"):
        parse(text, "mine.toml")


def test_a_profile_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ProfileError, match=r"absent\.toml"):
        profiles.load(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match="cannot be read: it is not UTF-8"):
        profiles.load(tmp_path / "binary.toml")


def test_weights_of_one_recall_hold_under_every_intent():
    profile = parse(GOOD, "mine.toml").with_weights({"recency": 0.1})
    assert profile.weights("default")["recency"] == profile.weights("time")["recency"] == 0.1


def test_the_shipped_toml_can_be_copied(tmp_path):
    for name in profiles.NAMES:
        (tmp_path / "copy.toml").write_text(profiles.source(name))
        assert profiles.load(tmp_path / "copy.toml") == profiles.load(name)


def test_calibrated_thresholds_are_a_key_of_any_profile():
    profile = parse(
        GOOD.replace("[signal.similarity]", 'threshold_scale = "calibrated"\n[signal.similarity]', 1), "mine"
    )
    assert isinstance(profile, Profile)
    assert profile.threshold_scale == "calibrated"
