"""One training from sentence pairs to a folder with a translator in it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import config as configs
from regard import files, zoo
from regard.data.batches import TokenBatches
from regard.data.bleu import bleu, needed
from regard.data.bpe import Vocabulary
from regard.data.corpus import examples, facts, vocabulary
from regard.data.licences import licence_field
from regard.data.pairs import Pair
from regard.recipes.translate.config import MODELS, Config
from regard.recipes.translate.learning import loss, mean_loss
from regard.recipes.translate.measuring import measured, misaligned
from regard.recipes.translate.searching import AT_ONCE, translated
from regard.recipes.translate.showing import looks
from regard.train import Fitted, checkpoints, fit, silent
from regard.train.runs import Result, circumstances, finite_metrics, opened


def run(
    config: Config,
    *,
    out: Path | None = None,
    report: Any = None,
    resume: Path | None = None,
    step: int | None = None,
) -> Result:
    """Train, keep the best weights by the development pairs, and measure them on the test pairs."""
    needed()
    report = report or silent
    parts = config.data.parts(report.note)
    report.note(
        f"{len(parts.train):,} to learn from, {len(parts.development):,} to choose by, "
        f"{len(parts.test):,} to judge by"
    )
    known = facts(parts)
    folder = opened(
        "translate", config, data=known, name=config.name, out=out, resume=resume, step=step
    )
    words = vocabulary(parts.train, config.model.vocabulary, folder / "tokenizer.json")
    batches = TokenBatches(
        examples(parts.train, words, longest=config.data.longest),
        tokens=config.tokens,
        seed=config.training.seed,
        grain=config.grain,
    )
    torch.manual_seed(config.training.seed)
    sized = replace(config.model, vocabulary=words.size)
    model = MODELS[type(sized)](sized)
    told = {"smoothing": config.smoothing, "consistency": config.consistency}
    fitted = fit(
        model,
        lambda model, batch: loss(model, batch, **told),
        batches,
        config.training,
        run=folder,
        judge=judge_for(config, parts.development, words),
        report=report,
        resume=resume is not None if step is None else checkpoints.name(step),
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    card = _card(config, folder, known, fitted)
    loaded = zoo.Loaded(model.eval(), words, sized, card)
    card["numbers"] = numbers(loaded, config, folder)
    zoo.save(folder, model.cpu(), sized, card, tokenizer=words)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    first = parts.test[:5]
    texts = translated(model, words, [pair.source for pair in first], beam=5)
    shown = [(pair.source, text, pair.target) for pair, text in zip(first, texts, strict=True)]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, shown)


def _card(config: Config, folder: Path, known: dict[str, Any], fitted: Fitted) -> dict[str, Any]:
    """What is known of a trained model before it is measured."""
    weights = list(fitted.model.parameters())
    return {
        "name": folder.name,
        "recipe": "translate",
        "about": "translates, and shows which words it looks at",
        "settings": configs.plain(config),
        "data": str(config.data),
        "licence": licence_field(config.data.licence),
        "facts": known,
        "seed": config.training.seed,
        "parameters": sum(weight.numel() for weight in weights),
        "development": finite_metrics(fitted.metrics),
        **circumstances(folder, seconds=fitted.seconds, device=weights[0].device.type),
    }


def judge_for(config: Config, pairs: list[Pair], words: Vocabulary) -> Any:
    """The loss of the development pairs; and their BLEU, where that is what is watched."""
    held = TokenBatches(examples(pairs, words), tokens=AT_ONCE, seed=0, shuffle=False)

    def judge(model: nn.Module) -> dict[str, float]:
        found = {"loss": mean_loss(model, held)}
        if config.training.watch in ("bleu", "bleu_lc_tok"):
            texts = translated(model, words, [pair.source for pair in pairs])
            scores = bleu(texts, [pair.target for pair in pairs])
            found |= {name: scores[name] for name in ("bleu", "bleu_lc_tok")}
        return found

    return judge


def numbers(loaded: Any, config: Config, folder: Path) -> dict[str, Any]:
    """The numbers of every test of the data, the first one's on top; their texts stay as files."""
    found: dict[str, Any] = {}
    for name, pairs in config.data.tests().items():
        these, texts = measured(loaded, pairs, beam=config.beam)
        files.write(folder / f"{name}.txt", "\n".join(texts) + "\n")
        found = found | {name: these} if found else these
    if config.data.name == "ordered" and looks(loaded.config):
        found["alignment_error"] = misaligned(loaded, config.data.tests()["test"])
    return found
