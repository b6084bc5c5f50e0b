"""Round figures, so that a test can say what comes out."""

from __future__ import annotations

from eval.model.inputs import Rates

RATES = Rates(
    hz=1e9,
    update=50,
    seal=50,
    merge=40,
    skip=10,
    partition=60,
    own=70,
    group_bytes=32,
    row_bytes=24,
    ingest_s=1e-7,
    epoch_s=0.1,
    task_s=1e-4,
    head_s=1e-6,
    read_s=1e-5,
)
