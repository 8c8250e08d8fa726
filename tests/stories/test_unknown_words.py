"""Texts of words that the embedding model does not know have no vector: their words decide, and nothing waits."""

from __future__ import annotations

import numpy as np
import pytest

import salience
from salience.errors import EmbedderError
from tests.contract.doubles import PlantedEmbedder

CAT, DOG, MOVE = "고양이 이름은 나비입니다", "강아지 이름은 초코입니다", "나는 서울에 살아요"
GUITAR, RETRIES = "I play 🎸 on Fridays", "MAX_RETRY_COUNT is 5"


class English(PlantedEmbedder):
    """An embedder that knows only words in ASCII, and counts its calls."""

    gives_zeros = True

    def __init__(self) -> None:
        super().__init__({GUITAR: 0.3, RETRIES: 0.4})
        self.calls = 0

    def embed(self, texts, /):
        self.calls += 1
        vectors = super().embed(texts)
        vectors[[not text.isascii() and text != GUITAR for text in texts]] = 0
        return vectors


@pytest.fixture
def embedder():
    return English()


@pytest.fixture
def memory(target, clock, embedder):
    with salience.connect(target, embedder=embedder, clock=clock) as made:
        made.receipts = [made.remember(text) for text in (CAT, DOG, MOVE, GUITAR, RETRIES)]
        yield made


def test_an_unknown_text_is_stored_as_any_other_and_upkeep_has_nothing_to_embed(memory, embedder):
    assert [(receipt.status, receipt.warning) for receipt in memory.receipts] == [("created", None)] * 5
    calls = embedder.calls
    report = memory.upkeep()
    assert (report.embedded, report.pending, embedder.calls) == (0, 0, calls)
    assert memory.stats().pending == 0
    assert memory.doctor(deep=True).healthy


@pytest.mark.parametrize(("query", "found"), [("고양이", CAT), ("서울", MOVE), ("🎸", GUITAR)])
def test_words_decide_about_an_unknown_query(memory, query, found):
    answer = memory.recall(query)
    assert answer[0].memory.content == found
    assert answer.confident
    assert answer.degraded == ()
    assert memory.explain(query, answer[0].memory.id).degraded == ()


@pytest.mark.parametrize("query", ["코끼리", "🚗"])
def test_two_unknown_texts_without_a_common_word_have_nothing_in_common(memory, query):
    answer = memory.recall(query)
    assert not answer.hits
    assert not answer.confident
    assert answer.degraded == ()


def test_a_known_query_finds_an_unknown_text_by_its_words(memory):
    memory.remember("나비 the cat")
    assert memory.recall("query: MAX_RETRY_COUNT")[0].memory.content == RETRIES
    assert {hit.memory.content for hit in memory.recall("나비 cat", limit=2)} == {"나비 the cat", CAT}


def test_an_unknown_text_is_not_stored_twice_and_its_words_show_conflicts(memory):
    assert memory.remember(CAT).status == "unchanged"
    (conflict,) = memory.remember("고양이 이름은 나비입니까").contradictions
    assert conflict.memory.content == CAT
    assert not memory.remember("여동생은 의사예요").contradictions


def test_an_update_to_unknown_words_is_not_pending(memory):
    changed = memory.update(memory.receipts[4].memory.id, content="나는 부산에 살아요")
    assert (changed.status, changed.warning) == ("updated", None)
    assert memory.stats().pending == 0
    assert memory.recall("부산")[0].memory.id == changed.memory.id


def test_an_export_keeps_that_a_text_is_unknown(memory, embedder, clock, tmp_path):
    memory.export(tmp_path / "all.jsonl")
    with salience.connect(":memory:", embedder=embedder, clock=clock) as other:
        calls = embedder.calls
        other.import_(tmp_path / "all.jsonl")
        assert embedder.calls <= calls + 1  # of the fingerprint at most
        assert other.stats().pending == 0
        assert other.recall("고양이")[0].memory.content == CAT


def test_doctor_makes_a_lost_vector_of_a_known_text_anew(memory, embedder):
    vector = embedder.embed
    embedder.embed = lambda texts: np.zeros((len(texts), embedder.dimension), np.float32)
    memory.remember("the vector of this text is lost")
    embedder.embed = vector
    memory.services.embedder.forget()
    (finding,) = memory.doctor().findings
    assert finding.check == "vectors"
    assert memory.doctor(repair=True).healthy
    assert memory.doctor(deep=True).findings == ()


def test_zeros_of_another_embedder_are_an_error():
    broken = English()
    broken.gives_zeros = False
    with salience.connect(":memory:", embedder=broken) as memory:
        assert memory.remember(CAT).status == "pending"
        assert memory.recall("고양이").degraded == ("embedding",)
        with pytest.raises(EmbedderError, match="a vector of zeros"):
            salience.steps.embed(memory.services, [DOG])


SCRIPTS = {
    "고양이 이름은 나비입니다": "나비",
    "나는 서울에 살아요": "서울",
    "น้องแมวชื่อมะลิ": "แมว",
    "ฉันอยู่กรุงเทพ": "กรุงเทพ",
    "मेरी बिल्ली का नाम मोती है": "बिल्ली",
    "मैं दिल्ली में रहता हूँ": "दिल्ली",
    "我的猫叫咪咪": "猫",
    "قطتي اسمها لولو": "قطتي",
    "موعد الطبيب يوم الثلاثاء": "الطبيب",
    "Моя кошка болеет": "кошка",
    "Band practice 🥁🔥": "🥁",
    "🇩🇪 trip in May": "🇩🇪",
    "the flag is set in app.settings.timeout": "app.settings.timeout",
}


def test_the_word_that_is_there_comes_first_in_any_script():
    with salience.connect(":memory:") as memory:
        memory.remember_many([{"content": text} for text in SCRIPTS])
        assert {memory.recall(query)[0].memory.content: query for query in SCRIPTS.values()} == SCRIPTS
        for unknown in ("หมา", "개", "🇫🇷", "🚗", "कुत्ता", "狗", "كلب"):
            assert not memory.recall(unknown).confident, unknown


def test_mixed_texts_that_differ_in_unknown_words_are_no_duplicates():
    with salience.connect(":memory:") as memory:
        memory.remember("Alice likes 寿司")
        assert [one.label for one in memory.remember("Alice likes 天ぷら").contradictions] != ["duplicate"]
        memory.remember("Lunch was 🍕 with Bob")
        memory.remember("Lunch was 🍣 with Bob")
        assert {hit.memory.content for hit in memory.recall("what does Alice like?", limit=2)} == {
            "Alice likes 寿司",
            "Alice likes 天ぷら",
        }
        assert {hit.memory.content for hit in memory.recall("lunch with Bob", limit=2)} == {
            "Lunch was 🍕 with Bob",
            "Lunch was 🍣 with Bob",
        }
