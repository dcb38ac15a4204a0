"""Which optimizer takes which parameter, and why: rules go in, a plan that can be read comes out."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, TypeAlias

from zeropower.checks import require_choice
from zeropower.layout import OUT_IN, MatrixLayout

OptimizerName: TypeAlias = Literal["muon", "adamw"]
OPTIMIZERS: tuple[OptimizerName, ...] = ("muon", "adamw")


class ParamInfo(NamedTuple):
    """What is known of a parameter before training.

    Attributes
    ----------
    shape
        Its logical shape.
    dtype
        Its dtype, or ``None`` where that does not matter.
    module_types
        Names of the classes of its module, the class first, then its bases.
    trainable
        Whether it is trained.
    aliases
        Other paths of the same (shared) parameter.
    ancestor_types
        Names of the classes, with their bases, of its module and of all modules around it.
    """

    shape: tuple[int, ...]
    dtype: Any = None
    module_types: tuple[str, ...] = ()
    trainable: bool = True
    aliases: tuple[str, ...] = ()
    ancestor_types: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A condition on a parameter, and where it goes if all that is given holds. Paths are split at ``.`` and ``/``.

    Attributes
    ----------
    optimizer
        ``"muon"`` or ``"adamw"``.
    reason
        Why, in a few words; shown in the plan.
    path
        Glob patterns for the whole path, components joined by ``/``; one must match.
    component
        Glob patterns for a component; one must match some component.
    last
        Exact names for the last component.
    module_types
        Names of module classes; the module's class or a base of it must be among them.
    within
        Names of module classes; its module or a module around it must be of one of them, or of a subclass.
    ndim
        Accepted numbers of axes.
    max_ndim
        Greatest accepted number of axes.
    max_short_side
        Greatest accepted size of the second largest axis: 1 accepts a single row or column of any rank.
    max_flat_side
        Greatest accepted size of the shorter side of the matrix (first axis, all others).
    over_aspect
        What the ratio of the sides of that matrix must exceed.
    unit_axes
        Axes of which one must have size 1.
    layout
        The matrix view of what matches; ``None`` takes the plan's default.
    """

    optimizer: OptimizerName
    reason: str
    path: tuple[str, ...] = ()
    component: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    module_types: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    ndim: tuple[int, ...] = ()
    max_ndim: int | None = None
    max_short_side: int | None = None
    max_flat_side: int | None = None
    over_aspect: float | None = None
    unit_axes: tuple[int, ...] = ()
    layout: MatrixLayout | None = None

    def __post_init__(self) -> None:
        require_choice("optimizer", self.optimizer, OPTIMIZERS)

    def matches(self, path: str, info: ParamInfo) -> bool:
        """Tell whether every given condition holds for a parameter, under any of its paths."""
        shape = info.shape
        short_side = sorted(shape)[-2] if len(shape) > 1 else 0
        flat_side, long_side = sorted((shape[0], math.prod(shape[1:]))) if shape else (0, 0)
        return (
            (not self.ndim or len(shape) in self.ndim)
            and (self.max_ndim is None or len(shape) <= self.max_ndim)
            and (self.max_short_side is None or short_side <= self.max_short_side)
            and (self.max_flat_side is None or flat_side <= self.max_flat_side)
            and (self.over_aspect is None or long_side > self.over_aspect * flat_side)
            and (not self.unit_axes or any(axis < len(shape) and shape[axis] == 1 for axis in self.unit_axes))
            and (not self.module_types or any(name in self.module_types for name in info.module_types))
            and (not self.within or not set(self.within).isdisjoint(info.ancestor_types))
            and any(self._matches_path(split_path(p)) for p in (path, *info.aliases))
        )

    def _matches_path(self, components: tuple[str, ...]) -> bool:
        return (
            (not self.path or _any_glob(("/".join(components),), self.path))
            and (not self.component or _any_glob(components, self.component))
            and (not self.last or (bool(components) and components[-1] in self.last))
        )


@dataclass(frozen=True)
class Route:
    """Where one parameter goes.

    Attributes
    ----------
    optimizer
        ``"muon"`` or ``"adamw"``.
    layout
        Its matrix view for Muon, else ``None``.
    shape
        Its shape.
    trainable
        Whether it is trained.
    reason
        The reason of the rule that decided.
    """

    optimizer: OptimizerName
    layout: MatrixLayout | None
    shape: tuple[int, ...]
    trainable: bool
    reason: str


class RoutePlan(Mapping[str, Route]):
    """Routes by path, in the order of the model. A value: comparable, printable, and exact through JSON."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = dict(routes)

    def __getitem__(self, path: str) -> Route:
        return self._routes[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._routes)

    def __len__(self) -> int:
        return len(self._routes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RoutePlan) and list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self._routes.items()))

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {len(self.paths(name))}" for name in OPTIMIZERS)
        return f"RoutePlan({counts})"

    def __str__(self) -> str:
        return "\n".join([*self._table(), "", *(self._total(name) for name in OPTIMIZERS)])

    def paths(self, optimizer: OptimizerName) -> list[str]:
        """Return the paths that go to an optimizer."""
        return [path for path, route in self.items() if route.optimizer == optimizer]

    def to_json(self) -> str:
        """Return the plan as a JSON string, the same for equal plans."""
        return json.dumps({path: asdict(route) for path, route in self.items()}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "RoutePlan":
        """Return the plan that :meth:`to_json` wrote."""
        return cls({path: _route_from_dict(fields) for path, fields in json.loads(text).items()})

    def _table(self) -> list[str]:
        rows = [("parameter", "shape", "optimizer", "reason")]
        for path, route in self.items():
            frozen = "" if route.trainable else " (frozen)"
            shape = "x".join(map(str, route.shape)) or "scalar"
            rows.append((path, shape, route.optimizer, route.reason + frozen))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]) for row in rows]

    def _total(self, optimizer: OptimizerName) -> str:
        routes = [self[path] for path in self.paths(optimizer)]
        return f"{optimizer}: {len(routes)} parameters, {sum(math.prod(r.shape) for r in routes):,} elements"


# Sources: the advice of K. Jordan's "Muon" (embeddings, heads and vectors stay with AdamW), and reports of what
# users' models call those parts.
_EMBEDDINGS = (
    "embed", "embedding", "embeddings", "embed_tokens", "tok_embeddings", "word_embeddings", "token_embedding",
    "position_embeddings", "position_embedding", "token_type_embeddings", "pos_embed", "pos_embedding", "wte", "wpe",
)  # fmt: skip
_HEADS = ("head", "lm_head", "heads", "classifier", "score", "unembed", "logits", "logits_dense", "embed_out")
_NORM_MODULES = ("LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d")

DEFAULT_RULES: tuple[Rule, ...] = (
    Rule(optimizer="adamw", reason="no matrix: fewer than two axes", max_ndim=1),
    Rule(optimizer="adamw", reason="no matrix: a single row or column", max_short_side=1),
    Rule(optimizer="adamw", reason="bias", last=("bias",)),
    Rule(optimizer="adamw", reason="embedding", module_types=("Embedding", "EmbeddingBag", "Embed")),
    Rule(optimizer="adamw", reason="embedding", component=_EMBEDDINGS),
    Rule(optimizer="adamw", reason="output head", component=_HEADS),
    Rule(optimizer="adamw", reason="output head", path=("output/*", "model/output/*")),
    Rule(optimizer="adamw", reason="normalisation", module_types=_NORM_MODULES),
    Rule(
        optimizer="adamw",
        reason="normalisation",
        component=("norm", "*_norm", "norm_*", "*norm[0-9]", "ln_*", "ln"),
    ),
    Rule(optimizer="muon", reason="hidden matrix", ndim=(2,)),
    Rule(optimizer="adamw", reason="more than two axes and no layout that says which matrices it holds"),
)
"""Matrices inside the network go to Muon, all else to AdamW. The first rule that matches decides."""


def route_params(
    params: Mapping[str, Any], *, rules: Sequence[Rule] | None = None, layout: MatrixLayout = OUT_IN
) -> RoutePlan:
    """Decide for each parameter which optimizer takes it.

    Parameters
    ----------
    params
        Path (components separated by ``.`` or ``/``) to array, shape, or :class:`ParamInfo`.
    rules
        Rules in order of precedence; the first that matches decides. ``None`` takes :data:`DEFAULT_RULES`; to
        overrule a line, put your rule in front of them.
    layout
        The matrix view of what goes to Muon by a rule without a layout.

    Returns
    -------
    RoutePlan
        A route for every parameter; ``print`` it before you train.

    Raises
    ------
    ValueError
        If no rule matches a parameter (none is dropped in silence), or a layout does not fit its shape.

    Examples
    --------
    >>> plan = route_params({"embed.weight": (256, 64), "blocks.0.q.weight": (64, 64), "blocks.0.q.bias": (64,)})
    >>> plan["blocks.0.q.weight"].optimizer
    'muon'
    >>> print(plan)
    parameter          shape   optimizer  reason
    embed.weight       256x64  adamw      embedding
    blocks.0.q.weight  64x64   muon       hidden matrix
    blocks.0.q.bias    64      adamw      no matrix: fewer than two axes
    <BLANKLINE>
    muon: 1 parameters, 4,096 elements
    adamw: 2 parameters, 16,448 elements
    """
    rules = DEFAULT_RULES if rules is None else tuple(rules)
    routes: dict[str, Route] = {}
    for path, value in params.items():
        info = _as_info(value)
        rule = next((rule for rule in rules if rule.matches(path, info)), None)
        if rule is None:
            raise ValueError(f"rules match no route for {path!r} of shape {info.shape}; accepted: rules that cover it")
        view = (rule.layout or layout) if rule.optimizer == "muon" else None
        if view is not None:
            view = _fitted(view, path, info.shape)
        routes[path] = Route(rule.optimizer, view, info.shape, info.trainable, rule.reason)
    return RoutePlan(routes)


def split_path(path: str) -> tuple[str, ...]:
    """Return the components of a path, without those that wrappers add (``_orig_mod``, a leading ``module``)."""
    components = [part for part in path.replace("/", ".").split(".") if part and part != "_orig_mod"]
    return tuple(components[1:] if components[:1] == ["module"] else components)


def _any_glob(names: Collection[str], patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _as_info(value: Any) -> ParamInfo:
    if isinstance(value, ParamInfo):
        return value
    shape = getattr(value, "shape", value)
    return ParamInfo(tuple(int(size) for size in shape), getattr(value, "dtype", None))


def _fitted(layout: MatrixLayout, path: str, shape: tuple[int, ...]) -> MatrixLayout:
    """Return the layout with axes that are counted for this shape; one that names its axes stays as it is."""
    try:
        layout.fans(shape)
    except ValueError as error:
        raise ValueError(f"layout of {path!r}: {error}; accepted: a layout that fits, or a rule for AdamW") from None
    return layout.at(len(shape)) if "rest" in (layout.fan_out, layout.fan_in) or layout.ndim else layout


def _route_from_dict(fields: dict[str, Any]) -> Route:
    layout = fields["layout"]
    if layout is not None:
        layout = MatrixLayout(tuple(layout["fan_out"]), tuple(layout["fan_in"]))
    return Route(fields["optimizer"], layout, tuple(fields["shape"]), fields["trainable"], fields["reason"])
