"""The page as it was built from `page/`: one script and one style sheet, which come along."""

from regard.view.export.page_files import PAGE_FOLDER


def script() -> str:
    """The page's script: a module, which also exports what a notebook calls."""
    return _read_text("app.js")


def style() -> str:
    """The page's style sheet."""
    return _read_text("app.css")


def _read_text(name: str) -> str:
    if not (PAGE_FOLDER / name).is_file():
        raise FileNotFoundError(f"page: expected {name} beside regard.view, got none: make page")
    return (PAGE_FOLDER / name).read_text(encoding="utf-8")
