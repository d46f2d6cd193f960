"""What the reference cannot read by itself: comments of fields, and functions bound in one line."""

import ast
from pathlib import Path
from typing import Any

import griffe


class Comments(griffe.Extension):
    """Give attributes their comments, and modules the functions that they take from an object."""

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **_: Any
    ) -> None:
        """Read the comment of an attribute that has no docstring, or name the class it is of."""
        if attr.docstring is None and isinstance(node, ast.Assign | ast.AnnAssign):
            lines = attr.lines_collection[attr.filepath]  # type: ignore[index]
            text = comment(lines, node.lineno, node.end_lineno or node.lineno)
            if text := text or short_for(attr, node):
                attr.docstring = griffe.Docstring(text, parent=attr)

    def on_instance(
        self, *, node: ast.AST | griffe.ObjectNode, obj: griffe.Object, **_: Any
    ) -> None:
        """Put the examples of a docstring into blocks of code."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Show the fields of a named tuple as its arguments; hide what a module is made of."""
        if "NamedTuple" in map(str, cls.bases):
            cls.set_member("__init__", constructor(cls))
        elif "dataclass" not in cls.labels:
            for name, member in list(cls.members.items()):
                # `self.query = nn.Linear(…)` without a comment
                if member.labels >= {"instance-attribute"} and not member.docstring:
                    del cls.members[name]

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Show `run, evaluate = RECIPE.module_hooks()` as the methods of RECIPE that they are."""
        if "recipes" in pkg.members:
            for module in pkg["recipes"].modules.values():
                for name, method in bound(module).items():
                    module.set_member(name, method)


def constructor(cls: griffe.Class) -> griffe.Function:
    """The `__init__` that a named tuple has by its fields."""
    fields = [each for each in cls.members.values() if each.is_attribute and each.annotation]
    kind = griffe.ParameterKind.positional_or_keyword
    parameters = [griffe.Parameter("self", kind=kind)]
    for field in fields:
        if "property" not in field.labels:
            value = None if field.value is None else str(field.value)
            parameters.append(
                griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=value)
            )
    return griffe.Function("__init__", parameters=griffe.Parameters(*parameters))


def fenced(text: str) -> str:
    r"""`text` with each run of examples or commands, up to an empty line, as a block of code.

    >>> print(fenced("Add.\n\nregard train copy\n"))
    Add.
    <BLANKLINE>
    ```
    regard train copy
    ```
    """
    lines, inside = list[str](), False
    for line in [*text.splitlines(), ""]:
        if line.startswith((">>> ", "regard ")) and not inside:
            lines, inside = [*lines, "```pycon" if line.startswith(">") else "```"], True
        elif inside and not line.strip():
            lines, inside = [*lines, "```"], False
        lines.append(line)
    return "\n".join(lines[:-1])


def bound(module: griffe.Module) -> dict[str, griffe.Function]:
    """The functions of a module that one line takes from an object, by name."""
    tree, found = ast.parse(Path(str(module.filepath)).read_text()), {}
    calls = {
        ast.unparse(node.targets[0]): ast.unparse(node.value.func)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    }
    for target, function in calls.items():
        holder, _, hooks = function.partition(".")
        if hooks == "module_hooks":
            kind = module.modules_collection[module.resolve(calls[holder])]
            for name in target.strip("()").split(", "):
                found[name] = function_of(kind[name], module)
    return found


def function_of(method: griffe.Function, module: griffe.Module) -> griffe.Function:
    """A method, as a function of a module."""
    parameters = griffe.Parameters(*[each for each in method.parameters if each.name != "self"])
    text = griffe.Docstring(method.docstring.value) if method.docstring else None
    lines = {"lineno": method.lineno, "endlineno": method.endlineno}
    return griffe.Function(
        method.name, parameters=parameters, returns=method.returns, docstring=text, **lines
    )


def short_for(attr: griffe.Attribute, node: ast.Assign | ast.AnnAssign) -> str:
    """Of `causal = Causal()` or `window = Window`, the class and its first line."""
    name = node.value.func if isinstance(node.value, ast.Call) else node.value
    home = attr.parent.members.get(name.id) if attr.parent and isinstance(name, ast.Name) else None
    if not isinstance(home, griffe.Class) or not home.docstring:
        return ""
    first = home.docstring.value.partition("\n")[0]
    # a link where some page shows the class
    return f'<autoref identifier="{home.path}" optional>{home.name}</autoref>: {first}'


def comment(lines: list[str], first: int, last: int) -> str:
    """The comment on its own lines above lines `first` to `last` (from 1), else that behind them.

    >>> comment(["# of a head", "width: int", "x: int  # (B,)"], 2, 2)
    'of a head'
    >>> comment(["# of a head", "width: int", "x: int  # (B,)"], 3, 3)
    '(B,)'
    """
    above: list[str] = []
    for line in map(str.strip, reversed(lines[: first - 1])):
        if not line.startswith("#"):
            break
        above.insert(0, line.lstrip("# "))
    if above:
        return " ".join(above)
    _, sign, behind = lines[last - 1].partition("  # ")
    return behind.strip() if sign and not behind.startswith(("type:", "noqa")) else ""
