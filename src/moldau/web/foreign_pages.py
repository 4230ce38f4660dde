"""Requests that a page of somebody else has its visitor's browser send.

A browser sends them to every address that it reaches, this machine's own included, with the logins that it
remembers, and without asking the service first where the body has no type or a plain one. It says where they
come from: in ``Sec-Fetch-Site``, or in ``Origin`` where the service is reached by plain http from elsewhere.
Programs say neither.

Invariant: whoever is refused here is a browser.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from moldau.base.host_names import is_own_name
from moldau.web.problems import http_problem

_READING = ("GET", "HEAD")


def check_page(method: str, header: Callable[[bytes], str | None], own_names: tuple[str, ...] | None) -> None:
    """403 for what a foreign page wants to change. ``own_names`` are names by which the service may be asked
    for where only this machine reaches it and nobody logs in; None for all names.
    """
    host = header(b"host") or ""
    if own_names is not None and not is_own_name(host, own_names):
        raise http_problem(
            403,
            "The service is not known by that name. Next: ask for it by its address or as localhost; a proxy "
            "before it sets Host",
        )
    if method not in _READING and _is_foreign(header, host):
        raise http_problem(403, "The request comes from a page of another site")


def _is_foreign(header: Callable[[bytes], str | None], host: str) -> bool:
    site = header(b"sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = header(b"origin")
    return origin is not None and urlsplit(origin).netloc != host
