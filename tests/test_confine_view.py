"""What a confined command sees and may change, against whoever has prepared the ground in an earlier run."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from test_confine import CLI, PIPE, WALLS, Confined, confined

from sparkgate.confine.environment import scrubbed
from sparkgate.confine.secrets import SECRETS, STARTED
from sparkgate.confine.trail import entries

pytestmark = pytest.mark.confining

__all__ = ["confined"]

ALL_WALLS = pytest.mark.parametrize("wall", WALLS)


def folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


# -- what runs outside as well


def test_a_folder_of_programs_in_the_folder_of_work_is_there_and_cannot_be_changed(confined: Confined) -> None:
    programs = folder(confined.work / "env" / "bin")
    script = "touch env/bin/nvidia-smi; mv env old; touch here"
    done = confined.shell(script, PATH=f"{programs}:{os.environ['PATH']}")
    assert not (programs / "nvidia-smi").exists() and (confined.work / "here").exists(), done.stderr
    assert f"{confined.work}/env cannot be changed inside" in done.stderr


def test_what_leads_to_such_a_folder_by_a_link_makes_the_folder_read_only(confined: Confined) -> None:
    elsewhere = folder(confined.box.root / "elsewhere" / "bin")
    (confined.work / "env").symlink_to(elsewhere.parent)
    done = confined.shell("rm env; touch here", PATH=f"{confined.work}/env/bin:{os.environ['PATH']}")
    assert (confined.work / "env").is_symlink() and not (confined.work / "here").exists()
    assert "the folder it starts in is read-only" in done.stderr


def test_programs_of_a_gate_that_started_elsewhere_are_shielded_too(confined: Confined) -> None:
    programs = folder(confined.work / "env" / "bin")
    path = confined.box.environment["PATH"]
    confined.box.environment["PATH"] = f"{programs}:{path}"
    host = confined.box.host()
    host.initialize()
    confined.box.environment["PATH"] = path
    confined.shell("touch env/bin/nvidia-smi; touch here")
    assert not (programs / "nvidia-smi").exists() and (confined.work / "here").exists()
    host.close()


def test_what_the_gate_starts_as_an_engine_cannot_be_changed(confined: Confined) -> None:
    program = folder(confined.work / "llama") / "server"
    program.write_text("#!/bin/sh\n")
    with confined.box.config.open("a") as config:
        config.write(
            '[engines.own]\nurl = "http://127.0.0.1:9"\nengine = "openai"\nruntime = "process"\n'
            f'command = ["{program}"]\n'
        )
    confined.shell("echo evil > llama/server; mv llama other; touch here")
    assert program.read_text() == "#!/bin/sh\n" and (confined.work / "here").exists()


@ALL_WALLS
def test_a_bubblewrap_that_somebody_put_into_the_way_is_not_started(confined: Confined, wall: str) -> None:
    programs = folder(confined.box.root / "bin")
    evil = programs / "bwrap"
    evil.write_text(f"#!/bin/sh\ntouch {confined.box.root}/ran\n")
    evil.chmod(0o755)
    done = confined.run("true", options=("--wall", wall), PATH=f"{programs}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert not (confined.box.root / "ran").exists()


def test_a_configuration_that_is_a_link_cannot_be_changed_where_it_leads(confined: Confined) -> None:
    real = folder(confined.work / "dot") / "config.toml"
    shutil.move(confined.box.config, real)
    confined.box.config.symlink_to(real)
    rules = folder(confined.work / "more" / "rules")
    (confined.box.config.parent / "rules").symlink_to(rules)
    before = real.read_text()
    confined.shell("echo >> dot/config.toml; touch more/rules/x.toml; mv dot other; mv more other2; touch here")
    assert real.read_text() == before and list(rules.iterdir()) == [] and (confined.work / "here").exists()


# -- where it starts and what it writes


@pytest.mark.parametrize("place", ["/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/", "/var/lib"])
def test_folders_of_the_machine_are_never_writable(confined: Confined, place: str) -> None:
    confined.work = Path(place)
    done = confined.shell("echo ran; touch sparkgate-was-here || echo safe")
    assert not (Path(place) / "sparkgate-was-here").exists()
    assert done.stdout == "ran\nsafe\n" or (done.returncode == 126 and "start it in a folder of files" in done.stderr)


@pytest.mark.parametrize("name", [*SECRETS, *STARTED])
def test_no_place_of_secrets_and_none_that_others_start_is_writable(confined: Confined, name: str) -> None:
    place = folder(confined.box.root / name)
    done = confined.run("true", options=("--write", str(place)))
    assert done.returncode == 126 and "cannot be written" in done.stderr


def test_a_link_is_not_followed_to_what_is_written(confined: Confined) -> None:
    target = folder(confined.box.root / "other")
    (confined.work / "out").symlink_to(target)
    done = confined.run("true", options=("--write", str(confined.work / "out")))
    assert done.returncode == 126 and f"name {target} itself" in done.stderr


def test_a_folder_that_is_gone_is_said_in_words(confined: Confined) -> None:
    command = f"cd {folder(confined.work / 'gone')} && rmdir ../gone && exec {' '.join(CLI)} confine -- true"
    confined.box.environment["PWD"] = str(confined.work)
    done = confined.box.host("sh", "-c", command)
    assert done.process.wait(60) == 126
    assert done.process.stderr and b"is gone" in done.process.stderr.read()


# -- secrets that come later


@ALL_WALLS
def test_secrets_that_come_later_or_are_renamed_into_place_stay_out_of_sight(confined: Confined, wall: str) -> None:
    home = confined.box.root
    (home / ".netrc").write_text("before")
    folder(home / ".config")
    host = confined.box.host(*confined.argv("bash", options=("--wall", wall)))
    host.send_bytes(b"echo started\n")
    assert host.line() == b"started"
    (home / ".netrc.new").write_text("SECRET")
    (home / ".netrc.new").rename(home / ".netrc")
    (folder(home / ".aws") / "credentials").write_text("SECRET")
    (folder(home / ".config" / "gh") / "hosts.yml").write_text("SECRET")
    host.send_bytes(f"cat {home}/.netrc {home}/.aws/credentials {home}/.config/gh/hosts.yml; echo done\n".encode())
    assert host.line() == b"done"
    assert host.close() == 0


def test_what_else_is_in_the_home_folder_is_in_sight_also_by_links(confined: Confined) -> None:
    home = confined.box.root
    (folder(home / ".config" / "tool") / "conf").write_text("seen\n")
    (home / "link").symlink_to(".config/tool/conf")
    assert confined.shell(f"cat {home}/link").stdout == "seen\n"


def test_a_secret_that_is_a_link_is_hidden_where_it_leads(confined: Confined) -> None:
    home = confined.box.root
    (folder(home / "dotfiles" / "ssh") / "id_rsa").write_text("SECRET\n")
    (home / "dotfiles" / "netrc").write_text("SECRET\n")
    (home / ".ssh").symlink_to("dotfiles/ssh")
    (home / ".netrc").symlink_to("dotfiles/netrc")
    done = confined.shell(f"cat {home}/dotfiles/ssh/id_rsa {home}/dotfiles/netrc {home}/.netrc; echo done")
    assert done.stdout == "done\n"


@ALL_WALLS
def test_an_entry_of_the_home_that_vanishes_meanwhile_stops_nothing(confined: Confined, wall: str) -> None:
    """The program that makes the namespaces is held up until what was seen has gone."""
    home = confined.box.root
    made = [home / f".tmp{number}" for number in range(300)]
    for path in made:
        path.touch()
    host = confined.box.host(*confined.argv("echo", "started", options=("--wall", wall)))
    for path in made:
        path.unlink(missing_ok=True)
    assert host.line() == b"started"


def test_a_home_with_many_entries_is_confined_as_well(confined: Confined) -> None:
    for number in range(1000):
        (confined.box.root / f"file{number}").touch()
    found = confined.attacked()
    assert {name for name, one in found.items() if one["state"] == "open"} == set()


def test_a_home_with_too_many_entries_is_refused_unless_best_effort_is_wanted(confined: Confined) -> None:
    for number in range(5100):
        (confined.box.root / f"file{number}").touch()
    refused = confined.run("true")
    assert refused.returncode == 126 and "too many to leave out what is secret" in refused.stderr
    (confined.box.root / ".netrc").write_text("SECRET")
    assert "SECRET" not in confined.shell(f"cat {confined.box.root}/.netrc", options=("--best-effort",)).stdout


@ALL_WALLS
def test_what_is_asked_to_be_read_is_shown_whole_also_when_it_holds_what_was_put_together(
    confined: Confined, wall: str
) -> None:
    home = confined.box.root
    (folder(home / ".config" / "gh") / "hosts.yml").write_text("asked for\n")
    (confined.work / "here").touch()
    for shown in (home / ".config", home.parent):
        done = confined.shell(
            f"cat {home}/.config/gh/hosts.yml; touch {home}/x; rm here && touch here",
            options=("--wall", wall, "--read", str(shown)),
        )
        assert done.stdout == "asked for\n" and not (home / "x").exists(), done.stderr


SCRUBBED = {
    "HERMES_PAT": "x",
    "GEMINI_PWD": "x",
    "CODEX_PIN": "1",
    "OPENCLAW_DB_URL": "postgres://u:p@h/",
    "OPENAI_BASE_URL": "http://user:pw@h/",
    "HERMES_PASSPHRASE": "x",
}


@pytest.mark.parametrize("name", list(SCRUBBED))
def test_a_variable_that_holds_a_secret_is_not_passed_on(name: str) -> None:
    assert name not in scrubbed(SCRUBBED) and name in scrubbed(SCRUBBED, [name])


def test_a_trail_names_every_entry_that_could_be_replaced(tmp_path: Path) -> None:
    (folder(tmp_path / "dot") / "x").touch()
    (tmp_path / "cfg").symlink_to("dot")
    told = list(entries(str(tmp_path / "cfg" / "x")))
    assert told[-3:] == [str(tmp_path / name) for name in ("cfg", "dot", "dot/x")]
    (tmp_path / "round").symlink_to("round")
    assert len(list(entries(str(tmp_path / "round")))) < 100


# -- doors


LISTENS = """
import json, socket, sys
found = []
for port in map(int, sys.argv[1:]):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        found.append(port)
    except OSError:
        pass
print(json.dumps(found))
"""


@ALL_WALLS
def test_engines_at_ports_below_1024_and_of_any_name_have_doors(confined: Confined, wall: str) -> None:
    with confined.box.config.open("a") as config:
        config.write('[engines.gate]\nurl = "http://127.0.0.1:80"\nengine = "openai"\n')
        config.write('[engines.far]\nurl = "https://127.0.0.1"\nengine = "openai"\n')
    assert confined.python(LISTENS, "80", "443", "444", options=("--wall", wall)) == [80, 443]


def test_an_engine_whose_port_is_taken_is_told(confined: Confined) -> None:
    with confined.box.config.open("a") as config:
        config.write(f'[engines.second]\nurl = "http://127.0.0.2:{confined.port}"\nengine = "openai"\n')
    assert "no door: second" in confined.run("true").stderr


def test_doors_come_back_when_a_broken_configuration_is_repaired(confined: Confined) -> None:
    text = confined.box.config.read_text()
    host = confined.box.host(*confined.argv(*PIPE))
    host.initialize()
    asked = confined.box.host(*confined.argv("sh"))  # another one, to ask in
    asked.send_bytes(b"echo up\n")
    assert asked.line() == b"up"
    confined.box.configure("[searxng]\nurll = 1\n")
    for pid in confined.box.gate_pids():
        os.kill(pid, 9)
    host.ask("tools/list")
    confined.box.configure(text)
    code = (
        "import http.client, time\n"
        f"for _ in range(200):\n"
        f"    link = http.client.HTTPConnection('127.0.0.1', {confined.port}, timeout=30)\n"
        f"    try:\n"
        f"        link.request('GET', '/v1/models')\n"
        f"        if link.getresponse().status == 200: break\n"
        f"    except OSError: pass\n"  # hung up on, before the door is there again
        f"    time.sleep(0.1)\n"
        "print('open')\n"
    )
    asked.send_bytes(f'{sys.executable} -I -c "{code}"\n'.encode())
    assert asked.line() == b"open"


# -- the command


@ALL_WALLS
def test_a_signal_to_end_reaches_the_command(confined: Confined, wall: str) -> None:
    script = 'trap "echo got it; exit 9" TERM; echo up; while :; do sleep 0.1; done'
    host = confined.box.host(*confined.argv("bash", "-c", script, options=("--wall", wall)))
    assert host.line() == b"up"
    host.process.terminate()
    assert host.line() == b"got it"
    assert host.process.wait() == 9


@ALL_WALLS
def test_a_program_that_cannot_be_started_is_told_with_its_reason(confined: Confined, wall: str) -> None:
    script = confined.work / "no-script"
    script.write_bytes(b"\0\0\0")
    script.chmod(0o755)
    done = confined.run(str(script), options=("--wall", wall))
    assert done.returncode == 126 and f"not started: {script}: Exec format error" in done.stderr
