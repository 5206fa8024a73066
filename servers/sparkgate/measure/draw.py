"""`python -I -m sparkgate.measure.draw`: a child process that draws one picture.

stdin: `{"picture", "format", "runs"}` as JSON; stdout: the bytes of the file. Exit code 3 with one line on stderr
when it cannot be drawn.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from sparkgate.measure.sheets import PictureError
from sparkgate.measure.told import Told
from sparkgate.policy.guard import Guard

MODULE = "sparkgate.measure.draw"
INPUT_MAX_BYTES = 16_000_000
PICTURE_MAX_BYTES = 4_000_000
CPU_MAX_S = 60
MEMORY_MAX_BYTES = 4 << 30
"""Of address space: numpy and its threads reserve much more than they use."""
TIMEOUT_S = 60.0
"""The first picture on a machine takes longest: matplotlib lists the fonts."""
REFUSED = 3


def drawn(
    picture: str, runs: Sequence[Told], fmt: str, *, guard: Guard | None = None, timeout_s: float = TIMEOUT_S
) -> bytes:
    """One picture, drawn in a child process under this process's connection guard.

    Args:
        picture, runs, fmt: as of `pictures.draw`.

    Raises:
        PictureError: it cannot be drawn, took too long or is too large; the message says which.
    """
    told = json.dumps({"picture": picture, "format": fmt, "runs": [dict(run) for run in runs]}).encode()
    if len(told) > INPUT_MAX_BYTES:
        raise PictureError(f"the runs have {len(told)} bytes, and {INPUT_MAX_BYTES} is the most: draw fewer cells")
    argv = (sys.executable, "-I", "-m", MODULE)
    try:
        with guard.child(argv) if guard else nullcontext():
            ended = subprocess.run(argv, input=told, capture_output=True, timeout=timeout_s, check=False, cwd="/")
    except subprocess.TimeoutExpired:
        raise PictureError(f"drawing took more than {timeout_s:g} s: try again when the machine is idle") from None
    except OSError as error:
        raise PictureError(
            f"the process that draws cannot be started: {error.strerror or type(error).__name__}"
        ) from None
    return _answer(ended)


def _answer(ended: subprocess.CompletedProcess[bytes]) -> bytes:
    said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    if ended.returncode == REFUSED and said:
        raise PictureError(said[-1][:400])
    if ended.returncode or not ended.stdout:
        last = said[-1][:200] if said else "it said nothing"
        raise PictureError(f"the process that draws ended with {ended.returncode}: {last}")
    if len(ended.stdout) > PICTURE_MAX_BYTES:
        raise PictureError(f"the picture has {len(ended.stdout)} bytes, and {PICTURE_MAX_BYTES} is the most")
    return ended.stdout


def main() -> int:
    """Draw what stdin asks for."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for limit, value in ((resource.RLIMIT_CPU, CPU_MAX_S), (resource.RLIMIT_AS, MEMORY_MAX_BYTES)):
        resource.setrlimit(limit, (value, value))
    from sparkgate.measure.pictures import draw

    told = sys.stdin.buffer.read(INPUT_MAX_BYTES + 1)
    try:
        asked = json.loads(told)
        picture = draw(str(asked["picture"]), asked["runs"], str(asked["format"]))
    except PictureError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    if len(picture) > PICTURE_MAX_BYTES:
        sys.stderr.write(f"the picture would have {len(picture)} bytes, and {PICTURE_MAX_BYTES} is the most\n")
        return REFUSED
    sys.stdout.buffer.write(picture)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
