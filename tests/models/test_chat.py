"""The chat client: what it sends, and how it leaves alone what failed. The summariser's tests hold the rest of it."""

from __future__ import annotations

import pytest

from salience import loading
from salience.deadline import Pause
from salience.errors import MissingExtraError
from salience.models.llm import Chat, ChatError, Endpoint
from tests.chat_double import ChatDouble
from waiting import PATIENCE

KEY = "sk-very-secret"


@pytest.fixture
def double():
    with ChatDouble(lambda question: "yes") as running:
        yield running


def asking(double, **options):
    return Chat(Endpoint(double.url, "model-x", KEY, timeout=PATIENCE, retries=0, **options), "judge")


def test_the_answer_is_the_text_of_the_completion(double):
    assert asking(double).ask("be brief", "[1]") == "yes"
    assert (double.told, double.questions) == (["be brief"], [[1]])


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_with_a_rest_it_is_left_alone_after_a_failure(double, status):
    arguments = asking(double, rest=3600.0)
    double.status = status
    with pytest.raises(ChatError, match=f"status {status}"):
        arguments.ask("", "[]")
    double.status = 200
    with pytest.raises(ChatError, match="not asked for now"):
        arguments.ask("", "[]")
    assert len(double.questions) == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_question_that_is_refused_is_no_reason_for_a_rest(double, status):
    arguments = asking(double, rest=3600.0)
    double.status = status
    with pytest.raises(ChatError):
        arguments.ask("", "[]")
    double.status = 200
    assert arguments.ask("", "[]") == "yes"


def test_a_rest_ends():
    now = [10.0]
    rest = Pause(60.0, lambda: now[0])
    assert not rest.is_on
    rest.begin()
    now[0] = 69.9
    assert rest.is_on
    now[0] = 70.0
    assert not rest.is_on
    rest.begin()
    assert rest.is_on


def test_an_endpoint_and_its_client_show_no_key(double):
    made = asking(double)
    assert KEY not in repr(Endpoint(double.url, "model-x", KEY))
    assert KEY not in repr(made) + repr(vars(made))


def test_a_missing_library_is_reported_with_the_pip_line(monkeypatch):
    monkeypatch.setattr(loading, "find_spec", lambda module: None)
    with pytest.raises(MissingExtraError, match=r'the judge \'openai\' .*pip install .*\[llm\]"'):
        Chat(Endpoint("http://127.0.0.1:1", "model-x"), "judge")
