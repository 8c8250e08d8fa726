"""Names in code are found by their words and as a whole; words that plain English joins are words alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import salience
from salience.text import AUTO, NO_LANGUAGE, Tokeniser, symbols

AUTOMATIC = Tokeniser(AUTO)
PARTS = st.lists(st.text("abcXYZ019", min_size=1, max_size=4), min_size=1, max_size=4)
NAMES = st.builds(lambda parts, sign: sign.join(parts), PARTS, st.sampled_from("-_./:@+#"))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("MAX_RETRY_COUNT", ("max", "retri", "count", "max_retry_count")),
        ("is_on", ("is_on",)),
        ("parseConfig", ("parseconfig", "parse_config", "pars", "config")),
        ("HTTPServer", ("httpserver", "http_server", "http", "server")),
        ("GitHub", ("github", "git_hub", "git", "hub")),
        ("iPhone APIs", ("iphon", "api")),
        ("uteke-cloud-dev", ("utek", "cloud", "dev", "uteke_cloud_dev")),
        ("eu-west-1", ("eu", "west", "1", "eu_west_1")),
        ("CVE-2024-1234", ("cve", "2024", "1234", "cve_2024_1234")),
        ("app.settings.timeout", ("app", "set", "timeout", "app.settings.timeout")),
        ("app.parseConfig", ("app", "parseconfig", "app.parse_config", "parse_config", "pars", "config")),
        ("user@example.com", ("user", "exampl", "user@example.com", "example.com")),
        ("src/main/text.py", ("src", "main", "text", "py", "src/main/text.py", "text.py")),
        ("v1.2.3", ("v1", "2", "3", "v1.2.3")),
        ("C++ and C#", ("c", "c", "c++", "c#")),
        ("follow-up", ("follow", "followup")),
        ("e-mail", ("e", "mail", "email")),
        ("well-to-do", ("well",)),
        ("and/or 24/7 his/her", ("24", "7")),
        ("12-year-old", ("12", "year", "old")),
        ("e.g. the U.S. army", ("e", "g", "u", "s", "armi")),
        ("it ends here. Then - it starts: now", ("end", "start", "now")),
    ],
)
def test_terms_of_a_stored_text(text, terms):
    assert AUTOMATIC.terms(text) == terms


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        (
            "MAX_RETRY_COUNT or MAX_RETRY_DELAY",
            ("max", "retri", "count", "delay", "max_retry_count", "max_retry_delay"),
        ),
        ("maxRetryCount", ("maxretrycount", "max_retry_count", "max", "retri", "count")),
        ("GitHub", ("github",)),
        ("e-mail", ("e", "mail")),
    ],
)
def test_terms_of_a_query(query, terms):
    assert AUTOMATIC.query_terms(query) == terms


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("MAX_RETRY_COUNT", "maxRetryCount"),
        ("maxRetryCount", "max-retry-count"),
        ("GitHub", "github"),
        ("UserService", "user service"),
        ("e-mail", "email"),
        ("👍🏽 done", "👍"),
        ("मेरी बिल्ली", "बिल्ली"),
        ("ฉันมีแมวสองตัว", "แมว"),
    ],
)
def test_a_query_and_a_memory_have_terms_in_common(stored, asked):
    assert set(AUTOMATIC.terms(stored)) & set(AUTOMATIC.query_terms(asked))


@given(
    st.lists(NAMES | st.text(max_size=12), max_size=4).map(" ".join), st.sampled_from([AUTO, "english", NO_LANGUAGE])
)
def test_a_memory_has_each_term_of_its_own_text_as_a_query(text, language):
    tokeniser = Tokeniser(language)
    terms = tokeniser.terms(text)
    assert set(tokeniser.query_terms(text)) <= set(terms)
    assert all(term and not term.isspace() and len(term.split()) == 1 for term in terms)


def test_symbols_are_emoji_and_signs_but_no_letters_and_punctuation():
    assert symbols("I play 🎸 👍🏽 on Fridays 🇩🇪 → “ok” — 20°C €5 é") == ["🎸", "👍", "🇩🇪", "→"]


SIBLINGS = [
    ("MAX_RETRY_COUNT is 5", "MAX_RETRY_DELAY is 30 seconds"),
    ("uteke-cloud-dev runs on two nodes", "uteke-cloud-prod runs on nine nodes"),
    ("app.settings.timeout is 30", "app.settings.retries is 4"),
    ("CVE-2024-1234 is fixed", "CVE-2024-1235 is open"),
    ("write to bob@example.com", "write to eve@example.com"),
    ("we use C++ here", "we use C# here"),
]


def test_a_sibling_of_the_name_that_a_question_asks_for_scores_clearly_less():
    with salience.connect(":memory:") as memory:
        memory.remember_many([{"content": text} for pair in SIBLINGS for text in pair])
        for pair in SIBLINGS:
            for text in pair:
                name = next(word for word in text.split() if word not in {"write", "to", "we", "use"})
                first, second, *_ = memory.recall(name)
                assert first.memory.content == text
                assert second.score < 0.9 * first.score, name
                assert second.weak
