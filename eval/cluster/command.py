"""`python -m eval cluster`: check the hosts, measure weak and strong scaling over them, collect, report."""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path

import pyspark

from eval.cluster.check import check_hosts
from eval.cluster.hosts import Host, HostFileError, read_hosts
from eval.cluster.launcher import LAUNCHERS, ClusterError
from eval.cluster.scaling import KINDS, Measurement, node_counts, steps
from eval.cluster.standalone import Cluster
from eval.conf import add_conf
from eval.engines import ENGINES, SparkEngine
from eval.records import Results, note
from eval.report import table
from eval.report.page import page
from eval.session import Session, say
from eval.workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--hosts", type=Path, required=True, help="host file: name slots=N [device=D] [address=A]")
    parser.add_argument("--launcher", choices=LAUNCHERS, default="ssh", help="local: all hosts are this machine")
    parser.add_argument("--check-only", action="store_true", help="check the hosts and end")
    parser.add_argument("--master", help="a master that runs already; default: standalone, started over the hosts")
    parser.add_argument("--driver-address", help="this machine's, as the hosts reach it")
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "eval" / "cluster", help="shared by all hosts")
    parser.add_argument("--work", type=Path, default=Path("/tmp/pyslash-eval"), help="executors' files, on each host")
    parser.add_argument("--python", default=sys.executable, help="with pyslash, the same path on all hosts")
    parser.add_argument("--spark-home", type=Path, default=Path(pyspark.__file__).parent, help="the same on all hosts")
    parser.add_argument("--workload", choices=WORKLOADS, default="ysb")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="parameters of the workload")
    parser.add_argument("--rows-per-node", type=int, default=20_000_000, help="in weak scaling")
    parser.add_argument("--rows", type=int, help="in strong scaling; default: those of one node")
    parser.add_argument("--scaling", default=",".join(KINDS), help="weak, strong or both")
    parser.add_argument("--nodes", help="such as 1,2,4; default: powers of two, and all")
    parser.add_argument("--engines", default="slash,spark-rocksdb", help="of those that run on Spark")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--check", choices=("sample", "full"), default="sample", help="rows compared with batch")
    parser.add_argument("--driver-memory", type=int, default=4, metavar="GIB")
    parser.add_argument("--executor-memory", default="8g")
    add_conf(parser, "for every engine")
    parser.add_argument("--out", type=Path, help="JSON lines (default: a new file in eval/results)")
    parser.add_argument("--report", type=Path, help="write an HTML report of them")


def main(args: argparse.Namespace) -> int:
    """1 if a host is not fit, an engine's rows were wrong or it failed; 2 if the host file is wrong."""
    try:
        hosts = read_hosts(args.hosts)
    except (HostFileError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if unknown := [name for name in args.engines.split(",") if not _runs_on_spark(name)]:
        print(f"{', '.join(unknown)}: no engine that runs on a Spark cluster", file=sys.stderr)
        return 2
    verdicts = check_hosts(LAUNCHERS[args.launcher], hosts, args.python, args.data)
    print(*verdicts, sep="\n", flush=True)
    if any(verdict.problems for verdict in verdicts):
        return 1
    return 0 if args.check_only else _measure(args, hosts)


def _measure(args: argparse.Namespace, hosts: Sequence[Host]) -> int:
    driver = args.driver_address or ("127.0.0.1" if args.launcher == "local" else socket.getfqdn())
    # The driver's JVM binds to it; executors' come from the workers.
    os.environ["SPARK_LOCAL_IP"] = driver
    out = args.out or ROOT / "eval" / "results" / f"cluster-{datetime.now():%Y%m%d-%H%M%S}.jsonl"
    session = Session(args.data, out, args.repeats, args.driver_memory, args.check == "full", args.conf)
    note(out, session.started, command=shlex.join(["python", "-m", "eval", *sys.argv[1:]]))
    cluster = Cluster(
        LAUNCHERS[args.launcher], args.spark_home, driver, args.executor_memory, args.data / "logs", args.work
    )

    @contextmanager
    def given(_: Sequence[Host]) -> Iterator[str]:
        yield args.master

    over = given if args.master else cluster.over
    measurement = Measurement(hosts, args.engines.split(","), over, session, driver, args.executor_memory)
    one_node = _workload(args)
    strong = replace(one_node, rows=args.rows or one_node.rows)
    nodes = [int(count) for count in args.nodes.split(",")] if args.nodes else node_counts(len(hosts))
    if max(nodes) > len(hosts):
        print(f"--nodes {args.nodes}: the host file has {len(hosts)} hosts", file=sys.stderr)
        return 2
    good = True
    for step in steps(args.scaling.split(","), nodes, one_node, strong):
        try:
            outcomes = measurement.run(step)
        except (ClusterError, TimeoutError) as error:
            say(f"{step.title}: {error}")
            good = False
            continue
        good &= all(outcome.correct is not False and not outcome.over for outcome in outcomes)
    results = Results.load([out])
    print(table(results.records))
    if args.report:
        args.report.write_text(page(results, title="pyslash on a cluster"))
    print(f"\nresults: {out}" + (f"\nreport: {args.report}" if args.report else ""))
    return 0 if good else 1


def _runs_on_spark(engine: str) -> bool:
    found = ENGINES.get(engine)
    # Some bring a cluster of their own.
    return isinstance(found, SparkEngine) and "spark.master" not in found.conf


def _workload(args: argparse.Namespace) -> Workload:
    """What one node brings: event time passes at the same pace however many rows there are."""
    kind = WORKLOADS[args.workload]
    kinds = {field.name: type(field.default) for field in fields(kind)}
    given = {name: kinds[name](value) for name, value in (setting.split("=", 1) for setting in args.set)}
    return kind(**{"rows": args.rows_per_node, "span_s": max(60.0, args.rows_per_node / 100_000), **given})
