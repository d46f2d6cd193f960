"""One training from sentence pairs to a folder with a translator in it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import config as configs
from regard import zoo
from regard.data.licences import licence_field
from regard.data.text.batches import TokenBatches
from regard.data.text.bleu import bleu, check_sacrebleu
from regard.data.text.bpe import Vocabulary
from regard.data.text.corpus import encode_pairs, load_or_train_vocabulary, split_fingerprint
from regard.data.text.pairs import Pair
from regard.recipes.translate.config import MODELS, Config
from regard.recipes.translate.loss import loss, mean_loss
from regard.recipes.translate.metrics import alignment_error_rate, translate_and_score
from regard.recipes.translate.search import INFERENCE_BATCH_TOKENS, translate_texts
from regard.recipes.translate.traces import has_attention
from regard.runtime import atomic_files
from regard.train import FitResult, checkpoints, fit, silent
from regard.train.runs import Result, create_run_folder, finite_metrics, provenance


def run(
    config: Config,
    *,
    out: Path | None = None,
    report: Any = None,
    resume: Path | None = None,
    step: int | None = None,
) -> Result:
    """Train, keep the best weights by the development pairs, and measure them on the test pairs."""
    check_sacrebleu()
    report = report or silent
    parts = config.data.load_split(report.note)
    report.note(
        f"{len(parts.train):,} to learn from, {len(parts.development):,} to choose by, "
        f"{len(parts.test):,} to judge by"
    )
    known = split_fingerprint(parts)
    folder = create_run_folder(
        "translate", config, data=known, name=config.name, out=out, resume=resume, step=step
    )
    words = load_or_train_vocabulary(
        parts.train, config.model.vocabulary, folder / "tokenizer.json"
    )
    batches = TokenBatches(
        encode_pairs(parts.train, words, longest=config.data.longest),
        tokens=config.tokens,
        seed=config.training.seed,
        length_multiple=config.length_multiple,
    )
    torch.manual_seed(config.training.seed)
    sized = replace(config.model, vocabulary=words.size)
    model = MODELS[type(sized)](sized)
    told = {"smoothing": config.smoothing, "r_drop_weight": config.r_drop_weight}
    fitted = fit(
        model,
        lambda model, batch: loss(model, batch, **told),
        batches,
        config.training,
        run=folder,
        validate=build_validator(config, parts.development, words),
        report=report,
        resume=resume is not None if step is None else checkpoints.folder_name(step),
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    card = _build_card(config, folder, known, fitted)
    loaded = zoo.Loaded(model.eval(), words, sized, card)
    card["numbers"] = card_metrics(loaded, config, folder)
    zoo.save(folder, model.cpu(), sized, card, tokenizer=words)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    first = parts.test[:5]
    texts = translate_texts(model, words, [pair.source for pair in first], beam=5)
    shown = [(pair.source, text, pair.target) for pair, text in zip(first, texts, strict=True)]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, shown)


def _build_card(
    config: Config, folder: Path, data_facts: dict[str, Any], fit_result: FitResult
) -> dict[str, Any]:
    """What is known of a trained model before it is measured."""
    weights = list(fit_result.model.parameters())
    return {
        "name": folder.name,
        "recipe": "translate",
        "about": "translates, and shows which words it looks at",
        "settings": configs.to_json(config),
        "data": str(config.data),
        "licence": licence_field(config.data.licence),
        "facts": data_facts,
        "seed": config.training.seed,
        "parameters": sum(weight.numel() for weight in weights),
        "development": finite_metrics(fit_result.metrics),
        **provenance(folder, seconds=fit_result.seconds, device=weights[0].device.type),
    }


def build_validator(config: Config, pairs: list[Pair], tokenizer: Vocabulary) -> Any:
    """The loss of the development pairs; and their BLEU, where that is what is watched."""
    held = TokenBatches(
        encode_pairs(pairs, tokenizer), tokens=INFERENCE_BATCH_TOKENS, seed=0, shuffle=False
    )

    def validate(model: nn.Module) -> dict[str, float]:
        found = {"loss": mean_loss(model, held)}
        if config.training.monitor in ("bleu", "bleu_lc_tok"):
            texts = translate_texts(model, tokenizer, [pair.source for pair in pairs])
            scores = bleu(texts, [pair.target for pair in pairs])
            found |= {name: scores[name] for name in ("bleu", "bleu_lc_tok")}
        return found

    return validate


def card_metrics(loaded: Any, config: Config, folder: Path) -> dict[str, Any]:
    """The numbers of every test of the data, the first one's on top; their texts stay as files."""
    found: dict[str, Any] = {}
    for name, pairs in config.data.load_test_sets().items():
        these, texts = translate_and_score(loaded, pairs, beam=config.beam)
        atomic_files.write_file(folder / f"{name}.txt", "\n".join(texts) + "\n")
        found = found | {name: these} if found else these
    if config.data.name == "ordered" and has_attention(loaded.config):
        found["alignment_error"] = alignment_error_rate(
            loaded, config.data.load_test_sets()["test"]
        )
    return found
