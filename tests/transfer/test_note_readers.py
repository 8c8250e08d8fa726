"""Notes of Obsidian and other Markdown folders become memories of a reasonable size."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from other_systems import read

from salience.errors import InputError
from salience.lines import as_draft
from salience.transfer.importers import markdown
from salience.transfer.importers.records import Problem, Record

if TYPE_CHECKING:
    from pathlib import Path

    from salience.records import Draft

MAY = datetime(2026, 5, 1, tzinfo=UTC)
MTIME = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


def vault(folder: Path, **notes: str) -> Path:
    for name, text in notes.items():
        path = folder / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (MTIME.timestamp(), MTIME.timestamp()))
    return folder


def drafts(folder: Path) -> list[Draft]:
    return [as_draft(item.draft) for item in read("obsidian", folder) if isinstance(item, Record)]


def test_a_short_note_is_one_memory_under_its_title(tmp_path: Path) -> None:
    (note,) = drafts(vault(tmp_path, people__Alice="Works at **Acme**.\n\n## Likes\n\nTea"))
    assert note.content == "Alice\n\nWorks at **Acme**.\n\n## Likes\n\nTea"
    assert (note.created_at, note.metadata["original"]["path"]) == (MTIME, "people/Alice.md")
    assert note.key is not None
    assert note.key.startswith("obsidian:people/Alice.md#")


def test_front_matter_gives_title_tags_and_time(tmp_path: Path) -> None:
    front = '---\ntitle: "A new hope"\ndate: 2026-05-01\ntags:\n  - film\n  - "#space/opera" # old\nyear: 1977\n---\n'
    (note,) = drafts(vault(tmp_path, hope=front + "Luke #leaves home. `#code` #1977 a#b\n```\n#comment\n```"))
    assert note.content.startswith("A new hope\n\nyear: 1977\n\nLuke")
    assert (note.created_at, note.tags) == (MAY, ("film", "space/opera", "leaves"))
    assert "year: 1977" in note.metadata["original"]["front_matter"]


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("tags: recipe, cooking", ["recipe", "cooking"]),
        ("tags: [recipe, 'cooking']", ["recipe", "cooking"]),
        ("tag: recipe", ["recipe"]),
        ("tags:\n- recipe\n- cooking", ["recipe", "cooking"]),
        ('{"tags": ["recipe", "cooking"]}', ["recipe", "cooking"]),
        ("tags:", []),
        ("no property\n  - recipe", []),
    ],
)
def test_tags_in_every_form_of_front_matter(tmp_path: Path, front: str, expected: list[str]) -> None:
    (note,) = drafts(vault(tmp_path, dish=f"---\n{front}\n---\nSoup"))
    assert list(note.tags) == expected


def test_a_daily_note_has_the_time_of_its_name(tmp_path: Path) -> None:
    (note,) = drafts(vault(tmp_path, **{"2026-05-01 Friday": "---\ndate: someday\n---\nRain"}))
    assert note.created_at == MAY


def test_links_are_entities(tmp_path: Path) -> None:
    text = "Met [[Alice Smith|her]] , [[people/Bob#Work]] ![[photo.png]], [x](notes/Old%20plan.md), Oslo. `[[no]]`"
    (note,) = read("obsidian", vault(tmp_path, Trip=f'---\nup: "[[Travel]]"\n---\n{text}'))
    assert isinstance(note, Record)
    assert note.draft["metadata"]["links"] == ["Travel", "Alice Smith", "Bob", "Old plan"]
    assert note.entities == ("Trip", "Travel", "Alice Smith", "Bob", "Old plan")


def test_a_note_is_an_entity_by_its_name_and_aliases(tmp_path: Path) -> None:
    (note,) = read("obsidian", vault(tmp_path, people__alice="---\naliases: [Ali, Miss A]\n---\nbuilds bridges"))
    assert isinstance(note, Record)
    assert note.entities == ("alice", "Ali", "Miss A")


def test_a_long_note_is_split_at_its_headings_and_paragraphs(tmp_path: Path) -> None:
    first, second, third = (f"Bridge {number} stands. " * 60 for number in range(3))
    text = f"Intro\n\n# Plan\n\n{first}\n\n{second}\n\n{third}\n\n## Costs ##\n\n```\n# no heading\n```\n\n# Empty\n"
    found = drafts(vault(tmp_path, Bridge=text))
    titles = [note.content.split("\n\n")[0] for note in found]
    assert titles == ["Bridge", "Bridge > Plan", "Bridge > Plan", "Bridge > Plan", "Bridge > Plan > Costs"]
    assert all(len(note.content.encode()) <= markdown.LONGEST + 100 for note in found)
    assert "".join("".join(note.content.split()) for note in found).count("stands.") == 180
    assert "# no heading" in found[-1].content
    assert len({note.key for note in found}) == len(found)


def test_keys_stay_when_other_notes_and_times_change(tmp_path: Path) -> None:
    before = {note.key for note in drafts(vault(tmp_path, b="Two", c="Three"))}
    vault(tmp_path, a="One", c="Three, changed")
    os.utime(tmp_path / "b.md")
    after = {note.key for note in drafts(tmp_path)}
    assert (len(before), len(after), len(before & after)) == (2, 3, 1)


def test_hidden_folders_other_files_and_links_out_are_left_out(tmp_path: Path) -> None:
    folder = vault(tmp_path / "vault", kept="Kept", **{".obsidian__x": "a", ".trash__y": "b", "sub__.git__z": "c"})
    vault(tmp_path / "elsewhere", secret="Secret")  # noqa: S106 - the name of a note
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    (folder / "secret.md").symlink_to(tmp_path / "elsewhere" / "secret.md")
    (folder / "image.png").write_bytes(b"\x89PNG")
    assert [note.content for note in drafts(folder)] == ["kept\n\nKept"]


def test_a_note_that_is_not_utf_8_is_listed_and_the_others_are_read(tmp_path: Path) -> None:
    vault(tmp_path, a="Fine", c="Fine too")
    (tmp_path / "b.md").write_bytes(b"\xff\xfe broken")
    first, problem, last = read("markdown", tmp_path)
    assert isinstance(problem, Problem)
    assert [item.file for item in (first, problem, last)] == ["a.md", "b.md", "c.md"]
    assert problem.reason == "text is not UTF-8"


def test_one_note_as_a_file_or_a_stream(tmp_path: Path) -> None:
    vault(tmp_path, Alice="Works at Acme.")
    (note,) = read("markdown", tmp_path / "Alice.md")
    assert (note.draft["content"], note.draft["created_at"]) == ("Alice\n\nWorks at Acme.", MTIME)
    (note,) = read("markdown", BytesIO(b"\xef\xbb\xbf---\r\ntitle: Alice\r\n---\r\nWorks at Acme."))
    assert (note.draft["content"], note.draft["created_at"]) == ("Alice\n\nWorks at Acme.", None)


def test_a_folder_without_notes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no file of the export in it"):
        list(read("markdown", tmp_path))
