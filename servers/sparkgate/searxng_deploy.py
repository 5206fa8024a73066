"""Texts for people who would rather run the official SearXNG container: a compose file, a systemd user unit.

Both publish the port on loopback only, keep the image read-only and drop every capability. Formats:
https://docs.searxng.org/admin/installation-docker.html , https://compose-spec.io , systemd.service(5).
"""

from __future__ import annotations

import re
from typing import Literal

Runtime = Literal["podman", "docker"]
IMAGE = "docker.io/searxng/searxng"
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|sha256:[0-9a-f]{64}")
# Where the image wants its settings, and its user and group (`searxng`).
_INSIDE = "/etc/searxng/settings.yml"
_USER = "977:977"

_WHY_LATEST = """\
# The tag is `latest` because search sites change weekly and an old SearXNG finds less and less.
# To decide yourself when to update, give --tag a version (2025.6.3-b73ac81) or a digest (sha256:...).
"""
_SECRET = """\
#   chmod 644 settings.yml
#   (umask 077; python3 -c 'import secrets; print("SEARXNG_SECRET=" + secrets.token_hex(32))' > secret.env)
"""
_COMPOSE = """\
# SearXNG for this machine only. In an empty folder:
#   sparkgate searxng compose --settings > settings.yml
{secret}#   sparkgate searxng compose --port {port} > compose.yaml
#   docker compose up --detach
# then put `url = "http://127.0.0.1:{port}"` under [searxng] in sparkgate's config.toml.
{why}services:
  searxng:
    image: {image}
    restart: unless-stopped
    user: "{user}"
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    ports:
      - "127.0.0.1:{port}:8080"
    env_file: ./secret.env
    environment:
      GRANIAN_HOST: "0.0.0.0"
      GRANIAN_PORT: "8080"
      GRANIAN_BLOCKING_THREADS: "16"
    volumes:
      - ./settings.yml:{inside}:ro
    tmpfs:
      - /tmp:mode=1777
      - /var/cache/searxng:mode=1777
    healthcheck:
      test: ["CMD", "wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/healthz"]
      interval: 30s
      timeout: 5s
      retries: 3
"""
_UNIT = """\
# SearXNG for this machine only, as a service of your user. In ~/.config/sparkgate/searxng (make it):
#   sparkgate searxng unit --settings > settings.yml
{secret}#   mkdir -p ~/.config/systemd/user
#   sparkgate searxng unit --runtime {runtime} --port {port} \\
#     > ~/.config/systemd/user/sparkgate-searxng.service
#   systemctl --user enable --now sparkgate-searxng
# then put `url = "http://127.0.0.1:{port}"` under [searxng] in sparkgate's config.toml.
{why}[Unit]
Description=SearXNG on loopback for sparkgate

[Service]
Type=exec
ExecStartPre=-/usr/bin/env {runtime} rm --force sparkgate-searxng
ExecStart=/usr/bin/env {runtime} run --rm --name sparkgate-searxng \\
  --user {user} --read-only --cap-drop ALL --security-opt no-new-privileges \\
  --publish 127.0.0.1:{port}:8080 \\
  --env-file %h/.config/sparkgate/searxng/secret.env \\
  --env GRANIAN_HOST=0.0.0.0 --env GRANIAN_PORT=8080 --env GRANIAN_BLOCKING_THREADS=16 \\
  --volume %h/.config/sparkgate/searxng/settings.yml:{inside}:{mount} \\
  --tmpfs /tmp:mode=1777 --tmpfs /var/cache/searxng:mode=1777 \\
  {image}
ExecStop=/usr/bin/env {runtime} stop -t 10 sparkgate-searxng
Restart=always
RestartSec=5

[Install]
WantedBy=default.target
"""


def image(tag: str = "latest") -> str:
    """The official image at a tag, or at a digest written `sha256:` and 64 hexadecimal digits.

    Raises:
        ValueError: neither of the two.
    """
    if not _TAG.fullmatch(tag):
        raise ValueError(f"{tag!r} is neither an image tag nor a sha256 digest")
    return f"{IMAGE}{'@' if tag.startswith('sha256:') else ':'}{tag}"


def compose_yaml(port: int = 8888, tag: str = "latest") -> str:
    """A compose file that publishes SearXNG on 127.0.0.1:`port`. Raises ValueError for a bad tag."""
    return _COMPOSE.format(port=port, image=image(tag), user=_USER, inside=_INSIDE, secret=_SECRET, why=_why(tag))


def systemd_unit(runtime: Runtime = "podman", port: int = 8888, tag: str = "latest") -> str:
    """A systemd user unit that runs SearXNG on 127.0.0.1:`port`. Raises ValueError for a bad tag."""
    return _UNIT.format(
        runtime=runtime,
        port=port,
        image=image(tag),
        user=_USER,
        inside=_INSIDE,
        secret=_SECRET,
        why=_why(tag),
        # Z relabels the file where SELinux is on; podman is what such systems bring along.
        mount="ro,Z" if runtime == "podman" else "ro",
    )


def _why(tag: str) -> str:
    return _WHY_LATEST if tag == "latest" else ""
