"""The page as it was built from `page/`: one script and one style sheet, which come along."""

from regard.view.serving.files import BUILT


def script() -> str:
    """The page's script: a module, which also exports what a notebook calls."""
    return _read("app.js")


def style() -> str:
    """The page's style sheet."""
    return _read("app.css")


def _read(name: str) -> str:
    if not (BUILT / name).is_file():
        raise FileNotFoundError(f"page: expected {name} beside regard.view, got none: make page")
    return (BUILT / name).read_text(encoding="utf-8")
