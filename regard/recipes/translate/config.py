"""What a translation is made of: data, a model, how it is trained, and whole settings by name."""

from dataclasses import dataclass, field, replace

from torch import nn

from regard.data.text import bpe
from regard.data.text.corpus import Corpus
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import TINY, Transformer, TransformerConfig
from regard.train.runs import check_name
from regard.train.settings import Optimizer, Schedule, Training

ModelConfig = Seq2SeqConfig | TransformerConfig | DecoderOnlyConfig
MODELS: dict[type, type[nn.Module]] = {
    Seq2SeqConfig: Seq2Seq,
    TransformerConfig: Transformer,
    DecoderOnlyConfig: DecoderOnly,
}

SMALL_MODEL = Seq2SeqConfig(
    vocabulary=2000,
    embedding=128,
    width=128,
    alignment=96,
    readout=128,
    dropout=0.2,
    tied=True,
)
QUICK_TRAINING = Training(
    steps=1200,
    optimizer=Optimizer("adam", rate=5e-3),
    schedule=Schedule("cosine", warmup=100),
    validate_every=300,
    save_every=300,
)


@dataclass(frozen=True)
class Config:
    """The whole recipe; the defaults are sized for two cores and a minute or two."""

    # stands in the name of the run's folder
    name: str = "small"
    data: Corpus = field(default_factory=Corpus)
    model: ModelConfig = SMALL_MODEL
    training: Training = QUICK_TRAINING
    # places of source or target in a batch, padding included
    tokens: int = 800
    # lengths of a batch are rounded up to a multiple of this, so that few CUDA graphs are captured
    length_multiple: int | None = None
    # share of the probability that is spread over all words
    smoothing: float = 0.1
    # how much two passes with different dropout must agree (R-Drop); 0 makes one pass
    r_drop_weight: float = 0.0
    # how the trained model is measured: 1 beam is greedy
    beam: int = 1

    def __post_init__(self) -> None:
        # all that can be known before a folder is opened
        check_name("translate", self.name)
        if self.tokens < 1 or not 0 <= self.smoothing < 1 or self.r_drop_weight < 0:
            raise ValueError(
                f"translate: expected tokens of at least 1, smoothing from 0 to less than 1 and "
                f"r_drop_weight of at least 0, "
                f"got {self.tokens}, {self.smoothing} and {self.r_drop_weight}"
            )
        if self.model.vocabulary < bpe.MIN_VOCABULARY_SIZE:
            raise ValueError(
                f"translate: expected model.vocabulary of at least {bpe.MIN_VOCABULARY_SIZE} "
                "(every byte), "
                f"got {self.model.vocabulary}"
            )
        if self.model.vocabulary > bpe.MAX_VOCABULARY_SIZE:
            raise ValueError(
                f"translate: expected model.vocabulary of at most {bpe.MAX_VOCABULARY_SIZE}, "
                f"got {self.model.vocabulary}"
            )
        if self.training.devices > 1:
            raise ValueError("translate: one device for now, got training.devices of more")


MULTI30K = Config(
    name="multi30k",
    data=Corpus("multi30k-en-de"),
    length_multiple=8,
    beam=5,
    training=Training(
        cuda_graphs=True,
        ema_decay=0.999,
        validate_every=500,
        report_every=100,
        monitor="bleu_lc_tok",
        monitor_mode="highest",
    ),
)
RNN = replace(
    MULTI30K,
    name="rnn",
    model=Seq2SeqConfig(
        vocabulary=10_000,
        embedding=256,
        width=256,
        alignment=256,
        readout=256,
        dropout=0.4,
        readout_scale=4.0,
        tied=True,
    ),
    tokens=4096,
    r_drop_weight=1.0,
    training=replace(
        MULTI30K.training,
        steps=5000,
        optimizer=Optimizer("adam", rate=2e-3),
        schedule=Schedule("cosine", warmup=300),
        precision="bf16-mixed",
    ),
)
TRANSFORMER_MODEL = replace(TINY, norm="before")
TRANSFORMER = replace(
    MULTI30K,
    name="transformer",
    model=TRANSFORMER_MODEL,
    tokens=8192,
    r_drop_weight=1.0,
    training=replace(
        MULTI30K.training,
        steps=12_000,
        optimizer=Optimizer("adam", betas=(0.9, 0.98), eps=1e-9, rate=5e-3),
        schedule=Schedule("cosine", warmup=1000),
        precision="tf32",
    ),
)
ORDERED = replace(
    Config(),
    name="ordered",
    data=Corpus("ordered"),
    # without dropout a word is as well found in what its neighbours remember of it
    model=replace(SMALL_MODEL, dropout=0.4),
    smoothing=0.0,
    training=replace(QUICK_TRAINING, steps=1500, optimizer=Optimizer("adam", rate=3e-3)),
)
PRESETS = {"small": Config(), "rnn": RNN, "transformer": TRANSFORMER}
