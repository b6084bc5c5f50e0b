"""What results files say: a table for the terminal, and one self-contained HTML page with plots.

`eval.records` reads the files and groups runs into comparisons, `table` prints them, `figures` draws, `page` writes the
HTML, `docs_page` the generated parts of docs/benchmarks.md. Figures are divided by each other only within one
comparison: one session, one machine, one workload.
"""

from eval.report.table import table

__all__ = ["table"]
