"""maskedcrf serve as its own process: start, answer, stop."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from service_helpers import TEXT, build_tagger, serving

from maskedcrf.cli import INTERRUPTED, main

ENDLESS_WARM_UP = """
import sys, threading
from maskedcrf.cli import INTERRUPTED, main
from maskedcrf.service.app import Service

def warm_up(service):
    print("warming up", file=sys.stderr, flush=True)
    threading.Event().wait()

Service.warm_up = warm_up
sys.exit(main(["serve", sys.argv[1], "--port", "0"]))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tagger().save(tmp_path_factory.mktemp("served") / "model")


def test_it_serves_a_model_folder_and_answers_what_it_has_begun_before_it_stops(model: Path) -> None:
    body = json.dumps({"text": TEXT}).encode()
    with serving(model, "--log") as (process, port):
        assert httpx.get(f"http://localhost:{port}/health", timeout=60).json()["status"] == "ok"
        assert httpx.get(f"http://localhost:{port}/", timeout=60).text.startswith("<!doctype html>")
        with socket.create_connection(("127.0.0.1", port), timeout=100) as connection:
            head = "POST /tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close"
            connection.sendall(f"{head}\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100")  # the server waits for the body
            process.send_signal(signal.SIGTERM)
            with suppress(ConnectionRefusedError, ConnectionResetError):  # reset if it waited as the listener closed
                while True:
                    socket.create_connection(("127.0.0.1", port), timeout=60).close()
            connection.sendall(body)
            answer = b""
            while part := connection.recv(1 << 16):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"B-LOC"' in answer
        assert process.wait(timeout=100) in (0, -signal.SIGTERM)
        log = process.stderr.read()
        assert "POST /tag 200" in log
        assert "Oslo" not in log
        assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_whose_model_is_not_warm_stops_without_waiting_for_it(model: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", ENDLESS_WARM_UP, str(model)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr.readline() == "warming up\n"
            process.send_signal(number)
            # The warm-up never ends, so the process does only if it is not waited for.
            assert process.wait(timeout=100) in (INTERRUPTED, -number)
        finally:
            process.kill()
        assert process.stderr.read() == ""


@pytest.fixture(scope="module")
def port(model: Path) -> Iterator[int]:
    """Of a server with a name of its own and with rules."""
    names = model.parent / "clients.txt"
    names.write_text("Zygmunt\n", encoding="utf-8")
    rules = ["--patterns", "builtin", "--dictionary", f"PER={names}"]
    with serving(model, "--name", "tagger.example", *rules) as (_, port):
        yield port


def test_it_listens_to_this_machine_alone_and_answers_to_its_names_only(port: int) -> None:
    address = f"http://127.0.0.1:{port}/health"
    assert httpx.get(address, timeout=60).status_code == 200
    assert httpx.get(address, headers={"Host": "tagger.example"}, timeout=60).status_code == 200
    assert httpx.get(address, headers={"Host": "other.example"}, timeout=60).status_code == 400
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for other in others - {"127.0.0.1"}:
        if not other.startswith("127."):
            with pytest.raises(OSError, match="refused|unreachable"):
                socket.create_connection((other, port), timeout=60).close()


def test_rules_hide_what_they_find_in_the_service_too(port: int) -> None:
    question = {"text": "Zygmunt: ann@example.org", "threshold": 1}
    answer = httpx.post(f"http://localhost:{port}/redact", json=question, timeout=60).json()
    assert answer["text"] == "[PER]: [EMAIL]"


def test_a_port_in_use_is_refused_in_one_line(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(model), "--port", str(port)]) == 2
    message = capsys.readouterr().err
    assert (
        message
        == f"maskedcrf: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port\n"
    )


def test_a_host_that_is_none_is_refused_in_one_line(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(model), "--host", "256.1.1.1"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("maskedcrf: cannot listen on 256.1.1.1 ")
    assert message.endswith("no such address; choose another with --host\n")


def test_a_host_that_is_not_this_machine_is_refused_by_its_option(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(model), "--host", "192.0.2.1", "--port", "0"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("maskedcrf: cannot listen on 192.0.2.1 port 0: ")
    assert message.endswith("; choose another with --host\n")


def test_rules_that_cannot_be_read_are_refused_in_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(model), "--patterns", str(tmp_path / "none.toml")]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"maskedcrf: {tmp_path / 'none.toml'}: No such file or directory")
    assert message.count("\n") == 1


def test_a_file_is_no_model_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    assert main(["serve", str(tmp_path / "m.onnx")]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"maskedcrf: {tmp_path / 'm.onnx'}: a file; a model folder is what")
    assert message.count("\n") == 1


def test_a_folder_that_is_no_model_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_the_extra_the_command_says_what_to_install(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "maskedcrf.service.listen", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(model)]) == 2
    assert "pip install 'maskedcrf[serve]'" in capsys.readouterr().err


def test_flags_change_the_decoding_that_is_served(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    monkeypatch.setattr("maskedcrf.service.listen.serve", lambda tagger, **_: served.append(tagger))
    assert main(["serve", str(model), "--decoding", "segments", "--segment-threshold", "0.9"]) == 0
    assert main(["serve", str(model), "--decoding", "path"]) == 0
    assert [each.decoding for each in served] == ["segments", "path"]
    assert served[0].segment_threshold == 0.9
    assert main(["serve", str(model), "--decoding", "segments", "--segment-threshold", "expected"]) == 2
    assert len(served) == 2
