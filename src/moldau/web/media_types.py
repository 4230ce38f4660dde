"""Media types of requests and answers: which one an answer is called, and which ones a body may have.

Pure.
"""

from collections.abc import Sequence

from moldau.web.problems import http_problem

#: In a list of what is offered or allowed: anything may be asked for, or sent.
ANY = "*/*"


def accepted(header: str | None, offered: Sequence[str]) -> str:
    """The media type of the answer: the best that the client takes, by its weights; 406 where none is."""
    if header is None or not header.strip():
        return offered[0]
    offers = []
    for place, part in enumerate(header.split(",")):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        offers.append((-_weight(parameters), place, name))
    for weight, _, name in sorted(offers):
        if weight == 0:
            continue
        if name in ("*/*", "*", "application/*"):  # Java's HttpURLConnection writes "*"
            return offered[0]
        if name in offered:
            return name
    if ANY in offered:
        return offered[0]
    raise http_problem(406)


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


def check_content_encoding(header: str | None) -> None:
    """Bodies are taken as they are: what a compressed one would become cannot be bounded before (415)."""
    if header is not None and header.strip().lower() not in ("", "identity"):
        raise http_problem(
            415, f"Content-Encoding {header.strip()[:40]} is not taken: send the body as it is"
        )


def check_sender(method: str, origin: str | None, host: str | None) -> None:
    """Of what has no media type, only that which no page of another site has sent is taken (403).

    Browsers let any page send it without asking here; for the types that are taken here they ask first, and
    get no permission.
    """
    if method not in ("GET", "HEAD") and origin is not None and origin.partition("://")[2] != host:
        raise http_problem(403, "A page of another site may not send this: say what it is (Content-Type)")


def check_content_type(method: str, header: str | None, allowed: Sequence[str]) -> None:
    """A body that is said to be something else is refused (415); one without a name is taken."""
    if header is None or method not in ("POST", "PUT", "PATCH"):
        return
    given = header.partition(";")[0].strip().lower()
    if given and given not in allowed and ANY not in allowed:
        raise http_problem(415)
