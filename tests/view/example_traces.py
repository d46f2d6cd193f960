"""Traces that the tests of pictures share."""

import torch

from regard.view import Grid, Header, Map, Points, Series, Slots, Steps, Tokens, Trace

SOURCE = ["She", "eat", "s", "a", "green", "app", "le", "</s>"]
TARGET = ["Elle", "mange", "une", "pom", "me", "ver", "te"]


def translation(*, layers: int = 1, heads: int = 1, **header: object) -> Trace:
    """A sentence of eight pieces and six words, read by one of seven pieces and five words."""
    source = Tokens("source", SOURCE, words=[0, 1, 1, 2, 3, 4, 4, 5], special=[7])
    target = Tokens("target", TARGET, words=[0, 1, 2, 3, 3, 4, 4])
    weights = torch.randn(layers, heads, 7, 8).softmax(-1)
    cross = Map("cross", "target", "source", weights, layers, heads)
    return Trace([source, target], [cross], outputs={"text": "Elle…"}, header=Header(**header))


def several(count: int) -> Trace:
    """So many maps of one sentence: the first has one head, the others two layers of two."""
    axis, w = Tokens("source", SOURCE), torch.randn(2, 2, 8, 8).softmax(-1)
    first = Map("map0", "source", "source", w.mean((0, 1), keepdim=True))
    others = [Map(f"map{n}", "source", "source", w, 2, 2) for n in range(1, count)]
    return Trace([axis], [first, *others])


def everything() -> Trace:
    """Every kind of axis, two maps of which one is lazy, and series of both shapes."""
    lazy = torch.rand(2, 3, 5, 6).softmax(-1)
    axes = [
        Tokens(
            "src", ["a", "b", "c", "d"], words=[0, 0, None, 1], special=[2], names=["ab", *"cd"]
        ),
        Grid("img", 2, 3, torch.rand(3, 4, 5)),
        Grid("bare", 1, 4),
        Slots("mem", 6),
        Points("pts", torch.randn(5, 2, dtype=torch.float64)),
        Steps("t", ["0", "1", "2"]),
    ]
    maps = [
        Map(
            "read.0", "pts", "mem", lambda layer, head: lazy[layer, head], 2, 3, names=["a.0", "b"]
        ),
        Map("look", "t", "src", torch.full((1, 1, 3, 4), 0.25).half(), causal=True),
    ]
    series = [Series("gate", "t", torch.rand(3)), Series("keys", "t", torch.rand(3, 2))]
    header = Header(
        model="m", seed=7, versions={"torch": "2"}, notes=["n"], edits=[{"head": [0, 1]}]
    )
    return Trace(axes, maps, series, {"text": "é\u2028", "p": [0.1, None, True]}, header)


def captioned(*, image: bool = True) -> Trace:
    """Three words about an image of 3 × 4 places, and how its places look at each other.

    The word n looks at the place 5 n with three quarters, and at all others alike. The image is red
    at the left, green at the top and blue everywhere.
    """
    red = torch.linspace(1, 0, 40).expand(30, 40)
    green = torch.linspace(1, 0, 30)[:, None].expand(30, 40)
    picture = torch.stack([red, green, torch.full((30, 40), 0.4)])
    words = torch.full((3, 12), 0.25 / 11)
    words[torch.arange(3), 5 * torch.arange(3)] = 0.75
    places = (2 * torch.eye(12)).softmax(-1)
    axes = [Grid("image", 3, 4, picture if image else None), Tokens("words", ["a", "red", "hat"])]
    maps = [Map("look", "words", "image", words[None, None])]
    maps += [Map("self", "image", "image", places.expand(1, 2, 12, 12), heads=2)]
    return Trace(axes, maps, outputs={"text": "a red hat"}, header=Header(title="a caption"))


def odd(labels: list[str]) -> Trace:
    """A row of strange labels, read by themselves."""
    n = len(labels)
    weights = torch.randn(1, 1, n, n).softmax(-1)
    return Trace([Tokens("odd", labels)], [Map("self", "odd", "odd", weights)])


def copying(
    vectors: int = 3,
    *,
    bits: int = 4,
    slots: int = 17,
    width: int = 5,
    heads: int = 1,
    first: int = 2,
    **header: object,
) -> Trace:
    """A machine that writes vectors from the slot `first` on, jumps back and reads them again.

    It jumps at the step "end"; at all others both heads are moved by shifts alone. Of several
    heads, each is one slot further on than the one before.
    """
    random = torch.Generator().manual_seed(1)
    T, end = 2 * vectors + 2, vectors + 1
    given = torch.randint(2, (vectors, bits), generator=random).float()
    inputs, targets = torch.zeros(T, bits + 2), torch.zeros(T, bits)
    inputs[0, bits], inputs[end, bits + 1] = 1, 1
    inputs[1:end, :bits], targets[end + 1 :] = given, given
    written = [first + min(t, end) for t in range(T)]
    memory, cells = torch.zeros(T, slots, width), torch.randn(T, width, generator=random)
    for t, slot in enumerate(written[: end + 1]):
        memory[t:, slot % slots] = cells[t]
    series = {"inputs": inputs, "targets": targets, "outputs": 0.05 + 0.9 * targets}
    series |= {"memory": memory.flatten(1), "reads": cells, "adds": cells}
    maps = []
    paths = {"read": [first + t - (end if t >= end else 0) for t in range(T)], "write": written}
    for kind, path in paths.items():
        stages, numbers = _addressed(path, slots, jump=end if kind == "read" else T)
        for id, w in stages.items():
            several = torch.stack([w.roll(head, 1) for head in range(heads)])[None]
            maps.append(Map(kind + id, "steps", "slots", several, heads=heads))
        series |= {f"{kind}.{id}": values.repeat(1, heads) for id, values in numbers.items()}
    labels = ["start", *map(str, range(vectors)), "end", *map(str, range(vectors))]
    along = [Series(id, "steps", values) for id, values in series.items()]
    axes = [Steps("steps", labels), Slots("slots", slots)]
    return Trace(axes, maps, along, {"text": "0110", "answer": "0110"}, Header(**header))


def _addressed(
    path: list[int], slots: int, *, jump: int
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The weights of a head by stage (T, N), and its numbers; content counts at `jump` alone."""
    T = len(path)
    at = 0.9 * torch.eye(slots)[torch.tensor(path) % slots] + 0.1 / slots
    found = torch.arange(T) == jump
    gate = torch.where(found, 0.97, 0.02)[:, None]
    content = torch.where(found[:, None], at, torch.full_like(at, 1 / slots))
    gated = gate * content + (1 - gate) * torch.cat([at[:1], at[:-1]])
    moved = [t > 0 and t != jump and path[t] != path[t - 1] for t in range(T)]
    shift = torch.tensor([[0.01, 0.97, 0.02], [0.01, 0.02, 0.97]])[torch.tensor(moved).long()]
    shifted = sum(gated.roll(by, 1) * shift[:, [by + 1]] for by in (-1, 0, 1))
    stages = {"": at, ".content": content, ".gated": gated, ".shifted": shifted}
    strength, sharpness = torch.where(found, 21.5, 0.5)[:, None], torch.full((T, 1), 8.25)
    numbers = {"strength": strength, "gate": gate, "shift": shift, "sharpness": sharpness}
    return stages, numbers


def pointed(
    task: str = "tour", points: int = 12, *, ended: bool = False, **header: object
) -> Trace:
    """Points, and at which of them a network points one by one; it hesitates most at step 2.

    A tour goes to the nearest point that is left, a hull round the outside, triangles all have the
    corner 0, and an order goes from small to large. If it is `ended`, a last step says so.
    """
    random = torch.Generator().manual_seed(points)
    xy = torch.rand(points, 2, generator=random)
    if task == "order":
        xy[:, 0] = torch.arange(points)
    indices = _answer(task, xy)
    logits = 3 * torch.randn(len(indices) + ended, points + 1, generator=random)
    chosen = torch.tensor([*indices, *[points] * ended])
    logits[torch.arange(len(chosen)), chosen] += 9
    logits[2:3] /= 4
    logits[:, points] -= 0 if ended else 1000
    weights = logits.softmax(1)[None, None, :, :points]
    labels = [f"→ {i}" for i in indices] + ["→ end"] * ended
    told = {"task": task, "indices": indices, "text": " ".join(map(str, indices))}
    if task == "triangles":
        told["indices"] = [indices[i : i + 3] for i in range(0, len(indices), 3)]
    axes = [Steps("steps", labels), Points("points", xy)]
    maps = [Map("pointer", "steps", "points", weights)]
    encoder = torch.full((2, 3, points, points), 1 / points)
    maps.append(Map("encoder", "points", "points", encoder, 2, 3))
    return Trace(axes, maps, outputs=told, header=Header(**header))


def _answer(task: str, xy: torch.Tensor) -> list[int]:
    """The points of an answer in their order, found the plainest way."""
    n = len(xy)
    if task == "order":
        return xy[:, 1].argsort().tolist()
    if task == "triangles":
        ways = torch.atan2(*(xy[1:] - xy[0]).T.flip(0)).argsort() + 1
        pairs = zip(ways.tolist(), ways[1:].tolist(), strict=False)
        return [i for a, b in pairs for i in (0, a, b)]
    path = [int(xy[:, 0].argmin())]
    while len(path) < n:
        here, left = path[-1], [i for i in range(n) if i not in path]
        if task == "tour":
            path.append(min(left, key=lambda i: float((xy[i] - xy[here]).norm())))
            continue
        best = path[0] if len(path) > 1 else left[0]
        for i in left:
            # the one that has all others on its left
            (ax, ay), (bx, by) = (xy[best] - xy[here]).tolist(), (xy[i] - xy[here]).tolist()
            best = i if ax * by < ay * bx else best
        if best == path[0]:
            break
        path.append(best)
    return path
