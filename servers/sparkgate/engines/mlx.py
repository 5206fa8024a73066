"""mlx_lm.server lists the cache of its hub, not what is loaded; a request that names another model swaps it.

It has no request that unloads, and does not tell what is loaded, so nothing is loaded or unloaded in it by request.
"""

from __future__ import annotations

from sparkgate.engines.spec import Engine, listed_only

MLX = Engine(name="mlx", title="mlx_lm / mlxcel", port=8080, read_models=listed_only, patience_s=600.0)
