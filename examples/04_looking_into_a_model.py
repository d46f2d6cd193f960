"""Looking into a model: exact weights, an unchanged output, and the same kernel."""

import importlib.util

import torch
from torch import nn

from regard import look, rules
from regard.layers import EncoderBlock

torch.manual_seed(0)
torch.set_printoptions(precision=2, sci_mode=False)
x = 3 * torch.randn(1, 8, 32)


class Tower(nn.Module):
    """Two blocks, one on top of the other."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(32, 4, 64) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x, rule=rules.causal)
        return x


model = Tower().eval()
with torch.no_grad():
    unseen = model(x)
    with look(model) as seen:
        out = model(x)
print("Every attention has the name of its module:", seen.names())
print("The output is the same, bit for bit:", out.equal(unseen))

record = seen["blocks.1.self_attention"]
print("\nBlock 1, head 2, drawn:")
print(record.draw(head=2))
print("Query 7 of head 2 alone:", record.rows(batch=0, head=2, queries=7)[0])
print("Its two best keys:", record.top(2).keys[0, 2, 7].tolist())
print("How widely each head looks, in nats:", record.entropy()[0].mean(-1))
print("What ran:", record.why.backend)

print("\nA model that has never heard of Regard:")
if importlib.util.find_spec("transformers") is None:
    print("transformers is not installed; with it, a BERT would be looked into here.")
else:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    bert = BertModel(BertConfig(vocab_size=50, intermediate_size=64, **sizes)).eval()
    tokens = torch.randint(0, 50, (1, 8))
    with torch.no_grad(), look(bert) as seen:
        bert(tokens)
    print("BERT, with random weights:", seen.names())
    print("weights of layer 1:", tuple(seen[seen.names()[1]].weights().shape))
