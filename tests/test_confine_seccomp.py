"""The system call filter: every rule of its table, in its program for each machine and in the running kernel."""

from __future__ import annotations

import errno
import itertools
import json
import re
import stat
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confined_box import USERS, case, case_command, confined, interpreter, open_folder

from sparkgate.confine import seccomp
from sparkgate.confine.seccomp import RULES, Condition, Instruction, Rule, program
from sparkgate.confine.syscalls import MACHINES, NUMBERS, Machine, this_machine

ALLOW, NOTIFY, KILL = seccomp.ALLOW, seccomp.USER_NOTIF, seccomp.KILL_PROCESS
HEADERS = {
    "x86_64": (0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": (1, "/usr/include/asm-generic/unistd.h"),
}
ABOVE = 0x5A5A5A5A << 32
"""The high half of an argument, which the kernel drops from an int."""


def run(instructions: list[Instruction], number: int, audit: int, arguments: Iterable[int] = ()) -> int:
    """What a program of the five instructions that seccomp.py knows answers."""
    six = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", number, audit, 0, *(value & 0xFFFFFFFFFFFFFFFF for value in six))
    accumulator = at = 0
    while True:
        code, jt, jf, k = instructions[at]
        match code:
            case seccomp.LOAD:
                accumulator = struct.unpack_from("=I", data, k)[0]
            case seccomp.AND:
                accumulator &= k
            case seccomp.EQUAL:
                at += jt if accumulator == k else jf
            case seccomp.ANY_BIT:
                at += jt if accumulator & k else jf
            case seccomp.RETURN:
                return k
            case _:
                raise AssertionError(f"no instruction {code:#x}")
        at += 1


def holds(condition: Condition, arguments: list[int]) -> bool:
    low = arguments[condition.argument] & 0xFFFFFFFF & condition.mask
    return bool(low) if condition.any_bit else low in condition.values


def expected(name: str, arguments: list[int]) -> int:
    """The table read as its docstring says, without any program."""
    for rule in RULES:
        if name in rule.calls and all(holds(condition, arguments) for condition in rule.conditions):
            return rule.action
    return ALLOW


def interesting(condition: Condition) -> list[int]:
    """Values that hold, values beside them, and both with dirt in the bits that do not count."""
    if condition.any_bit:
        bits = [1 << bit for bit in range(32) if condition.mask >> bit & 1]
        return [*bits, condition.mask, 0, ~condition.mask & 0xFFFFFFFF, ABOVE]
    near = {value + step for value in condition.values for step in (-1, 0, 1)}
    dirt = ~condition.mask & 0xFFFFFFFF
    return sorted({value & 0xFFFFFFFF | more for value in near for more in (0, dirt, ABOVE)})


def attempts(rule: Rule) -> Iterator[list[int]]:
    """Arguments that meet a rule, and some that just miss it."""
    choices: dict[int, list[int]] = {}
    for condition in rule.conditions:
        choices.setdefault(condition.argument, []).extend(interesting(condition))
    for values in itertools.product(*choices.values()):
        given = [0] * 6
        for argument, value in zip(choices, values, strict=True):
            given[argument] = value
        yield given


def refused_attempts() -> list[tuple[str, list[int], int]]:
    """Name, arguments and errno of calls that the filter refuses, from each row that refuses something."""
    found = []
    for row in RULES:
        for name in (name for name in row.calls if this_machine().number(name) is not None):
            answers = ((given, expected(name, given)) for given in attempts(row))
            found += [(name, given, action & 0xFFFF) for given, action in answers if action != ALLOW]
    return found


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.calls[0]}-{RULES.index(rule)}")
def test_a_rule_answers_what_it_says_on_each_machine(machine: Machine, rule: Rule) -> None:
    made = program(machine, supervised=True)
    for name in rule.calls:
        number = machine.number(name)
        for given in attempts(rule) if number is not None else ():
            assert run(made, number or 0, machine.audit, given) == expected(name, given), (name, given)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.calls[0]}-{RULES.index(rule)}")
def test_a_rule_is_needed_and_says_why(rule: Rule) -> None:
    assert len(rule.why) > 10 and set(rule.calls) <= set(NUMBERS)
    assert any(expected(name, given) == rule.action for name in rule.calls for given in attempts(rule))
    without = [other for other in RULES if other is not rule]
    machine = MACHINES["x86_64"]
    made, less = program(machine, False), program(machine, False, without)
    numbers = [number for name in rule.calls if (number := machine.number(name)) is not None]
    assert any(
        run(made, number, machine.audit, given) != run(less, number, machine.audit, given)
        for number in numbers
        for given in attempts(rule)
    )


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_a_call_of_another_table_is_never_let_through(machine: Machine) -> None:
    made = program(machine, supervised=True)
    others = [other.audit for other in MACHINES.values() if other is not machine]
    assert {run(made, 0, audit) for audit in (*others, 0x40000003, 0x40000028, 0)} == {KILL}
    if machine.foreign_bit:
        assert run(made, machine.foreign_bit | 1, machine.audit) == seccomp.ERRNO | errno.ENOSYS
        assert run(made, 0xFFFFFFFF, machine.audit) == seccomp.ERRNO | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_connect_asks_the_supervisor_when_there_is_one(machine: Machine) -> None:
    number = machine.number("connect") or 0
    assert run(program(machine, supervised=True), number, machine.audit) == NOTIFY
    assert run(program(machine, supervised=False), number, machine.audit) == ALLOW


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_every_other_call_is_allowed(machine: Machine) -> None:
    made = program(machine, supervised=True)
    ruled = {machine.number(name) for rule in RULES for name in rule.calls} | {machine.number("connect")}
    assert {run(made, number, machine.audit, [1] * 6) for number in range(600) if number not in ruled} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_jumps_stay_inside_and_go_forward(machine: Machine) -> None:
    made = program(machine, supervised=True)
    assert len(made) <= 4096
    for at, instruction in enumerate(made):
        assert 0 <= instruction.jt <= 255 and 0 <= instruction.jf <= 255
        assert at + 1 + max(instruction.jt, instruction.jf) < len(made) or instruction.code == seccomp.RETURN


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    column, header = HEADERS[machine]
    if not Path(header).exists():
        pytest.skip("no kernel headers here")
    found = re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)\b", Path(header).read_text())
    known = {name: int(number) for name, number in found}
    named = {name: row[column] for name, row in NUMBERS.items() if row[column] is not None and name in known}
    assert named == {name: known[name] for name in named}
    assert len(named) > 45


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("uid", USERS)
def test_every_refused_call_gets_its_errno_from_the_kernel(uid: int | None, supervised: bool) -> None:
    tried = refused_attempts()
    numbers = [[this_machine().number(name), *given] for name, given, _ in tried]
    found, _ = case(uid, "calls", numbers, options=() if supervised else ("--open",))
    wrong = {
        (name, *given): got
        for (name, given, number), got in zip(tried, found, strict=True)
        if got != errno.errorcode[number]
    }
    assert wrong == {}
    assert len(tried) > 200


FAMILIES = range(46)
TYPES = (1, 2, 3, 4, 5, 6, 10)
FLAGS = (0, 0o4000, 0o2000000, 0o2004000)
PROTOCOLS = (0, 1, 4, 6, 16, 17, 58, 132, 136, 255, 262)


def allowed(family: int, kind: int, protocol: int) -> bool:
    """The sockets of the issue in words of its own."""
    match family, kind:
        case 1, 1 | 5:
            return True
        case 2 | 10, 1:
            return protocol in (0, 6)
        case 2 | 10, 2:
            return protocol in (0, 17)
        case 16, 2 | 3:
            return protocol == 0
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("uid", USERS)
def test_sockets_are_local_streams_or_end_at_loopback_and_nothing_else(uid: int | None) -> None:
    every = itertools.product(FAMILIES, TYPES, FLAGS, PROTOCOLS)
    tried = [[family, kind | flags, protocol] for family, kind, flags, protocol in every]
    found, _ = case(uid, "sockets", tried)
    for (family, flagged, protocol), got in zip(tried, found, strict=True):
        wanted = allowed(family, flagged & 0xF, protocol)
        known = family in (1, 2, 10, 16)
        # A protocol that AF_UNIX does not have is the kernel's to refuse.
        ours = "EPROTONOSUPPORT" if wanted and family == 1 and protocol not in (0, 1) else "done"
        assert got == (ours if wanted else "EACCES" if known else "EAFNOSUPPORT"), (family, flagged, protocol)


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("uid", USERS)
def test_characters_cannot_be_pushed_into_a_terminal_which_otherwise_works(uid: int | None) -> None:
    assert case(uid, "terminal")[0] == {"push": "EPERM", "size": "done"}


WAYS_TO_SET_USER_ID = {
    *("chmod", "fchmod", "fchmodat", "lchmod", "open", "openat", "unnamed", "creat", "mknod", "mknodat")
}


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("uid", USERS)
def test_no_way_leaves_a_program_that_runs_as_its_owner(uid: int | None) -> None:
    with open_folder() as folder:
        assert case(uid, "set_user_id", str(folder))[0] == dict.fromkeys(WAYS_TO_SET_USER_ID, "EPERM")
        assert not any(path.stat().st_mode & stat.S_ISUID for path in folder.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_each_of_these_ways_leaves_one_where_nothing_is_confined() -> None:
    with open_folder() as folder:
        given = json.dumps(str(folder))
        ran = subprocess.run(case_command(None, "set_user_id"), input=given, capture_output=True, text=True)
        assert json.loads(ran.stdout) == dict.fromkeys(WAYS_TO_SET_USER_ID, "done"), ran.stderr
        assert all(path.stat().st_mode & stat.S_ISUID for path in folder.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("uid", USERS)
def test_every_other_mode_can_be_given(uid: int | None) -> None:
    with open_folder() as folder:
        found, _ = case(uid, "modes", str(folder))
    plain, shared, pipe = "755", "2755", "600"
    assert {name: mode for name, mode in found.items() if not name.endswith((".tar", ".git"))} == {
        **{"plain": plain, "installed": plain, "copied": plain, "linked": plain, "out/plain": plain},
        **{"shared": shared, "shared/below": shared, "out/shared": shared, "out/shared/below": shared},
        **{"pipe": pipe, "out/pipe": pipe, "of_group": "2775", "folder": "2750", "out": "1777"},
        **{"of_git": found["of_git"], "of_git/.git/objects": "2775"},
    }


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("uid", USERS)
def test_what_agents_do_all_day_works(uid: int | None, supervised: bool) -> None:
    found, refused = case(uid, "ordinary", options=() if supervised else ("--open",))
    assert found == {
        "pairs": ["done"] * 3,
        "asyncio": ["hello\n"] * 2,
        "forkserver": [0, 1, 4],
        "spawn": [0, 1, 4],
        "manager": {"a": 1},
        "localhost": "done",
        "interfaces": ["lo"],
        "getifaddrs": 0,
        "shell": "b\n",
        "threads": [number * number for number in range(8)],
        "compiler": "7",
        "git": 0,
    }
    assert refused == []


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
@pytest.mark.parametrize("uid", USERS)
def test_the_filter_stays_on_in_what_is_started(uid: int | None) -> None:
    ran = confined(uid, "sh", "-c", "grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/self/status")
    assert dict(line.split(":\t") for line in ran.stdout.splitlines()) == {
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "CapEff": "0" * 16,
    }


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_a_second_listener_is_an_error_that_says_so() -> None:
    code = "from sparkgate.confine import seccomp\nseccomp.install(True)\nseccomp.install(True)"
    ran = confined(None, interpreter(None), "-c", code)
    assert "SeccompError" in ran.stderr and "the system call filter cannot be put on" in ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_a_connect_fails_when_its_supervisor_has_gone() -> None:
    code = (
        "import os, socket, sys\nsys.path.insert(0, sys.argv[1])\nfrom sparkgate.confine import seccomp\n"
        "os.close(seccomp.install(True))\nprint(socket.socket().connect_ex(('127.0.0.1', 1)))"
    )
    servers = str(Path(seccomp.__file__).parents[2])
    ran = subprocess.run([sys.executable, "-c", code, servers], capture_output=True, text=True, timeout=60)
    assert json.loads(ran.stdout) == errno.ENOSYS, ran.stderr
