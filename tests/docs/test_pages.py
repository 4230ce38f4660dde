"""Pages that are generated are up to date; links inside the documentation lead somewhere."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


def test_every_picture_of_the_console_is_shown_and_small() -> None:
    page = (ROOT / "docs/console.md").read_text("utf-8")
    shown = set(re.findall(r"\]\(console/([\w-]+\.png)\)", page))
    there = {path.name: path.stat().st_size for path in (ROOT / "docs/console").iterdir()}
    assert shown == there.keys()
    assert max(there.values()) < 150_000


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_protocol_is_up_to_date() -> None:
    module = load("generate_protocol")
    assert module.PAGE.read_text() == module.page(), "run: make docs"


def test_the_page_of_sparks_options_is_up_to_date() -> None:
    module = load("generate_spark_options")
    assert module.PAGE.read_text() == module.page(), "run: make docs"


@pytest.mark.parametrize(
    "page", [p.relative_to(ROOT).as_posix() for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:")):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"])
def test_paths_in_the_pages_about_the_code_exist(page: str) -> None:
    """``broker/apis/`` and ``cluster/store/local.py`` are below src/moldau, or below the project."""
    for path in re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*/?(?:[a-z_0-9]+\.py)?)`", (ROOT / page).read_text()):
        if "/" in path:
            assert any((base / path).exists() for base in (ROOT / "src" / "moldau", ROOT)), f"{page}: {path}"
