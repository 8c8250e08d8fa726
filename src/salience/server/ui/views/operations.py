"""Operations: counts, sizes, latency, doctor, backup, keys, export and import."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from typing import IO, Annotated, Any, Final

import anyio
from fastapi import APIRouter, Depends
from python_multipart.exceptions import MultipartParseError
from starlette.background import BackgroundTask
from starlette.datastructures import QueryParams, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import Response, StreamingResponse

from salience import temporary
from salience.errors import ForbiddenError, ImportLineError, InputError, LimitError, StoreError, Words, shown
from salience.records import ApiKey, DatabaseState, Stats, TransferReport, checks
from salience.records.access import RIGHTS
from salience.server.auth import create_key
from salience.server.rest import parsing
from salience.server.rest.responses import LinesResponse
from salience.server.ui.login import LOCAL
from salience.server.ui.page import COORDINATES, Form, Page, Visit, check_csrf
from salience.transfer.importers import SOURCES
from salience.verbs import ALL, VERBS, Verbs

router = APIRouter()
DOCTOR: Final = ALL["doctor"]
STORAGE: Final = replace(DOCTOR, name="storage")
KEYS: Final = replace(DOCTOR, name="keys")
"""For the rights and bounds of the caller; these are no verbs of the API."""
TOP: Final = 8
"""Values shown of each count."""
COUNTS: Final = {"kind": "Kind", "tier": "Tier", "user_id": "User", "project": "Project", "agent_id": "Agent"}
"""Facet of the explorer -> its label."""
BOUND: Final = {name: label for name, label in COORDINATES.items() if name != "session_id"}
CHUNK: Final = 1024 * 1024
"""Bytes of a backup that are read at a time."""
_EXPORTS: Final = anyio.CapacityLimiter(4)
_WORKING: Final = {name: threading.Lock() for name in ("doctor", "backup")}


@router.get("/operations")
def show(page: Visit) -> Response:
    """Return the page."""
    return _page(page)


@router.get("/operations/storage")
def show_storage(page: Visit) -> Response:
    """Return the sizes, which take longer than the rest of the page."""
    return page.render("views/operations_storage.html", storage=_storage(page))


@router.post("/operations/doctor")
def examine(page: Visit, _: Form) -> Response:
    """Check the store, repair nothing, and return the page with the problems."""
    _require_whole_store(page)
    began = time.perf_counter()
    try:
        with _alone("doctor"):
            report = page.apply(DOCTOR, Verbs.doctor)
    except LimitError as error:
        return _page(page, status=429, report_error=str(error))
    return _page(page, report=report, seconds=time.perf_counter() - began)


@router.post("/operations/backup")
def back_up(page: Visit, _: Form) -> Response:
    """Return a copy of the file of the store as a download."""
    _require_whole_store(page)

    def copy(engine: Verbs) -> IO[bytes]:
        with temporary.directory(Path(gettempdir())) as folder:
            path = folder / "backup.db"
            engine.backup(path)
            return path.open("rb")  # the file goes with the folder, so no copy is left behind

    with _alone("backup"):
        file: IO[bytes] = page.apply(ALL["backup"], copy)
    length = file.seek(0, 2)
    file.seek(0)

    def chunks() -> Iterator[bytes]:
        while chunk := file.read(CHUNK):
            yield chunk

    headers = {**_attachment(f"salience-{page.now:%Y-%m-%d-%H%M}.db"), "Content-Length": str(length)}
    return StreamingResponse(
        chunks(), media_type="application/vnd.sqlite3", headers=headers, background=BackgroundTask(file.close)
    )


@router.get("/operations/export")
def export(page: Visit) -> Response:
    """Return the memories in the scope of the URL as lines of JSON."""
    page.site.gate.require_right(page.grant, VERBS["export"])

    response = LinesResponse(lambda file: page.call("export", file=file), _EXPORTS)
    response.headers.update(_attachment(f"salience-{page.now:%Y-%m-%d-%H%M}.ndjson"))
    return response


@dataclass(frozen=True, slots=True)
class Upload:
    """The fields and the file of a form."""

    fields: QueryParams
    file: IO[bytes] | None


async def _upload(page: Visit) -> AsyncIterator[Upload]:
    """Yield the form of an import, with its file on disk, once the rights and the size allow it."""
    page.site.gate.require_right(page.grant, VERBS["import_"])
    parsing.require_media_type(page.request, ("multipart/form-data",))
    body = parsing.chunks(page.request, page.site.import_limit)
    try:
        form = await MultiPartParser(page.request.headers, body, max_files=1, max_fields=10).parse()
    except (MultiPartException, MultipartParseError, KeyError):
        raise InputError("body", Words("other bytes"), "Send the form of this page.", "is not a form") from None
    file = form.get("file")
    fields = QueryParams([(name, value) for name, value in form.multi_items() if isinstance(value, str)])
    try:
        check_csrf(page.site, page.session.id, fields)
        yield Upload(fields, file.file if isinstance(file, UploadFile) and file.size else None)
    finally:
        await form.close()


@router.post("/operations/import")
def import_(page: Visit, upload: Annotated[Upload, Depends(_upload)]) -> Response:
    """Store the memories of a file, and return the page with the counts and the skipped lines."""
    if upload.file is None:
        raise InputError("file", None, "Choose an export, or lines of drafts.", "is empty")
    source = upload.fields.get("source") or None
    home = {name: page.query[name] for name in COORDINATES if page.query.get(name)}  # of drafts that name none
    on_error = upload.fields.get("on_error") or None
    try:
        given = {"file": upload.file, "source": source, "on_error": on_error, **home}
        report: TransferReport = page.site.gate.call(page.grant, VERBS["import_"], given)
    except ImportLineError as error:
        return _page(page, status=422, import_error=str(error))
    return _page(page, imported=report)


@router.post("/operations/keys")
def create(page: Visit, form: Form) -> Response:
    """Create a key of the caller's tenant, and return the page with its token, which is shown this once."""
    page.require(KEYS)
    now = page.site.sessions.clock()
    expires = form.get("expires", "").strip()
    until = now + checks.duration("expires", expires) if expires else None
    bound = {name: form[name].strip() for name in BOUND if form.get(name, "").strip()}
    note = form.get("note", "").strip() or None
    rights = checks.names("rights", form.getlist("right"))
    token, key = create_key(page.grant.tenant, rights, bound, until, note, now)
    page.apply(KEYS, lambda _: page.site.sessions.keyring.add(key))
    return _page(page, token=token, made=key)


@router.post("/operations/keys/revoke")
def revoke(page: Visit, form: Form) -> Response:
    """Revoke a key of the caller's tenant."""
    prefix, keyring = form.get("prefix", ""), page.site.sessions.keyring

    def work(_: Verbs) -> None:
        key = keyring.find(prefix)
        if key is None or key.tenant != page.grant.tenant:
            raise InputError("prefix", prefix, "Choose a key of the list.", f"{shown(prefix)} is of no key")
        keyring.revoke(prefix, page.site.sessions.clock())

    page.apply(KEYS, work)
    return page.redirect(page.url("operations") + "#keys", flash=f"Revoked the key {prefix}.")


def _page(page: Page, status: int = 200, **results: Any) -> Response:
    """Return the page with the results of a form."""
    stats: Stats = page.call("stats")
    sees_store = _sees_store(page)
    pinned = page.site.gate.engine.services.store.pinned()
    keys, damaged = _keys(page)
    values: dict[str, Any] = {
        "stats": stats,
        "counts": _counts(stats),
        "pinned": None if pinned is None else pinned.name,
        "sees_store": sees_store,
        "storage": _storage(page) if sees_store and page.query.get("storage") else None,
        "latencies": page.site.metrics.latencies() if sees_store and page.site.metrics is not None else [],
        "is_file": page.site.database is not None and not page.site.gate.engine.services.store.connections(),
        "may_import": page.may("import_"),
        "sources": list(SOURCES),
        "may_keys": page.may(KEYS),
        "is_admin": page.grant.may("admin"),
        "keys": keys,
        "damaged": damaged,
        "RIGHTS": RIGHTS,
        "BOUND": BOUND,
    }
    blank = dict.fromkeys(("report", "report_error", "seconds", "imported", "import_error", "token", "made"))
    return page.render("views/operations.html", status, **values, **{**blank, **results})


def _counts(stats: Stats) -> list[tuple[str, str, list[tuple[str, int]], int]]:
    """Return (facet, label, most frequent values with their numbers, number of the other values)."""
    given: dict[str, Mapping[str, int]] = {
        "kind": stats.by_kind, "tier": stats.by_tier, "user_id": stats.by_user, "project": stats.by_project,
        "agent_id": stats.by_agent,
    }  # fmt: skip
    found = []
    for name, label in COUNTS.items():
        ordered = sorted(given[name].items(), key=lambda pair: -pair[1])
        if ordered:
            found.append((name, label, ordered[:TOP], max(len(ordered) - TOP, 0)))
    return found


def _keys(page: Page) -> tuple[list[ApiKey], bool]:
    """Return the keys of the caller's tenant, newest first, and whether one of the store is damaged."""
    if not page.may(KEYS):
        return [], False
    try:
        return list(page.site.sessions.keyring.list(page.grant.tenant))[::-1], False
    except StoreError:
        return [], True


def _sees_store(page: Page) -> bool:
    """Return whether the caller may see the store as a whole, which holds every tenant.

    An administrator without a bound may if nothing is of another tenant, and so may the user of `salience ui`, who has
    the store itself.
    """
    if not page.may(STORAGE):
        return False
    if page.grant.name == LOCAL and page.session.signed_in:
        return True
    try:
        keys = page.site.sessions.keyring.list()
    except StoreError:  # a damaged key may be of any tenant
        return False
    tenants = {*page.site.gate.engine.services.store.tenants(), *(key.tenant for key in keys)}
    return tenants <= {page.grant.tenant}


def _require_whole_store(page: Page) -> None:
    if not _sees_store(page):
        remedy = "It needs a key with the right 'admin', without a bound, of the only tenant"
        raise ForbiddenError(f"store: this concerns every tenant. {remedy}; or use the command line.")


def _storage(page: Page) -> DatabaseState | None:
    """Return the state of the database; None for a store in memory."""
    _require_whole_store(page)

    def read(_: Verbs) -> DatabaseState | None:
        if page.site.database is None:
            return None
        with page.site.database() as database:
            return database.state()

    found: DatabaseState | None = page.apply(STORAGE, read)
    return found


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Raise `LimitError` while another request does the same long work in this process."""
    if not _WORKING[name].acquire(blocking=False):
        raise LimitError(f"{name}: another one is under way. Retry when it is done.", 10)
    try:
        yield
    finally:
        _WORKING[name].release()


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
