"""What is printed for people who run the official container keeps it private."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from real_searxng import as_json

from sparkgate.clients.searxng import searxng
from sparkgate.searxng_deploy import compose_yaml, image, systemd_unit


def service(text: str) -> dict[str, list[str]]:
    """The settings of the [Service] section of a unit, repeated ones together."""
    body = text.partition("[Service]\n")[2].partition("\n[")[0].replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in body.splitlines():
        name, _, value = line.partition("=")
        found.setdefault(name, []).append(value)
    return found


def test_the_compose_file_publishes_on_loopback_and_drops_every_privilege() -> None:
    container = as_json(compose_yaml(port=8999))["services"]["searxng"]
    assert container["ports"] == ["127.0.0.1:8999:8080"]
    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert container["security_opt"] == ["no-new-privileges:true"]
    assert container["volumes"] == ["./settings.yml:/etc/searxng/settings.yml:ro"]
    assert "valkey" not in compose_yaml()


def test_the_compose_file_holds_no_secret_but_names_the_file_that_does() -> None:
    assert as_json(compose_yaml())["services"]["searxng"]["env_file"] == "./secret.env"
    assert "umask 077" in compose_yaml()


@pytest.mark.skipif(not shutil.which("docker"), reason="docker's client is not installed")
def test_docker_compose_accepts_the_file(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(compose_yaml())
    (tmp_path / "secret.env").write_text("SEARXNG_SECRET=x\n")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no compose")
    argv = ["docker", "compose", "config", "--quiet"]
    assert subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_the_unit_runs_the_container_as_the_compose_file_does(runtime: Any) -> None:
    unit = service(systemd_unit(runtime, port=8999))
    words = shlex.split(unit["ExecStart"][0])
    assert words[:3] == ["/usr/bin/env", runtime, "run"]
    assert words[-1] == "docker.io/searxng/searxng:latest"
    assert "127.0.0.1:8999:8080" in words
    assert {"--read-only", "--cap-drop", "ALL", "no-new-privileges"} <= set(words)
    assert unit["Restart"] == ["always"]
    assert unit["ExecStop"] == [f"/usr/bin/env {runtime} stop -t 10 sparkgate-searxng"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "sparkgate-searxng.service"
    path.write_text(systemd_unit("docker"))
    argv = ["systemd-analyze", "verify", "--user", str(path)]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stderr
    assert [line for line in said.splitlines() if path.name in line] == []


def test_the_tag_is_explained_when_it_moves_and_not_when_it_is_pinned() -> None:
    digest = "sha256:" + "a" * 64
    for text in (compose_yaml(), systemd_unit()):
        assert "searxng:latest" in text and "The tag is `latest` because" in text
    for text in (compose_yaml(tag=digest), systemd_unit(tag=digest)):
        assert f"docker.io/searxng/searxng@{digest}" in text and "latest" not in text


@pytest.mark.parametrize("tag", ["", "a b", "../x", "x\n", "sha256:abc", "-x", "t" * 129])
def test_a_tag_that_is_none_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="neither an image tag nor"):
        image(tag)


def test_the_command_line_prints_each_text() -> None:
    def printed(*words: str) -> str:
        return CliRunner().invoke(searxng, words, catch_exceptions=False).output

    assert printed("compose", "--port", "8999") == compose_yaml(8999)
    assert printed("unit", "--runtime", "docker", "--tag", "x") == systemd_unit("docker", tag="x")
    settings = as_json(printed("compose", "--settings"))
    assert settings["search"]["formats"] == ["html", "json"]
    assert "secret_key" not in settings["server"]


@pytest.mark.parametrize("words", [("compose", "--tag", "../x"), ("unit", "--runtime", "lxc"), ("up", "--port", "0")])
def test_wrong_usage_ends_with_2(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(searxng, words).exit_code == 2
