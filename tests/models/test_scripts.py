"""Models read the words of their own scripts; a text of other words has none."""

import numpy as np
import pytest

from salience.models.multilingual import SCRIPTS
from salience.models.scripts import embed_known, known_text
from salience.text import LATIN


@pytest.mark.parametrize(
    ("text", "latin", "multilingual"),
    [
        ("The cat is ill", "The cat is ill", "The cat is ill"),
        ("Müller’s naïve café — “ok” 👍", "Müller’s naïve café — “ok” 👍", "Müller’s naïve café — “ok” 👍"),
        ("Nguyễn Thị", "Nguyễn Thị", "Nguyễn Thị"),
        ("Alice likes 寿司", "Alice likes ", "Alice likes 寿司"),
        ("고양이 2마리", "", "고양이 2마리"),
        ("Моя кошка болеет", "", "Моя кошка болеет"),
        ("मेरी बिल्ली", "", ""),
        ("η γάτα μου", "", ""),
        ("🎸🍕", "", ""),
        ("???", "", ""),
        ("", "", ""),
    ],
)
def test_words_in_other_scripts_are_left_out(text, latin, multilingual):
    assert known_text(text, LATIN) == latin
    assert known_text(text, SCRIPTS) == multilingual


def test_a_text_of_unknown_words_is_not_embedded():
    embedded = []

    def embed(texts):
        embedded.extend(texts)
        return np.ones((len(texts), 2), np.float32)

    vectors = embed_known(embed, ["고양이", "a cat", "🎸"], LATIN, 2)
    assert vectors.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert embedded == ["a cat"]
