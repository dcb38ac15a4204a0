"""What a configuration means: the optimizer with its recipes, and the schedule of the learning rate."""

from dataclasses import dataclass, replace
from typing import Literal

from zeropower.checks import require_count
from zeropower.config import MuonHybridConfig, OptimizerConfig
from zeropower.dialect_rules import BURN_DRAGON_TARGETS, TargetMatch, burn_dragon_rules
from zeropower.dialects import DIALECTS
from zeropower.recipes import AdamWRecipe, MuonRecipe
from zeropower.routing import Rule
from zeropower.schedules import Constant, LrSchedule, TwoStage

_DRAGON = DIALECTS["burn-dragon"]
_PUBLISHED = AdamWRecipe(beta_1=0.9, beta_2=0.95, eps=1e-8)  # the constants of BitNet b1.58's training


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The optimizer that a configuration asks for.

    Attributes
    ----------
    kind
        ``"adamw"``, ``"bitnet_adamw"`` or ``"muon_hybrid"``.
    lr
        Learning rate, where there is no schedule.
    weight_decay
        Weight decay; of the first stage, where it has two.
    adamw
        The recipe of AdamW; in the hybrid, of what Muon does not take.
    weight_decay_final
        Weight decay of the last step, in the hybrid of what Muon does not take; ``None`` where it is constant.
    second_stage_start
        Where the decay begins to change, as a share of the run.
    total_steps
        Steps of the run, at least 1.
    clock
        What counts the steps of the run: ``"parameter"``, the updates that each parameter has seen.
    muon
        The recipe of Muon in the hybrid.
    rules
        Which parameter goes where in the hybrid.
    clip_norm
        Greatest norm of the gradient of a parameter.
    clip_value
        Greatest element of a gradient.
    """

    kind: Literal["adamw", "bitnet_adamw", "muon_hybrid"]
    lr: float
    weight_decay: float
    adamw: AdamWRecipe
    weight_decay_final: float | None = None
    second_stage_start: float = 0.5
    total_steps: int
    clock: Literal["parameter"] = "parameter"
    muon: MuonRecipe | None = None
    rules: tuple[Rule, ...] | None = None
    clip_norm: float | None = None
    clip_value: float | None = None


def resolve(config: OptimizerConfig, total_steps: int, *, match: TargetMatch = "last") -> Resolution:
    """Return the optimizer that a configuration asks for.

    ``bitnet_published`` is AdamW with the constants of BitNet's training and a decay to ``weight_decay_final``, or 0.
    ``adamw`` decays to ``weight_decay_final`` where it is given and ``schedule_mode`` is not ``bdh_reference``, which
    ignores it. The hybrid gives the rest of the parameters to what ``adamw`` would be.

    Parameters
    ----------
    config
        The configuration.
    total_steps
        Steps of the run, at least 0; 0 counts as 1.
    match
        Where the hybrid looks for the names of ``target_modules``: ``"last"``, at the end of a parameter's path alone;
        ``"component"``, anywhere in it, as the name of a module around the parameter.

    Returns
    -------
    Resolution
        The optimizer.
    """
    require_count("total_steps", total_steps, least=0)
    published = config.name == "bitnet_published"
    final = config.weight_decay_final
    if published:
        final = 0.0 if final is None else final
    elif config.schedule_mode == "bdh_reference":
        final = None
    plain = Resolution(
        kind="adamw" if final is None else "bitnet_adamw",
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        adamw=_PUBLISHED if published else _DRAGON.adamw,
        weight_decay_final=final,
        total_steps=max(int(total_steps), 1),
        clip_norm=config.grad_clip_norm,
        clip_value=config.grad_clip_value,
    )
    if config.name != "muon_hybrid_exp" or config.muon is None:
        return plain
    return replace(plain, kind="muon_hybrid", muon=_recipe(config.muon), rules=_rules(config.muon, match))


def resolve_lr_schedule(config: OptimizerConfig, total_steps: int, *, num_iters: int | None = None) -> LrSchedule:
    """Return the learning-rate schedule that a configuration asks for.

    Parameters
    ----------
    config
        The configuration; without ``lr_schedule``, ``bdh_reference`` is constant, the other modes have two stages.
    total_steps
        Steps of the run, at least 0; 0 counts as 1.
    num_iters
        Overrules the configuration's field of that name, and the length of the run, in the schedules that have it:
        cosine and linear. At least 1.

    Returns
    -------
    LrSchedule
        The schedule. A number that does not fit the length of the run is an error with the path of its field.
    """
    require_count("total_steps", total_steps, least=0)
    total_steps = max(int(total_steps), 1)
    if num_iters is not None:
        require_count("num_iters", num_iters, least=1)
    if config.lr_schedule is not None:
        return config.lr_schedule.to_schedule(config.learning_rate, total_steps, num_iters=num_iters)
    if config.schedule_mode == "bdh_reference":
        return Constant(lr=config.learning_rate)
    return TwoStage(peak=config.learning_rate, total_steps=total_steps)


def _recipe(muon: MuonHybridConfig) -> MuonRecipe:
    return replace(_DRAGON.muon, momentum=muon.momentum, nesterov=muon.nesterov, steps=muon.ns_steps)


def _rules(muon: MuonHybridConfig, match: TargetMatch) -> tuple[Rule, ...]:
    targets = BURN_DRAGON_TARGETS if muon.target_modules is None else muon.target_modules
    return burn_dragon_rules(targets, split_heads=muon.split_decoder_heads, match=match)
