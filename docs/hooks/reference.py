"""The reference, made from the code: a page for each public module, and a list of all modules.

Nothing is listed by hand but which folders are public. A package shows what its `__all__` names; a
module without one shows what is defined in it and does not begin with an underscore.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
# Below regard/: packages whose `__all__` is for users, and folders whose every module is.
PACKAGES = ("layers", "decode", "fast_decode", "looking", "train", "zoo", "view", "config")
FOLDERS = {
    "models": "Models",
    "recipes": "Recipes",
    "data": "Data",
    "weights": "Published weights",
}
# Families of kernels, shown as internals; what lies in a triton/ folder is listed and not shown.
KERNELS = "kernels"


class Entry(NamedTuple):
    """A page of the reference."""

    title: str
    section: str
    # what it shows: names with their dots, modules among them
    shown: list[str]
    # the module whose first line it opens with
    module: str

    @property
    def place(self) -> str:
        """Where it lies in the site."""
        return f"api/{self.title.removesuffix('.py')}.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each entry, the overview, and the list of every module."""
    for entry in entries():
        files.append(File.generated(config, entry.place, content=page(entry)))
    files.append(File.generated(config, "api/index.md", content=overview()))
    files.append(File.generated(config, "modules.md", content=every_module()))
    return files


@cache
def entries() -> list[Entry]:
    """All pages of the reference, in order."""
    short = {f"regard.{name}": home for name, home in short_names().items()}
    own = [f"regard.{name}" for name in exported("regard") if not is_module(f"regard.{name}")]
    own = [name for name in own if name not in short]
    found = [Entry("regard", "Attention", own, "regard")]
    found += [
        Entry(name, "Attention", [home], home)
        for name, home in short.items()
        if name.removeprefix("regard.") not in PACKAGES
    ]
    for name in PACKAGES:
        module = f"regard.{name}"
        shown = [f"{module}.{each}" for each in exported(module)]
        found.append(Entry(module, "Packages", shown, module))
    for folder, section in FOLDERS.items():
        found += [Entry(m, section, [m], m) for m in modules(f"regard.{folder}") if is_open(m)]
    found += [Entry("regard.dispatch", "Internals", ["regard.dispatch"], "regard.dispatch")]
    for module in modules("regard.functional"):
        if module not in short.values():
            found.append(Entry(module, "Internals", [module], module))
    for module in modules(f"regard.{KERNELS}"):
        if "triton" not in module.split(".")[:-1] and is_open(module):
            found.append(Entry(module, "Internals", [module], module))
    return found


def page(entry: Entry) -> str:
    """The Markdown of a page: `:::` stands for what mkdocstrings reads out of the code."""
    lines = [f"# {entry.title}", ""]
    if entry.shown == [entry.module]:
        if entry.title != entry.module:
            lines += [f"Defined in `{source(entry.module)}`.", ""]
        options = "    options: {show_root_heading: false, show_root_toc_entry: false}"
        return "\n".join([*lines, f"::: {entry.module}", options, ""])
    lines += [docstring(entry.module).strip(), ""]
    for name in entry.shown:
        lines += [f"::: {name}", ""]
    return "\n".join(lines)


def overview() -> str:
    """The first page of the reference: every page with its first line."""
    lines = ["# API reference", "", "Made from the signatures and docstrings of the code.", ""]
    section = ""
    for entry in entries():
        if entry.section != section:
            section = entry.section
            lines += ["", f"## {section}", "", "| module | what it has |", "|---|---|"]
        link = f"[`{entry.title}`]({entry.place.removeprefix('api/')})"
        lines.append(f"| {link} | {first_line(entry.module)} |")
    return "\n".join([*lines, ""])


def every_module() -> str:
    """A table for each folder of regard/: its files and the first lines of their docstrings."""
    places = {entry.module: entry.place for entry in entries()}
    lines = [
        "# Every module",
        "",
        "Each file of `regard/`, by the first line of its docstring.",
        "",
    ]
    folders: dict[str, list[str]] = {}
    for module in ["regard", *modules("regard", deep=True)]:
        folders.setdefault(str(Path(source(module)).parent), []).append(module)
    for folder in sorted(folders):
        lines += [f"## {folder}/", "", "| file | what it has |", "|---|---|"]
        for module in sorted(folders[folder], key=source):
            name = f"`{Path(source(module)).name}`"
            name = f"[{name}]({places[module]})" if module in places else name
            lines.append(f"| {name} | {first_line(module)} |")
        lines.append("")
    return "\n".join(lines)


def modules(package: str, *, deep: bool = True) -> list[str]:
    """The modules below a package, sorted, packages among them only if they hold more than a line.

    A package is itself a module: its docstring is the first line of its `__init__.py`.
    """
    folder = ROOT / package.replace(".", "/")
    paths = folder.rglob("*.py") if deep else folder.glob("*.py")
    names = set()
    for path in paths:
        parts = path.relative_to(ROOT).with_suffix("").parts
        names.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return sorted(names - {package})


def is_open(module: str) -> bool:
    """True if a module has public names of its own to show."""
    tree, exports = parsed(module), exported(module)
    if module.startswith("regard.recipes."):
        # a recipe can be measured; beside the recipes stands what they share
        own = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        return module.count(".") == 2 and "Evaluation" in [*own, *exports]
    return bool(exports) or any(
        isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
        for node in tree.body
    )


def short_names() -> dict[str, str]:
    """The short paths of modules, such as `scores` for regard.functional.scores."""
    for node in parsed("regard").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_MODULES":
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise LookupError("regard/__init__.py: expected a table _MODULES, found none")


def exported(module: str) -> list[str]:
    """What `__all__` of a module names, which may be built in several lines; else nothing."""
    names: list[str] = []
    for node in parsed(module).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            names += ast.literal_eval(node.value)  # type: ignore[union-attr]
    return names


def is_module(name: str) -> bool:
    """True if a dotted name is a file or a folder."""
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def first_line(module: str) -> str:
    """The first sentence of a module's docstring, fit for the cell of a table."""
    return docstring(module).strip().partition("\n")[0].replace("|", "\\|")


def docstring(module: str) -> str:
    """The docstring of a module."""
    return ast.get_docstring(parsed(module)) or ""


def source(module: str) -> str:
    """The file of a module, from the root of the repository on."""
    path = ROOT / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(module: str) -> Any:
    """The syntax tree of a module, which is read and never run."""
    return ast.parse((ROOT / source(module)).read_text())
