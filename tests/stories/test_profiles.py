"""Profiles as data, and how memories fade under them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from salience.errors import InputError
from salience.rank import profiles

DAY = timedelta(days=1)


def test_profiles_have_their_signals_weights_stages_and_text(planted):
    found = planted(profile="zeromemory").profiles()
    assert [one.name for one in found.profiles] == list(profiles.NAMES)
    assert [one.name for one in found.profiles if one.is_default] == ["zeromemory"]
    known, stages = {one.name for one in found.signals}, {one.name for one in found.stages}
    for one in found.profiles:
        profile = profiles.load(one.name)
        assert (one.summary, one.limit, one.toml) == (profile.summary, profile.limit, profile.toml)
        assert {signal.label: signal.weight for signal in one.signals} == profile.weights("")
        assert {signal.signal for signal in one.signals} <= known
        assert one.stages == profile.stages
        assert {*one.stages} <= stages
    assert all(one.meaning for one in (*found.signals, *found.stages))


def test_the_curve_of_a_profile_is_that_of_a_new_memory_which_no_recall_returns(planted):
    found = {one.name: one.decay for one in planted().profiles().profiles}
    fading = {"mememory", "memlayer", "zeromemory", "memorysync", "cmm"}
    assert {name for name, curve in found.items() if curve} == fading
    for name in fading:
        assert len(found[name]) == 31
        assert list(found[name]) == sorted(found[name], reverse=True)
    assert found["memorysync"][0] == 1.0
    assert found["memorysync"][30] <= 0.5  # its half-life is 30 days


def test_memories_fade_from_now_on_as_their_profile_says(planted, clock):
    memory = planted()
    old = memory.remember("old", created_at=clock() - 30 * DAY).memory.id
    new = memory.remember("new").memory.id
    first, second = memory.decay([new, old], profile="memorysync", days=30, steps=31)
    assert (first.id, second.id) == (new, old)
    known = {one.name: one.decay for one in memory.profiles().profiles}
    assert first.values == pytest.approx(known["memorysync"])
    assert second.values[0] < first.values[0]
    (curve,) = memory.decay([new])
    assert curve.values == (1.0,) * 25  # the ranking of salience does not depend on age


def test_only_live_and_visible_memories_fade(planted):
    memory = planted()
    gone, other = memory.remember("gone").memory.id, memory.remember("other", user_id="ann").memory.id
    memory.forget(gone)
    assert memory.decay([gone, other]) == memory.decay([]) == ()
    with pytest.raises(InputError, match="steps"):
        memory.decay([gone], steps=1)
