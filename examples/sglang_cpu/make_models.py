"""Builds a tiny Llama target and two tiny drafts for it, from nothing and without training.

A draft made of random weights would have nothing accepted, and a copy of the target everything.
These have a known partial acceptance, so that every count a tracer reports can be checked:

- The target says a fixed cycle. A random permutation of all ordinary tokens defines which token
  follows which. Token t has a random embedding e(t); its transformer layers add only a little noise
  to it; and row s of the output head is the embedding of the token before s in the cycle. The
  score of s after t is e(t) . e(before s): about the width of the model if s follows t, else a
  random number near zero. So the text never ends, never repeats within 1022 tokens, and is the
  same for every batch size, device and scheduler.
- The EAGLE-3 draft knows the same cycle, but has words for only 800 of the 1024 tokens. Its one
  layer reads [e(t), state], attends from each token to itself alone, puts the token's embedding
  into the stream and takes the carried state out. So what it says next depends on the last token
  only, at every step of a draft, and is right if the successor is among its words; if not, it is
  wrong.
- The standalone draft is a Llama as the target is, of one layer, with words for the same 800.

Hence the correct drafts of a cycle are the number of successive tokens of the cycle, counted from
the last confirmed one, that are in the draft's vocabulary, and at most the number of steps.
`cycle.json` holds the permutation and the vocabulary for those who want to count.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent
MODELS = HERE / ".models"
STAMP = "stamp"

SEED = 0
VOCABULARY = 1024
DRAFT_VOCABULARY = 800
SPECIAL = ("<s>", "</s>")  # ids 0 and 1: outside the cycle, so that no text ends by itself
WIDTH = 128
HEADS = 4
HEAD_WIDTH = WIDTH // HEADS
MLP_WIDTH = 2 * WIDTH
LAYERS = 4
LONGEST = 2048

NOISE = 0.02  # of the target's layers: enough to be computed, too little to change a choice
CONSTANT = 0  # the feature that has the same value in each embedding
CONSTANT_VALUE = 5.0
SHARP = 3.0  # weight of the draft's queries and keys: its attention is then a token's own alone
FAST_PAIRS = 4  # rotary pairs that turn far from one position to the next

Weights = dict[str, torch.Tensor]


class Cycle:
    """The permutation both models speak.

    Attributes:
        successor: The token after each token, shape (VOCABULARY,).
        before: The token before each token, shape (VOCABULARY,); 0 for special ones.
        words: The tokens the draft can say, sorted, shape (DRAFT_VOCABULARY,).
    """

    def __init__(self, generator: torch.Generator) -> None:
        """Draw the permutation and the draft's words."""
        special, ordinary = len(SPECIAL), VOCABULARY - len(SPECIAL)
        order = torch.randperm(ordinary, generator=generator) + special
        self.successor = torch.full((VOCABULARY,), int(order[0]))
        self.successor[order] = order.roll(-1)
        self.before = torch.zeros(VOCABULARY, dtype=torch.long)
        self.before[self.successor[order]] = order
        drawn = torch.randperm(ordinary, generator=generator)[:DRAFT_VOCABULARY]
        self.words = (drawn + special).sort().values


def random_normal(
    generator: torch.Generator, rows: int, columns: int, scale: float
) -> torch.Tensor:
    """Return normal random numbers of the given standard deviation, shape (rows, columns)."""
    return torch.randn(rows, columns, generator=generator) * scale


def make_embeddings(generator: torch.Generator) -> torch.Tensor:
    """Return random embeddings of length sqrt(WIDTH) with one feature that is exactly constant.

    If it varied, the draft would at times attend to a neighbour with a larger value.
    """
    embeddings = random_normal(generator, VOCABULARY, WIDTH, 1.0)
    embeddings[:, CONSTANT] = 0
    embeddings *= (WIDTH - CONSTANT_VALUE**2) ** 0.5 / embeddings.norm(dim=1, keepdim=True)
    embeddings[:, CONSTANT] = CONSTANT_VALUE
    return embeddings


def make_head(embeddings: torch.Tensor, cycle: Cycle) -> torch.Tensor:
    """Return the output head: the row of a token is the embedding of the one before it."""
    head = embeddings[cycle.before].clone()
    head[:, CONSTANT] = 0
    head[: len(SPECIAL)] = 0
    return head


def make_llama(
    generator: torch.Generator, embeddings: torch.Tensor, head: torch.Tensor, layers: int
) -> Weights:
    """Return the weights of a model of so many layers under the names of a Llama checkpoint."""
    inner = WIDTH**-0.5
    weights = {
        "model.embed_tokens.weight": embeddings,
        "model.norm.weight": torch.ones(WIDTH),
        "lm_head.weight": head,
    }
    for layer in range(layers):
        shapes = {
            "self_attn.q_proj": (WIDTH, WIDTH, inner),
            "self_attn.k_proj": (WIDTH, WIDTH, inner),
            "self_attn.v_proj": (WIDTH, WIDTH, inner),
            "self_attn.o_proj": (WIDTH, WIDTH, NOISE),
            "mlp.gate_proj": (MLP_WIDTH, WIDTH, inner),
            "mlp.up_proj": (MLP_WIDTH, WIDTH, inner),
            "mlp.down_proj": (WIDTH, MLP_WIDTH, NOISE),
        }
        prefix = f"model.layers.{layer}"
        for name, shape in shapes.items():
            weights[f"{prefix}.{name}.weight"] = random_normal(generator, *shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{prefix}.{name}.weight"] = torch.ones(WIDTH)
    return weights


def self_attention() -> torch.Tensor:
    """Return query (and key) weights with which a token attends to itself alone.

    Queries and keys are one and the same constant vector, on the rotary pairs that turn fastest.
    After the rotation their product is largest where the positions are equal.
    """
    weights = torch.zeros(HEADS, HEAD_WIDTH, 2 * WIDTH)
    weights[:, :FAST_PAIRS, CONSTANT] = SHARP
    return weights.view(WIDTH, 2 * WIDTH)


def make_draft(generator: torch.Generator, head: torch.Tensor, cycle: Cycle) -> Weights:
    """Return the draft's weights under the names of an EAGLE-3 checkpoint."""
    knows = torch.zeros(VOCABULARY, dtype=torch.bool).index_fill(0, cycle.words, value=True)
    faint = 1e-3
    weights = {
        "fc.weight": torch.zeros(WIDTH, 3 * WIDTH),  # what the target thinks is not looked at
        "norm.weight": torch.ones(WIDTH),
        "lm_head.weight": head[cycle.words].clone(),
        "d2t": cycle.words - torch.arange(DRAFT_VOCABULARY),  # EAGLE-3 stores the differences
        "t2d": knows,
        "midlayer.self_attn.q_proj.weight": self_attention(),
        "midlayer.self_attn.k_proj.weight": self_attention(),
        "midlayer.self_attn.v_proj.weight": torch.cat([torch.eye(WIDTH), -torch.eye(WIDTH)], dim=1),
        "midlayer.self_attn.o_proj.weight": torch.eye(WIDTH),
        "midlayer.mlp.gate_proj.weight": random_normal(generator, MLP_WIDTH, WIDTH, faint),
        "midlayer.mlp.up_proj.weight": random_normal(generator, MLP_WIDTH, WIDTH, faint),
        "midlayer.mlp.down_proj.weight": random_normal(generator, WIDTH, MLP_WIDTH, faint),
    }
    for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
        weights[f"midlayer.{name}.weight"] = torch.ones(WIDTH)
    return weights


def config(architecture: str, layers: int, **more: object) -> dict[str, object]:
    """Return the configuration that both models share, with their own entries added."""
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": MLP_WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_WIDTH,
        "max_position_embeddings": LONGEST,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "float32",
        **more,
    }


def make_tokenizer() -> Any:
    """Return a byte-level tokenizer trained on the source of the standard library's json."""
    sources = sorted(Path(json.__file__).parent.glob("*.py"))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([source.read_text() for source in sources], trainer)
    return tokenizer


def write_json(path: Path, content: object) -> None:
    """Write a value as indented JSON."""
    path.write_text(json.dumps(content, indent=1) + "\n")


def write_model(folder: Path, weights: Weights, configuration: dict[str, object]) -> None:
    """Write one model as a checkpoint folder."""
    folder.mkdir()
    contiguous = {name: tensor.contiguous() for name, tensor in weights.items()}
    save_file(contiguous, folder / "model.safetensors", {"format": "pt"})
    write_json(folder / "config.json", configuration)


def write_tokenizer(folder: Path) -> None:
    """Write the tokenizer beside the target's weights."""
    make_tokenizer().save(str(folder / "tokenizer.json"))
    configuration = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1],
        "model_max_length": LONGEST,
        "chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}",
    }
    write_json(folder / "tokenizer_config.json", configuration)


def write_models(folder: Path) -> None:
    """Write both models and the description of the cycle into an empty folder."""
    generator = torch.Generator().manual_seed(SEED)
    cycle = Cycle(generator)
    embeddings = make_embeddings(generator)
    head = make_head(embeddings, cycle)
    target = make_llama(generator, embeddings, head, LAYERS)
    write_model(folder / "target", target, config("LlamaForCausalLM", LAYERS))
    write_tokenizer(folder / "target")
    eagle = {
        "draft_vocab_size": DRAFT_VOCABULARY,
        "target_hidden_size": WIDTH,
        "num_aux_hidden_states": 3,
        # Named one by one: SGLang's default would take one of four layers twice.
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        },
    }
    draft = make_draft(generator, head, cycle)
    write_model(folder / "draft", draft, config("LlamaForCausalLMEagle3", 1, **eagle))
    known = torch.zeros_like(head).index_copy(0, cycle.words, head[cycle.words])
    standalone = make_llama(generator, embeddings, known, 1)
    write_model(folder / "standalone", standalone, config("LlamaForCausalLM", 1))
    description = {"successor": cycle.successor.tolist(), "draft_words": cycle.words.tolist()}
    write_json(folder / "cycle.json", description)


def main() -> int:
    """Build the models unless this very script has built them; return the exit status."""
    fingerprint = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    stamp = MODELS / STAMP
    if stamp.is_file() and stamp.read_text() == fingerprint:
        print(f"{MODELS.name} is up to date")
        return 0
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".models-") as scratch:
        built = Path(scratch) / MODELS.name
        built.mkdir()
        write_models(built)
        (built / STAMP).write_text(fingerprint)  # last: without it the folder is not used
        shutil.rmtree(MODELS, ignore_errors=True)
        built.rename(MODELS)
    print(f"{MODELS.name} is ready: target, draft, standalone, cycle.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
