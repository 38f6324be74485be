"""maskedcrf train: settings from file and flags, one line for what is wrong, nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from small_corpus import corpus, write_conll

from maskedcrf.cli import main
from maskedcrf.training import train
from maskedcrf.training.settings import Settings

SMALL = """
epochs = 1
batch_sentences = 8
device = "cpu"
[encoder]
words = 8
lstm_hidden = 8
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_conll(tmp_path / "train.conll", corpus(16))
    write_conll(tmp_path / "dev.conll", corpus(6, 1))
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def test_a_file_and_flags_make_a_model_folder(files, capsys):
    flags = ["--train", "train.conll", "--dev", "dev.conll", "--test", "dev.conll", "-o", "model", "--scheme", "BIOES"]
    assert main(["train", "small.toml", *flags, "--file-scheme", "BIO", "--set", "optim.head_rate=2e-3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["model"] == "model"
    assert answer["scores"].keys() == {"dev", "test"}
    assert answer["settings"]["optim"]["head_rate"] == 2e-3
    config = json.loads((files / "model" / "config.json").read_text())
    assert (config["scheme"], config["output_scheme"]) == ("BIOES", "BIO")
    assert not (files / "model.training").exists()


def test_files_are_read_in_the_output_scheme_where_theirs_is_left_out(files):
    flags = [
        "--train",
        "train.conll",
        "--dev",
        "dev.conll",
        "-o",
        "model",
        "--scheme",
        "BIOES",
        "--output-scheme",
        "BIO",
    ]
    assert main(["train", "small.toml", *flags]) == 0
    config = json.loads((files / "model" / "config.json").read_text())
    assert (config["scheme"], config["output_scheme"]) == ("BIOES", "BIO")
    assert config["record"]["settings"]["file_scheme"] == "BIO"


def test_everything_may_stand_in_the_file(files, capsys):
    (files / "all.toml").write_text('train = "train.conll"\ndev = ["dev.conll"]\noutput = "model"\n' + SMALL)
    assert main(["train", "all.toml"]) == 0
    assert "dev: F1" in capsys.readouterr().out


def test_several_seeds_are_summed_up(files, capsys):
    flags = ["--train", "train.conll", "--dev", "dev.conll", "-o", "runs", "--seeds", "2", "--seed", "5"]
    assert main(["train", "small.toml", *flags]) == 0
    assert "dev F1, retain: best" in capsys.readouterr().out
    assert json.loads((files / "runs" / "seeds.json").read_text())["seeds"] == [5, 6]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["small.toml", "-o", "model"], "nothing given for train"),
        (["small.toml", "--train", "train.conll"], "nothing given for output"),
        (["nowhere.toml", "--train", "train.conll", "-o", "model"], "nowhere.toml"),
        (["--train", "nowhere.conll", "-o", "model"], "nowhere.conll"),
        (["--train", "train.conll", "-o", "model", "--set", "epoch=3"], "did you mean epochs?"),
        (["--train", "train.conll", "-o", "model", "--set", "bar=true"], "unknown setting bar"),
        (["--train", "train.conll", "-o", "model", "--set", "epochs"], "KEY=VALUE"),
        (["--train", "train.conll", "-o", "model", "--scheme", "BIOS"], "BIO"),
        (["--train", "train.conll", "-o", "model", "--file-scheme", "BMES"], "train.conll:"),
        (["--train", "train.conll", "-o", "train.conll/model", "--set", "epochs=1"], "train.conll"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_two(files, capsys, arguments, message):
    assert main(["train", *arguments]) == 2
    errors = capsys.readouterr().err.strip().split("\n")
    assert message in errors[-1]
    assert len(errors) == 1
    assert not (files / "model").exists()


def test_what_is_in_the_way_is_left_alone(files, capsys):
    (files / "model").mkdir()
    (files / "model" / "precious").write_text("mine")
    assert main(["train", "small.toml", "--train", "train.conll", "-o", "model"]) == 2
    assert "something already" in capsys.readouterr().err
    assert (files / "model" / "precious").read_text() == "mine"
    assert main(["train", "small.toml", "--train", "train.conll", "-o", "model", "--overwrite"]) == 2
    assert "precious is no part of a model and would be lost" in capsys.readouterr().err
    assert (files / "model" / "precious").read_text() == "mine"
    assert main(["train", "small.toml", "--train", "train.conll", "-o", ".", "--overwrite"]) == 2
    assert (files / "train.conll").is_file()


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("train = 3", "train"),
        ("dev = [1]", "dev"),
        ("output = 3", "output"),
        ('seeds = "a"', "seeds"),
        ("seeds = 2.5", "seeds"),
        ("overwrite = 3", "overwrite"),
        ('train = {a = "train.conll"}', "train"),
    ],
)
def test_files_of_another_kind_are_named_in_one_line(files, capsys, line, setting):
    given = {"train": 'train = "train.conll"', "output": 'output = "model"'} | {setting: line}
    (files / "wrong.toml").write_text("\n".join(given.values()))
    assert main(["train", "wrong.toml"]) == 2
    [error] = capsys.readouterr().err.strip().split("\n")
    assert error.startswith(f"maskedcrf: {setting}")


LOGGING = """
import logging
import sys
from maskedcrf.cli import main
from maskedcrf.training import train

def build_model(*_):
    library = logging.getLogger("library")
    library.addHandler(logging.StreamHandler())
    library.warning("retrying")
    train.logger.info("ours")
    raise train.MaskedCRFError("enough")

train.build_model = build_model
sys.exit(main(["train", "small.toml", "--train", "train.conll", "-o", "model"]))
"""


def test_a_library_that_logs_by_itself_is_not_heard_twice(files):
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "retrying\nours\nmaskedcrf: enough\n")


def test_help_has_an_example(capsys):
    assert main(["train", "--help"]) == 0
    assert "maskedcrf train --train" in capsys.readouterr().out


def test_help_shows_the_defaults_of_the_settings(capsys):
    assert main(["train", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    settings = Settings()
    for name in ("scheme", "illegal_gold", "head", "mask", "seed", "device"):
        text = out.partition(f" --{name.replace('_', '-')} <")[2].partition(" <")[0]
        assert f"[default: {getattr(settings, name)}]" in text
    for name in ("file_scheme", "output_scheme", "epochs"):
        assert Settings.model_fields[name].description in out


def test_a_policy_for_spans_that_fit_no_tokens_is_a_flag(tmp_path, capsys):
    path, command = tmp_path / "train.jsonl", ["train", "--dev", "absent", "-o", str(tmp_path / "m"), "--train"]
    path.write_text('{"text": "Fly to Lima.", "spans": [{"start": 7, "end": 10, "label": "LOC"}]}\n')
    assert main([*command, str(path)]) == 2
    assert capsys.readouterr().err.endswith("misfits snap or drop (--misfits)\n")
    assert main([*command, str(path), "--misfits", "snap", "--overlaps", "first"]) == 2
    assert capsys.readouterr().err.endswith(
        "absent: No such file or directory; give a readable file, or - for standard input\n"
    )


def stop_before(monkeypatch, name, calls=0):
    """Have Ctrl-C pressed when this function of a run is called, after so many calls."""
    function = getattr(train, name)

    def stopped(*given, **named):
        nonlocal calls
        calls -= 1
        if calls < 0:
            raise KeyboardInterrupt
        return function(*given, **named)

    monkeypatch.setattr(train, name, stopped)


@pytest.mark.parametrize(
    ("place", "flags", "message"),
    [
        ("run_epochs", [], "nothing was finished, the same command begins anew"),
        ("_tagger", [], "the same command goes on from the last checkpoint, in model.training"),
        (
            "_tagger",
            ["--overwrite"],
            "the same command without --overwrite goes on from the last checkpoint, in model.training",
        ),
    ],
)
def test_a_run_that_is_stopped_says_what_is_left_of_it(files, capsys, monkeypatch, place, flags, message):
    stop_before(monkeypatch, place)
    assert main(["train", "small.toml", "--train", "train.conll", "-o", "model", *flags]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"maskedcrf: stopped; {message}"


def test_a_run_over_an_old_model_that_is_stopped_begins_anew(files, capsys, monkeypatch):
    command = ["train", "small.toml", "--train", "train.conll", "-o", "model", "--overwrite"]
    assert main(command) == 0
    stop_before(monkeypatch, "_tagger")
    assert main(command) == 130
    assert capsys.readouterr().err.endswith("stopped; nothing was finished, the same command begins anew\n")


def test_stopped_seeds_are_kept_and_the_same_command_does_the_rest(files, capsys, monkeypatch):
    command = ["train", "small.toml", "--train", "train.conll", "-o", "runs", "--seeds", "2"]
    with monkeypatch.context() as patched:
        stop_before(patched, "run_epochs", calls=1)
        assert main(command) == 130
    assert capsys.readouterr().err.endswith("stopped; finished seeds are kept, the same command does the rest\n")
    finished = (files / "runs/seed-1/model.safetensors").stat()
    assert main(command) == 0
    kept = (files / "runs/seed-1/model.safetensors").stat()
    assert (kept.st_ino, kept.st_mtime_ns) == (finished.st_ino, finished.st_mtime_ns)
    assert json.loads((files / "runs/seeds.json").read_text())["seeds"] == [1, 2]
