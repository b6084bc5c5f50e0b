"""Waiting for a master's workers, by what it answers while it starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from eval.cluster.standalone import wait_for_workers


@contextmanager
def master(answers: list[str]) -> Iterator[str]:
    """An address that gives the answers one after the other, the last one for ever."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write((answers.pop(0) if len(answers) > 1 else answers[0]).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/json/"
        server.shutdown()


def test_a_page_before_the_json_and_too_few_workers_are_waited_for() -> None:
    answers = ["<!DOCTYPE html>", '{"aliveworkers": 1}', '{"aliveworkers": 2}']
    with master(answers) as url:
        wait_for_workers(url, 2, 30)
    assert len(answers) == 1


def test_workers_that_never_come_are_an_error() -> None:
    with master(['{"aliveworkers": 1}']) as url, pytest.raises(TimeoutError, match="had not 2 workers"):
        wait_for_workers(url, 2, 0.5)
