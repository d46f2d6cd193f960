"""The length curve: BLEU over the words of the source, one line for each row of a table."""

from typing import TYPE_CHECKING, Any

from regard.recipes.translate.table_notes import MAX_TRAINING_WORDS, bleu_by_length
from regard.view.figures.canvas import blank_figure, plot_style

if TYPE_CHECKING:
    import matplotlib.figure

# Told apart without red and green (Okabe and Ito), and in grey by their markers.
STYLES = (
    *(("#0072b2", "o"), ("#d55e00", "s"), ("#555555", "^"), ("#cc79a7", "D"), ("#009e73", "v")),
    *(("#e69f00", "P"), ("#56b4e9", "X")),
)
FAINT = "#666666"


def drawn(table: dict[str, Any]) -> "matplotlib.figure.Figure":
    """The figure; a grey background marks the lengths of the training sentences."""
    curves = bleu_by_length(table)
    spans = sorted({span for curve in curves.values() for span in curve})
    if not spans:
        raise ValueError("lengths: expected numbers such as 1-10.bleu_lc_tok, got a table of none")
    with plot_style():
        above, high = 0.1 + 0.2 * len(curves), 3.0  # inches
        whole = above + high + 0.55
        figure = blank_figure(6.4, whole)
        axes = figure.add_axes((0.1, 0.55 / whole, 0.87, high / whole))
        for n, (label, curve) in enumerate(curves.items()):
            colour, marker = STYLES[n % len(STYLES)]
            places = [spans.index(span) for span in curve]
            axes.plot(places, list(curve.values()), color=colour, marker=marker, label=label, ms=5)
        known = sum(last <= MAX_TRAINING_WORDS for _, last in spans)
        axes.axvspan(-0.5, known - 0.5, color="#f0f0f0", zorder=0)
        top = max(score for curve in curves.values() for score in curve.values())
        axes.set(xlim=(-0.5, len(spans) - 0.5), ylim=(0, 1.15 * top))
        note = f"training: up to {MAX_TRAINING_WORDS} words"
        axes.text(-0.4, 1.12 * top, note, size=8, color=FAINT, va="top")
        axes.set_xticks(range(len(spans)), [f"{a}–{b}" for a, b in spans], size=8)
        axes.tick_params(labelsize=8, color=FAINT)
        axes.set_xlabel("words of the source", size=9, color=FAINT)
        axes.set_ylabel("BLEU, lower-cased and tokenised", size=9, color=FAINT)
        axes.spines[["top", "right"]].set_visible(False)
        # above, where no line can run into it
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), borderpad=0)
        return figure
