"""The dashboard as an application: views, login, static files, errors and the content policy."""

from __future__ import annotations

import hashlib
import logging
import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Final
from urllib.parse import quote, urlsplit

import jinja2
from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.datastructures import MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from salience import keywords
from salience.errors import AccessError, NotFoundError, SalienceError
from salience.ports import Database
from salience.records import KINDS, LIKELY, TIERS
from salience.records.answers import counted
from salience.server.gate import Gate, rate_limiter
from salience.server.metrics import Metrics
from salience.server.rest.app import NO_TELEMETRY
from salience.server.rest.responses import HttpError
from salience.server.shares import Budget
from salience.server.ui import charts, login, texts
from salience.server.ui.login import Sessions
from salience.server.ui.page import (
    BASE,
    COORDINATES,
    THEMES,
    LoginRequiredError,
    Visit,
    check_csrf,
    compact_json,
    read_form,
)
from salience.server.ui.views import VIEWS
from salience.wire.errors import problem_of, stack_of

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",  # under no-referrer, browsers send forms with `Origin: null`
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
FORM_LIMIT: Final = 1024 * 1024
IMPORT_LIMIT: Final = 1024**3
LOGIN_RATE: Final = "30/minute"
"""Maximum rate of logins from one address."""
_LOGIN: Final = "login"
"""Identity in the CSRF token of the login form."""
_FOREVER: Final = "public, max-age=31536000, immutable"
_STATIC: Final = resources.files("salience.server.ui") / "static"
_log = logging.getLogger("salience.server.ui")


@dataclass(frozen=True, slots=True)
class Site:
    """The parts that every page shares.

    Attributes:
        gate: rights, bounds, limits and rates, as for the API.
        sessions: of the callers.
        templates: the Jinja environment.
        body_limit, import_limit: maximum length of a form, and of an import, bytes.
        budget: of the bytes of bodies in memory.
        database: opens the database of the store for its operator; None for a store in memory.
        metrics: of the server, if it has any.
        store: what `--store` names in the commands that the operator reads; None: the default store, or that of a
            server, which its visitors do not have.
    """

    gate: Gate
    sessions: Sessions
    templates: jinja2.Environment
    body_limit: int
    import_limit: int
    budget: Budget
    database: Callable[[], Database] | None
    metrics: Metrics | None
    store: str | None


def mount(
    application: FastAPI,
    gate: Gate,
    sessions: Sessions,
    *,
    body_limit: int = FORM_LIMIT,
    import_limit: int = IMPORT_LIMIT,
    budget: Budget | None = None,
    database: Callable[[], Database] | None = None,
    metrics: Metrics | None = None,
    store: str | None = None,
) -> None:
    """Add the dashboard to the application of `salience.server.rest`, whose middleware checks hosts and origins."""
    dashboard = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
        middleware=[Middleware(_Pages)],
        exception_handlers={
            SalienceError: _show_error,
            HttpError: _show_error,
            HTTPException: _show_error,
            LoginRequiredError: _to_login,
        },
    )
    dashboard.state.site = Site(
        gate,
        sessions,
        environment(),
        min(body_limit, FORM_LIMIT),
        import_limit,
        Budget() if budget is None else budget,
        database,
        metrics,
        store,
    )
    dashboard.state.check_login_rate = rate_limiter(LOGIN_RATE)
    dashboard.include_router(_router)
    for view in VIEWS:
        dashboard.include_router(view.router)
    application.router.routes += [
        *(Route(path, lambda _: RedirectResponse(f"{BASE}/")) for path in ("/", BASE)),
        Mount(BASE, dashboard),
    ]


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates; every value is escaped."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("salience.server.ui"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals |= {
        "BASE": BASE, "COORDINATES": COORDINATES, "KINDS": KINDS, "LIKELY": LIKELY, "THEMES": THEMES, "TIERS": TIERS,
        "VIEWS": VIEWS, "charts": charts, "short_scope": keywords.short, "static": static_url,
    }  # fmt: skip
    found.filters |= {
        "ago": texts.ago, "day": texts.day, "instant": texts.instant, "iso": texts.iso, "json": compact_json,
        "number": texts.number, "plural": counted, "size": texts.size,
    }  # fmt: skip
    return found


@cache
def static_file(name: str) -> tuple[bytes, str]:
    """Return the bytes and the hash of a static file.

    Raises:
        LookupError: there is no such file.
    """
    parts = name.split("/")
    file = _STATIC.joinpath(*parts)
    if not all(parts) or ".." in parts or len(parts) > 2 or not file.is_file():
        raise LookupError(name)
    data = file.read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:16]


@cache
def static_url(name: str) -> str:
    """Return the URL of a static file, which changes with its content."""
    return f"{BASE}/static/{name}?v={static_file(name)[1]}"


_router = APIRouter()


@_router.get("/static/{name:path}")
def static(request: Request, name: str) -> Response:
    """Return a static file; a browser keeps one that is named with its version."""
    try:
        data, version = static_file(name)
    except LookupError:
        raise HTTPException(404) from None
    caching = _FOREVER if request.query_params.get("v") == version else "no-cache"
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    return Response(data, media_type=kind, headers={"Cache-Control": caching})


@_router.get("/login")
def show_login(request: Request) -> Response:
    """Return the login form."""
    site: Site = request.app.state.site
    if site.sessions.find(request) is not None:
        return RedirectResponse(BASE + "/", 303)
    return _login_page(request, request.query_params.get("to"))


def _login_page(request: Request, to: str | None, error: str | None = None, status: int = 200) -> Response:
    site: Site = request.app.state.site
    values = {"csrf": site.sessions.csrf(_LOGIN), "error": error, "to": _inside(to)}
    return HTMLResponse(site.templates.get_template("login.html").render(page=None, **values), status)


def _inside(to: str | None) -> str:
    """Return the path of a page of the dashboard; the first page for anything else."""
    return to if to is not None and to.startswith(f"{BASE}/") and "\\" not in to and to.isprintable() else f"{BASE}/"


@_router.post("/login")
def log_in(request: Request, fields: QueryParams = Depends(read_form)) -> Response:
    """Begin a session for an API key."""
    site: Site = request.app.state.site
    request.app.state.check_login_rate(request.client.host if request.client else "")
    check_csrf(site, _LOGIN, fields)
    cookie = site.sessions.begin(fields.get("key", "").strip())
    if cookie is None:
        return _login_page(
            request, fields.get("to"), "This key is not valid. It may be mistyped, revoked or expired.", 401
        )
    response = RedirectResponse(_inside(fields.get("to")), 303)
    login.set_cookie(request, response, cookie)
    return response


@_router.get("/open")
def open_once(request: Request, token: str = "") -> Response:
    """Begin the session of `salience ui`; the token in the URL works once."""
    site: Site = request.app.state.site
    request.app.state.check_login_rate(request.client.host if request.client else "")
    cookie = site.sessions.begin_local(token)
    if cookie is None:
        raise AccessError("token: this link was used already, or is not valid. Run salience ui again.")
    response = RedirectResponse(BASE + "/", 303, {"Referrer-Policy": "no-referrer"})
    login.set_cookie(request, response, cookie)
    return response


@_router.post("/logout")
def log_out(page: Visit, fields: QueryParams = Depends(read_form)) -> Response:
    """End the session."""
    check_csrf(page.site, page.session.id, fields)
    if page.grant.name == login.LOCAL and page.session.signed_in:
        page.site.sessions.end_local()
    response = RedirectResponse(f"{BASE}/login", 303)
    login.delete_cookie(page.request, response)
    return response


async def _to_login(request: Request, _: Exception) -> Response:
    """Return a redirect to the login form, which leads back; 401 for a request that is not a page view."""
    if "hx-request" in request.headers:
        shown = urlsplit(request.headers.get("hx-current-url", ""))
        back = f"{shown.path}?{shown.query}" if shown.query else shown.path
        return HTMLResponse("", 401, {"HX-Redirect": f"{BASE}/login?to={quote(_inside(back))}"})
    if request.method != "GET":
        message = "Nothing was changed. Log in, then send the form again."
        return _error_page(request, 401, "The session has ended", message, has_session=False)
    query = f"?{request.url.query}" if request.url.query else ""
    url = quote(request.url.path + query)
    return RedirectResponse(f"{BASE}/login?to={url}", 303)


async def _show_error(request: Request, error: Exception) -> Response:
    """Return the page for an error, with the status of the API."""
    status, title, message = 500, "The server failed", str(error)
    headers: dict[str, str] = {}
    match error:
        case SalienceError():
            found = problem_of(error)
            status, title = found.status, found.title
        case HttpError():
            status, title, headers = error.status, HTTPStatus(error.status).phrase.capitalize(), error.headers
        case HTTPException():
            status, title = error.status_code, HTTPStatus(error.status_code).phrase.capitalize()
            message = "There is no such page." if status == 404 else "The request is refused."
            headers = dict(error.headers or {})
    return _error_page(request, status, title, message, isinstance(error, NotFoundError), headers)


def _error_page(
    request: Request,
    status: int,
    title: str,
    message: str,
    missing: bool = False,
    headers: dict[str, str] | None = None,
    has_session: bool = True,
) -> Response:
    site: Site = request.app.state.site
    name, headers = "error.html", dict(headers or {})
    if "hx-request" in request.headers:  # instead of the part of a page that the request asks for
        name = "error_panel.html"
        headers |= {"HX-Reselect": "section.error", "HX-Reswap": "innerHTML", "HX-Push-Url": "false"}
    request_id = request.scope.get("state", {}).get("request_id", "")
    made = site.templates.get_template(name).render(
        page=None,
        status=status,
        title=title,
        message=message,
        missing=missing,
        request_id=request_id,
        has_session=has_session,
    )
    return HTMLResponse(made, status, headers)


class _Pages:
    """ASGI middleware: adds the content policy, and turns an unexpected error into a page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request."""
        has_started = False

        async def respond(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                added = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    added.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, respond)
        except Exception as error:
            if has_started:
                raise
            request = Request(scope)
            request_id = scope.get("state", {}).get("request_id", "")
            _log.error("request %s: %s", request_id, stack_of(error))
            message = f"The server's log has more under the request id {request_id}."
            await _error_page(request, 500, "The server failed", message)(scope, receive, respond)
