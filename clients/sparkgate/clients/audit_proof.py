"""`sparkgate audit verify`, `accept` and `reindex`: whether the log is what was written, and what is known of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparkgate.clients.audit_rows import head_path, log_key, log_path
from sparkgate.clients.output import console, fail, print_json

if TYPE_CHECKING:
    from sparkgate.policy.audit import AuditLog
    from sparkgate.policy.trail.chain import Chain
    from sparkgate.policy.trail.head import Anchor
    from sparkgate.policy.trail.verify import Proof

SHOWN = 20
JOURNAL_LINES, JOURNAL_S = 20_000, 10.0


@click.command()
@click.option("--db", type=click.Path(dir_okay=False, path_type=Path), help="A copy, with its .head file beside it.")
@click.option("--head", "told", multiple=True, metavar="SEQ:MAC", help="A head from the journal, to check against.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(db: Path | None, told: tuple[str, ...], as_json: bool) -> None:
    """Prove that the log holds what was written, all of it and in order; exit code 1 with the first bad row when not.

    Told apart: an edited row, a missing one, one that the log did not write, a fork, an end that was cut off, and an
    index that hides rows. The last link is kept beside the log in audit.head (or where `[audit] head_file` says), and
    told to the system log. The journal is asked by itself; where there is none, give a head from /var/log with --head.

    \b
    Examples:
      sparkgate audit verify
      sparkgate audit verify --db copy.db --head 4711:9f2c…
    """
    proof = _proof(db, told, quiet=as_json)
    if as_json:
        print_json(_public(proof))
    else:
        _tell(proof)
    raise SystemExit(0 if proof.intact else 1)


@click.command()
@click.option("--reason", required=True, help="Why these breaks are known and harmless.")
def accept(reason: str) -> None:
    """Write down that the breaks `verify` finds now are known, so that only new ones fail it from here on.

    What stands in a broken place is accepted as it is now, and not what may be put there later.

    \b
    Example:
      sparkgate audit accept --reason "restored from the backup of 29 November after the disk failed"
    """
    from sparkgate.policy.audit import LogUnavailable

    try:
        log = _opened()
        proof = _proof(None, (), quiet=True)
        if proof.intact:
            fail("there is nothing to accept: the log is intact")
        log.mark("accepted", {"reason": reason, "broken": [one.key() for one in proof.broken]})
    except LogUnavailable as error:
        fail(str(error))
    click.echo(f"accepted {len(proof.broken)}; `sparkgate audit verify` tells them as known")


@click.command()
def reindex() -> None:
    """Make what rows are found by anew from the rows: by rule, by withheld value, by words.

    \b
    Example:
      sparkgate audit reindex
    """
    from sparkgate.policy.audit import LogUnavailable
    from sparkgate.policy.trail.index import reindex as made_anew

    try:
        _opened().change(lambda connection, _: made_anew(connection))
    except LogUnavailable as error:
        fail(str(error))
    click.echo("made anew")


def _opened() -> AuditLog:
    """The log of this user, to write into it. Raises LogUnavailable."""
    from sparkgate.policy.audit import AuditLog

    if not log_path().exists():
        fail("there is no log yet: nothing has been asked to leave")
    return AuditLog(log_path(), log_key(), head=head_path())


def _proof(copy: Path | None, told: Sequence[str], *, quiet: bool) -> Proof:
    """The whole proof of this user's log or of a copy, which has a head of its own; exits 1 when it cannot be read."""
    from sparkgate.policy.audit import LogUnavailable
    from sparkgate.policy.trail.chain import Chain
    from sparkgate.policy.trail.head import HeadFile

    path = copy or log_path()
    if not path.exists():
        fail(f"there is no log at {path}")
    chain = Chain(log_key())
    kept = HeadFile(path.with_suffix(".head") if copy else head_path(), chain).read()
    others = [_anchor(one) for one in told]
    if copy:
        kept, others = kept or (others[0] if others else None), others
    else:
        others += _journal(chain)
    try:
        return _walked(path, chain, kept, others, quiet=quiet)
    except LogUnavailable as error:
        fail(str(error))


def _walked(path: Path, chain: Chain, kept: Anchor | None, others: Sequence[Anchor], *, quiet: bool) -> Proof:
    from sparkgate.policy.trail.read import reading
    from sparkgate.policy.trail.verify import Proof
    from sparkgate.policy.trail.verify import verify as proofs

    proof = Proof()
    with reading(path) as connection, console(to_stderr=True).status("") as status:
        total = connection.execute("SELECT count(*) FROM chain").fetchone()[0]
        for proof in proofs(connection, chain, kept, others):
            if not quiet:
                status.update(f"{proof.links:,} of {total:,} records checked")
    return proof


def _journal(chain: Chain) -> list[Anchor]:
    """The heads that the journal has; none where there is no journal, or it may not be read."""
    from sparkgate.policy.trail.head import IDENT, heads_told

    argv = ["journalctl", "-t", IDENT, f"_UID={os.getuid()}", "-o", "cat", "-n", str(JOURNAL_LINES), "--no-pager", "-q"]
    try:
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=JOURNAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return []
    return heads_told(ran.stdout, chain)


def _anchor(told: str) -> Anchor:
    from sparkgate.policy.trail.chain import Head
    from sparkgate.policy.trail.head import Anchor

    seq, _, mac = told.partition(":")
    try:
        return Anchor(Head(int(seq), bytes.fromhex(mac)), 0.0)
    except ValueError as error:
        raise click.UsageError(f"--head {told!r} is not SEQ:MAC as the journal has it") from error


def _public(proof: Proof) -> dict[str, object]:
    return {
        "intact": proof.intact,
        "records": proof.links,
        "head": {"seq": proof.head.seq, "mac": proof.head.mac.hex()},
        "pruned_through": proof.pruned,
        "broken": [asdict(one) | {"told": one.told()} for one in proof.broken],
        "accepted": [asdict(one) | {"told": one.told()} for one in proof.accepted],
    }


def _tell(proof: Proof) -> None:
    out = console()
    for one in proof.broken[:SHOWN]:
        out.print(f"{one.fault:10} {one.told()}", style="red", soft_wrap=True)
    if len(proof.broken) > SHOWN:
        out.print(f"and {len(proof.broken) - SHOWN:,} more; --json has them all")
    for one in proof.accepted:
        out.print(f"accepted   {one.told()}", style="yellow", soft_wrap=True)
    pruned = f"; those up to {proof.pruned:,} were pruned" if proof.pruned else ""
    verdict = "intact" if proof.intact else f"not intact, {len(proof.broken):,} broken"
    out.print(f"{verdict}: {proof.links:,} records, the last is {proof.head.seq:,}:{proof.head.mac.hex()}{pruned}")
