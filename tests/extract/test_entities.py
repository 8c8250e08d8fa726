"""Entities by rules: names, marks, their order, and hostile input."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.entities import FORMS, MAX_CHUNK, RuleExtractor, entities
from salience.ports import Extract
from salience.text import normalise

SIZE = 65_536


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("Alice prefers Python for backend work", ("Alice", "Python")),
        ("Alice mentioned Rust is interesting", ("Alice", "Rust")),
        ("When Alice went to Paris she met Bob", ("Alice", "Paris", "Bob")),
        ("yesterday Mira Lindqvist flew to New York City", ("Mira Lindqvist", "New York City")),
        ("We met Ludwig van Beethoven and Ana de la Cruz", ("Ludwig van Beethoven", "Ana de la Cruz")),
        ("a book called Wheel of Time", ("Wheel of Time",)),
        ("Alice, Bob and Carol came", ("Alice", "Bob", "Carol")),
        ("She read J. R. Hartley in St. Gallen.", ("J. R. Hartley", "St. Gallen")),
        ("It was Dr. Okafor who called Mrs. Bell", ("Okafor", "Bell")),
        ("with Jean-Luc O'Brien and Ronald McDonald", ("Jean-Luc O'Brien", "Ronald McDonald")),
        ("in São Paulo and Łódź", ("São Paulo", "Łódź")),
        ("мы были в Москве", ("Москве",)),
    ],
)
def test_capitalised_words_side_by_side_are_a_name(content: str, found: tuple[str, ...]) -> None:
    assert entities(content) == found


@pytest.mark.parametrize(
    "name",
    [
        "Will Smith", "Mark Twain", "Rob Pike", "Frank Ocean", "Bill Gates", "Drew Barrymore", "Hope Solo",
        "Sue Ellen", "Fred Smith", "Mohammed Ali", "Ahmed Khan", "Jared Leto", "United Airlines", "Applied Materials",
        "Sacred Heart",
    ],
)  # fmt: skip
def test_a_name_that_begins_like_a_verb_is_whole(name: str) -> None:
    assert entities(f"{name} likes tea") == (name,)
    assert entities(f"We met {name} in town") == (name,)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("Promised Olga to send the report", ("Olga",)),
        ("Called Tim about the lease", ("Tim",)),
        ("Meeting Anna tomorrow", ("Anna",)),
        ("Versprach Olga den Bericht", ("Olga", "Bericht")),
        ("Rief Tim an", ("Tim",)),
        ("Llamó Tim por la mañana", ("Tim",)),
        ("Prometí Olga el informe", ("Olga",)),
        ("Will Alice come on Monday?", ("Alice",)),
        ("Grant is my boss", ("Grant",)),
    ],
)
def test_a_verb_that_opens_a_note_is_no_part_of_the_name(content: str, found: tuple[str, ...]) -> None:
    assert entities(content) == found


def test_a_closing_tag_is_no_path() -> None:
    assert entities("<script>alert(1)</script>") == ()
    assert entities("run /script before a deploy") == ("/script",)


@pytest.mark.parametrize(
    "content",
    [
        "Coffee is ready. Backups run nightly. Deployments failed.",
        "Yes! Thanks. The end? It’s late… I'm off. Let's go.",
        "Yesterday was fine\nTomorrow too\n- Maybe later",
        "plain words only, nothing else",
        "",
        " \n\t ",
    ],
)
def test_an_ordinary_word_that_opens_a_sentence_is_no_name(content: str) -> None:
    assert entities(content) == ()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("Backups go to Backups, the bucket", ("Backups",)),
        ("Aurora Borealis tonight", ("Aurora Borealis",)),
        ("Nadia's laptop broke", ("Nadia",)),
        ("Nadia said so", ("Nadia",)),
        ("PostgreSQL scales. NASA too.", ("PostgreSQL", "NASA")),
        ("Call Nadia", ("Nadia",)),
        ("Hello Nadia!", ("Nadia",)),
    ],
)
def test_the_word_that_opens_a_sentence_is_a_name_where_something_says_so(content: str, found: tuple[str, ...]) -> None:
    assert entities(content) == found


def test_a_possessive_is_stripped_and_ends_the_name() -> None:
    assert entities("it is Bob's Tesla and James’ bike, not Ann’s") == ("Bob", "Tesla", "James", "Ann")


def test_capitals_mean_nothing_where_all_is_shouted() -> None:
    assert entities("PLEASE READ THIS NOW OR LEAVE") == ()
    assert entities("please read the NASA report now") == ("NASA",)


def test_a_long_run_of_capitalised_words_is_a_heading() -> None:
    assert entities("see Old Red Blue Green House Falls") == ("Old Red Blue Green House Falls",)
    assert entities("see Old Red Blue Green House Falls Apart") == ()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("ask @mira_l or @salience/core.", ("@mira_l", "@salience/core")),
        ("(#ops, #4021)", ("#ops", "#4021")),
        ("write to mira@example.org.", ("mira@example.org",)),
        ("see https://www.example.org/a/b/?q=secret#top, then", ("example.org/a/b",)),
        ("at postgresql://user:secret@db.local:5432/parcel", ("db.local:5432/parcel",)),
        (
            "in ~/notes, /etc/hosts, src/app/main.py and C:\\Temp\\x.txt",
            ("~/notes", "/etc/hosts", "src/app/main.py", "C:\\Temp\\x.txt"),
        ),
        ("set max_retries, _max_size, MAX_SIZE", ("max_retries", "_max_size", "MAX_SIZE")),
        ("parseHTTP on an iPhone", ("parseHTTP", "iPhone")),
        ("the RuleExtractor of numpy.linalg.norm in setup.py", ("RuleExtractor", "numpy.linalg.norm", "setup.py")),
        ("run `pip install salience` and `x`", ("pip install salience", "x")),
        ("code E1042, invoice INV-2026-0317", ("E1042", "INV-2026-0317")),
        ("the max_retries's default", ("max_retries",)),
    ],
)
def test_marks_are_known_by_their_form(content: str, found: tuple[str, ...]) -> None:
    assert entities(content) == found


@pytest.mark.parametrize(
    "content",
    [
        "e.g. and/or 24/7 at 3.12 on 2026-04-01, 1_000 or 2024_01",
        "half / half -- a ... b # c @ d ` e",
        "done.Then we left",
    ],
)
def test_what_only_looks_like_a_mark_is_none(content: str) -> None:
    assert entities(content) == ()


def test_entities_are_distinct_in_the_order_of_appearance_as_first_written() -> None:
    assert entities("met Bob at max_size; BOB, then Ann, bob and Bob again") == ("Bob", "max_size", "Ann")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_refuses_a_long_chunk_that_nearly_fits(form: str) -> None:
    for start in "aA_@#/0.-":
        assert re.fullmatch(form, (start + "a.-_A0") * (MAX_CHUNK // 7) + "\x00") is None


@pytest.mark.parametrize(
    "hostile",
    [
        "a", "A", "A ", "Aa ", "`", "`a", "a.", "a.b@", "@a", "/a", "_a", "aA ", "a_b ", "' ", "http://a",
        "Aa van de ", "A-", "\n", "漢", "𝔸", "\u0301",
    ],
)  # fmt: skip
def test_64_kib_of_anything_is_read_to_its_end(hostile: str) -> None:
    content = hostile * (SIZE // len(hostile)) + " \n`\nwe met Nadia at nadia@example.org"
    assert entities(content)[-2:] == ("Nadia", "nadia@example.org")


@given(st.text())
def test_every_entity_is_distinct_not_blank_and_in_the_text(content: str) -> None:
    found = entities(content)
    assert all(entity.strip() == entity != "" and normalise(entity) in normalise(content) for entity in found)
    assert len({normalise(entity) for entity in found}) == len(found)
    assert all(len(entity) <= 256 for entity in found)


def test_the_rule_extractor_joins_importance_and_entities() -> None:
    assert RuleExtractor().extract("Never page Nadia") == Extract(1.0, ("Nadia",))
