"""What fits a question is returned however many other memories there are, with the model that ships."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import salience
from salience.models.calibration import calibration_of
from salience.models.minilm import MiniLM

pytestmark = pytest.mark.slow

SIZES = (100, 2_000)
PAIRS = (
    ("Bought a ThinkPad X1 Carbon", "what laptop do I use?"),
    ("I use Neovim with a dark colour scheme", "what editor do I use?"),
    ("I take 50 mg of sertraline every day", "medication"),
    ("Our dog is a beagle called Biscuit", "do we have pets?"),
    ("I am allergic to penicillin", "which antibiotic must I avoid?"),
    ("My sister Hannah got married in June", "did anybody in my family have a wedding?"),
    ("I drive a 2018 Skoda Octavia", "what car do I own?"),
    ("I have been vegetarian since 2015", "may I be served a steak?"),
    ("We fly to Lisbon on 3 October", "where is our next holiday?"),
    ("My daughter goes to the Montessori kindergarten", "which childcare does my kid attend?"),
    ("I play the cello in an amateur orchestra", "what instrument do I play?"),
    ("My landlord is Mr Okafor", "who do I pay rent to?"),
)
SUBJECTS = (
    "The report on", "My notes about", "A colleague's talk on", "The workshop on", "An article about",
    "The budget for", "A podcast on", "The slides about", "Our review of", "The survey of",
)  # fmt: skip
TOPICS = (
    "harbour traffic", "tax forms", "solar panels", "bridge repairs", "bird migration", "museum tickets",
    "soil samples", "train delays", "river levels", "street lighting", "bread prices", "library hours",
    "cinema seats", "snow clearing", "water meters", "glass recycling", "parking zones", "election posters",
    "chess openings", "paper sizes", "wind farms", "coal mining", "city archives", "sports halls", "postal codes",
)  # fmt: skip
ENDINGS = tuple(f"was filed under number {number}" for number in range(1, 41))


class ByHalves:
    """minilm, but for the fillers, whose vectors are the mean of those of their halves: 290 texts instead of 2,000."""

    name, dimension = "minilm-by-halves", 384

    def __init__(self):
        self._model = MiniLM()
        self.calibration = calibration_of(self._model)
        self._halves = {}

    def embed(self, texts):
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text):
        halves = [half for half in text.partition(" was filed") if half]
        if len(halves) == 1:
            return self._model.embed([text])[0]
        for half in (halves[0], halves[-1]):
            if half not in self._halves:
                self._halves[half] = self._model.embed([half])[0]
        mean = self._halves[halves[0]] + self._halves[halves[-1]]
        return mean / np.linalg.norm(mean)


@pytest.fixture(scope="module")
def growing(tmp_path_factory):
    """Return a function from a size to a memory that holds the twelve and that many others of the same user."""
    memory = salience.connect(str(tmp_path_factory.mktemp("growth") / "agent.db"), embedder=ByHalves())
    memory.remember_many([{"content": text} for text, _ in PAIRS], user_id="ana")
    others = [" ".join(words) for words in product(SUBJECTS, TOPICS, ENDINGS)]
    # spread over the subjects and topics from the first ten on
    order = sorted(range(len(others)), key=lambda place: place * 7919 % len(others))

    def grown(size):
        held = memory.stats(user_id="ana").memories - len(PAIRS)
        memory.remember_many([{"content": others[place]} for place in order[held:size]], user_id="ana")
        return memory

    yield grown
    memory.close()


@pytest.mark.parametrize("size", SIZES)
def test_twelve_answers_are_returned_at_every_size(growing, size):
    memory = growing(size)
    assert memory.stats(user_id="ana").memories >= size + len(PAIRS)
    found = {question: memory.recall(question, user_id="ana", dry_run=True) for _, question in PAIRS}
    returned = [text for text, question in PAIRS if text in [hit.memory.content for hit in found[question]]]
    assert len(returned) >= 11
