"""A machine with a memory as a picture: all of its steps side by side, and one of them up close."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.check import Number
from regard.view.figures.canvas import blank_figure, plot_style, text_widths
from regard.view.figures.panels import (
    BAR_WIDTH,
    BLUE,
    FAINT,
    GAP,
    INK,
    LINE_HEIGHT,
    MARGIN,
    NAME_SIZE,
    RED,
    SMALL_SIZE,
    Box,
    add_axes,
    add_colour_bar,
    add_text,
    add_title,
    axis_labels,
    draw_cells,
    non_overlapping,
    round_numbers,
    title_parts,
    title_width,
)
from regard.view.traces.memory_trace import (
    STAGES,
    MemoryHead,
    MemoryTrace,
    as_memory_trace,
    used_slots,
)
from regard.view.traces.trace import Trace

if TYPE_CHECKING:
    import matplotlib.figure

# The head that reads, and the one that writes.
_READ_COLOUR, _WRITE_COLOUR = BLUE, "#9c4a1a"
# A slot that gets less in every panel is left out.
_MIN_SLOT_WEIGHT = 0.01
# Inches: the room left of all panels, and for a bar with its numbers.
_LEFT_MARGIN, _BAR_MARGIN = 0.66, 0.62
# Inches: between two bands, two stages and two parts; what a stage needs, and how high shifts are.
_BAND_GAP, _STAGE_GAP, _PART_GAP, _MIN_STAGE_WIDTH, _SHIFT_HEIGHT = 0.14, 0.1, 0.3, 0.62, 0.36


@dataclass(frozen=True, eq=False)
class _Panel:
    """Numbers (rows, T) over time; `slots` are the numbers of its rows, where rows are slots."""

    name: str
    rows: str
    values: Tensor
    height: Number
    slots: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class _Band:
    """Panels that share a scale of colour, from 0 or less to `least` or more."""

    unit: str
    colormap: str
    panels: list[_Panel]
    min_top: Number = 1e-6

    @property
    def height(self) -> Number:
        """How many inches all of them take."""
        return sum(panel.height + GAP for panel in self.panels) - GAP

    def norm(self) -> Any:
        """How a number becomes a colour."""
        from matplotlib.colors import Normalize

        values = torch.cat([panel.values.flatten() for panel in self.panels])
        return Normalize(min(0.0, float(values.min())), max(self.min_top, float(values.max())))


def tape(trace: Trace, *, step: int | None = None, head: int = 0) -> "matplotlib.figure.Figure":
    """What a machine is given, says, holds, writes and reads over time; below, one step of it.

    The panels of the upper half share their steps, those of the lower half their slots: the memory
    after the step, and how each head came to its weights, which are found by content, mixed with
    those of the step before, shifted and sharpened. Slots that no head comes near are left out.

    Args:
        step: the step up close; if none is named, the one at which the read head jumps.
        head: the head that reads; beside it stands its like that writes, or the last that does.
    """
    found = as_memory_trace(trace, head=head)
    step = found.select_step(step)
    with plot_style():
        return _draw_tape(trace, found, step)


def _draw_tape(trace: Trace, memory_trace: MemoryTrace, step: int) -> "matplotlib.figure.Figure":
    heads = {_READ_COLOUR: memory_trace.read_head, _WRITE_COLOUR: memory_trace.write_head}
    near = [w for head in heads.values() for w in (head.weights, head.stages[:, step])]
    slots = used_slots(torch.cat(near), min_weight=_MIN_SLOT_WEIGHT, margin=2)
    bands = [*_input_output_bands(trace, memory_trace.steps), *_memory_bands(memory_trace, slots)]
    T, N, W = memory_trace.memory.shape
    narrow = min(1.8, max(0.9, 0.07 * W))
    # what the lower half takes beside its eight stages; a bar stands beside the upper half
    beside = narrow + _BAR_MARGIN + 2 * _PART_GAP + 6 * _STAGE_GAP
    wide = max(beside + 8 * _MIN_STAGE_WIDTH - _BAR_MARGIN, min(0.3 * T, 9))
    stage = (wide + _BAR_MARGIN - beside) / 8
    x, y = MARGIN + _LEFT_MARGIN, MARGIN + 0.30 + 0.26
    below = y + sum(band.height + _BAND_GAP for band in bands) + 0.9
    high = _rows_height(len(slots), 1.4, 2.4, 3.4)
    title = title_parts(trace, f"tape · step {step}")
    width, height = x + wide + _BAR_MARGIN + MARGIN, below + high + _SHIFT_HEIGHT + 0.95 + MARGIN
    figure = blank_figure(max(width, title_width(title)), height)
    labels = axis_labels(trace.axis(memory_trace.steps))
    _draw_time(figure, bands, labels, step, (x, y, wide))
    _draw_memory(figure, memory_trace.memory, slots, step, Box(x, below, narrow, high))
    x += narrow + _BAR_MARGIN + _PART_GAP
    for ink, head in heads.items():
        _draw_head(figure, head, ink, slots, step, Box(x, below, stage, high))
        x += 4 * stage + 3 * _STAGE_GAP + _PART_GAP
    left_out = f"slots that get less than {_MIN_SLOT_WEIGHT * 100:g} % in every panel are left out"
    notes = [left_out] if len(slots) < N else []
    notes += ["outlined: the weights of the step before"] if step else []
    style = {"size": SMALL_SIZE, "color": FAINT, "va": "bottom"}
    add_text(figure, MARGIN + _LEFT_MARGIN, height - MARGIN, "; ".join(notes), **style)
    add_title(figure, title)
    return figure


def _input_output_bands(trace: Trace, steps: str) -> list[_Band]:
    """What comes in and out at each step, as far as the trace has it."""
    there = {series.id: series.values for series in trace.series if series.axis == steps}
    panels = []
    for id in ("inputs", "targets", "outputs"):
        if id in there:
            values = there[id].float().cpu().reshape(len(there[id]), -1).T
            high, rows = (
                _rows_height(len(values), 0.62, 0.9, 0.9),
                _count_text(len(values), "channel"),
            )
            panels.append(_Panel(id, rows, values, high))
    return [_Band("value", "Greys", panels, min_top=1)] if panels else []


def _memory_bands(memory_trace: MemoryTrace, slots: list[int]) -> list[_Band]:
    """How much each slot holds, and how much it is written and read."""
    N, high = memory_trace.memory.shape[1], _rows_height(len(slots), 0.8, 1.6, 2.6)
    rows = (f"{len(slots)} of " if len(slots) < N else "") + _count_text(N, "slot")
    named = {"memory": memory_trace.memory.norm(dim=2)}
    named |= {head.name: head.weights for head in (memory_trace.write_head, memory_trace.read_head)}
    memory, *weights = (
        _Panel(name, rows, values.T[slots], high, slots) for name, values in named.items()
    )
    return [_Band("norm of a slot", "Purples", [memory]), _Band("weight", "cividis", weights)]


def _rows_height(
    rows: int, min_height: Number, max_height: Number, max_thin_height: Number
) -> float:
    """How high so many rows are, in inches: up to `most`, and up to `many` where they are thin."""
    return float(
        max(min_height, min(0.1 * rows, max(max_height, min(0.02 * rows, max_thin_height))))
    )


def _draw_time(
    figure: "matplotlib.figure.Figure",
    bands: list[_Band],
    labels: list[str],
    step: int,
    origin: tuple[Number, Number, Number],
) -> None:
    """The upper half, and the line that marks the step."""
    x, top, wide = origin
    y, cell = top, wide / len(labels)
    for band in bands:
        norm, bar = band.norm(), add_axes(figure, x + wide + 0.1, y, BAR_WIDTH, band.height)
        for panel in band.panels:
            axes = add_axes(figure, x, y, wide, panel.height)
            image = draw_cells(axes, panel.values, band.colormap, norm, (wide, panel.height))
            _name_rows(figure, axes, panel, y)
            y += panel.height + GAP
        add_colour_bar(figure, image, bar, band.height, band.unit)
        y += _BAND_GAP - GAP
    _name_steps(axes, labels, cell)
    at = x + (step + 0.5) * cell
    _draw_step_line(figure, at, top - 0.05, y - _BAND_GAP)
    name = f"step {step}" if labels[step] == str(step) else f"step {step}, “{labels[step]}”"
    half = text_widths([name], NAME_SIZE)[0] / 2
    centre = min(max(at, x + half), x + wide - half)
    add_text(figure, centre, top - 0.09, name, size=NAME_SIZE, color=RED, ha="center")


def _draw_memory(
    figure: "matplotlib.figure.Figure", memory: Tensor, slots: list[int], step: int, box: Box
) -> None:
    from matplotlib.colors import Normalize

    axes, held, W = add_axes(figure, *box), memory[step, slots], memory.shape[2]
    most = max(float(held.abs().max()), 1e-6)
    image = draw_cells(axes, held, "PRGn_r", Normalize(-most, most), box[2:])
    _name_slots(axes, slots, box.height)
    ends = sorted({0, W - 1})
    axes.set_xticks(ends, [str(end) for end in ends], size=SMALL_SIZE, color=FAINT)
    axes.set_xlabel("cell of a slot", size=SMALL_SIZE, color=FAINT, labelpad=1)
    axes.set_ylabel("slots", size=NAME_SIZE, color=FAINT)
    axes.yaxis.set_label_coords(-0.42 / box.width, 0.5)
    add_text(figure, box.x, box.y - 0.42, f"memory after step {step}", size=9, color=INK)
    bar = add_axes(figure, box.x + box.width + 0.1, box.y, BAR_WIDTH, box.height)
    add_colour_bar(figure, image, bar, box.height, "value")


def _draw_head(
    figure: "matplotlib.figure.Figure",
    head: MemoryHead,
    ink: str,
    slots: list[int],
    step: int,
    box: Box,
) -> None:
    """How a head came to its weights; the box is that of the first of four stages."""
    most = int(head.shift[step].argmax())
    numbers = (
        f"β = {float(head.strength[step]):.3g}",
        f"g = {float(head.gate[step]):.2f}",
        f"s({_format_shift(head.shifts[most])}) = {float(head.shift[step, most]):.2f}",
        f"γ = {float(head.sharpness[step]):.3g}",
    )
    add_text(figure, box.x, box.y - 0.42, head.name, size=9, color=ink)
    n, edges = len(slots), [row - 0.5 for row in range(len(slots) + 1)]
    for i, (stage, number) in enumerate(zip(STAGES, numbers, strict=True)):
        axes = add_axes(figure, box.x + i * (box.width + _STAGE_GAP), box.y, box.width, box.height)
        w, lying = head.stages[i, step, slots].tolist(), {"orientation": "horizontal"}
        axes.stairs(w, edges, fill=True, color=ink, linewidth=0, **lying)
        if step and stage == "gated":
            before = head.weights[step - 1, slots].tolist()
            axes.stairs(before, edges, color=FAINT, linewidth=0.6, **lying)
        axes.set(xlim=(0, 1.02), ylim=(n - 0.5, -0.5), yticks=[])
        axes.set_title(f"{stage}\n{number}", size=SMALL_SIZE, color=INK, pad=4)
        _name_values(axes, [0, 1], ["0", "1"], "weight")
        # neighbours are too near for numbers that stand out at both ends
        for label, side in zip(axes.get_xticklabels(), ("left", "right"), strict=True):
            label.set_ha(side)
    x, y = box.x + 2 * (box.width + _STAGE_GAP), box.y + box.height + 0.45
    axes, shifts = add_axes(figure, x, y, box.width, _SHIFT_HEIGHT), head.shifts
    axes.bar(list(shifts), head.shift[step].tolist(), width=0.7, color=ink)
    axes.set(ylim=(0, 1.02), xlim=(shifts[0] - 0.6, shifts[-1] + 0.6), yticks=[])
    named = sorted({shifts[0], 0, shifts[-1]})
    _name_values(axes, named, [_format_shift(by) for by in named], "shift s")


def _draw_step_line(
    figure: "matplotlib.figure.Figure", x: Number, top: Number, end: Number
) -> None:
    """A thin line across all panels, from one height to another."""
    from matplotlib.lines import Line2D

    W, H = figure.get_size_inches()
    line = Line2D([x / W, x / W], [1 - top / H, 1 - end / H], color=RED, linewidth=0.8)
    figure.add_artist(line)


def _name_rows(figure: "matplotlib.figure.Figure", axes: Any, panel: _Panel, y: Number) -> None:
    """The name of a panel and what its rows are, upright at its left."""
    lines = ((panel.name, NAME_SIZE, INK), (panel.rows, SMALL_SIZE, FAINT))
    for n, (words, size, ink) in enumerate(lines):
        style = {"size": size, "color": ink, "rotation": 90, "ha": "center", "va": "center"}
        add_text(figure, MARGIN + 0.06 + 0.15 * n, y + panel.height / 2, words, **style)
    if panel.slots:
        _name_slots(axes, panel.slots, panel.height)


def _name_slots(axes: Any, slots: Sequence[int], height: Number) -> None:
    """Round numbers beside the rows of slots, and a line wherever some are left out."""
    row = height / len(slots)
    every = next(n for n in round_numbers() if n * row >= LINE_HEIGHT)
    places = non_overlapping(
        [(p, LINE_HEIGHT / row) for p, slot in enumerate(slots) if slot % every == 0]
    )
    axes.set_yticks(places, [str(slots[p]) for p in places], size=SMALL_SIZE, color=FAINT)
    axes.tick_params(length=2, color=FAINT, pad=2)
    for place in range(1, len(slots)):
        if slots[place] not in (slots[place - 1] + 1, 0):
            axes.axhline(place - 0.5, color="#999999", linewidth=0.8, linestyle=(0, (2, 2)))


def _name_steps(axes: Any, labels: list[str], cell_width: Number) -> None:
    """The steps below the last panel: words first, then as many numbers as there is room for."""
    wide = [(inches + GAP) / cell_width for inches in text_widths(labels, SMALL_SIZE)]
    every = next(n for n in round_numbers() if n >= max(wide))
    words = [p for p, label in enumerate(labels) if not label.isdecimal()]
    numbers = [p for p, label in enumerate(labels) if label.isdecimal() and int(label) % every == 0]
    places = non_overlapping([(p, wide[p]) for p in (*words, *numbers)])
    axes.set_xticks(places, [labels[p] for p in places], size=SMALL_SIZE, color=INK)
    axes.set_xlabel("steps", size=NAME_SIZE, color=FAINT, labelpad=2)


def _name_values(axes: Any, places: list[int], labels: list[str], name: str) -> None:
    axes.set_xticks(places, labels, size=SMALL_SIZE, color=FAINT)
    axes.set_xlabel(name, size=SMALL_SIZE, color=FAINT, labelpad=1)
    axes.tick_params(length=2, color=FAINT, pad=2)
    axes.spines[:].set(color=FAINT, linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(False)


def _count_text(n: int, name: str) -> str:
    return f"{n} {name}" if n == 1 else f"{n} {name}s"


def _format_shift(by: int) -> str:
    """A shift with its sign.

    >>> [_format_shift(by) for by in (-1, 0, 1)]
    ['−1', '0', '+1']
    """
    return f"{by:+d}".replace("-", "−") if by else "0"
