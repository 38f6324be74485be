"""The public import paths, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import maskedcrf

PUBLIC = {"Constraints", "MaskedCRF", "MaskedCRFError", "Scheme", "Tagger", "audit", "evaluate"}

PATHS = {
    "maskedcrf.cli": ["main"],
    "maskedcrf.compat.allennlp": ["ConditionalRandomField", "allowed_transitions"],
    "maskedcrf.compat.flair": ["from_flair"],
    "maskedcrf.compat.torchcrf": ["CRF"],
    "maskedcrf.errors": [
        "ConstraintError",
        "DataError",
        "IllegalPathError",
        "MaskedCRFError",
        "MissingExtraError",
        "SchemeError",
        "ShapeError",
        "VoidPromiseError",
    ],
    "maskedcrf.tags.constraints": ["Constraints"],
    "maskedcrf.tags.scheme": ["SCHEMES", "Scheme"],
    "maskedcrf.tags.segments": [
        "Segment",
        "convert",
        "discard",
        "encode",
        "retain",
        "segments",
        "suggest_schemes",
        "violations",
    ],
}


def test_the_package_lists_its_public_names() -> None:
    assert set(maskedcrf.__all__) == PUBLIC | {"__version__"}
    assert sorted(maskedcrf.__all__) == dir(maskedcrf)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_names_come_from_the_package_itself(name: str) -> None:
    assert getattr(maskedcrf, name).__name__ == name


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in PATHS.items() for name in names])
def test_public_paths_stay(module: str, name: str) -> None:
    assert hasattr(import_module(module), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'maskedcrf' has no attribute 'Nonsense'"):
        maskedcrf.Nonsense  # noqa: B018


def test_every_error_is_caught_by_the_one_family() -> None:
    errors = import_module("maskedcrf.errors")
    assert all(issubclass(getattr(errors, name), errors.MaskedCRFError) for name in PATHS["maskedcrf.errors"])


def imported_by(statement: str) -> set[str]:
    """Top-level names of the modules a fresh interpreter holds after this statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(finished.stdout.split())


HEAVY = {"torch", "numba", "numpy", "pydantic", "rich", "transformers", "typer"}


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not imported_by("import maskedcrf") & HEAVY


@pytest.mark.parametrize("name", ["Constraints", "Scheme", "MaskedCRFError"])
def test_the_rules_come_without_torch(name: str) -> None:
    assert not imported_by(f"from maskedcrf import {name}") & (HEAVY - {"numpy"})
