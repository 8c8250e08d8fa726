"""One request of a view: the caller, the scope in the URL, calls of verbs, and rendering."""

from __future__ import annotations

import hmac
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Depends, Request
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, RedirectResponse, Response

from salience.errors import ForbiddenError, InputError, Words
from salience.rank.profile import Profile
from salience.records import ANY, Grant, Memory, Profiles
from salience.server.rest import parsing
from salience.server.ui.login import Session
from salience.verbs import VERBS, Verb

if TYPE_CHECKING:
    from salience.server.ui.site import Site

BASE: Final = "/ui"
COORDINATES: Final = {
    "environment": "Environment", "project": "Project", "user_id": "User", "agent_id": "Agent", "session_id": "Session",
}  # fmt: skip
"""Parameters of a URL that name the scope -> their labels."""
THEMES: Final = ("light", "dark")
FLASH: Final = ("flash", "flash_mac", "undo")
"""Parameters that no link keeps: the message of one form."""
KEPT: Final = (*COORDINATES, "theme")
"""Parameters that links from one view to another keep."""


class LoginRequiredError(Exception):
    """The caller has to log in first."""


@dataclass(frozen=True)
class Page:
    """A request of a view, made by `Depends`; see `Visit`.

    Attributes:
        request: the HTTP request.
        site: the dashboard.
        session: of the caller.
        path: of the page that links change; None for that of the request. A part of a page names the whole page.
    """

    request: Request
    site: Site
    session: Session
    path: str | None = None

    @property
    def grant(self) -> Grant:
        """The rights of the caller."""
        return self.session.grant

    @property
    def query(self) -> QueryParams:
        """The parameters of the URL."""
        return self.request.query_params

    @cached_property
    def now(self) -> datetime:
        """The current instant by the engine's clock."""
        return self.site.gate.engine.services.clock().astimezone(UTC)

    @property
    def profile(self) -> Profile:
        """The profile that ranks recalls by default."""
        return self.site.gate.engine.profile

    @cached_property
    def profiles(self) -> Profiles:
        """The profiles, signals and stages of the server."""
        found: Profiles = self.call("profiles")
        return found

    @property
    def fading(self) -> tuple[str, ...]:
        """The names of the profiles under which memories fade."""
        return tuple(one.name for one in self.profiles.profiles if one.decay)

    def curves(self, memories: Sequence[Memory], profile: str, days: int, steps: int) -> list[tuple[float, ...]]:
        """Return how the scores of live memories fade under a profile; nothing for others."""
        named = {} if profile == self.profile.name else {"profile": profile}
        ids = [one.id for one in memories]
        found = self.call("decay", ids=ids, days=days, steps=steps, **named) if ids else ()
        values = {one.id: one.values for one in found}
        return [values.get(one, ()) for one in ids]

    @cached_property
    def scope(self) -> dict[str, Any]:
        """The scope keywords of the URL: a coordinate that is not named is `ANY`; a bound of the key is applied.

        The session is left out unless it is named.
        """
        given = {name: self.query.get(name) or self.grant.bound.get(name) for name in COORDINATES}
        return {name: value or ANY for name, value in given.items() if value or name != "session_id"}

    def call(self, verb: str, /, **arguments: Any) -> Any:
        """Return the result of a verb in the scope of the URL, under the rights, bounds and limits of the API.

        Scope keywords in `arguments` replace those of the URL.

        Raises:
            ForbiddenError: the key does not allow this.
            SalienceError: errors of the verb.
        """
        scope = {name: value for name, value in self.scope.items() if name in VERBS[verb].arguments}
        return self.site.gate.call(self.grant, VERBS[verb], {**scope, **arguments})

    def apply(self, verb: Verb, function: Callable[..., Any], /) -> Any:
        """Return the result of a function of the caller's engine, under the rights and bounds of a verb."""
        return self.site.gate.apply(self.grant, verb, {}, function)

    @property
    def store(self) -> str | None:
        """The store that commands have to name, for its operator alone; see `Site.store`."""
        return self.site.store if self.grant.may("admin") and not self.grant.bound else None

    def command(self, text: str) -> str:
        """Return a command, with the option for the store of this page."""
        option = "" if self.store is None else f"--store {shlex.quote(self.store)} "
        return text.replace("salience ", f"salience {option}", 1)

    def may(self, verb: str | Verb) -> bool:
        """Return whether the caller's key has the rights for a verb, and no bound that excludes it.

        Show no form that would be refused.
        """
        return self.site.gate.may(self.grant, VERBS[verb] if isinstance(verb, str) else verb)

    def may_change(self, memory: Memory) -> bool:
        """Return whether the key may change a memory: one with a bound changes only memories that are stored inside."""
        bound = self.grant.bound.items()
        return self.may("update") and all(getattr(memory.scope, name) == value for name, value in bound)

    def require(self, verb: str | Verb) -> None:
        """Raise `ForbiddenError` unless the key of the caller has the rights for a verb; `call` checks this itself."""
        self.site.gate.require_right(self.grant, VERBS[verb] if isinstance(verb, str) else verb)

    def url(self, path: str = "", /, **parameters: Any) -> str:
        """Return the URL of a view, with the current scope and theme; None removes a parameter."""
        kept: dict[str, Any] = {name: self.query[name] for name in KEPT if self.query.get(name)}
        return _with_query(f"{BASE}/{path}", {**kept, **parameters})

    def here(self, **changes: Any) -> str:
        """Return the URL of this page with some parameters changed; None removes one, a list repeats one."""
        given = {name: self.query.getlist(name) for name in self.query}
        return _with_query(self.path or self.request.url.path, {**given, **changes})

    def render(self, template: str, /, status: int = 200, **values: Any) -> Response:
        """Return a page from a template, which gets `page`, `csrf` and the given values.

        A form or link of htmx names the part that it replaces by `hx-select`, so one template serves both.
        """
        found = self.site.templates.get_template(template)
        csrf = self.site.sessions.csrf(self.session.id)
        return HTMLResponse(found.render(page=self, csrf=csrf, **values), status)

    def redirect(self, url: str, /, flash: str | None = None, undo: str = "") -> Response:
        """Return a redirect after a form; `flash` is a message that the next page shows once, signed into its URL.

        `undo` is a text beside it, also signed, from which that page makes the form that undoes the change.
        """
        if flash is not None:
            values = {"flash": flash, "flash_mac": self._signature(flash, undo), **({"undo": undo} if undo else {})}
            url += ("&" if "?" in url else "?") + urlencode(values)
        return RedirectResponse(url, 303)

    @property
    def flash(self) -> str | None:
        """The message that the form before left for this page; only messages of this server are shown."""
        text, given = self.query.get("flash", ""), self.query.get("flash_mac", "")
        expected = self._signature(text, self.query.get("undo", ""))
        return text if hmac.compare_digest(expected.encode(), given.encode()) else None

    @property
    def undo(self) -> str:
        """The text of `redirect` that undoes the change; empty without one."""
        return self.query.get("undo", "") if self.flash is not None else ""

    def _signature(self, flash: str, undo: str) -> str:
        return self.site.sessions.csrf(f"flash {self.session.id} {undo}\n{flash}")[:32]


def _with_query(path: str, parameters: Mapping[str, Any]) -> str:
    pairs = [
        (name, item)
        for name, value in parameters.items()
        if name not in FLASH
        for item in (value if isinstance(value, list | tuple) else [value])
        if item not in (None, "") or name.startswith("f_")
    ]
    pairs = [(name, item) for name, item in pairs if item is not None]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _page(request: Request) -> Page:
    site: Site = request.app.state.site
    session = site.sessions.find(request)
    if session is None:
        raise LoginRequiredError
    request.state.grant = session.grant
    return Page(request, site, session)


DASHBOARD: Final = "dashboard"
"""Name that all forms share for limits: a login has no key yet."""


async def read_form(request: Request) -> QueryParams:
    """Return the fields of a form; a field may be repeated.

    Raises:
        InputError: the body is not a form.
        LimitError: the body is too long.
    """
    parsing.require_media_type(request, ("application/x-www-form-urlencoded",))
    site: Site = request.app.state.site
    with site.budget.reserve(DASHBOARD) as take:
        body = await parsing.body(request, site.body_limit, take)
    try:
        return QueryParams(body.decode())
    except UnicodeDecodeError:
        raise InputError("body", Words("other bytes"), "Send a form in UTF-8.", "is not UTF-8") from None


Visit = Annotated[Page, Depends(_page)]
"""The annotation of a view's first parameter: `def show(page: Visit) -> Response`."""


def _form(page: Visit, fields: Annotated[QueryParams, Depends(read_form)]) -> QueryParams:
    check_csrf(page.site, page.session.id, fields)
    return fields


def check_csrf(site: Site, identity: str, fields: QueryParams) -> None:
    """Raise `ForbiddenError` unless a form has the CSRF token of a session."""
    if not hmac.compare_digest(site.sessions.csrf(identity).encode(), fields.get("csrf", "").encode()):
        raise ForbiddenError("csrf: the form is not of this session. Reload the page and send it again.")


Form = Annotated[QueryParams, Depends(_form)]
"""The annotation of a form's fields, whose CSRF token is checked: `def save(page: Visit, form: Form) -> Response`."""


def compact_json(value: object) -> str:
    """Return a value as indented JSON, for display."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
