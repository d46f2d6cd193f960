"""Which picture of a trace was asked for, its file, and what it shows in text and in numbers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli import resolve
from regard.cli.options import DEFAULT_PLACE, PICTURE_SUFFIXES, Place
from regard.cli.resolve import UsageError

if TYPE_CHECKING:
    import regard.view

# The kinds that show one step up close.
_KINDS_WITH_STEP = ("tape", "plane")


@dataclass(frozen=True, eq=False)
class Picture:
    """What of a trace is drawn: the kind of picture, the map, and where in it."""

    trace: "regard.view.Trace"
    kind: str
    map: "regard.view.Map"
    place: Place

    def save(self, path: Path) -> Path:
        """Write the picture into a file."""
        from regard import view

        if self.kind == "matrix":
            return view.save_picture(self.trace, path, **self._map_arguments())
        if self.kind == "ribbons":
            figure = view.ribbons(self.trace, **self._map_arguments())
        elif self.kind == "arcs":
            figure = view.arcs(self.trace, **self._map_arguments())
        elif self.kind == "wall":
            figure = view.wall(self.trace, map=self.map.id)
        elif self.kind == "plane":
            figure = view.plane(self.trace, step=self.place.step)
        else:
            figure = view.tape(self.trace, step=self.place.step, head=self.place.head)
        return view.save_figure(figure, path)

    def to_text(self) -> str:
        """The matrix for a terminal, and which others there are."""
        from regard import view

        more = f"\n\n--map can be {_map_names(self.trace)}" if len(self.trace.maps) > 1 else ""
        return view.alignment(self.trace, **self._map_arguments()) + more

    def to_json(self) -> dict[str, Any]:
        """What it shows: (Q, K) of one head, and of a wall (layers, heads, Q, K)."""
        map, place, walled = self.map, self.place, self.kind == "wall"
        told = {
            "maps": [each.id for each in self.trace.maps],
            "map": map.id,
            "layer": None if walled else place.layer,
            "head": None if walled else place.head,
            "queries": self.trace.axis(map.query).labels,
            "keys": self.trace.axis(map.key).labels,
            "weights": (
                map.all_weights() if walled else map.weights(place.layer, place.head)
            ).tolist(),
        }
        return told | ({"step": place.step} if self.kind in _KINDS_WITH_STEP else {})

    def _map_arguments(self) -> dict[str, Any]:
        return {"map": self.map.id, "layer": self.place.layer, "head": self.place.head}


def check_options(kind: str | None, out: Path | None, place: Place) -> None:
    """Refuse what no trace could be drawn as, before there is one."""
    named = kind or "matrix"
    endings = PICTURE_SUFFIXES if named == "matrix" else PICTURE_SUFFIXES[:-1]
    if out is None and named != "matrix":
        raise UsageError(f"expected -o for {named}: only the matrix can be drawn as text")
    if out is not None and out.suffix.lower() not in endings:
        raise UsageError(f"expected -o for {named} to end in {', '.join(endings)}, got {out}")
    if kind == "wall" and (place.layer or place.head):
        raise UsageError("expected --kind wall without --layer and --head: it shows all of them")
    if kind == "tape" and (place.map or place.layer):
        raise UsageError("expected --kind tape without --map and --layer: it shows all of a head")
    if kind == "plane" and (place.map or place.layer or place.head):
        raise UsageError("expected --kind plane without --map, --layer and --head: it has one map")
    if place.step is not None and kind not in (None, *_KINDS_WITH_STEP):
        raise UsageError(f"expected --step for a tape or a plane, got --kind {kind}")


def choose_picture(
    trace: "regard.view.Trace", kind: str | None, out: Path | None, place: Place
) -> Picture:
    """What is drawn: a tape, a plane or a matrix if no kind is named; the first map if none is.

    A wall shows the first map of many heads, a tape the step at which the read head jumps, and a
    plane the one that is least sure where to point.
    """
    from regard.view.traces.memory_trace import as_memory_trace
    from regard.view.traces.pointer_trace import as_pointer_trace

    kind = kind or _default_kind(trace, out, place)
    if place.step is not None and kind not in _KINDS_WITH_STEP:
        raise UsageError(f"expected --step for a tape or a plane, and this is drawn as a {kind}")
    with resolve.as_usage_errors():
        if kind == "tape":
            place = replace(
                place, step=as_memory_trace(trace, head=place.head).select_step(place.step)
            )
        elif kind == "plane":
            place = replace(place, step=as_pointer_trace(trace).select_step(place.step))
        walled = kind == "wall" and place.map is None
        map = trace.multi_head_map() if walled else trace.map(place.map)
        try:
            map.check_head(place.layer, place.head)
        except ValueError as error:
            raise ValueError(f"{error}; --map can be {_map_names(trace)}") from None
    return Picture(trace, kind, map, place)


def save_default_picture(trace: "regard.view.Trace", folder: Path) -> Path:
    """The usual picture of a trace in this folder, or a page where nothing can draw."""
    from regard import view

    path = folder / "alignment.png"
    picture = choose_picture(trace, None, path, DEFAULT_PLACE)
    try:
        return picture.save(
            path.with_stem(picture.kind) if picture.kind in _KINDS_WITH_STEP else path
        )
    except ModuleNotFoundError:
        return view.save_picture(trace, path.with_suffix(".html"))


def _default_kind(trace: "regard.view.Trace", out: Path | None, place: Place) -> str:
    """A tape of a memory, a plane of points, unless one of its maps is named; else a matrix."""
    from regard.view.traces import memory_trace, pointer_trace

    if out is None or out.suffix.lower() not in PICTURE_SUFFIXES[:-1] or place.map is not None:
        return "matrix"
    if memory_trace.why_not(trace) is None:
        return "tape"
    return "plane" if pointer_trace.why_not(trace) is None else "matrix"


def _map_names(trace: "regard.view.Trace") -> str:
    return ", ".join(map.id for map in trace.maps)
