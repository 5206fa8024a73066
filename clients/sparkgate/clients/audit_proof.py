"""`sparkgate audit verify` and `accept`: whether the log is what was written, and what is known of its breaks."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparkgate.clients.audit_rows import head_path, log_key, log_path
from sparkgate.clients.output import console, fail, print_json

if TYPE_CHECKING:
    from sparkgate.policy.trail.chain import Chain
    from sparkgate.policy.trail.head import Anchor
    from sparkgate.policy.trail.verify import Proof

SHOWN = 20
JOURNAL_LINES, JOURNAL_S = 1000, 10.0


@click.command()
@click.option("--db", type=click.Path(dir_okay=False, path_type=Path), help="Another file, such as a copy.")
@click.option("--head", "told", multiple=True, metavar="SEQ:MAC", help="A head from the journal, to check against.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(db: Path | None, told: tuple[str, ...], as_json: bool) -> None:
    """Prove that the log holds what was written, all of it and in order; exit code 1 with the first bad row when not.

    Told apart: an edited row, a missing one, one that the log did not write, a fork, and an end that was cut off. The
    last link is kept beside the log in audit.head (or where `[audit] head_file` says), and told to the system log. The
    journal is asked by itself; where there is none, give a head from /var/log with --head.

    \b
    Examples:
      sparkgate audit verify
      sparkgate audit verify --db copy.db --head 4711:9f2c…
    """
    proof = _proof(db or log_path(), told, quiet=as_json)
    if as_json:
        print_json(_public(proof))
    else:
        _tell(proof)
    raise SystemExit(0 if proof.intact else 1)


@click.command()
@click.option("--reason", required=True, help="Why these breaks are known and harmless.")
def accept(reason: str) -> None:
    """Write down that the breaks `verify` finds now are known, so that only new ones fail it from here on.

    \b
    Example:
      sparkgate audit accept --reason "restored from the backup of 29 November after the disk failed"
    """
    from sparkgate.policy.audit import AuditLog, LogUnavailable

    proof = _proof(log_path(), (), quiet=True)
    if proof.intact:
        fail("there is nothing to accept: the log is intact")
    try:
        log = AuditLog(log_path(), log_key(), head=head_path())
        log.mark("accepted", {"reason": reason, "broken": [one.told() for one in proof.broken]})
    except LogUnavailable as error:
        fail(str(error))
    click.echo(f"accepted {len(proof.broken)}; `sparkgate audit verify` tells them as known")


def _proof(path: Path, told: Sequence[str], *, quiet: bool) -> Proof:
    from sparkgate.policy.audit import LogUnavailable
    from sparkgate.policy.trail.chain import Chain
    from sparkgate.policy.trail.head import HeadFile
    from sparkgate.policy.trail.read import reading
    from sparkgate.policy.trail.verify import Proof
    from sparkgate.policy.trail.verify import verify as proofs

    if not path.exists():
        fail(f"there is no log at {path}")
    chain = Chain(log_key())
    anchors = [HeadFile(head_path(), chain).read(), *(_anchor(one) for one in told), *_journal(chain)]
    proof = Proof()
    try:
        with reading(path) as connection:
            total = connection.execute("SELECT count(*) FROM chain").fetchone()[0]
            with console(to_stderr=True).status("") as status:
                for proof in proofs(connection, chain, anchors):
                    if not quiet:
                        status.update(f"{proof.links:,} of {total:,} records checked")
    except LogUnavailable as error:
        fail(str(error))
    return proof


def _journal(chain: Chain) -> list[Anchor]:
    """The heads that the journal has; none where there is no journal, or it may not be read."""
    from sparkgate.policy.trail.head import IDENT, heads_told

    argv = ["journalctl", "-t", IDENT, "-o", "cat", "-n", str(JOURNAL_LINES), "--no-pager", "-q"]
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
