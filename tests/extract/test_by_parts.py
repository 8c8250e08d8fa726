"""Texts are read part by part, and what is read of a part is kept: it gives what reading a whole text gives."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from unittest.mock import patch

import pytest
import snowballstemmer
from hypothesis import given
from hypothesis import strategies as st

from salience.extract import distinctions as distinctions_module
from salience.extract.distinctions import distinctions
from salience.extract.entities import Piece, distinct, entities, marks, names, read, read_whole
from salience.extract.phrases import Phrasebook
from salience.text import Kept, Tokeniser, is_plain_word, normalise, words

WORDS = (
    "the of a an every last next one no not longer stop second may May 3 3pm two $ - -5 5 million and Mira Lindqvist "
    "Dr. St. J. NASA PLEASE van `code of it` Nadia's Nadia’s non-smoker http://www./ https://www.x.org/a/ a@b.co "
    "snake_case camelCase PROJ-7 end.The yes,no (so 'quoted' don't Łódź Straße ﬁn ½ ٣ １２ e\u0301 \u00b4 ｶﾞ "
    "日本語の本 한글 İ ſ \u200b — … x_1 v2 Call Tea, said"
).split(" ")
GAPS = [" ", " ", " ", "  ", "\n", "\t", ". ", ", ", "\u3000", "\u00a0", "\x1c", "", "'s ", " - ", "`", ") ", "\u2028"]
MARKS = re.compile("[\u0900-\u109f\u1780-\u17d3]")
TEXTS = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GAPS)), max_size=14).map(
    lambda drawn: "".join(part for pair in drawn for part in pair)
) | st.text(max_size=30)


def spelled_out(text: str) -> str:
    straight = unicodedata.normalize("NFKC", text).casefold().translate(dict.fromkeys(map(ord, "’ʼ＇"), "'"))
    return " ".join(straight.split())


@given(TEXTS)
def test_a_text_is_normal_as_unicode_says(text):
    assert normalise(text) == spelled_out(text)


@given(TEXTS, st.sampled_from(["english", "german", "none"]))
def test_terms_are_those_of_the_words_of_the_whole_text(text, language):
    tokeniser = Tokeniser(language)
    stem = str if language == "none" else snowballstemmer.stemmer(language).stemWord
    expected = [stem(word) for word in words(text) if word not in tokeniser._stopwords]
    assert list(tokeniser.terms(text))[: len(expected)] == expected  # those of compounds and symbols follow
    assert tokeniser.terms(text) == tokeniser.terms(text)


@given(TEXTS)
def test_words_do_not_reach_over_white_space(text):
    assert [word for part in text.split() for word in words(part)] == words(text)
    if not MARKS.search(text) and not re.search(
        r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]", spelled_out(text)
    ):
        assert words(text) == re.findall(r"[^\W_]+(?:'[^\W_]+)*", spelled_out(text))


@given(TEXTS)
def test_the_pieces_are_those_of_the_whole_text(text):
    by_parts, whole = read(text), list(read_whole(text))

    def told(pieces: list[Piece]) -> list[tuple[object, ...]]:
        gaps = [before.after + piece.before for before, piece in pairwise(pieces)]
        return [*gaps, *((piece.text, piece.is_mark, piece.words, piece.may_name) for piece in pieces)]

    assert told(by_parts) == told(whole)
    assert [piece.after for piece in by_parts[-1:]] == [piece.after for piece in whole[-1:]]
    assert (marks(by_parts), names(by_parts)) == (marks(whole), names(whole))
    assert entities(text) == distinct([*marks(whole), *names(whole)])


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(" ".join)),
    st.lists(st.sampled_from("abcd")),
)
def test_phrases_are_found_wherever_they_stand(phrases, text):
    known = {tuple(phrase.split()) for phrase in phrases}
    found, reached = [], 0
    for start in range(len(text)):
        ends = [start + size for size in (3, 2, 1) if tuple(text[start : start + size]) in known]
        end = min(ends[0], len(text)) if ends else 0
        if end > reached:
            found.append((start, end, tuple(text[start:end])))
            reached = end
    assert Phrasebook(phrases).find(text) == found


@given(TEXTS | st.text("abcxyzñ'B1-", max_size=4))
def test_a_plain_word_is_what_reading_it_letter_by_letter_gives(written):
    def told() -> list[object]:
        return [read_whole(written), distinctions_module._tokens(written)]

    at_a_glance = told()
    with patch("salience.text.is_plain_word", never), patch("salience.extract.distinctions.is_plain_word", never):
        assert told() == at_a_glance
    if is_plain_word(written):
        assert (words(written), normalise(written)) == ([written], written)


def never(text: str) -> bool:
    return False


def test_what_is_kept_is_made_once_and_bounded():
    made: list[str] = []
    kept = Kept(lambda text: made.append(text) or text.upper())
    assert [kept["a"], kept["a"], kept["a" * 41], kept["a" * 41]] == ["A", "A", "A" * 41, "A" * 41]
    assert made == ["a", "a" * 41, "a" * 41]
    for number in range(Kept.MOST + 10):
        assert kept[str(number)] == str(number)
        assert len(kept) <= Kept.MOST
    assert kept["a"] == "A"


@pytest.mark.parametrize("part", ["Ann ", "ANN ", "- ", "` ", "a", "the ", "Ann. "])
def test_a_long_text_is_read_to_its_end(part):
    assert "name:nadia" in distinctions(part * 20_000 + " we met Nadia")
