"""The stemmers in C give the terms that those in Python give, by which earlier versions wrote stores."""

from importlib import import_module

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from salience.text import LANGUAGES

WORDS = st.text(st.characters(categories=("Ll", "Lm", "Lo", "Nd")), min_size=1, max_size=20)
ENDINGS = st.sampled_from(["s", "ing", "ed", "ation", "ly", "ness", "ies", "'s", "en", "heit", "mente", "ait"])


def in_python(language):
    module = import_module(f"snowballstemmer.{language}_stemmer")
    return getattr(module, language.title().replace("_", "") + "Stemmer")()


def test_each_language_has_both():
    for language in LANGUAGES:
        assert in_python(language).stemWord("x") == Stemmer.Stemmer(language).stemWord("x")


@pytest.mark.parametrize("language", ["english", "german", "french", "spanish", "russian"])
@given(words=st.lists(st.builds(str.__add__, WORDS, ENDINGS) | WORDS, max_size=30))
def test_words_have_one_stem(language, words):
    slow, fast = in_python(language), Stemmer.Stemmer(language)
    assert [fast.stemWord(word) for word in words] == [slow.stemWord(word) for word in words]
