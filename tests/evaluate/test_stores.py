"""Vectors kept on disk: what is made once is not made again, and nothing else is taken for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from salience.evaluate.stores import OnDisk, cache_folder
from tests.contract.doubles import PlantedEmbedder


@pytest.fixture
def embedder() -> PlantedEmbedder:
    return PlantedEmbedder()


def test_the_same_texts_are_embedded_once(tmp_path: Path, embedder: PlantedEmbedder):
    first = OnDisk(embedder, tmp_path / "new" / "folder").embed(["a", "b"])
    again = OnDisk(embedder, tmp_path / "new" / "folder").embed(["a", "b"])
    assert embedder.texts == ["a", "b"]
    assert again.dtype == np.float32
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("other", [["b", "a"], ["a"], ["a", "b", ""], ["ab"], ["a\0b"], ["a", "b\0"]])
def test_other_texts_are_not_taken_for_them(tmp_path: Path, embedder: PlantedEmbedder, other: list[str]):
    disk = OnDisk(embedder, tmp_path)
    disk.embed(["a", "b"])
    np.testing.assert_array_equal(disk.embed(other), PlantedEmbedder().embed(other))


def test_the_embedder_is_part_of_the_key(tmp_path: Path, embedder: PlantedEmbedder):
    OnDisk(embedder, tmp_path).embed(["a", "b"])
    for other in (PlantedEmbedder(dimension=8), type("Other", (PlantedEmbedder,), {"name": "other"})()):
        OnDisk(other, tmp_path).embed(["a", "b"])
        assert other.texts == ["a", "b"]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x93NUMPY\x01\x00v\x00"])
def test_a_broken_file_is_rebuilt(tmp_path: Path, embedder: PlantedEmbedder, content: bytes):
    disk = OnDisk(embedder, tmp_path)
    expected = disk.embed(["a", "b"])
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    np.testing.assert_array_equal(disk.embed(["a", "b"]), expected)
    np.testing.assert_array_equal(np.load(file)["arr_0"], expected)


def test_a_folder_that_cannot_be_written_is_skipped(tmp_path: Path, embedder: PlantedEmbedder):
    (tmp_path / "file").write_text("no folder")
    disk = OnDisk(embedder, tmp_path / "file" / "vectors")
    np.testing.assert_array_equal(disk.embed(["a"]), PlantedEmbedder().embed(["a"]))


def test_the_folder_is_in_the_platforms_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "salience" / "vectors"
