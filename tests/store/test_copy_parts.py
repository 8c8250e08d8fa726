"""The parts of a copy: rows beside each other, pages, the checksum."""

from hypothesis import given
from hypothesis import strategies as st

from copies import engine, sql
from salience import compose
from salience.store.moving.merge import batches, compared
from salience.store.moving.tables import MEMORIES, PAGE, Sum

keys_ = st.dictionaries(st.integers(0, 40), st.integers(0, 2))


@given(keys_, keys_)
def test_rows_beside_each_other(mine, theirs):
    found = list(compared(sorted(mine.items()), iter(sorted(theirs.items())), lambda row: row[:1]))
    assert [row[0] for _, row in found] == sorted({*mine, *theirs})
    for state, row in found:
        here, there = mine.get(row[0]), theirs.get(row[0])
        due = "missing" if there is None else "extra" if here is None else "same" if here == there else "different"
        assert state == due
        assert row == (row[0], there if state == "extra" else here)
    split = list(batches(found))
    assert sum(len(b.missing) + len(b.different) + len(b.extra) + b.same for b in split) == len(found)


def test_a_page_more_or_less_is_no_matter(tmp_path, monkeypatch):
    drafts = [{"content": f"Memory {n}", "importance": 0.5, "entities": []} for n in range(PAGE + 1)]
    with engine(tmp_path / "a.db") as memory:
        ids = [made.memory.id for made in memory.remember_many(drafts)]
        for count in (PAGE + 1, PAGE, PAGE - 1):
            target = tmp_path / f"{count}.db"
            compose.copy(tmp_path / "a.db", target)
            assert sql(target, "SELECT count(*) FROM memories") == [(count,)]
            memory.erase([ids.pop()])


def row(**values):
    held = {**dict.fromkeys(MEMORIES.names), "seq": 1}
    return tuple({**held, **values}.values())


def checksum(*rows):
    found = Sum(MEMORIES)
    found.take(rows)
    return found.copied().checksum


def test_the_checksum_tells_rows_apart_by_every_value():
    plain = row(id="a", content="b", importance=0.5, vector=b"\0\0\0\0")
    others = [
        replace_at(plain, name, value)
        for name, value in {"id": "ab", "content": "", "importance": 0.25, "vector": None, "user_id": "b"}.items()
    ]
    others += [replace_at(plain, "vector", b""), replace_at(plain, "vector", b"\0\0\0\x80"), row(id="a\n", content="b")]
    assert len({checksum(each) for each in (plain, *others)}) == len(others) + 1
    assert checksum(plain, others[0]) != checksum(others[0], plain)


def replace_at(plain, name, value):
    return tuple(value if known == name else old for known, old in zip(MEMORIES.names, plain, strict=True))


def test_zero_has_no_sign_in_the_checksum_but_text_has():
    assert checksum(row(id="a", importance=-0.0, content="-0.0")) == checksum(
        row(id="a", importance=0.0, content="-0.0")
    )
    assert checksum(row(id="a", content="-0.0")) != checksum(row(id="a", content="0.0"))
