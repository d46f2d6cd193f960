"""The command line; a command imports what it needs, so --help is quick."""

import io
import os
import shlex
import sys
import traceback
import warnings
from contextlib import redirect_stdout, suppress
from types import ModuleType
from typing import Annotated, Any

import typer

from regard.cli import options, picture, resolve
from regard.cli.console import (
    escape_unprintable,
    print_json,
    print_note,
    print_table,
    print_text,
    read_stdin_lines,
    show_elapsed_time,
)
from regard.cli.options import DEFAULT_PLACE, Place, with_place_options
from regard.cli.resolve import RECIPES, UsageError

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
            options.print_config_fields(words[1:])
    except BaseException as error:
        code, line = resolve.exit_code_and_message(error)
        if line and "--debug" in given:
            traceback.print_exc()
        if line:
            print_note(f"{' '.join(['regard', *named])}: {line}")
        unwritten = isinstance(error, OSError) and error.errno and error.filename is None
        if unwritten and sys.stdout is not None:
            # what could not be written must not be tried again when the interpreter ends
            with suppress(io.UnsupportedOperation):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version")] = False) -> None:
    if version:
        print_text(sys.modules["regard"].__version__)
        raise typer.Exit


@app.command("list")
def list_(as_json: options.Json = False) -> None:
    """Show what can be trained, and what is trained already."""
    from regard import zoo

    recipes = {name: line for name, (_, line) in RECIPES.items()}
    cards = {name: zoo.card(name) for name in zoo.names()}
    if as_json:
        return print_json(recipes=recipes, models=cards)
    print_text("to train, with `regard train NAME`")
    print_table(recipes.items())
    print_text(
        "trained, for `regard predict NAME`, `look` and `evaluate`, with the licence of each"
    )
    return print_table(
        (name, zoo.describe_card(card), zoo.licence(card)) for name, card in cards.items()
    )


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
    grid, settings = resolve.split_setting("grid", settings)
    if grid is None and (jobs or only):
        raise UsageError("expected --jobs and --only beside grid=NAME")
    if grid is not None and resume:
        raise UsageError("expected grid=NAME without --resume: the same command goes on")
    if grid is not None:
        plan = resolve.grid_plan(recipe or "", grid, settings, out, only)
        return _train_grid(plan, jobs=jobs, whole=only is None, as_json=as_json)
    name, config = resolve.recipe_and_config(recipe, resume, settings)
    from rich.console import Console

    from regard.train.progress import make_report

    module, report = resolve.recipe_module(name), make_report(Console(stderr=True))
    with redirect_stdout(sys.stderr):
        result = module.run(config, out=out, report=report, resume=resume, step=step)
    if as_json:
        names = ("source", "prediction", "reference")
        examples = [dict(zip(names, example, strict=True)) for example in result.examples]
        return print_json(recipe=name, **(vars(result) | {"examples": examples}))
    if result.stopped == "interrupted":
        return print_text(f"saved; to go on: regard train --resume {result.folder}")
    return _print_result(module, result)


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

    with show_elapsed_time("evaluating"):
        loaded, module = resolve.load_model(model)
        with resolve.as_usage_errors():
            evaluation = override(module.Evaluation(), settings or [])
        measured = module.evaluate(loaded, evaluation)
    if not as_json:
        return print_table(measured.items())
    command = shlex.join(["regard", "evaluate", model, *(settings or []), "--json"])
    return print_json(**{"model": model, "command": command} | measured)


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
    with show_elapsed_time("loading"):
        loaded, module = resolve.load_model(model)
    asked, name = module.predict, loaded.card["recipe"]
    how = resolve.search_options(name, asked, beam) | resolve.proof_options(name, asked, prove)
    told: list[dict[str, Any]] = []
    for sentence in read_stdin_lines() if text == "-" else [text]:
        told.append({"input": sentence, "text": "", "candidates": []})
        if sentence.strip() or text != "-":  # an empty line among others stays one
            with show_elapsed_time("predicting"):
                found = module.predict(loaded, sentence, **how)
            ranked = [{"text": words, "score": score} for words, score in found.candidates]
            told[-1] |= {"text": found.text, "candidates": ranked} | resolve.details(found)
        if not as_json:
            words = told.pop()["text"]
            print_text(
                escape_unprintable(words) if text == "-" else words
            )  # a line for each that was read
    if as_json:
        print_json(model=model, **({"predictions": told} if text == "-" else told[0]))


@app.command()
@with_place_options
def look(
    model: options.Model,
    text: options.Text,
    out: options.PictureFile = None,
    kind: options.Kind = None,
    place: Place = DEFAULT_PLACE,
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
    picture.check_options(kind, out, place)
    with show_elapsed_time("looking"):
        from regard import view

        loaded, module = resolve.load_model(model)
        search = resolve.search_options(loaded.card["recipe"], module.trace, beam)
        trace = module.trace(loaded, text, **search)
        shown = picture.choose_picture(view.by_words(trace) if words else trace, kind, out, place)
        if out is not None:
            shown.save(out)
    if as_json:
        return print_json(model=model, input=text, picture=out, **shown.to_json())
    return print_text(f"wrote {out}" if out else shown.to_text())


@app.command()
def why(
    model: Annotated[str | None, typer.Argument(metavar="NAME_OR_RUN", help="A model.")] = None,
    text: options.OptionalText = None,
    as_json: options.Json = False,
) -> None:
    """Say which backend runs, and why not another.

    \b
    regard why
    regard why translate-en-fr-small "She is eating a green apple."
    """
    with show_elapsed_time("asking"):
        found = _backend_by_score() if model is None else _backend_by_call(model, text)
    if as_json:
        print_json(
            **{name: {"backend": w.backend, "reasons": w.reasons} for name, w in found.items()}
        )
    elif model is None:
        print_table((name, w.backend) for name, w in found.items())
    else:
        print_text(
            "\n".join(f"{escape_unprintable(name)}: {w}" for name, w in found.items())
            or "none was seen"
        )


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
    from regard.view.server import start

    start.check_web_installed()
    with show_elapsed_time("starting"):
        from regard.cli import serve_setup
        from regard.train.runs import RUNS_FOLDER

        state, fragment = serve_setup.build_app_state(
            trace or [], runs=RUNS_FOLDER, budget=budget * 2**20, report=print_note
        )
    start.serve(
        state,
        host=host,
        port=port,
        fragment=fragment,
        on_ready=serve_setup.announce_page,
        open_url=start.open_in_browser if browser else None,
    )


def _train_grid(plan: Any, *, jobs: int | None, whole: bool, as_json: bool) -> None:
    """Train a whole table, write it into its folder and show it."""
    from rich.console import Console

    from regard.train import grids, progress, results

    module, console = resolve.recipe_module(plan.recipe), Console(stderr=True)
    live = progress.make_report(console)

    def cell_report(cell: Any) -> Any:
        # several side by side share one standard error, where two bars would draw over each other
        named = grids.PrefixedStream(console.file, cell.name)
        return (
            live if whole and isinstance(live, progress.BarReport) else progress.LineReport(named)
        )

    with redirect_stdout(sys.stderr):
        if jobs is None:
            grids.train_sequentially(plan, module.run, report=cell_report, log=print_note)
        else:
            grids.train_in_parallel(plan, jobs, print_note)
    failed = [cell.name for cell in plan.cells if cell.failure is not None and not cell.is_finished]
    left = [cell for cell in plan.cells if cell.failure is None and not cell.is_finished]
    if left:
        print_note(f"{len(left)} of {len(plan.cells)} not finished; the same command goes on")
    elif whole:
        with show_elapsed_time("gathering"):
            found = results.collect_table(plan, module)
            results.write_table(plan.folder, found)
        if as_json:
            print_json(folder=plan.folder, **found)
        else:
            print_table(results.table_rows(found))
            for line in found["notes"]:
                print_text(line)
        print_note(f"wrote {plan.folder / 'table.json'} and table.md")
    if failed:
        raise ValueError(f"{len(failed)} of {len(plan.cells)} failed: {', '.join(failed)}")


def _print_result(module: ModuleType, result: Any) -> None:
    """Show what came out of a training, and what to try next."""
    from regard import view, zoo
    from regard.train.progress import format_duration

    print_table(
        [
            ("stopped", result.stopped),
            ("time", format_duration(result.seconds)),
            *result.metrics.items(),
        ]
    )
    for source, prediction, reference in result.examples[:5]:
        print_text(
            f"\n  {escape_unprintable(source)}\n→ {escape_unprintable(prediction)}\n  "
            f"({escape_unprintable(reference)})"
        )
    for source, *_ in result.examples[:1]:
        with suppress(view.UnseenError):  # a model without attention has nothing to show here
            trace = view.by_words(module.trace(zoo.load(result.folder), source))
            print_text("\n" + view.alignment(trace))
            print_text(f"as a picture: {picture.save_default_picture(trace, result.folder)}")
    tries = ('predict {} "…"', 'look {} "…" -o picture.png', "evaluate {}")
    print_text("\nTry next:" + "".join(f"\n  regard {t.format(result.folder)}" for t in tries))


def _backend_by_score() -> dict[str, Any]:
    """Which backend this machine takes for each score."""
    import torch

    from regard import dispatch
    from regard.functional import scores

    H, Q, D = 4, 64, 32
    q = torch.zeros(2, H, Q, D, device="cuda" if torch.cuda.is_available() else "cpu")
    sizes = {scores.General: (H, D, D), scores.Additive: (H, D), scores.Location: (H, D, Q)}
    named: dict[str, Any] = {kind.__name__: kind(q.new_zeros(n)) for kind, n in sizes.items()}
    named |= {"dot": scores.dot, "scaled_dot": scores.scaled_dot, "Cosine": scores.Cosine()}
    return {name: dispatch.why(q, q, q, score=score) for name, score in named.items()}


def _backend_by_call(model: str, text: str | None) -> dict[str, Any]:
    from regard import looking

    loaded, module = resolve.load_model(model)
    # a look that saw nothing warns; here it is the answer that says so
    with warnings.catch_warnings(action="ignore"), looking.look(loaded.model) as seen:
        module.predict(loaded, resolve.example_input(module) if text is None else text)
        return {name: seen[name].why for name in seen.names()}
