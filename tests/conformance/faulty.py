"""Backends with one fault each, and what a third party's record looks like. Loaded by name in other processes."""

from dataclasses import replace

import numpy as np

from zeropower import GENERIC, AdamWRecipe, adamw_step, muon_step
from zeropower.conformance.backends import NUMPY

SOUND = replace(NUMPY, name="sound", dtypes=("float64", "float32"), unavailable={})


def _transformed(name, transform):
    return replace(SOUND, name=name, transforms={"eager": transform})


# ---- products ----


def _one_sided(a, b, c=None, /, *, alpha=1.0, beta=1.0):
    """Computes the upper triangle and forgets to mirror it."""
    return np.triu(GENERIC.symmul(a, b, c, alpha=alpha, beta=beta))


def _transposed(a, b, c=None, /, *, alpha=1.0, beta=1.0):
    """Takes operands for symmetric that are so up to rounding."""
    return GENERIC.symmul(a, b.mT, c, alpha=alpha, beta=beta)


def _unscaled(a, b, c=None, /, *, alpha=1.0, beta=1.0):
    return GENERIC.muladd(a, b, c, alpha=alpha)


def _in_place(a, b, c=None, /, *, alpha=1.0, beta=1.0):
    if c is None:
        return GENERIC.muladd(a, b, alpha=alpha)
    c *= beta
    c += alpha * (a @ b)
    return c


def _in_half(a, b, c=None, /, *, alpha=1.0, beta=1.0):
    a, b = (x.astype(np.float16).astype(x.dtype) for x in (a, b))
    return GENERIC.muladd(a, b, c, alpha=alpha, beta=beta)


def _with(**products):
    return {"generic": GENERIC._replace(**products)}


ONE_SIDED = replace(SOUND, name="one-sided", kernels=_with(symmul=_one_sided))
TRANSPOSED = replace(SOUND, name="transposed", kernels=_with(symmul=_transposed))
UNSCALED = replace(SOUND, name="unscaled", kernels=_with(muladd=_unscaled))
IN_HALF = replace(SOUND, name="in-half", kernels=_with(muladd=_in_half))
COLUMNS = replace(SOUND, name="columns", kernels=_with(gram=lambda x: x.mT @ x))
IN_PLACE = replace(SOUND, name="in-place", kernels=_with(muladd=_in_place))
IN_PLACE_READONLY = replace(IN_PLACE, name="in-place-readonly", from_numpy=lambda x, dtype: _frozen(np.array(x, dtype)))


def _frozen(x):
    x.flags.writeable = False
    return x


# ---- functions: what a transform makes of them ----


def _on_arguments(change):
    """Return the transform after which every function sees its array of matrices changed."""
    return lambda function: lambda *arrays: function(*map(change, arrays))


def _on_results(change):
    return lambda function: lambda *arrays: change(function(*arrays))


def _writes(x):
    if isinstance(x, np.ndarray):
        x *= 0.5  # no law of scale sees it
    return x


def _widen(y):
    return y.astype(np.float64) if isinstance(y, np.ndarray) else y


def _leak(y):
    """Spreads what is bad in one matrix over the others."""
    if isinstance(y, np.ndarray) and y.ndim == 3:
        return y + 0 * np.sum(y, axis=0)
    return y


def _off(y):
    """Is wrong in the fourth digit."""
    return tuple(map(_off, y)) if isinstance(y, tuple) else y * (1 + 1e-4)


WRITES = _transformed("writes", _on_arguments(_writes))
WIDENS = _transformed("widens", _on_results(_widen))
LEAKS = _transformed("leaks", _on_results(_leak))
OFF = _transformed("off", _on_results(_off))
SKIPS = _transformed("skips", lambda function: lambda *arrays: arrays[0])
RETRACES = replace(SOUND, name="retraces", transforms={"eager": lambda f: f, "jit": lambda f: f})


# ---- optimizers ----


def _optimizer(step_order):
    def run(params, grads, *, kind, recipe, lr, weight_decay):
        params, states = {name: np.array(p) for name, p in params.items()}, dict.fromkeys(params)
        for step, (gradients, rate) in enumerate(zip(grads, lr, strict=True), start=1):
            for name, param in params.items():
                take = adamw_step if isinstance(recipe, AdamWRecipe) else muon_step
                arguments = step_order(rate, weight_decay, step)
                params[name], states[name] = take(param, gradients[name], states[name], recipe, **arguments)
        return params

    return run


FAITHFUL = replace(
    SOUND, name="faithful", optimizer=_optimizer(lambda lr, wd, step: {"lr": lr, "weight_decay": wd, "step": step})
)
NO_DECAY = replace(SOUND, name="no-decay", optimizer=_optimizer(lambda lr, wd, step: {"lr": lr, "step": step}))
LATE = replace(
    SOUND, name="late", optimizer=_optimizer(lambda lr, wd, step: {"lr": lr, "weight_decay": wd, "step": step + 1})
)
COARSE = replace(
    SOUND,
    name="coarse",
    optimizer=_optimizer(lambda lr, wd, step: {"lr": lr * (1 + 1e-4), "weight_decay": wd, "step": step}),
)

# ---- records that are wrong, and records that own up to a fault ----

NOT_A_BACKEND = "numpy"
NAMESAKE = replace(SOUND, dtypes=("float64",))
STRANGE_NAME = replace(SOUND, name="strange", expected_failures={"test_no_such_check": "never written"})
FORGETFUL = ("test_symmul", "test_symmul_mirrors_or_multiplies_what_it_is_given")
KNOWN_FAULT = replace(ONE_SIDED, name="known", expected_failures=dict.fromkeys(FORGETFUL, "forgets to mirror"))
KNOWN_IN_PART = replace(
    SOUND,
    name="in-part",
    kernels={**SOUND.kernels, "one-sided": ONE_SIDED.kernels["generic"]},
    expected_failures={f"{check}[one-sided]": "forgets to mirror" for check in FORGETFUL},
)
MENDED = replace(SOUND, name="mended", expected_failures={"test_gram": "was wrong once"})
ABSENT = replace(
    SOUND,
    name="absent",
    transforms={"eager": lambda f: f, "jit": lambda f: f},
    unavailable={"jit": "no compiler", "test_gram[float32]": "too slow"},
)
