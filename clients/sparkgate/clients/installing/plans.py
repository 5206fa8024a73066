"""What is to be done: a gate put into systemd's hands or taken out of them, for the machine or for one user."""

from __future__ import annotations

import grp
import pwd
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from sparkgate import paths
from sparkgate.clients.installing.directives import (
    FIRST_CONFIG,
    FIRST_TERMS,
    SYSTEM_SERVICE,
    SYSTEM_SOCKET,
    SYSUSERS,
    USER_SERVICE,
    USER_SOCKET,
    USERS_GROUP,
    Unit,
    in_command,
    rendered,
    with_environment,
)
from sparkgate.clients.installing.steps import Ids, Step, file, folder, gone, me, root, run

SERVICE = paths.SYSTEM.service
ACCOUNT = paths.SYSTEM.account
SYSTEM_UNITS = Path("/etc/systemd/system")
SYSUSERS_FILE = Path("/etc/sysusers.d/sparkgate.conf")
STATE, CONFIG = Path(paths.SYSTEM.state), Path(paths.SYSTEM.config)


def values(config: str, python: str = sys.executable) -> Mapping[str, str]:
    """What the units leave open."""
    return {
        "PYTHON": in_command(python),
        "CONFIG": in_command(config),
        "SOCKET": paths.socket_path(config).replace("%", "%%"),
        "SERVICE": SERVICE,
        "ACCOUNT": ACCOUNT,
    }


def unit_files(units: Path, service: Unit, socket: Unit, given: Mapping[str, str]) -> Mapping[Path, str]:
    """Path → text of the two units."""
    return {
        units / f"{SERVICE}.service": rendered(service, given),
        units / f"{SERVICE}.socket": rendered(socket, given),
    }


def install_system() -> Iterator[Step]:
    """Account, folders, units; and the gate of the units, whether it is new or an earlier version runs."""
    yield from _account()
    # Others look for the operator's lock there (`gate lock`), and see no name of a file.
    yield from folder(CONFIG.parent, 0o751, _root_and_account)
    yield from folder(CONFIG.parent / "rules", 0o750, _root_and_account)
    yield from folder(STATE, 0o700, _account_ids)
    for path, text in ((CONFIG, FIRST_CONFIG), (CONFIG.with_name("terms.toml"), FIRST_TERMS)):
        if not path.exists():
            yield from file(path, text, 0o640, _root_and_account)
    systemctl = ("systemctl",)
    units = unit_files(SYSTEM_UNITS, SYSTEM_SERVICE, SYSTEM_SOCKET, values(paths.SYSTEM.config))
    yield from _in_force(units, systemctl, root)


def install_user(config: str) -> Iterator[Step]:
    """Units of the user manager, which does not know the folders that this user has moved."""
    service = with_environment(USER_SERVICE, paths.moved_places())
    units = unit_files(user_units(), service, USER_SOCKET, values(config))
    yield from _in_force(units, ("systemctl", "--user"), me)


def user_units() -> Path:
    """Where units of a user lie, beside its configuration."""
    return Path(paths.own_config_home()) / "systemd" / "user"


def _in_force(units: Mapping[Path, str], systemctl: tuple[str, ...], owner: Ids) -> Iterator[Step]:
    changes = {path.suffix: step for path, text in units.items() for step in file(path, text, 0o644, owner)}
    yield from changes.values()
    if changes:
        yield run(*systemctl, "daemon-reload")
    if ".socket" in changes:
        yield run(*systemctl, "stop", f"{SERVICE}.service", f"{SERVICE}.socket")
    yield run(*systemctl, "enable", "--now", f"{SERVICE}.socket")
    yield run(*systemctl, "try-restart", f"{SERVICE}.service")


def uninstall_system(purge: bool) -> Iterator[Step]:
    """Units and socket; with `purge` also the log, the configuration, the account and its groups."""
    yield from _out_of_force(SYSTEM_UNITS, ("systemctl",))
    yield from gone(Path(paths.SYSTEM.runtime))
    if not purge:
        return
    yield from gone(STATE)
    yield from gone(CONFIG.parent)
    yield from gone(SYSUSERS_FILE)
    if has_account():
        yield run("userdel", ACCOUNT)
    for group in filter(has_group, (ACCOUNT, USERS_GROUP)):
        yield Step(f"run groupdel {group}", partial(_remove_group, group))


def _remove_group(name: str) -> None:
    """userdel takes the group of its name with it, where nobody else is in it."""
    if has_group(name):
        run("groupdel", name).do()


def uninstall_user() -> Iterator[Step]:
    yield from _out_of_force(user_units(), ("systemctl", "--user"))


def _out_of_force(units: Path, systemctl: tuple[str, ...]) -> Iterator[Step]:
    files = [units / f"{SERVICE}.socket", units / f"{SERVICE}.service"]
    if not any(path.exists() for path in files):
        return
    yield run(*systemctl, "disable", "--now", f"{SERVICE}.socket", f"{SERVICE}.service")
    for path in files:
        yield from gone(path)
        yield from gone(path.with_name(f"{path.name}.d"))
    yield run(*systemctl, "daemon-reload")


def _account() -> Iterator[Step]:
    if has_account() and has_group(USERS_GROUP):
        return
    if shutil.which("systemd-sysusers"):
        yield from file(SYSUSERS_FILE, SYSUSERS, 0o644, root)
        yield run("systemd-sysusers", str(SYSUSERS_FILE))
        return
    if not has_group(USERS_GROUP):
        yield run("groupadd", "--system", USERS_GROUP)
    if not has_account():
        options = ("--system", "--user-group", "--no-create-home", "--home-dir", str(STATE))
        yield run("useradd", *options, "--shell", "/usr/sbin/nologin", ACCOUNT)


def has_account() -> bool:
    return paths.system_uid() is not None


def has_group(name: str) -> bool:
    with suppress(KeyError):
        grp.getgrnam(name)
        return True
    return False


def _account_ids() -> tuple[int, int]:
    found = pwd.getpwnam(ACCOUNT)
    return found.pw_uid, found.pw_gid


def _root_and_account() -> tuple[int, int]:
    return 0, _account_ids()[1]
