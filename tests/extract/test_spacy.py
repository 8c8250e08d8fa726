"""The spaCy extractor against a stand-in for the library, and the names of extractors."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from salience.errors import InputError, MissingExtraError
from salience.extract.entities import RuleExtractor, SpacyExtractor, extractor

LABELS = {"Nadia": "PERSON", "tomorrow": "DATE", "Lyon": "GPE", "lyon": "GPE"}


def read(content: str) -> SimpleNamespace:
    spans = [(content.find(name), name, label) for name, label in LABELS.items() if name in content]
    return SimpleNamespace(ents=[SimpleNamespace(start_char=at, text=name, label_=label) for at, name, label in spans])


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def load(name: str) -> object:
        if name != "en_core_web_sm":
            raise OSError(f"[E050] Can't find model '{name}'.")
        return read

    module = ModuleType("spacy")
    module.load = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spacy", module)
    return module


def test_names_come_from_the_pipeline_and_marks_from_the_rules(spacy: ModuleType) -> None:
    found = SpacyExtractor("en_core_web_sm").extract("Never page Nadia about E1042 in lyon, Lyon, tomorrow")
    assert found.entities == ("Nadia", "E1042", "lyon")
    assert found.importance == 1.0


def test_a_missing_library_ends_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[spacy\]"$'):
        SpacyExtractor("en_core_web_sm")


def test_a_missing_pipeline_names_the_setting_and_the_download(spacy: ModuleType) -> None:
    with pytest.raises(InputError, match=r"^entities is 'spacy:xx_none'.* python -m spacy download xx_none$") as caught:
        SpacyExtractor("xx_none")
    assert caught.value.field == "entities"


def test_the_setting_names_an_extractor(spacy: ModuleType) -> None:
    assert isinstance(extractor("rules"), RuleExtractor)
    assert isinstance(extractor("spacy:en_core_web_sm"), SpacyExtractor)


@pytest.mark.parametrize("setting", ["", "rule", "spacy", "spacy:", "rules:x", "SPACY:x", "llm:x"])
def test_an_unknown_setting_lists_the_choices(setting: str) -> None:
    with pytest.raises(InputError, match="Choose one of: rules, spacy:NAME") as caught:
        extractor(setting)
    assert (caught.value.field, caught.value.value) == ("entities", setting)
