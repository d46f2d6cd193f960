"""Neural Turing Machine: a controller with a memory that it reads and writes by attention.

Graves, Wayne and Danihelka 2014, "Neural Turing Machines".
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import check, door
from regard.layers.turing import Heads, Orders, Shifting, Stages, State, at_once, through

Controller = Literal["feed_forward", "lstm"]
Begins = Literal["constant", "learned", "random"]


@dataclass(frozen=True)
class NTMConfig:
    """How a machine is built; the defaults are the paper's for copying."""

    kind: Literal["ntm"] = "ntm"
    # channels that come in and go out at every step
    inputs: int = 10
    outputs: int = 8
    controller: Controller = "lstm"
    # units of the controller
    width: int = 100
    # the memory: places, and numbers in each; a machine also runs with more or fewer slots
    slots: int = 128
    cell: int = 20
    # heads that read, and heads that write
    reads: int = 1
    writes: int = 1
    # shifts a head may make at a step, as many to each side; odd
    shifts: int = 3
    # a shift is a softmax over those allowed, or one real number between the outermost
    shifting: Shifting = "softmax"
    # what is in the memory when an episode begins
    memory: Begins = "constant"
    # the constant; the smaller it is, the steeper is the way back through slots nobody wrote to
    constant: float = 0.1
    # what untrained heads are told. A gate below 0: they walk before they learn to seek. Sharpness
    # below 0: they have to learn clear shifts, since nothing makes unclear ones look clear
    gate: float = -2.0
    sharpness: float = -2.0
    # what untrained forget gates of an LSTM are told beside that: above 0, it forgets less, so that
    # what it counts does not fade with time
    forget: float = 0.0

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs", "width", "slots", "cell", "reads", "writes"):
            if getattr(self, name) < 1:
                raise ValueError(f"NTM: expected {name} of at least 1, got {getattr(self, name)}")
        if self.shifts < 1 or self.shifts % 2 == 0:
            raise ValueError(
                f"NTM: expected an odd number of shifts, as many to each side, got {self.shifts}"
            )
        if self.shifts > self.slots:
            raise ValueError(
                f"NTM: expected at most as many shifts as slots, got {self.shifts} and {self.slots}"
            )
        for name, kinds in (("controller", Controller), ("shifting", Shifting), ("memory", Begins)):
            if getattr(self, name) not in get_args(kinds):
                raise ValueError(
                    f"NTM: expected {name} to be one of {', '.join(get_args(kinds))}, "
                    f"got {getattr(self, name)}"
                )


class Moved(NamedTuple):
    """All that happens in a step."""

    logits: Tensor  # (B, O)
    state: State
    orders: Orders
    stages: Stages


class NTM(nn.Module):
    """The machine: `start` gives a state, `step` takes one and gives the next."""

    def __init__(self, config: NTMConfig):
        super().__init__()
        c = self.config = config
        read = c.reads * c.cell
        recurrent = c.controller == "lstm"
        cell = nn.LSTMCell if recurrent else nn.Linear
        self.controller = cell(c.inputs + read, c.width)
        if isinstance(self.controller, nn.LSTMCell):
            with torch.no_grad():
                self.controller.bias_hh[c.width : 2 * c.width] += c.forget
        self.heads = Heads(
            c.width,
            reads=c.reads,
            writes=c.writes,
            cell=c.cell,
            shifts=c.shifts,
            shifting=c.shifting,
            gate=c.gate,
            sharpness=c.sharpness,
        )
        self.out = nn.Linear(read + c.width, c.outputs)
        # what was read before the first step, and what an LSTM had said and remembers
        self.first_read = nn.Parameter(torch.zeros(c.reads, c.cell))
        self.first_state = nn.Parameter(torch.zeros(2, c.width)) if recurrent else None
        if c.memory == "constant":
            first = torch.full((1, c.cell), c.constant)
        else:
            first = torch.empty(c.slots, c.cell).uniform_(-1, 1) / (c.slots + c.cell) ** 0.5
        if c.memory == "learned":
            self.first_memory = nn.Parameter(first)
        else:
            self.register_buffer("first_memory", first)

    @door.named
    def start(self, batch: int, *, slots: int | None = None) -> State:
        """The state before the first step, with as many slots as one likes.

        All heads are at slot 0: memory is a ring, so the first place has no name to be learned.
        """
        N = self.config.slots if slots is None else slots
        if self.config.shifts > N:
            raise ValueError(
                f"NTM: expected at least as many slots as shifts, {self.config.shifts}, got {N}"
            )
        first = self.first_memory
        place = torch.arange(N, device=first.device)
        heads = self.config.reads + self.config.writes
        controller = () if self.first_state is None else self.first_state.unbind()
        return State(
            tuple(part.expand(batch, -1) for part in controller),
            self.first_read.expand(batch, -1, -1),
            (place == 0).to(first.dtype).expand(batch, heads, N),
            # a memory of more slots than were learned begins them anew
            first[place % first.shape[0]].expand(batch, -1, -1),
        )

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """What the machine says (B, O) to an input (B, I), and its state then."""
        moved = self.moved(x, state)
        return moved.logits, moved.state

    def moved(self, x: Tensor, state: State) -> Moved:
        """One step, with all that happens in it: write, then read what is there now."""
        check.shape("NTM", "x", x, B=state.memory.shape[0], I=self.config.inputs)
        said, controller = self._controlled(torch.cat([x, state.read.flatten(1)], 1), state)
        orders = self.heads(said)
        stages = self.heads.found(orders, state)
        memory, read = self.heads.moved(stages.sharpened, orders, state.memory)
        logits = self.out(torch.cat([read.flatten(1), said], 1))
        return Moved(logits, State(controller, read, stages.sharpened, memory), orders, stages)

    def forward(
        self, inputs: Tensor, state: State | None = None, *, slots: int | None = None
    ) -> tuple[Tensor, State]:
        """What the machine says at each step (B, T, O) to inputs (B, T, I), and its state then.

        Args:
            slots: how many places a new memory has, if not as many as in training.
        """
        check.shape("NTM", "inputs", inputs, B=None, T=None, I=self.config.inputs)
        if not inputs.numel():
            raise ValueError(f"NTM: expected inputs of some steps, got {tuple(inputs.shape)}")
        state = self.start(len(inputs), slots=slots) if state is None else state
        check.shape("NTM", "state.memory", state.memory, B=len(inputs), N=None, W=self.config.cell)
        if at_once(inputs, self.heads):
            return self._through(inputs, state)
        said = []
        for x in inputs.unbind(1):
            logits, state = self.step(x, state)
            said.append(logits)
        return torch.stack(said, 1), state

    def _controlled(self, x: Tensor, state: State) -> tuple[Tensor, tuple[Tensor, ...]]:
        if not state.controller:
            return torch.tanh(self.controller(x)), ()
        said, cell = self.controller(x, state.controller)
        return said, (said, cell)

    def _through(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """All steps at once: the inputs are multiplied together, before the first of them."""
        cell, own = self.controller, self.config.inputs
        if isinstance(cell, nn.LSTMCell):
            weight, bias, to_said = cell.weight_ih, cell.bias_ih + cell.bias_hh, cell.weight_hh
        else:
            weight, bias, to_said = cell.weight, cell.bias, None
        of_x = F.linear(inputs.transpose(0, 1), weight[:, :own], bias)
        found, state = through(of_x, state, weight[:, own:], to_said, self.heads)
        return self.out(found).transpose(0, 1), state
