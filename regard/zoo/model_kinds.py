"""Which kinds of models can be loaded: a closed table, in which no file can name anything else."""

from collections.abc import Callable

from torch import nn

from regard.config.suggest import suggestion
from regard.zoo import untrusted_files


def _seq2seq() -> tuple[type, type[nn.Module]]:
    from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig

    return Seq2SeqConfig, Seq2Seq


def _transformer() -> tuple[type, type[nn.Module]]:
    from regard.models.transformer import Transformer, TransformerConfig

    return TransformerConfig, Transformer


def _decoder_only() -> tuple[type, type[nn.Module]]:
    from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig

    return DecoderOnlyConfig, DecoderOnly


def _ntm() -> tuple[type, type[nn.Module]]:
    from regard.models.ntm import NTM, NTMConfig

    return NTMConfig, NTM


def _lstm() -> tuple[type, type[nn.Module]]:
    from regard.models.lstm import LSTM, LSTMConfig

    return LSTMConfig, LSTM


def _pointer_network() -> tuple[type, type[nn.Module]]:
    from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig

    return PointerNetworkConfig, PointerNetwork


def _attention_pointer() -> tuple[type, type[nn.Module]]:
    from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig

    return AttentionPointerConfig, AttentionPointer


# The kind as it stands in a card, and what gives its config and its model. Each imports its own
# when asked, so that loading one model does not import all.
KINDS: dict[str, Callable[[], tuple[type, type[nn.Module]]]] = {
    "seq2seq": _seq2seq,
    "transformer": _transformer,
    "decoder-only": _decoder_only,
    "ntm": _ntm,
    "lstm": _lstm,
    "pointer_network": _pointer_network,
    "attention_pointer": _attention_pointer,
}


def classes(kind: str) -> tuple[type, type[nn.Module]]:
    """The classes of a config and a model of this kind."""
    if kind not in KINDS:
        near = suggestion(kind, KINDS)
        raise untrusted_files.load_error(
            f"no kind of model {kind!r}; there is {', '.join(KINDS)}{near}"
        )
    return KINDS[kind]()


def kind_of(model: nn.Module) -> str:
    """The kind that this model is of."""
    for kind, both in KINDS.items():
        if type(model) is both()[1]:
            return kind
    raise ValueError(
        f"save: expected a model of a kind that can be loaded ({', '.join(KINDS)}), "
        f"got {type(model).__name__}"
    )
