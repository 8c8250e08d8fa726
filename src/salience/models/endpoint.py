"""Checks of the base URL and API key of an OpenAI-compatible endpoint. Errors show neither."""

from __future__ import annotations

import httpx

from salience.errors import InputError, Words


def checked_url(field: str, base_url: str) -> httpx.URL:
    """Return an http or https URL that has a host.

    Raises:
        InputError: another value; names the setting `field`.
    """
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError(field, Words("not an http or https URL"), "Give one, with a host.", "is no http URL")
    return url


def checked_key(field: str, api_key: str | None) -> str | None:
    """Return the key without white space around it; None if it is empty.

    Raises:
        InputError: a key that is not printable ASCII; names the setting `field`.
    """
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        value, problem = Words("a key with unusual characters"), "has unusual characters"
        raise InputError(field, value, "Give the key in printable ASCII.", problem)
    return key or None
