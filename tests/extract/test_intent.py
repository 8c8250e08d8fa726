"""Intent of a query by the words of a profile."""

from salience.extract.phrases import detect_intent
from salience.records import Intent

INTENTS = {
    "preference": ("prefer", "favourite", "like", "rather"),
    "time": ("recent", "latest", "last", "this week", "week", "now"),
}


def test_without_a_phrase_the_intent_is_the_default_one() -> None:
    assert detect_intent("Which port does the proxy use?", INTENTS) == Intent("default", ())
    assert (
        detect_intent("", INTENTS)
        == detect_intent("???", INTENTS)
        == detect_intent("latest", {})
        == Intent("default", ())
    )


def test_the_words_come_in_the_order_of_the_query() -> None:
    assert detect_intent("Now tell me the latest", INTENTS) == Intent("time", ("now", "latest"))


def test_the_intent_with_the_most_distinct_phrases_wins() -> None:
    assert detect_intent("What is his favourite of the latest and last ones?", INTENTS).name == "time"


def test_a_repeated_phrase_counts_once() -> None:
    assert detect_intent("last, last, last: which would you rather like?", INTENTS) == Intent(
        "preference", ("rather", "like")
    )


def test_a_tie_goes_to_the_intent_that_the_profile_names_first() -> None:
    assert detect_intent("latest favourite", INTENTS).name == "preference"
    assert detect_intent("latest favourite", dict(reversed(INTENTS.items()))).name == "time"


def test_only_whole_words_count() -> None:
    assert detect_intent("The likely blast in the knowledge base", INTENTS) == Intent()


def test_a_longer_phrase_hides_a_shorter_one_inside_it() -> None:
    assert detect_intent("What did we do this week?", INTENTS) == Intent("time", ("this week",))
    assert detect_intent("this week or that week", INTENTS).words == ("this week", "week")


def test_a_longer_phrase_of_another_intent_hides_too() -> None:
    intents = {"preference": ("like",), "similar": ("looks like",)}
    assert detect_intent("What looks like a cat?", intents) == Intent("similar", ("looks like",))


def test_phrases_that_overlap_both_count() -> None:
    assert detect_intent("the very last week", {"a": ("very last", "last week")}).words == ("very last", "last week")


def test_case_width_and_apostrophes_do_not_matter() -> None:
    assert detect_intent("ＬＡＴＥＳＴ news", INTENTS).words == ("latest",)
    assert detect_intent("What’s new?", {"time": ("What's new",)}).words == ("What's new",)


def test_a_long_query_is_read_to_its_end() -> None:
    assert detect_intent("this " * 13_000 + "week", INTENTS).words == ("this week",)
