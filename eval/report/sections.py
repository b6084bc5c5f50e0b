"""The parts of a report that are words and tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from eval.records import Comparison, Record, Results, Runs, batch_ms
from eval.report.table import VERDICTS

_MET = {True: ("met", "reached"), False: ("missed", "not reached"), None: ("open", "not measured")}
# What two sessions may differ in without being other machines.
_PLACE = ("cpu", "cores", "memory_gib", "kernel")


def summary(results: Results) -> str:
    """What was measured, where, in one paragraph."""
    sessions = results.sessions()
    runs = sum(1 for record in results.records if "rows_per_second" in record)
    machines = {_place(record["machine"]) for record in results.records if record.get("machine")}
    first, last = (min(sessions), max(sessions)) if sessions else ("", "")
    when = html.escape(first if first == last else f"{first} to {last}")
    text = f"{runs} runs in {len(sessions)} session{'s' * (len(sessions) != 1)}, {when}. "
    text += "; ".join(html.escape(machine) for machine in sorted(machines)) + ". "
    return text + "Ratios are of one session on one machine; figures of different sessions are never divided."


def bars(results: Results) -> str:
    """Each bar as reached, not reached, or not measured."""
    if not results.bars:
        return ""
    rows = []
    for record in results.bars:
        style, verdict = ("open", "") if _is_aim(record) else _MET[record.get("met")]
        figure, wanted = (html.escape(str(record.get(name, "-"))) for name in ("figure", "wanted"))
        rows.append([html.escape(record["bar"]), figure, wanted, f'<span class="{style}">{verdict}</span>'])
    counted = [record for record in results.bars if not _is_aim(record)]
    met = sum(record.get("met") is True for record in counted)
    missed = sum(record.get("met") is False for record in counted)
    text = f"<p>{met} reached, {missed} not reached, {len(counted) - met - missed} not measured.</p>"
    text += _table(["bar", "figure", "wanted", ""], rows, numbers={1})
    if results.left_out:
        left = ", ".join(f"{record.get('title')} ({record['not_measured']})" for record in results.left_out)
        text += f"<p>Not measured: {html.escape(left)}.</p>"
    return text


def _is_aim(record: Record) -> bool:
    """For comparison alone: what is wanted stands in brackets, or there is nothing."""
    return str(record.get("wanted", "")).startswith("(")


def runs(results: Results, baseline: str) -> str:
    """Every comparison with every engine: medians, spread, ratio, latency, cycles, memory, correctness."""
    text = []
    heads = [
        "engine",
        "M rows/s",
        "min .. max",
        "runs",
        f"vs {baseline}",
        "batch ms",
        "with input",
        "p99 ms",
        "cycles/row",
        "peak GB",
    ]
    for comparison in results.comparisons:
        rows = [_run(comparison, each, baseline) for each in comparison.engines.values()]
        text.append(f"<h3>{html.escape(comparison.title)}</h3>")
        text.append(_table([*heads, "rows"], rows, numbers=set(range(1, len(heads)))))
    return "".join(text)


def _run(comparison: Comparison, each: Runs, baseline: str) -> list[str]:
    name = html.escape(each.engine) + (" <small>batch bound</small>" if each.is_bound else "")
    if each.rate is None:
        return [name, f"<small>{html.escape(each.obstacle or 'no figure')}</small>"]
    ratio = comparison.ratio(each.engine, baseline)
    durations = sorted(each.batches)
    verdict = VERDICTS[each.correct]
    if each.correct is False:
        verdict = f'<span class="missed">{verdict}</span>'
    if each.failed:
        verdict += f' <span class="missed">failed: {html.escape(each.failed)}</span>'
    return [
        name,
        f"{each.rate / 1e6:.3f}",
        f"{min(each.rates) / 1e6:.3f} .. {max(each.rates) / 1e6:.3f}",
        str(len(each.rates)),
        f"{ratio:.2f}x" if ratio else "-",
        f"{batch_ms(each.records):,.0f}" if durations else "-",
        f"{batch_ms(each.records, 'input_batch_ms'):,.0f}" if each.input_batches else "-",
        f"{durations[_rank(99, len(durations))]:,.0f}" if len(durations) >= 100 else "-",
        f"{each.cycles:,.0f}" if each.cycles else "-",
        f"{each.peak_bytes / 1e9:.2f}" if each.peak_bytes else "-",
        verdict,
    ]


def _rank(percent: int, count: int) -> int:
    """Where, of so many values in order, the least one is that so many per cent do not exceed.

    >>> _rank(99, 100), _rank(99, 101)
    (98, 99)
    """
    return -(-percent * count // 100) - 1


def kernels(results: Results) -> str:
    """google-benchmark's counters, one table a file."""
    text = []
    for whole in results.kernels:
        context = whole.get("context", {})
        rows = [
            [
                html.escape(str(bench["name"])),
                f"{bench['cycles/record']:,.1f}" if "cycles/record" in bench else "-",
                f"{bench['M records/s']:,.1f}" if "M records/s" in bench else "-",
                f"{bench['bytes_per_second'] / 1e9:.1f}" if "bytes_per_second" in bench else "-",
            ]
            for bench in whole["benchmarks"]
            if bench.get("aggregate_name", "median") == "median"
        ]
        where = html.escape(f"{context.get('date', '')}, {context.get('mhz_per_cpu', '?')} MHz nominal")
        text.append(f"<h3>Native kernels, one core</h3><p class='soft'>{where}</p>")
        text.append(_table(["kernel", "cycles/record", "M records/s", "GB/s"], rows, numbers={1, 2, 3}))
    return "".join(text)


def reads(results: Results) -> str:
    """Our READs beside perftest's."""
    if not results.reads:
        return ""
    names = ("perftest_mib_s", "pipeline_mib_s", "perftest_us", "pipeline_us", "read_us", "shm_us", "tcp_us")
    rows = [
        [
            html.escape(str(record.get("port", ""))),
            f"{record['bytes']:,}",
            *(_figure(record.get(name)) for name in names),
        ]
        for record in results.reads
    ]
    heads = ["port", "bytes", "perftest MiB/s", "ours MiB/s", "perftest us", "ours us", "read us", "shm us", "tcp us"]
    return _table(heads, rows, numbers=set(range(1, len(heads))))


def provenance(results: Results) -> str:
    """A block for each session: machine, versions, command, the conf of its engines."""
    text = []
    for session, records in results.sessions().items():
        text.append(f"<h3>Session {html.escape(session)}</h3>")
        commands = dict.fromkeys(str(record["command"]) for record in records if record.get("command"))
        text += [f"<pre>{html.escape(command)}</pre>" for command in commands]
        facts: dict[str, Any] = {}
        for record in records:
            facts |= record.get("machine") or {}
            facts |= record.get("versions") or {}
        items = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(str(v))}</dd>" for k, v in facts.items())
        text.append(f"<dl>{items}</dl>")
        text += _confs(records)
    return "".join(text)


def _confs(records: Iterable[Record]) -> list[str]:
    confs = {record["engine"]: record["conf"] for record in records if record.get("conf") and "engine" in record}
    text = []
    for engine, conf in confs.items():
        lines = "\n".join(f"{name} {value}" for name, value in sorted(conf.items()))
        text.append(f"<details><summary>{html.escape(engine)}</summary><pre>{html.escape(lines)}</pre></details>")
    return text


def _place(machine: Record) -> str:
    words = {"cores": "{} cores", "memory_gib": "{} GiB", "kernel": "Linux {}"}
    return ", ".join(words.get(name, "{}").format(machine[name]) for name in _PLACE if name in machine)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: set[int]) -> str:
    """Cells are HTML already; `numbers` are the columns that align right. A short row's last cell spans the rest."""
    styles = [' class="n"' if at in numbers else "" for at in range(len(heads))]

    def cell(at: int, value: str, row: Sequence[str]) -> str:
        if len(row) < len(heads) and at == len(row) - 1:
            return f'<td colspan="{len(heads) - at}">{value}</td>'
        return f"<td{styles[at]}>{value}</td>"

    head = "".join(f"<th{style}>{name}</th>" for style, name in zip(styles, heads, strict=True))
    body = "".join("<tr>" + "".join(cell(at, value, row) for at, value in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
