"""What switches pyslash on in an application whose job does not know it."""

from __future__ import annotations

from pyslash.spark.jvm_bridge import jar_path

PLUGIN = {"spark.jars": str(jar_path()), "spark.plugins": "io.pyslash.SlashPlugin"}
