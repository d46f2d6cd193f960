"""Notebooks of docs/: run without Jupyter, and shown as pages with the outputs they store.

python docs/hooks/notebook.py docs/quickstart.ipynb    runs it and stores what its cells print
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook, and a file for each picture that it stores."""
    from mkdocs.structure.files import File

    for path in sorted(DOCS.glob("*.ipynb")):
        text, pictures = page(json.loads(path.read_text()), path.stem)
        files.append(File.generated(config, f"{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, name, content=content))
    return files


def page(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook, and its pictures by name."""
    parts, pictures = list[str](), dict[str, bytes]()
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![{''.join(data['text/plain'])}]({name})")
            else:
                shown = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f"```{{.text .output}}\n{shown}\n```")
    return "\n\n".join(parts) + "\n", pictures


def outputs(notebook: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Run the code cells in order, in one namespace; what each prints, and what its last line is.

    A cell runs as Jupyter runs it, and one that fails raises what it raises.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            yield _run("".join(cell["source"]), namespace, f"cell {number}")


def _run(code: str, namespace: dict[str, Any], name: str) -> list[dict[str, Any]]:
    tree, value = ast.parse(code), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, name, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        lines = text.splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        found.append({"data": _data(value), "metadata": {}, "output_type": "display_data"})
    return found


def _data(value: Any) -> dict[str, Any]:
    if not hasattr(value, "savefig"):
        return {"text/plain": repr(value).splitlines(keepends=True)}
    file = io.BytesIO()
    # without a version of matplotlib in it, the same picture is the same bytes
    value.savefig(file, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    picture = base64.b64encode(file.getvalue()).decode()
    return {"image/png": picture, "text/plain": ["The figure that this cell draws"]}


def store(path: Path) -> None:
    """Run a notebook in an empty folder, and store what its cells print."""
    notebook, home = json.loads(path.read_text()), Path.cwd()
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            found = list(outputs(notebook))
    finally:
        os.chdir(home)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, printed) in enumerate(zip(code, found, strict=True), 1):
        cell["outputs"], cell["execution_count"] = printed, number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for given in sys.argv[1:]:
        store(Path(given))
