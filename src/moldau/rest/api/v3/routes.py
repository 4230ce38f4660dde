"""The table of v3's routes."""

from moldau.web.routes import Route

ROUTES: tuple[Route, ...] = ()
