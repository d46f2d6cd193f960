"""Neural Turing Machine: a controller with a memory that it reads and writes by attention.

Graves, Wayne and Danihelka 2014, "Neural Turing Machines".
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import check, dispatch
from regard.layers.ntm_heads import (
    AddressingStages,
    HeadParameters,
    Heads,
    ShiftMode,
    State,
    can_run_all_steps,
    run_all_steps,
)

Controller = Literal["feed_forward", "lstm"]
MemoryInit = Literal["constant", "learned", "random"]


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
    slot_width: int = 20
    # heads that read, and heads that write
    read_heads: int = 1
    write_heads: int = 1
    # shifts a head may make at a step, as many to each side; odd
    shifts: int = 3
    # a shift is a softmax over those allowed, or one real number between the outermost
    shift_mode: ShiftMode = "softmax"
    # what is in the memory when an episode begins
    memory_init: MemoryInit = "constant"
    # the constant; the smaller it is, the steeper is the way back through slots nobody wrote to
    memory_constant: float = 0.1
    # what untrained heads are told. A gate below 0: they walk before they learn to seek. Sharpness
    # below 0: they have to learn clear shifts, since nothing makes unclear ones look clear
    gate_bias: float = -2.0
    sharpness_bias: float = -2.0
    # what untrained forget gates of an LSTM are told beside that: above 0, it forgets less, so that
    # what it counts does not fade with time
    forget_bias: float = 0.0

    def __post_init__(self) -> None:
        sizes = ("inputs", "outputs", "width", "slots", "slot_width", "read_heads", "write_heads")
        check.positive_fields("NTM", self, *sizes)
        if self.shifts < 1 or self.shifts % 2 == 0:
            raise ValueError(
                f"NTM: expected an odd number of shifts, as many to each side, got {self.shifts}"
            )
        if self.shifts > self.slots:
            raise ValueError(
                f"NTM: expected at most as many shifts as slots, got {self.shifts} and {self.slots}"
            )
        for name, kinds in (
            ("controller", Controller),
            ("shift_mode", ShiftMode),
            ("memory_init", MemoryInit),
        ):
            if getattr(self, name) not in get_args(kinds):
                raise ValueError(
                    f"NTM: expected {name} to be one of {', '.join(get_args(kinds))}, "
                    f"got {getattr(self, name)}"
                )


class StepDetails(NamedTuple):
    """All that happens in a step."""

    logits: Tensor  # (B, O)
    state: State
    head_parameters: HeadParameters
    stages: AddressingStages


class NTM(nn.Module):
    """The machine: `start` gives a state, `step` takes one and gives the next."""

    def __init__(self, config: NTMConfig):
        super().__init__()
        c = self.config = config
        read = c.read_heads * c.slot_width
        recurrent = c.controller == "lstm"
        cell = nn.LSTMCell if recurrent else nn.Linear
        self.controller = cell(c.inputs + read, c.width)
        if isinstance(self.controller, nn.LSTMCell):
            with torch.no_grad():
                self.controller.bias_hh[c.width : 2 * c.width] += c.forget_bias
        self.heads = Heads(
            c.width,
            read_heads=c.read_heads,
            write_heads=c.write_heads,
            slot_width=c.slot_width,
            shifts=c.shifts,
            shift_mode=c.shift_mode,
            gate_bias=c.gate_bias,
            sharpness_bias=c.sharpness_bias,
        )
        self.out = nn.Linear(read + c.width, c.outputs)
        # what was read before the first step, and what an LSTM had said and remembers
        self.first_read = nn.Parameter(torch.zeros(c.read_heads, c.slot_width))
        self.first_state = nn.Parameter(torch.zeros(2, c.width)) if recurrent else None
        if c.memory_init == "constant":
            first = torch.full((1, c.slot_width), c.memory_constant)
        else:
            first = (
                torch.empty(c.slots, c.slot_width).uniform_(-1, 1) / (c.slots + c.slot_width) ** 0.5
            )
        if c.memory_init == "learned":
            self.first_memory = nn.Parameter(first)
        else:
            self.register_buffer("first_memory", first)

    @dispatch.as_module_call
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
        heads = self.config.read_heads + self.config.write_heads
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
        moved = self.step_with_details(x, state)
        return moved.logits, moved.state

    def step_with_details(self, x: Tensor, state: State) -> StepDetails:
        """One step, with all that happens in it: write, then read what is there now."""
        check.shape("NTM", "x", x, B=state.memory.shape[0], I=self.config.inputs)
        said, controller = self._run_controller(torch.cat([x, state.read.flatten(1)], 1), state)
        orders = self.heads(said)
        stages = self.heads.address(orders, state)
        memory, read = self.heads.write_and_read(stages.sharpened, orders, state.memory)
        logits = self.out(torch.cat([read.flatten(1), said], 1))
        return StepDetails(
            logits, State(controller, read, stages.sharpened, memory), orders, stages
        )

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
        check.shape(
            "NTM", "state.memory", state.memory, B=len(inputs), N=None, W=self.config.slot_width
        )
        if can_run_all_steps(inputs, self.heads):
            return self._run_all_steps(inputs, state)
        said = []
        for x in inputs.unbind(1):
            logits, state = self.step(x, state)
            said.append(logits)
        return torch.stack(said, 1), state

    def _run_controller(self, x: Tensor, state: State) -> tuple[Tensor, tuple[Tensor, ...]]:
        if not state.controller:
            return torch.tanh(self.controller(x)), ()
        said, cell = self.controller(x, state.controller)
        return said, (said, cell)

    def _run_all_steps(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """All steps at once: the inputs are multiplied together, before the first of them."""
        cell, own = self.controller, self.config.inputs
        if isinstance(cell, nn.LSTMCell):
            weight, bias, to_said = cell.weight_ih, cell.bias_ih + cell.bias_hh, cell.weight_hh
        else:
            weight, bias, to_said = cell.weight, cell.bias, None
        of_x = F.linear(inputs.transpose(0, 1), weight[:, :own], bias)
        found, state = run_all_steps(of_x, state, weight[:, own:], to_said, self.heads)
        return self.out(found).transpose(0, 1), state
