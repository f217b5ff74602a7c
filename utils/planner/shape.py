"""What a transformer is: its sizes, its parameters counted exactly, and the FLOPs of its matrix products.

Letters: L layers, h width, a heads, d head size, g key-value heads, f FFN columns, V vocabulary, s sequence, B sequences,
t tensor-parallel ranks, e expert-parallel ranks; m matrices of an FFN, b 1 with biases, w vectors of a norm, n norms a
layer; E experts of x columns, k for each token, S shared; q, u ranks of latent queries and keys, r rotary columns; full
layers attend to all keys, near ones to W; y keys of a query in a mean layer.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property

from utils.checking import require_count, require_flag, require_name, require_number
from utils.deadlocks.errors import BadType, BadValue
from utils.planner.explained import Explained, explain, total

NARAYANAN = "Narayanan 2021, 2104.04473, appendix"
DEEPSEEK = "DeepSeek-V3, 2412.19437, 2.1.1"
KORTHIKANTI = "Korthikanti 2022, 2205.05198, appendix A"
# How much of the forward pass of a layer's products with weights runs again, by what is recomputed.
AGAIN_IN_PRODUCTS = {"none": 0, "selective": 0, "elementwise": 0, "products": 1 / 2, "full": 1}


@dataclass(frozen=True)
class ModelShape:
    """A decoder. Sizes left out: kv_heads = heads, head_size = width/heads, ffn = 4·width, expert_ffn = ffn.

    gated: the FFN has three matrices (SwiGLU, GeGLU), not two. tied: the output head is the embedding. norm_vectors: 2 for
    LayerNorm (weight, bias), 1 for RMSNorm, 0 for one without parameters; norms_per_layer of them, and one at the end.
    parallel_ffn: attention and FFN read the same input, and one sum has what both add (PaLM, GPT-NeoX).
    experts: routed ones in each layer but the first `dense_layers`; a token takes experts_per_token of them and all
    shared_experts; routed_nodes: its experts are in at most so many nodes (DeepSeek-V3: 4).
    latent_rank, rope_size, query_rank: multi-head latent attention (DeepSeek-V3), if latent_rank is given; without a
    query_rank queries are made directly (DeepSeek-V2-Lite).
    window: keys that a query of a windowed layer may look at; windowed: (k, m), so many of every m layers, the first ones of
    each m (Mistral (1, 1), Gemma 2 and gpt-oss (1, 2), Gemma 3 (5, 6)). What lies outside is not computed, kept or sent.
    Raises: TypeError, ValueError for sizes that no transformer has.
    """

    name: str
    layers: int
    width: int
    heads: int
    vocabulary: int
    sequence: int
    kv_heads: int | None = None
    head_size: int | None = None
    ffn: int | None = None
    gated: bool = False
    tied: bool = True
    learned_positions: bool = False
    parallel_ffn: bool = False
    biases: bool = True
    norm_vectors: int = 2
    norms_per_layer: int = 2
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    expert_ffn: int | None = None
    query_rank: int | None = None
    latent_rank: int | None = None
    rope_size: int = 0
    window: int | None = None
    windowed: tuple[int, int] = (1, 1)
    source: str = ""
    routed_nodes: int | None = None

    def __post_init__(self):
        may_be_zero = {"norm_vectors", "norms_per_layer", "experts", "experts_per_token", "shared_experts", "dense_layers",
                       "rope_size"}
        for field in fields(self):
            value, what = getattr(self, field.name), f"{self.name}: {field.name}"
            if field.name in ("gated", "tied", "learned_positions", "parallel_ffn", "biases"):
                require_flag(what, value)
            elif field.name not in ("name", "source", "windowed") and not (value is None and field.default is None):
                require_count(what, value, least=0 if field.name in may_be_zero else 1)
        self._require_sense()

    def _require_sense(self) -> None:
        if self.head_size is None and self.width % self.heads:
            raise BadValue(f"{self.name}: a width of {self.width} cannot be split over {self.heads} heads; give head_size")
        if self.heads % self.kv_groups:
            raise BadValue(f"{self.name}: {self.heads} heads cannot share {self.kv_groups} key-value heads evenly")
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise BadValue(f"{self.name}: experts_per_token must be from 1 to {self.experts}; got {self.experts_per_token}")
        if not self.experts and (self.experts_per_token or self.shared_experts or self.dense_layers):
            raise BadValue(f"{self.name}: experts_per_token, shared_experts and dense_layers need experts")
        if self.dense_layers > self.layers:
            raise BadValue(f"{self.name}: {self.dense_layers} dense layers of {self.layers}")
        if self.latent_rank is None and (self.query_rank or self.rope_size):
            raise BadValue(f"{self.name}: query_rank and rope_size belong to latent attention, which needs latent_rank")
        if self.latent_rank and self.kv_groups != self.heads:
            raise BadValue(f"{self.name}: latent attention has one latent row for all heads, no {self.kv_heads} kv_heads")
        if self.expert_ffn and not self.experts:
            raise BadValue(f"{self.name}: expert_ffn needs experts")
        if not (isinstance(self.windowed, tuple) and len(self.windowed) == 2):
            raise BadType(f"{self.name}: windowed is (k, m) for k of every m layers, such as (1, 2); got {self.windowed!r}")
        for count in self.windowed:
            require_count(f"{self.name}: windowed", count)
        if self.windowed[0] > self.windowed[1]:
            raise BadValue(f"{self.name}: windowed is (k, m) for k of every m layers; got {self.windowed}")
        if self.windowed != (1, 1) and self.window is None:
            raise BadValue(f"{self.name}: windowed layers need a window, in keys")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    @property
    def head(self) -> int:
        """Columns of a head."""
        return self.head_size or self.width // self.heads

    @property
    def kv_groups(self) -> int:
        """Key-value heads."""
        return self.kv_heads or self.heads

    @property
    def ffn_size(self) -> int:
        """Columns of the hidden layer of a dense FFN."""
        return self.ffn or 4 * self.width

    @property
    def expert_size(self) -> int:
        """Columns of the hidden layer of one expert."""
        return self.expert_ffn or self.ffn_size

    @property
    def is_modern(self) -> bool:
        """Whether it is built as most models since 2022 (RMSNorm, gated FFN): trained with fused attention, no dropout."""
        return self.gated or self.norm_vectors < 2

    @property
    def moe_layers(self) -> int:
        """Layers that have experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def window_layers(self) -> int:
        """Layers that attend to a window only."""
        each, of = self.windowed
        return self.layers // of * each + min(self.layers % of, each) if self.window else 0

    @property
    def keys(self) -> float:
        """Keys that a query looks at or masks, in a mean layer: the sequence's, or the window's where there is one."""
        near = min(self.window or self.sequence, self.sequence)
        return self.sequence + self.window_layers / self.layers * (near - self.sequence)

    @property
    def score_size(self) -> int:
        """Columns of a query and a key: with latent attention more than those of a value."""
        return self.head + self.rope_size

    def with_sequence(self, sequence: int) -> "ModelShape":
        """The same model on sequences of another length."""
        return replace(self, sequence=sequence)

    @cached_property
    def letters(self) -> dict[str, float]:
        """The sizes by the letters that formulas use."""
        return {"L": self.layers, "h": self.width, "a": self.heads, "d": self.head, "g": self.kv_groups, "f": self.ffn_size,
                "V": self.vocabulary, "s": self.sequence, "m": 3 if self.gated else 2, "b": int(self.biases),
                "E": self.experts, "k": self.experts_per_token, "S": self.shared_experts, "x": self.expert_size,
                "q": self.query_rank or 0, "u": self.latent_rank or 0, "r": self.rope_size, "w": self.norm_vectors,
                "n": self.norms_per_layer, "dense": self.layers - self.moe_layers, "moe": self.moe_layers,
                "near": self.window_layers, "full": self.layers - self.window_layers,
                "W": min(self.window or self.sequence, self.sequence), "y": self.keys}

    def explain(self, name: str, unit: str, expression: str, source: str = "", /, **values) -> Explained:
        """A formula over this model's letters and further values; only those that occur are shown."""
        return explain(name, unit, expression, source, **{**self.letters, **values})

    # Parameters

    def layer_parameters(self, moe: bool = False, tp: int = 1, ep: int = 1) -> Explained:
        """Parameters of one layer on one rank of tp × ep, by category; norms and biases behind a row split are not split."""
        require_count("tp", tp)
        require_count("ep", ep)
        parts = [self._attention(tp), *(self._experts(tp, ep) if moe else [self._ffn(tp)]),
                 self.explain("norms", "parameters", "n*w*h + q + u" if self.latent_rank else "n*w*h")]
        return total("a layer with experts" if moe else "a layer", "parameters", parts)

    def _attention(self, tp: int) -> Explained:
        if self.latent_rank:
            whole, split = self._query_products
            return self.explain("latent attention", "parameters",
                                f"{whole}h*(u + r) + ({split} + u*a*2*d + a*d*h)/t", DEEPSEEK, t=tp)
        return self.explain("attention", "parameters",
                            "2*h*a*d/t + 2*h*max(g/t, 1)*d + b*((a/t + 2*max(g/t, 1))*d + h)", t=tp)

    @property
    def _query_products(self) -> tuple[str, str]:
        """With latent attention: the weights that make queries, whole on every rank and split over tp."""
        return ("h*q + ", "q*a*(d + r)") if self.query_rank else ("", "h*a*(d + r)")

    def _ffn(self, tp: int) -> Explained:
        return self.explain("FFN", "parameters", "m*h*f/t + b*((m - 1)*f/t + h)", t=tp)

    def _experts(self, tp: int, ep: int) -> list[Explained]:
        parts = [self.explain("routed experts", "parameters", "E/e*m*h*x/t", t=tp, e=ep),
                 self.explain("router", "parameters", "h*E")]
        shared = [self.explain("shared experts", "parameters", "S*m*h*x/t", t=tp)] if self.shared_experts else []
        return [parts[0], *shared, parts[1]]

    def embedding_parameters(self, tp: int = 1) -> Explained:
        """The table of tokens, and of positions if they are learned; rows are padded to a multiple of tp."""
        require_count("tp", tp)
        positions = " + s*h" if self.learned_positions else ""
        return self.explain("embedding", "parameters", "ceil(V/t)*h" + positions, t=tp)

    def parameters(self) -> Explained:
        """All parameters, by category.

        Source: for GPT 12Lh²(1 + 13/(12h) + (V+s)/(12Lh)), 2104.04473; it leaves out the last norm's 2h.
        """
        counts = [(self.layers - self.moe_layers, False), (self.moe_layers, True)]
        layers = [_times(n, part) for n, moe in counts if n for part in self.layer_parameters(moe).parts]
        return total(self.name, "parameters", [*layers, self.embedding_parameters(), self.end_parameters()])

    def end_parameters(self, tp: int = 1, own_copy: bool = False) -> Explained:
        """The last norm and the output head. A tied head counts as the embedding, unless a last stage needs its own copy."""
        return self.explain("last norm" if self.tied and not own_copy else "last norm, head", "parameters",
                            "w*h" if self.tied and not own_copy else "w*h + ceil(V/t)*h", t=tp)

    def parameters_per_layer(self) -> Explained:
        """Parameters of the last layer: with experts, if there are any."""
        return self.layer_parameters(bool(self.experts))

    def active_parameters(self) -> Explained:
        """Parameters that a token meets: of the routed experts, only those it is sent to; of the embedding, the whole table.

        Papers differ: those that leave the table out (gpt-oss) print embedding_parameters() less.
        """
        idle = self.explain("experts not chosen", "parameters", "-moe*(E - k)*m*h*x")
        return total(f"{self.name}, for one token", "parameters", [self.parameters(), *[idle] * (self.experts > 0)])

    # FLOPs

    def forward_flops(self, batch: int = 1, causal: bool = False) -> Explained:
        """FLOPs of the matrix products of one forward pass over `batch` sequences; norms, softmax and biases are left out.

        causal: count only the half of the attention scores that the mask leaves. Papers differ: whole (False) in PaLM's MFU,
        Narayanan's and Korthikanti's; half in FlashAttention-2 (2307.08691); DeepSeek (2505.09343) prints both.
        """
        require_count("batch", batch)
        require_flag("causal", causal)
        return total("forward", "FLOP", [*self._layer_flops(batch, causal), self._logit_flops(batch)])

    def _layer_flops(self, batch: int, causal: bool) -> list[Explained]:
        parts = [self._projection_flops(batch), self.attention_core_flops(batch, causal)]
        if self.layers > self.moe_layers:
            parts.append(self.explain("FFN", "FLOP", "2*B*s*dense*m*h*f", NARAYANAN, B=batch))
        if self.moe_layers:
            parts.append(self.explain("experts and router", "FLOP", "2*B*s*moe*((k + S)*m*h*x + h*E)", B=batch))
        return parts

    def _projection_flops(self, batch: int) -> Explained:
        if self.latent_rank:
            whole, split = self._query_products
            return self.explain("latent attention's products with weights", "FLOP",
                                f"2*B*s*L*({whole}h*(u + r) + {split} + u*a*2*d + a*d*h)", B=batch)
        return self.explain("attention's products with weights", "FLOP", "2*B*s*L*(2*h*a*d + 2*h*g*d)", NARAYANAN, B=batch)

    def attention_core_flops(self, batch: int = 1, causal: bool = False) -> Explained:
        """Scores and weighted values of all layers, forward: what selective recomputation repeats."""
        require_count("batch", batch)
        if self.window_layers:
            keys = "(full*s/2 + near*(W - W**2/(2*s)))" if causal else "(full*s + near*W)"
            return self.explain("attention core", "FLOP", f"2*B*s*{keys}*a*(D + d)", NARAYANAN, B=batch, D=self.score_size)
        return self.explain("attention core", "FLOP", "half*2*B*s**2*L*a*(D + d)", NARAYANAN, B=batch, D=self.score_size,
                            half=0.5 if causal else 1)

    def _logit_flops(self, batch: int) -> Explained:
        return self.explain("logits", "FLOP", "2*B*s*h*V", NARAYANAN, B=batch)

    def step_flops(self, batch: int = 1, causal: bool = False) -> Explained:
        """Model FLOPs of a step: forward and, twice that, backward. For GPT 72BLsh²(1 + s/(6h) + V/(12hL)).

        Source: 2104.04473, appendix (without recomputation); 2205.05198, appendix A.
        """
        return explain("model FLOPs of a step", "FLOP", "3*forward", KORTHIKANTI, forward=self.forward_flops(batch, causal))

    def hardware_flops(self, batch: int = 1, recompute: str = "none", causal: bool = False,
                       attention_again: float = 1) -> Explained:
        """FLOPs that the devices really do in a step: the model's, and what is computed again in the backward pass.

        recompute: "none", "selective" and "elementwise" (the attention core), "products" (every second product with
        weights, as torchtitan's selective checkpointing of operations), "full" (all layers; not the logits).
        attention_again: passes of the attention core that selective recomputation adds. It is one forward; Korthikanti's
        appendix A counts as if it were three (s/(3h) for s/(6h)): give 3 to reproduce that paper's HFU.
        Source: full: 96BLsh²(1 + s/(6h) + V/(16hL)), 2104.04473.
        """
        require_name("way to recompute", recompute, AGAIN_IN_PRODUCTS)
        require_number("attention_again", attention_again)
        if attention_again < 0:
            raise BadValue(f"attention_again counts passes, from 0; got {attention_again}")
        layers = sum(map(float, self._layer_flops(batch, causal)))
        core = [explain("attention core again", "FLOP", "passes*core", KORTHIKANTI, passes=attention_again,
                        core=self.attention_core_flops(batch, causal))]
        again = {"none": [], "selective": core, "elementwise": core,
                 "products": [explain("half of the products again", "FLOP", "(layers - core)/2", layers=layers,
                                      core=self.attention_core_flops(batch, causal))],
                 "full": [total("all layers again", "FLOP", self._layer_flops(batch, causal), NARAYANAN)]}[recompute]
        return total("hardware FLOPs of a step", "FLOP", [self.step_flops(batch, causal), *again])


def _times(count: int, part: Explained) -> Explained:
    """A part of a layer for `count` layers, in one formula."""
    values = {**part.values, "layers": count}
    return explain(f"{part.name} × {count}", "parameters", f"layers*({part.expression})", part.source, **values)
