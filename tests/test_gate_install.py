"""Units as data, plans of steps, and what root may start. The same under a real systemd: test_real_systemd.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box
from system_box import GATE, GATE_GROUP, SystemBox, a_system_box
from test_system_gate import needs_root

from sparkgate import paths
from sparkgate.clients.installing.directives import (
    SYSTEM_SERVICE,
    SYSTEM_SOCKET,
    USER_SERVICE,
    USER_SOCKET,
    Unit,
    in_command,
    quoted,
    with_environment,
)
from sparkgate.clients.installing.plans import unit_files, values
from sparkgate.clients.installing.steps import Step, StepFailed, carry_out, file, folder, gone, me, run
from sparkgate.clients.installing.trusted import IN_PLACE, objection, of_this_python

EXPOSURE = 2.0
"""systemd.exec calls 0 perfect and 10 no sandbox; `systemd-analyze security` of 252 says 1.7."""
UNITS = {"system": (SYSTEM_SERVICE, SYSTEM_SOCKET), "user": (USER_SERVICE, USER_SOCKET)}
DIRECTIVES = [(name, part, one) for name, pair in UNITS.items() for unit in pair for part in unit for one in unit[part]]
needs_analyze = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")

CONFINES = {
    "User": "$ACCOUNT",
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "SystemCallArchitectures": "native",
    "MemoryMax": "2G",
    "UMask": "0077",
    "LimitCORE": "0",
    "StateDirectoryMode": "0700",
}
"""What the issue of a gate of its own stands on; a unit that loses one of these fails here."""


def directives(unit: Unit) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in unit.values():
        for one in part:
            found.setdefault(one.name, []).append(one.value)
    return found


@pytest.mark.parametrize("name", CONFINES)
def test_the_unit_of_the_machine_keeps_each_of_its_limits(name: str) -> None:
    assert directives(SYSTEM_SERVICE)[name] == [CONFINES[name]]


@pytest.mark.parametrize(("name", "part", "one"), DIRECTIVES, ids=lambda one: getattr(one, "name", one))
def test_a_directive_is_one_line_and_so_is_its_reason(name: str, part: str, one: object) -> None:
    words = (getattr(one, "name"), getattr(one, "value"), getattr(one, "why"))  # noqa: B009
    assert re.fullmatch(r"[A-Z][A-Za-z]+", words[0]) and "\n" not in "".join(words) and len(words[2]) < 110
    assert set(re.findall(r"\$([A-Z]+)", words[1])) <= set(values("/x"))


def test_what_only_numbers_limit_has_its_reason_beside_it() -> None:
    """A number without a reason is a guess to whoever has to change it."""
    told = {one.name: one.why for one in SYSTEM_SERVICE["Service"]}
    assert all(told[name] for name in ("MemoryMax", "TimeoutStopSec", "LimitCORE", "ProtectProc", "PrivateUsers"))


def test_the_socket_of_the_machine_is_roots_and_opens_to_one_group() -> None:
    told = directives(SYSTEM_SOCKET)
    assert (told["SocketUser"], told["SocketGroup"], told["SocketMode"]) == (["root"], ["sparkgate-users"], ["0660"])
    assert told["DirectoryMode"] == ["0755"]


def written(folder: Path, name: str) -> list[str]:
    """The two unit files, for a Python and a configuration that are there."""
    (config := folder / "config $A%h.toml").touch()
    service, socket = UNITS[name]
    service = with_environment(service, {"XDG_STATE_HOME": "/x y/%h$A"})
    files = unit_files(folder, service, socket, values(str(config), "/usr/bin/env"))
    for path, text in files.items():
        path.write_text(text)
    return list(map(str, files))


@needs_analyze
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path, name: str) -> None:
    manager = ["--user"] if name == "user" else []
    ran = subprocess.run(
        ["systemd-analyze", "verify", *manager, *written(tmp_path, name)],
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        check=False,
    )
    ours = [line for line in ran.stderr.splitlines() if "sparkgate-gate" in line]
    assert ran.returncode == 0 and ours == []


@needs_analyze
def test_the_unit_of_the_machine_is_as_closed_as_it_was(tmp_path: Path) -> None:
    unit = written(tmp_path, "system")[0]
    ran = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE * 10:.0f}", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    told = re.search(r"exposure level for sparkgate-gate.service: ([\d.]+)", ran.stdout)
    assert told and float(told[1]) <= EXPOSURE, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("word", "in_unit", "in_exec"),
    [
        ("/opt/sparkgate/bin/python", '"/opt/sparkgate/bin/python"', '"/opt/sparkgate/bin/python"'),
        ("/my python", '"/my python"', '"/my python"'),
        ("/a%h", '"/a%%h"', '"/a%%h"'),
        ("/a$B", '"/a$B"', '"/a$$B"'),
        ('/a"b', '"/a\\"b"', '"/a\\"b"'),
        ("/a\\b", '"/a\\\\b"', '"/a\\\\b"'),
    ],
)
def test_a_path_of_any_name_stands_in_a_unit_as_it_is(word: str, in_unit: str, in_exec: str) -> None:
    assert (quoted(word), in_command(word)) == (in_unit, in_exec)


# -- steps


def test_steps_that_are_done_are_no_steps(tmp_path: Path) -> None:
    place, text = tmp_path / "folder", tmp_path / "folder" / "file"
    plan = [*folder(place, 0o750, me), *file(text, "x", 0o640, me)]
    carry_out(plan, lambda _: None)
    assert stat.S_IMODE(place.stat().st_mode) == 0o750 and stat.S_IMODE(text.stat().st_mode) == 0o640
    assert text.read_text() == "x" and [path.name for path in place.iterdir()] == ["file"]
    assert [*folder(place, 0o750, me), *file(text, "x", 0o640, me)] == []
    assert len([*folder(place, 0o700, me), *file(text, "y", 0o640, me)]) == 2
    carry_out([*gone(place)], lambda _: None)
    assert not place.exists() and [*gone(place)] == []


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(StepFailed):
        carry_out([*folder(tmp_path / "link", 0o700, me)], lambda _: None)
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (run("false"), "false: ended with code 1"),
        (run("sh", "-c", "echo why >&2; exit 3"), ": why"),
        (run("no-such-program-here"), "is not on this machine"),
        (Step("look", Path("/nonexistent/x").unlink), "look: "),
    ],
)
def test_a_step_that_fails_says_why_and_those_before_it_stay_done(step: Step, said: str) -> None:
    done: list[str] = []
    with pytest.raises(StepFailed, match=re.escape(said)):
        carry_out([run("true"), step, run("true")], lambda one: done.append(one.what))
    assert done == ["run true"]


# -- what root may start


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "opt" / "bin"
    made.mkdir(parents=True, mode=0o755)
    (made / "python").touch(0o755)
    return made / "python"


@needs_root
def test_a_python_that_root_alone_can_change_may_be_the_gate(place: Path) -> None:
    assert objection([place], hidden=()) == ""


@needs_root
@pytest.mark.parametrize("what", ["group", "others", "owner", "folder", "folder above", "link target"])
def test_a_python_that_somebody_else_can_change_may_not(place: Path, what: str) -> None:
    if what == "link target":
        place.rename(place.with_name("real"))
        place.symlink_to("real")
        os.chown(place.with_name("real"), 12_345, -1)
    elif what == "owner":
        os.chown(place, 12_345, -1)
    else:
        open_part = {"folder": place.parent, "folder above": place.parent.parent}.get(what, place)
        open_part.chmod(0o757 if what == "others" else 0o775)
    told = objection([place], hidden=())
    assert "can be changed by others than root" in told and "sudo python3 -m venv /opt/sparkgate" in told


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Packages as pip leaves them, with links that lead in a circle, nowhere, and out of them."""
    made = tmp_path / "opt" / "lib" / "site-packages"
    for package in ("click", "sparkgate"):
        (made / package).mkdir(parents=True, mode=0o755)
        for name in ("__init__.py", "gate.py"):
            (made / package / name).touch(0o644)
    (tmp_path / "else").mkdir(mode=0o755)
    (tmp_path / "else" / "more.py").touch(0o644)
    for name, target in {"circle": "circle", "nowhere": "gone", "up": "..", "else": str(tmp_path / "else")}.items():
        (made / name).symlink_to(target)
    return made


@needs_root
def test_packages_that_root_alone_can_change_may_run_in_the_gate(site: Path) -> None:
    assert objection([site], hidden=()) == ""


CHANGED = {
    "a module": ("sparkgate/gate.py", 0o666, 0),
    "a module, by its group": ("sparkgate/gate.py", 0o664, 0),
    "a package of another user": ("click", 0o755, 1000),
    "a module of another user": ("click/__init__.py", 0o644, 1000),
    "a folder where everybody may add": ("click", 0o1777, 0),
    "what a link leads to": ("else/more.py", 0o666, 0),
    "beside it, where a link leads as well": ("../../lib", 0o777, 0),
}


@needs_root
@pytest.mark.parametrize("case", CHANGED)
def test_what_somebody_else_can_change_among_the_packages_is_named(site: Path, case: str) -> None:
    name, mode, owner = CHANGED[case]
    (site / name).chmod(mode)
    os.chown(site / name, owner, -1)
    told, real = objection([site], hidden=()), (site / name).resolve()
    assert told.startswith((f"{site / name} can be changed by others than root", f"{real} can be changed by others"))


@needs_root
def test_a_link_on_the_way_that_another_user_made_is_named(site: Path, tmp_path: Path) -> None:
    """Root's link to it, and where both lead, are root's alone."""
    (tmp_path / "way").symlink_to(site)
    (tmp_path / "first").symlink_to("way")
    assert objection([tmp_path / "first"], hidden=()) == ""
    os.chown(tmp_path / "way", 1000, -1, follow_symlinks=False)
    assert objection([tmp_path / "first"], hidden=()).startswith(f"{tmp_path / 'way'} can be changed by others")


def test_what_this_python_imports_from_is_all_looked_at() -> None:
    looked_at = set(of_this_python())
    assert {Path(one) for one in sys.path if one and Path(one).exists()} <= looked_at
    assert {Path(paths.__file__).parent, Path(sys.executable), Path(sys.prefix)} <= looked_at


def test_a_python_in_a_home_is_not_seen_by_the_gate() -> None:
    told = objection([Path("/home/jane/venv/bin/python")])
    assert "lies in /home" in told and "from a checkout of sparkgate" in told and " && ".join(IN_PLACE) in told
    assert "\n".join(IN_PLACE) in (Path(__file__).parent.parent / "README.md").read_text()


# -- commands


SYSTEMCTL = '#!/bin/sh\necho "$@" >> "{calls}"\ntest ! -e "{calls}.fails"\n'


@pytest.fixture
def machine() -> Iterator[SystemBox]:
    with a_system_box() as made:
        (made.root / "bin").mkdir()
        tool = made.root / "bin" / "systemctl"
        tool.write_text(SYSTEMCTL.format(calls=made.root / "calls"))
        tool.chmod(0o755)
        (made.root / "calls").touch()
        yield made


INSTALL = """
import sys
from sparkgate.clients import gate_install
from sparkgate.clients.cli import main
gate_install.objection = lambda places: ""
main(["gate", *sys.argv[1:]])
"""
"""This Python may lie anywhere; what it may be is tested above."""


def install(machine: SystemBox, *arguments: str) -> tuple[int, str]:
    search = f"{machine.root}/bin:{os.environ['PATH']}:/usr/sbin"
    return machine.run(0, (0,), sys.executable, "-I", "-c", INSTALL, *arguments, PATH=search)


def calls(machine: SystemBox) -> list[str]:
    return (machine.root / "calls").read_text().splitlines()


@needs_root
def test_what_is_there_already_stays_and_the_rest_is_made(machine: SystemBox) -> None:
    machine.configure('[access.users]\nalice = ["search"]\n')
    code, said = install(machine, "install", "--system")
    assert code == 0, said
    assert calls(machine) == [
        "daemon-reload",
        "stop sparkgate-gate.service sparkgate-gate.socket",
        "enable --now sparkgate-gate.socket",
        "try-restart sparkgate-gate.service",
    ]
    assert "alice" in machine.shell("cat /etc/sparkgate/config.toml")[1]
    places = "/etc/sparkgate /var/lib/sparkgate /etc/systemd/system/sparkgate-gate.socket"
    told = machine.shell(f"stat -c '%a %u %g' {places}")[1].splitlines()
    assert told == [f"751 0 {GATE_GROUP}", f"700 {GATE} {GATE_GROUP}", "644 0 0"]
    (machine.root / "calls").write_text("")
    assert install(machine, "install", "--system")[0] == 0
    assert calls(machine) == ["enable --now sparkgate-gate.socket", "try-restart sparkgate-gate.service"]


@needs_root
def test_a_dry_run_shows_every_step_and_does_none(machine: SystemBox) -> None:
    state = machine.shell("find /etc /var/lib/sparkgate /run -newer /etc/sparkgate/config.toml | sort")
    for verb in ("install", "uninstall"):
        code, said = install(machine, verb, "--system", "--dry-run")
        assert code == 0
    code, said = install(machine, "install", "--system", "--dry-run", "--json")
    assert code == 0 and json.loads(said)["done"] == [] and len(json.loads(said)["left"]) >= 5
    assert calls(machine) == []
    assert machine.shell("find /etc /var/lib/sparkgate /run -newer /etc/sparkgate/config.toml | sort") == state


@needs_root
def test_a_step_that_fails_is_told_with_how_to_go_on(machine: SystemBox) -> None:
    (machine.root / "calls.fails").touch()
    code, said = install(machine, "install", "--system")
    assert code == 1 and "run it again: what is done is skipped" in said and "systemctl daemon-reload" in said
    (machine.root / "calls.fails").unlink()
    assert install(machine, "install", "--system")[0] == 0


@needs_root
def test_uninstalling_keeps_the_log_until_it_is_purged(machine: SystemBox) -> None:
    assert install(machine, "install", "--system")[0] == 0
    machine.shell("touch /var/lib/sparkgate/audit.db")
    code, said = install(machine, "uninstall", "--system")
    assert code == 0 and "the log stays in /var/lib/sparkgate" in said
    assert machine.shell("ls /var/lib/sparkgate /etc/systemd/system")[1].count("sparkgate-gate") == 0
    assert "audit.db" in machine.shell("ls /var/lib/sparkgate")[1]
    code, said = install(machine, "uninstall", "--system", "--purge")
    assert code == 0 and "nothing of it is left" in said
    places = "/var/lib/sparkgate /etc/sparkgate /run/sparkgate /etc/sysusers.d/sparkgate.conf"
    assert machine.shell(f"ls -d {places} 2>&-; getent passwd sparkgate; true")[1] == ""


def test_a_gate_of_ones_own_gets_units_that_know_its_places(box: Box, tmp_path: Path) -> None:
    shown = box.command("gate", "install", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    units = box.config.parent.parent / "systemd" / "user"
    assert f"would write {units}/sparkgate-gate.service" in shown.stdout and not units.exists()
    text = unit_files(units, with_environment(USER_SERVICE, {"XDG_STATE_HOME": "/s"}), USER_SOCKET, values("/c.toml"))
    service = text[units / "sparkgate-gate.service"]
    assert 'Environment="XDG_STATE_HOME=/s"' in service and '--config "/c.toml"' in service
    assert f"ListenStream={paths.socket_path('/c.toml')}" in text[units / "sparkgate-gate.socket"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("install", "--system", "--config", "/x"), "has its configuration at /etc/sparkgate/config.toml"),
        (("uninstall", "--purge"), "--purge goes with --system"),
    ],
)
def test_what_does_not_go_together_is_usage(box: Box, arguments: tuple[str, ...], said: str) -> None:
    ran = box.command("gate", *arguments)
    assert ran.returncode == 2 and said in ran.stderr
