"""The JSON files of a saved encoder: checked against a model when read, refused in one line when wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from maskedcrf.errors import DataError
from maskedcrf.folders import FolderFiles


class JsonRecord(BaseModel):
    """What one JSON file holds; unknown keys and wrong types are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


R = TypeVar("R", bound=BaseModel)


def write_record(path: Path, record: BaseModel) -> None:
    """Write a record as JSON, the same bytes for the same record."""
    text = json.dumps(record.model_dump(mode="json"), sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def read_record(files: FolderFiles, name: str, kind: type[R]) -> R:
    """The record in a JSON file."""
    try:
        return kind.model_validate_json(files.read(name))
    except ValidationError as error:
        raise DataError(f"{files.where(name)}:1: {first_validation_error(error)}") from error


def first_validation_error(error: ValidationError) -> str:
    """The first complaint of a validation as one line: where, then what."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), str(first["msg"]))))
