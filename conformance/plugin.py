"""The pytest plugin: backends become parameters of the checks, outcomes become a table.

In a conftest of your own, ``pytest_plugins = ["zeropower.conformance.plugin"]``; in a test file of your own,
``from zeropower.conformance.suite import *``; then ``pytest --zeropower-backend yourpackage.module:BACKEND``.
"""

from collections.abc import Generator, Hashable, Iterator
from itertools import product
from typing import Any

import pytest

from zeropower.backend import Backend
from zeropower.conformance.check import MARK, Transformation, Transformed
from zeropower.conformance.discovery import DiscoveryError, Missing, find_backends
from zeropower.conformance.table import Results

pytest.register_assert_rewrite("zeropower.conformance.suite")

OPTION = "--zeropower-backend"
BACKENDS = pytest.StashKey[list[Backend]]()
RESULTS = pytest.StashKey[Results]()
SHARED = pytest.StashKey[dict[Hashable, Transformed]]()
PROPERTY = "zeropower"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the backends."""
    group = parser.getgroup("zeropower", "conformance suite of zeropower")
    group.addoption(
        OPTION,
        dest="zeropower_backend",
        metavar="NAME",
        help="backends to check, separated by commas: an installed one, package.module:BACKEND, or all",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find the backends, so that a wrong name ends the run before it starts."""
    config.addinivalue_line("markers", f"{MARK}(group, dtypes, eager, representative): a check of the suite")
    config.addinivalue_line("markers", "original(*numbers): pins requirements of docs/originals.md")
    config.stash[RESULTS] = Results()
    config.stash[BACKENDS], config.stash[SHARED] = [], {}
    names: str | None = config.getoption("zeropower_backend", None)
    if names is None:
        return
    try:
        found = find_backends([name.strip() for name in names.split(",")])
    except DiscoveryError as error:
        raise pytest.UsageError(str(error)) from None
    results = config.stash[RESULTS]
    for backend in found:
        if backend.name in {other.name for other in config.stash[BACKENDS]}:
            raise pytest.UsageError(f"two backends have the name {backend.name!r}; accepted: one record a name")
        if isinstance(backend, Missing):
            results.rows.append(backend.name)
            results.missing[backend.name] = backend.reason
        else:
            _require_known_checks(backend)
            results.rows += [_row(backend, transform) for transform in backend.transforms]
            config.stash[BACKENDS].append(backend)


def _require_known_checks(backend: Backend) -> None:
    from zeropower.conformance.suite import CHECKS

    for field in ("unavailable", "expected_failures"):
        for key in getattr(backend, field):
            name, _ = _split(key)
            if name not in CHECKS and not (field == "unavailable" and key in backend.transforms):
                raise pytest.UsageError(f"{field} of backend {backend.name!r} names {key!r}, which is no check")


def _split(key: str) -> tuple[str, set[str]]:
    """Split ``"test_x[jit,float16]"`` into the check and what it is limited to."""
    name, _, rest = key.partition("[")
    return name, {part.strip() for part in rest.rstrip("]").split(",") if part.strip()}


# ---- parameters ----


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each check its backends, transforms, dtypes and kernels."""
    if metafunc.definition.get_closest_marker(MARK) is None:
        return
    if not metafunc.config.stash[BACKENDS] and not metafunc.config.stash[RESULTS].missing:
        raise pytest.UsageError(f"{OPTION} is not given (put the plugin into conftest.py); accepted: a backend, or all")
    names = [name for name in ("backend", "transform", "dtype", "kernels") if name in metafunc.fixturenames]
    params = [p for backend in metafunc.config.stash[BACKENDS] for p in _params(backend, metafunc.definition, names)]
    metafunc.parametrize(names, params, indirect=[name for name in names if name == "transform"], scope="function")


def _params(backend: Backend, check: pytest.Function, names: list[str]) -> Iterator[Any]:
    dtypes = _marked(check, "dtypes") or backend.dtypes
    axes: dict[str, list[str]] = {
        "transform": list(backend.transforms),
        "dtype": [dtype for dtype in dtypes if dtype in backend.dtypes] or list(dtypes)[:1],
        "kernels": list(backend.kernels),
    }
    chosen = [name for name in names if name != "backend"]
    for parts in product(*(axes[name] for name in chosen)):
        at = dict(zip(chosen, parts, strict=True))
        values: dict[str, Any] = at | {"backend": backend}
        if "kernels" in at:
            values["kernels"] = backend.kernels[at["kernels"]]
        parallel = check.config.pluginmanager.hasplugin("xdist")
        marks = [pytest.mark.xdist_group(backend.name)] if parallel else []
        if at.get("dtype", backend.dtypes[0]) not in backend.dtypes:
            marks.append(pytest.mark.skip(reason=f"{backend.name} has no {at['dtype']}"))
        if reason := _reason(backend.unavailable, check.name, parts):
            marks.append(pytest.mark.skip(reason=reason))
        if reason := _reason(backend.expected_failures, check.name, parts):
            marks.append(pytest.mark.xfail(reason=reason, strict=True))
        yield pytest.param(*(values[name] for name in names), id="-".join([backend.name, *parts]), marks=marks)


def _reason(table: Any, check: str, parts: tuple[str, ...]) -> str | None:
    for key, reason in table.items():
        name, limits = _split(key)
        if key in parts or (name == check and limits <= set(parts)):
            return reason
    return None


def _marked(node: pytest.Item, key: str) -> Any:
    return next((mark.kwargs[key] for mark in node.iter_markers(MARK) if key in mark.kwargs), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what a transform is not asked, and note the cell of the table for each check."""
    items[:] = [item for item in items if _wanted(item)]
    for item in items:
        if backend := _backend_of(item):
            transform = _params_of(item).get("transform", next(iter(backend.transforms)))
            group = _marked(item, "group") or _params_of(item)["function"].__name__
            item.user_properties.append((PROPERTY, (_row(backend, transform), group)))


def _row(backend: Backend, transform: str) -> str:
    return backend.name if len(backend.transforms) == 1 else f"{backend.name} {transform}"


def _wanted(item: pytest.Item) -> bool:
    backend = _backend_of(item)
    transform = _params_of(item).get("transform")
    if backend is None or transform is None or transform == next(iter(backend.transforms)):
        return True
    return not _marked(item, "eager") and (transform not in backend.slow or bool(_marked(item, "representative")))


def _backend_of(item: pytest.Item) -> Backend | None:
    return _params_of(item).get("backend") if item.get_closest_marker(MARK) else None


def _params_of(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


# ---- fixtures ----


@pytest.fixture
def transform(request: pytest.FixtureRequest, backend: Backend) -> Generator[Transformation]:
    """``transform(function, **options)``: the function of arrays, run as the backend's transform runs it."""
    transformation = Transformation(backend, request.param, request.config.stash[SHARED])
    yield transformation
    assert transformation.used, "the check ran nothing under its transform"


@pytest.fixture
def xp(backend: Backend) -> Any:
    """Return the namespace of the backend's arrays."""
    return backend.namespace()


# ---- the table ----


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Generator[None]:
    """Print the table below everything else."""
    yield
    results = config.stash[RESULTS]
    for category, reports in terminalreporter.stats.items():
        for report in reports:
            properties = dict(getattr(report, "user_properties", ()))
            if PROPERTY in properties and category in _OUTCOMES:
                row, group = properties[PROPERTY]
                results.add(row, group, _OUTCOMES[category], _why(report))
    if results.counts or results.missing:
        terminalreporter.section("zeropower conformance")
        for line in results.lines():
            terminalreporter.write_line(line)


_OUTCOMES = {"passed": "passed", "failed": "failed", "error": "failed", "skipped": "skipped", "xfailed": "skipped"}


def _why(report: Any) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected failure: {report.wasxfail}"
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return ""
