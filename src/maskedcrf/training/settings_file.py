"""The settings file of a run: TOML, with flags on top, and the files it reads and writes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from maskedcrf.training.settings import SettingsError, validate


class RunFiles(BaseModel):
    """What a run reads and writes, which stands beside its settings in a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    train: str | list[str]
    output: str
    dev: str | list[str] | None = None
    test: str | list[str] | None = None
    seeds: int | None = None
    overwrite: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The same values, each of its kind; what is missing or of another kind is named in one line."""
        for name in ("train", "output"):
            if not values.get(name):
                raise SettingsError(f"nothing given for {name}: say --{name} or put it in the settings file")
        return validate(cls, values).model_dump(exclude_unset=True)


def read_settings(
    path: Path | None, flags: Mapping[str, Any], *, base: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The values of a TOML file, or of `base`, with flags (`encoder.transformer` for a table's key) on top."""
    values: dict[str, Any] = deepcopy(dict(base or {}))
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"{path}: {error.strerror}; give a readable TOML file") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path}: not TOML ({error}); labelled files go after --train") from error
    for name, value in flags.items():
        *tables, key = name.split(".")
        table = values
        for step in tables:
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                raise SettingsError(f"{name}: {step} is a value, not a table")
        table[key] = value
    return values
