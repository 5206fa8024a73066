"""The `settings.yml` of a private SearXNG, as text.

Format: https://docs.searxng.org/admin/settings/ . Engine names are those of SearXNG's own settings.yml; a
test holds them against the pinned package.
"""

from __future__ import annotations

import json

GENERAL = ("duckduckgo", "brave", "startpage", "mojeek", "wikipedia")
IT = (
    "github",
    "stackoverflow",
    "superuser",
    "askubuntu",
    "mdn",
    "arch linux wiki",
    "mankier",
    "hackernews",
    "huggingface",
    "docker hub",
    "pypi",
    "npm",
    "crates.io",
    "pkg.go.dev",
)
SCIENCE = ("arxiv", "semantic scholar", "openalex")
ENGINES = GENERAL + IT + SCIENCE

_SETTINGS = """\
use_default_settings:
  engines:
    keep_only: {keep_only}
general:
  debug: false
  instance_name: "sparkgate"
  enable_metrics: false
search:
  autocomplete: ""
  favicon_resolver: ""
  formats: [html, json]
server:
{secret}  bind_address: "127.0.0.1"
  limiter: false
  public_instance: false
  image_proxy: false
  # The query stays out of URLs, and so out of access logs.
  method: "POST"
valkey:
  url: false
outgoing:
  request_timeout: 4.0
  max_request_timeout: 10.0
# Only these: others (and the engine wikidata) would ask hosts on the web when SearXNG starts.
plugins:
  searx.plugins.calculator.SXNGPlugin: {{active: true}}
  searx.plugins.hash_plugin.SXNGPlugin: {{active: true}}
  searx.plugins.unit_converter.SXNGPlugin: {{active: true}}
{engines}"""


def settings_yaml(secret: str = "", engines_yaml: str | None = None) -> str:
    """The settings: JSON on, limiter, metrics and autocompletion off, POST, loopback.

    `engines_yaml` is YAML text that begins with `engines:` and replaces every engine of ours. Without
    `secret` the key is left to SEARXNG_SECRET.
    """
    ours = engines_yaml is None
    return _SETTINGS.format(
        keep_only=json.dumps(ENGINES if ours else ()),
        secret=f'  secret_key: "{secret}"\n' if secret else "",
        engines=_switched_on() if engines_yaml is None else engines_yaml.rstrip() + "\n",
    )


def _switched_on() -> str:
    """Some of them are off by default."""
    rows = "".join(f"  - name: {json.dumps(name)}\n    disabled: false\n" for name in ENGINES)
    return "engines:\n" + rows
