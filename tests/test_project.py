"""Promises about the project's own files: safe source, examples that run, versions that agree."""

from __future__ import annotations

import ast
import doctest
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import maskedcrf

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# Loaders and evaluators that run what a file says.
UNSAFE_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "torch.load", "torch.hub.load", "yaml.load", "yaml.unsafe_load"}
UNSAFE_KEYWORDS = {"trust_remote_code", "allow_pickle"}


def unsafe(source: str) -> Iterator[str]:
    """Each unsafe construct of a Python file, as `line: what`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = {f"{module}.{each.name}".strip(".") for each in node.names} | {module}
            found = {name for name in names if name.partition(".")[0] in UNSAFE_MODULES or name in UNSAFE_CALLS}
        elif isinstance(node, ast.Call):
            found = {ast.unparse(node.func)} & UNSAFE_CALLS
            found |= {
                each.arg for each in node.keywords if each.arg in UNSAFE_KEYWORDS and ast.unparse(each.value) != "False"
            }
        else:
            continue
        yield from (f"{node.lineno}: {name}" for name in found)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import torch, joblib as j",
        "from pickle import loads",
        "from torch import load",
        "torch.load('x')",
        "x = yaml.load(f)",
        "eval('1')",
        "exec('1')",
        "AutoModel.from_pretrained(x, trust_remote_code=True)",
        "AutoModel.from_pretrained(x, trust_remote_code=flag)",
        "np.load('x', allow_pickle=True)",
    ],
)
def test_the_search_finds_unsafe_code(source: str) -> None:
    assert list(unsafe(source))


@pytest.mark.parametrize(
    "source", ["model.eval()", "'never pickle'", "f(trust_remote_code=False)", "safetensors.torch.load_file(x)"]
)
def test_the_search_leaves_safe_code_alone(source: str) -> None:
    assert not list(unsafe(source))


def found_in_sources(search: Callable[[str], Iterable[str]]) -> list[str]:
    """All that a search finds in any source file, as `file:line: what`."""
    return [
        f"{path.relative_to(ROOT)}:{found}" for path in SOURCES for found in search(path.read_text(encoding="utf-8"))
    ]


def test_no_source_file_runs_what_a_file_says() -> None:
    assert found_in_sources(unsafe) == []


FILLING = {"masked_fill", "masked_fill_", "where", "full", "full_like", "new_full", "fill", "fill_"}


def large_negatives(source: str) -> list[str]:
    """Fillings such as `-1e4`, which stand for minus infinity until a score beats them."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in FILLING
        for argument in [*node.args, *(each.value for each in node.keywords)]
        if isinstance(argument, ast.UnaryOp) and isinstance(argument.op, ast.USub)
        if isinstance(argument.operand, ast.Constant) and 1000 <= argument.operand.value < float("inf")
    ]


@pytest.mark.parametrize(
    "source", ["x.masked_fill(mask, -1e4)", "torch.where(a, b, -10000)", "np.full(3, fill_value=-1e30)"]
)
def test_the_search_finds_large_negative_fillings(source: str) -> None:
    assert large_negatives(source)


@pytest.mark.parametrize("source", ["x.masked_fill(mask, -torch.inf)", "torch.full((2,), -100)", "x.clamp(-1e4, 0)"])
def test_the_search_leaves_infinity_and_ignored_labels_alone(source: str) -> None:
    assert not large_negatives(source)


def test_illegal_is_never_a_large_negative_number() -> None:
    assert found_in_sources(large_negatives) == []


def private_imports(source: str) -> list[str]:
    """Imports of another module's private names."""
    return [
        f"{node.lineno}: {node.module}.{each.name}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maskedcrf")
        for each in node.names
        if each.name.startswith("_") and not each.name.startswith("__")
    ]


def test_no_module_takes_another_ones_private_names() -> None:
    assert private_imports("from maskedcrf.crf.layer import _prepare") == ["1: maskedcrf.crf.layer._prepare"]
    assert found_in_sources(private_imports) == []


# Examples.

PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples(path: Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the line it begins on."""
    text = path.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start()) + 2, match[1]) for match in PYTHON_BLOCK.finditer(text)]


@pytest.mark.parametrize(
    "path", [path for path in PAGES if examples(path)], ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_python_examples_of_a_page_run_in_their_order(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for line, block in examples(path):
        if ">>> " in block:
            test = doctest.DocTestParser().get_doctest(block, names, path.name, str(path), line - 1)
            assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
            names.update(test.globs)
        else:
            exec(compile("\n" * (line - 1) + block, path, "exec"), names)


def test_the_readme_and_the_guides_have_examples() -> None:
    assert examples(ROOT / "README.md")
    assert sum(len(examples(path)) for path in (ROOT / "docs" / "guides").glob("*.md")) > 10


WITH_DOCTESTS = [path for path in SOURCES if ">>> " in path.read_text(encoding="utf-8")]


def test_the_examples_in_docstrings_hold() -> None:
    failed, examined = [], 0
    for path in WITH_DOCTESTS:
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for test in doctest.DocTestFinder().find(import_module(module)):
            examined += len(test.examples)
            failed += [test.name] * doctest.DocTestRunner().run(test).failed
    assert failed == []
    assert examined >= len(WITH_DOCTESTS) > 5


# Versions.

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = {
    canonicalize_name(name): version
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
    for name, version in [line.split("==")]
}
REQUIREMENTS = [
    Requirement(text)
    for group in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for text in group
    if not text.startswith("maskedcrf")
]


def test_every_dependency_has_a_lower_bound_and_an_exact_version_above_it() -> None:
    loose = [str(each) for each in REQUIREMENTS if [bound.operator for bound in each.specifier] != [">="]]
    below = [str(each) for each in REQUIREMENTS if PINS[canonicalize_name(each.name)] not in each.specifier]
    assert (loose, below) == ([], [])


# Not ours to choose a version of: it comes with what is named here, in the version that fits.
COMES_WITH = {"llvmlite": "numba", "triton": "torch"}


def modules(path: Path) -> set[str]:
    """Top-level names of all that a Python file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def test_everything_the_source_imports_is_declared() -> None:
    others = set().union(*map(modules, SOURCES)) - sys.stdlib_module_names - {"maskedcrf"}
    declared = {canonicalize_name(requirement.name) for requirement in REQUIREMENTS}
    assert others >= {"torch", "numba"}
    assert {canonicalize_name(COMES_WITH.get(name, name)) for name in others} <= declared


def test_the_workflows_test_every_python_version_that_the_package_names() -> None:
    workflows = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in ROOT.glob(".github/workflows/*.yml")
    }
    assert workflows.keys() == {"check", "documentation", "release"}
    named = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)}
    matrix = workflows["check"]["jobs"]["test"]["strategy"]["matrix"]
    assert set(matrix["python"]) == named
    assert {"macos-latest"} == {each["os"] for each in matrix["include"]}
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    steps = [step for flow in workflows.values() for job in flow["jobs"].values() for step in job["steps"]]
    made = {word for step in steps for word in re.findall(r"^make ([a-z]+)", step.get("run", ""))}
    assert {"check", "test", "docs"} == made <= targets
    assert all(flow["permissions"] == {"contents": "read"} for flow in workflows.values())


def test_exact_versions_are_plain() -> None:
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in PINS.values())
    assert PINS["torch"] == "2.13.0"


def test_the_extra_named_all_names_all_extras() -> None:
    extras = PROJECT["optional-dependencies"]
    assert Requirement(extras["all"][0]).extras == extras.keys() - {"all", "dev", "docs"}


def test_the_changelog_knows_this_version() -> None:
    headings = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert maskedcrf.__version__ in headings


def test_the_citation_names_this_version_and_the_paper() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == maskedcrf.__version__
    assert cited["license"] == PROJECT["license"]
    paper = cited["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == ["Wei", "Qi", "He", "Sun"]
