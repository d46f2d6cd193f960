"""The command line; a command imports what it needs, so --help is quick."""

import io
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from types import ModuleType
from typing import Annotated, Any

import typer

from regard import asking, drawing, options
from regard.asking import RECIPES, UsageError
from regard.options import FIRST, Place, placed
from regard.terminal import answer, lines, note, on_enter, patience, say, table, visible

app = typer.Typer(
    help="Every attention mechanism and model since 2014: train, evaluate, predict, look.",
    epilog="Exit codes: 0 done, 1 failed, 2 not asked rightly. With --json, standard output is one "
    "JSON object and nothing else. With --debug, anywhere, an error comes with its traceback.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command, and give its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # where a terminal knows only ASCII
    words = [word for word in given if word != "--debug"]
    command, code = typer.main.get_command(app), 0
    named = set(command.commands) & set(words[:1])  # type: ignore[attr-defined]
    try:
        with suppress(typer.Exit), command.make_context("regard", words or ["--help"]) as context:
            command.invoke(context)
        if words[:1] == ["train"] and "--help" in words:
            _show_fields(words)
    except BaseException as error:
        code, line = asking.judged(error)
        if line and "--debug" in given:
            traceback.print_exc()
        if line:
            note(f"{' '.join(['regard', *named])}: {line}")
        unwritten = isinstance(error, OSError) and error.errno and error.filename is None
        if unwritten and sys.stdout is not None:
            # what could not be written must not be tried again when the interpreter ends
            with suppress(io.UnsupportedOperation):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


@app.callback(invoke_without_command=True)
def _alone(version: Annotated[bool, typer.Option("--version")] = False) -> None:
    if version:
        say(sys.modules["regard"].__version__)
        raise typer.Exit


@app.command("list")
def list_(as_json: options.Json = False) -> None:
    """Show what can be trained, and what is trained already."""
    from regard import zoo

    recipes = {name: line for name, (_, line) in RECIPES.items()}
    cards = {name: zoo.card(name) for name in zoo.names()}
    if as_json:
        return answer(recipes=recipes, models=cards)
    say("to train, with `regard train NAME`")
    table(recipes.items())
    say("trained, for `regard predict NAME`, `look` and `evaluate`, with the licence of each")
    return table((name, zoo.about(card), zoo.licence(card)) for name, card in cards.items())


@app.command()
def train(
    recipe: Annotated[str | None, typer.Argument(help=f"One of: {', '.join(RECIPES)}.")] = None,
    settings: options.Settings = None,
    out: options.Folder = None,
    resume: options.Resume = None,
    step: options.Step = None,
    jobs: options.Jobs = None,
    only: options.Only = None,
    as_json: options.Json = False,
) -> None:
    """Train a recipe, or with grid=NAME a whole table; Ctrl-C saves, --resume goes on.

    \b
    regard train translate
    regard train translate --help     shows every field that can be set
    regard train translate model.width=256 training.steps=4000 --out runs/wide
    regard train --resume runs/wide
    regard train translate grid=rnn --jobs 2     the same command goes on with a grid
    """
    settings = settings or []
    if resume and recipe and "=" in recipe:
        settings, recipe = [recipe, *settings], None
    if (resume and out) or (step is not None and not resume):
        raise UsageError("expected --out or --resume, and --step only beside --resume")
    grid, settings = asking.apart("grid", settings)
    if grid is None and (jobs or only):
        raise UsageError("expected --jobs and --only beside grid=NAME")
    if grid is not None and resume:
        raise UsageError("expected grid=NAME without --resume: the same command goes on")
    if grid is not None:
        plan = asking.planned(recipe or "", grid, settings, out, only)
        return _tabled(plan, jobs=jobs, whole=only is None, as_json=as_json)
    name, config = asking.settled(recipe, resume, settings)
    from rich.console import Console

    from regard.train.progress import drawn_on

    module, report = asking.recipe(name), drawn_on(Console(stderr=True))
    with redirect_stdout(sys.stderr):
        result = module.run(config, out=out, report=report, resume=resume, step=step)
    if as_json:
        names = ("source", "prediction", "reference")
        examples = [dict(zip(names, example, strict=True)) for example in result.examples]
        return answer(recipe=name, **(vars(result) | {"examples": examples}))
    if result.stopped == "interrupted":
        return say(f"saved; to go on: regard train --resume {result.folder}")
    return _finished(module, result)


@app.command()
def evaluate(
    model: options.Model, settings: options.Settings = None, as_json: options.Json = False
) -> None:
    """Measure a model on data that it has not seen.

    \b
    regard evaluate translate-en-fr-small
    regard evaluate runs/wide beam=5 --json
    regard evaluate copy length=120 slots=256 --json
    regard evaluate tsp points=50 augment=8 --json
    regard train translate --help     shows these fields too
    """
    from regard.config import override

    with patience("evaluating"):
        loaded, module = asking.loaded(model)
        with asking.typed():
            evaluation = override(module.Evaluation(), settings or [])
        measured = module.evaluate(loaded, evaluation)
    if not as_json:
        return table(measured.items())
    command = shlex.join(["regard", "evaluate", model, *(settings or []), "--json"])
    return answer(**{"model": model, "command": command} | measured)


@app.command()
def predict(
    model: options.Model,
    text: options.TextOrLines = "-",
    beam: options.Beam = None,
    prove: options.Prove = False,
    as_json: options.Json = False,
) -> None:
    """Let a model answer a sentence, or what else it takes, or each line of its input.

    \b
    regard predict translate-en-fr-small "She is eating a green apple."
    regard predict translate-en-fr-small --beam 1 --json < sentences.txt
    regard predict copy "01101001 11110000"
    regard predict tsp points.csv --prove
    """
    with patience("loading"):
        loaded, module = asking.loaded(model)
    asked, name = module.predict, loaded.card["recipe"]
    how = asking.searching(name, asked, beam) | asking.proving(name, asked, prove)
    told: list[dict[str, Any]] = []
    for sentence in lines() if text == "-" else [text]:
        told.append({"input": sentence, "text": "", "candidates": []})
        if sentence.strip() or text != "-":  # an empty line among others stays one
            with patience("predicting"):
                found = module.predict(loaded, sentence, **how)
            ranked = [{"text": words, "score": score} for words, score in found.candidates]
            told[-1] |= {"text": found.text, "candidates": ranked} | asking.details(found)
        if not as_json:
            words = told.pop()["text"]
            say(visible(words) if text == "-" else words)  # a line for each that was read
    if as_json:
        answer(model=model, **({"predictions": told} if text == "-" else told[0]))


@app.command()
@placed
def look(
    model: options.Model,
    text: options.Text,
    out: options.Picture = None,
    kind: options.Kind = None,
    place: Place = FIRST,
    words: options.Words = True,
    beam: options.Beam = None,
    as_json: options.Json = False,
) -> None:
    """Draw what a model looks at; without -o, as text.

    \b
    regard look translate-en-fr-small "She is eating a green apple."
    regard look translate-en-fr-small "She is eating a green apple." -o apple.png
    regard look runs/wide "I see." --map cross --layer 2 --head 1
    regard look runs/wide "I see." --kind wall -o heads.png
    regard look runs/wide "I see." -o see.html
    regard look copy "01101001 11110000 00111100" -o tape.png
    regard look hull points.csv -o hull.png
    """
    drawing.refuse(kind, out, place)
    with patience("looking"):
        from regard import view

        loaded, module = asking.loaded(model)
        search = asking.searching(loaded.card["recipe"], module.trace, beam)
        trace = module.trace(loaded, text, **search)
        picture = drawing.chosen(view.by_words(trace) if words else trace, kind, out, place)
        if out is not None:
            picture.save(out)
    if as_json:
        return answer(model=model, input=text, picture=out, **picture.numbers())
    return say(f"wrote {out}" if out else picture.text())


@app.command()
def why(
    model: Annotated[str | None, typer.Argument(metavar="NAME_OR_RUN", help="A model.")] = None,
    text: options.AnyText = None,
    as_json: options.Json = False,
) -> None:
    """Say which backend runs, and why not another.

    \b
    regard why
    regard why translate-en-fr-small "She is eating a green apple."
    """
    with patience("asking"):
        found = _backends() if model is None else _backends_of(model, text)
    if as_json:
        answer(**{name: {"backend": w.backend, "reasons": w.reasons} for name, w in found.items()})
    elif model is None:
        table((name, w.backend) for name, w in found.items())
    else:
        say("\n".join(f"{visible(name)}: {w}" for name, w in found.items()) or "none was seen")


@app.command()
def serve(
    host: options.Host = "127.0.0.1",
    port: options.Port = 0,
    browser: options.Browser = True,
    trace: options.Traces = None,
    budget: options.Budget = 2048,
) -> None:
    """Open the page: pick a model, give it an input, and see what it attends to.

    \b
    regard serve
    regard serve --no-browser --port 8080
    regard serve --trace seen.safetensors     saved by regard.view.save
    """
    from regard.view.serving import start

    start.refuse_missing()
    with patience("starting"):
        from regard import offering
        from regard.train.runs import RUNS

        desk, place = offering.desk(trace or [], runs=RUNS, budget=budget * 2**20, report=note)
    browse = start.in_browser if browser else None
    start.serve(desk, host=host, port=port, place=place, ready=_serving, browse=browse)


def _serving(link: Callable[[], str], reachable: bool) -> None:
    """Say where the page is, and who can come."""
    if reachable:
        note("warning: others than this machine can reach it; whoever has a link may come in")
    say(link())
    if on_enter(lambda: say(link())):
        note("the link opens the page once; Enter prints another, Ctrl-C ends it")
    else:
        note("the link opens the page once; Ctrl-C ends it")


def _tabled(plan: Any, *, jobs: int | None, whole: bool, as_json: bool) -> None:
    """Train a whole table, write it into its folder and show it."""
    from rich.console import Console

    from regard.train import grids, progress, results

    module, console = asking.recipe(plan.recipe), Console(stderr=True)
    live = progress.drawn_on(console)

    def report(cell: Any) -> Any:
        # several side by side share one standard error, where two bars would draw over each other
        named = grids.Named(console.file, cell.name)
        return live if whole and isinstance(live, progress.Live) else progress.Lines(named)

    with redirect_stdout(sys.stderr):
        if jobs is None:
            grids.one_by_one(plan, module.run, report=report, tell=note)
        else:
            grids.side_by_side(plan, jobs, note)
    failed = [cell.name for cell in plan.cells if cell.failed is not None and not cell.finished]
    left = [cell for cell in plan.cells if cell.failed is None and not cell.finished]
    if left:
        note(f"{len(left)} of {len(plan.cells)} not finished; the same command goes on")
    elif whole:
        with patience("gathering"):
            found = results.gathered(plan, module)
            results.written(plan.folder, found)
        if as_json:
            answer(folder=plan.folder, **found)
        else:
            table(results.lines(found))
            for line in found["notes"]:
                say(line)
        note(f"wrote {plan.folder / 'table.json'} and table.md")
    if failed:
        raise ValueError(f"{len(failed)} of {len(plan.cells)} failed: {', '.join(failed)}")


def _finished(module: ModuleType, result: Any) -> None:
    """Show what came out of a training, and what to try next."""
    from regard import view, zoo
    from regard.train.progress import clock

    table([("stopped", result.stopped), ("time", clock(result.seconds)), *result.metrics.items()])
    for source, prediction, reference in result.examples[:5]:
        say(f"\n  {visible(source)}\n→ {visible(prediction)}\n  ({visible(reference)})")
    for source, *_ in result.examples[:1]:
        with suppress(view.UnseenError):  # a model without attention has nothing to show here
            trace = view.by_words(module.trace(zoo.load(result.folder), source))
            say("\n" + view.alignment(trace))
            say(f"as a picture: {drawing.pictured(trace, result.folder)}")
    tries = ('predict {} "…"', 'look {} "…" -o picture.png', "evaluate {}")
    say("\nTry next:" + "".join(f"\n  regard {t.format(result.folder)}" for t in tries))


def _backends() -> dict[str, Any]:
    """Which backend this machine takes for each score."""
    import torch

    from regard import door
    from regard.functional import scores

    H, Q, D = 4, 64, 32
    q = torch.zeros(2, H, Q, D, device="cuda" if torch.cuda.is_available() else "cpu")
    sizes = {scores.General: (H, D, D), scores.Additive: (H, D), scores.Location: (H, D, Q)}
    named: dict[str, Any] = {kind.__name__: kind(q.new_zeros(n)) for kind, n in sizes.items()}
    named |= {"dot": scores.dot, "scaled_dot": scores.scaled_dot, "Cosine": scores.Cosine()}
    return {name: door.why(q, q, q, score=score) for name, score in named.items()}


def _backends_of(model: str, text: str | None) -> dict[str, Any]:
    from regard import looking

    loaded, module = asking.loaded(model)
    # a look that saw nothing warns; here it is the answer that says so
    with warnings.catch_warnings(action="ignore"), looking.look(loaded.model) as seen:
        module.predict(loaded, asking.example(module) if text is None else text)
        return {name: seen[name].why for name in seen.names()}


def _show_fields(words: list[str]) -> None:
    """Every field that can be set, with the values that `words` give it already."""
    from regard.config import fields

    for name in (word for word in words if word in RECIPES):
        module = asking.recipe(name)
        config: Any = module.Config
        with suppress(UsageError):  # who asks for help may have typed what is not there
            settings = asking.apart("grid", [word for word in words[1:] if "=" in word])[1]
            config = asking.settled(name, None, settings)[1]
        for command, shown in (("train", config), ("evaluate", module.Evaluation)):
            say(f"\nFields for `regard {command}`, and their defaults:")
            typed = {"None": "none", "True": "true", "False": "false"}
            rows = (
                (f.name, str(f.default), "; ".join(filter(None, (f.words, f.about))))
                for f in fields(shown)
            )
            table((name, typed.get(default, default), words) for name, default, words in rows)
        if likes := asking.offers(module, "like"):
            say(f"\nWhole configs for `regard train {name} like=NAME`:\n  {', '.join(likes)}")
        if grids := asking.offers(module, "grid"):
            say(f"\nWhole tables for `regard train {name} grid=NAME`:")
            table((grid, held.about) for grid, held in grids.items())
