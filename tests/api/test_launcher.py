"""`slash-python` against plain `python`: the program sees no difference, except that its sessions have pyslash."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = [sys.executable, "-m", "pyslash.api.launcher"]
PLAIN = [sys.executable]

# Programs run in folders of their own; they find the pyslash of this tree wherever it is installed.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
ENVIRONMENT["PYTHONPATH"] = str(ROOT)

# Stands in for PySpark: the hook only needs the module's name, the class and its `conf`.
FAKE_SESSION = """
class Conf(dict):
    def get(self, key, default=None):
        return super().get(key, default)

class SparkSession:
    def __init__(self, mode="auto"):
        self.conf = Conf({"spark.slash.mode": mode})
        self.enabled = False
"""

REPORT = """
import sys, os
print(sys.argv, sys.path[0], __name__, __file__, sorted(k for k in globals() if not k.startswith("__")))
print(sys.modules["__main__"].__dict__ is globals())
"""


def run(command: list[str], **kwargs: object) -> subprocess.CompletedProcess[str]:
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    kwargs["env"] = ENVIRONMENT | kwargs.get("env", {})  # type: ignore[operator]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, **kwargs)  # type: ignore[call-overload]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def assert_same(arguments: list[str], **kwargs: object) -> subprocess.CompletedProcess[str]:
    plain = run(PLAIN + arguments, **kwargs)
    launched = run(LAUNCHER + arguments, **kwargs)
    assert launched.stdout == plain.stdout
    assert launched.stderr == plain.stderr
    assert launched.returncode == plain.returncode
    return launched


def test_a_script_sees_its_own_argv_path_and_main(tmp_path: Path) -> None:
    script = write(tmp_path / "job" / "job.py", REPORT)
    done = assert_same([str(script), "--input", "x", "-m", "-c"])
    assert done.returncode == 0
    assert str(script.parent) in done.stdout


def test_a_linked_script_imports_from_where_it_lies(tmp_path: Path) -> None:
    script = write(tmp_path / "real" / "job.py", REPORT + "import beside\n")
    write(tmp_path / "real" / "beside.py", "")
    (tmp_path / "link.py").symlink_to(script)
    assert assert_same([str(tmp_path / "link.py")]).returncode == 0


def test_a_module_runs_by_name(tmp_path: Path) -> None:
    write(tmp_path / "package" / "__main__.py", "import sys\nprint(sys.argv, sys.path[0], __name__, __package__)\n")
    assert "__main__ package" in assert_same(["-m", "package", "a"], cwd=tmp_path).stdout


def test_code_and_standard_input(tmp_path: Path) -> None:
    assert_same(["-c", "import sys; print(sys.argv, repr(sys.path[0]))", "a", "b"], cwd=tmp_path)
    assert_same(["-cprint(1)"], cwd=tmp_path)
    code = tmp_path / "code"
    code.write_text("import sys; print(sys.argv, repr(sys.path[0]))")
    for arguments in ([], ["-", "a"]):
        with code.open() as first, code.open() as second:
            plain, launched = run(PLAIN + arguments, stdin=first), run(LAUNCHER + arguments, stdin=second)
        assert (launched.stdout, launched.stderr) == (plain.stdout, plain.stderr)


def test_a_directory_and_a_zip_file(tmp_path: Path) -> None:
    main = write(tmp_path / "app" / "__main__.py", "import sys, beside; print(sys.argv, sys.path[0], __name__)")
    beside = write(tmp_path / "app" / "beside.py", "")
    assert assert_same([str(main.parent), "a"]).returncode == 0
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.write(main, "__main__.py")
        archive.write(beside, "beside.py")
    assert assert_same([str(tmp_path / "app.zip"), "a"]).returncode == 0


@pytest.mark.parametrize(
    ("ending", "status"),
    [("sys.exit(3)", 3), ("sys.exit('no input')", 1), ("sys.exit()", 0), ("1 / 0", 1), ("raise SystemExit(None)", 0)],
)
def test_exit_status(tmp_path: Path, ending: str, status: int) -> None:
    assert assert_same([str(write(tmp_path / "job.py", f"import sys\n{ending}\n"))]).returncode == status


def test_an_interrupted_job_dies_of_the_signal(tmp_path: Path) -> None:
    script = write(
        tmp_path / "job.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('not reached')\n"
    )
    assert assert_same([str(script)]).returncode == -signal.SIGINT


def test_tracebacks_begin_at_the_job(tmp_path: Path) -> None:
    script = write(
        tmp_path / "job.py",
        """
        def fail():
            try:
                {}["missing"]
            except KeyError as error:
                raise ValueError("bad") from error
        fail()
        """,
    )
    assert "launcher" not in assert_same([str(script)]).stderr
    assert "SyntaxError" in assert_same([str(write(tmp_path / "broken.py", "x = = 1\n"))]).stderr


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    done = run([*LAUNCHER, str(tmp_path / "none.py")])
    assert done.returncode == 2
    assert f"can't open file '{tmp_path}/none.py'" in done.stderr


def test_interpreter_options_reach_the_interpreter(tmp_path: Path) -> None:
    code = "import sys; print(sys.flags.optimize, sys.warnoptions, sys.argv)"
    assert "2 ['error'] ['-c', 'a']" in assert_same(["-OO", "-W", "error", "-c", code, "a"]).stdout


def test_threads_that_outlive_the_script_keep_its_main(tmp_path: Path) -> None:
    script = write(
        tmp_path / "job.py",
        """
        import sys, threading
        def later():
            threading.main_thread().join()
            print(sys.modules["__main__"].later is later)
        threading.Thread(target=later).start()
        """,
    )
    assert assert_same([str(script)]).stdout == "True\n"


def test_executors_get_this_python_unless_told_otherwise() -> None:
    code = "import os; print(os.environ['PYSPARK_PYTHON'])"
    assert run([*LAUNCHER, "-c", code]).stdout.strip() == sys.executable
    assert run([*LAUNCHER, "-c", code], env={"PYSPARK_PYTHON": "other"}).stdout.strip() == "other"


@pytest.fixture(params=["folder", "zip"])
def fake_pyspark(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment that brings a PySpark of one class, as a folder or as the zip that spark-submit brings."""
    files = {
        "pyspark/__init__.py": "",
        "pyspark/sql/__init__.py": "from pyspark.sql.session import SparkSession\n",
        "pyspark/sql/conf.py": "",
        "pyspark/sql/session.py": "import pyspark.sql.conf\n" + FAKE_SESSION,
    }
    place = tmp_path / f"pyspark-{request.param}"
    if request.param == "folder":
        for name, text in files.items():
            write(place / name, text)
    else:
        with zipfile.ZipFile(place, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
    return {"PYTHONPATH": f"{place}:{ROOT}"}


def test_sessions_are_enabled_unless_the_mode_is_off(fake_pyspark: dict[str, str], tmp_path: Path) -> None:
    script = write(
        tmp_path / "job.py",
        """
        import sys
        print("pyspark" in sys.modules)
        import pyslash
        pyslash.enable = lambda session: setattr(session, "enabled", True)
        from pyspark.sql import SparkSession
        print(SparkSession().enabled, SparkSession("require").enabled, SparkSession("off").enabled)
        """,
    )
    done = run([*LAUNCHER, str(script)], env=fake_pyspark)
    assert done.stderr == ""
    assert done.stdout == "False\nTrue True False\n"
    assert run([*PLAIN, str(script)], env=fake_pyspark).stdout == "False\nFalse False False\n"


def test_a_prompt_runs_the_users_startup_file_and_has_the_hook(tmp_path: Path) -> None:
    """`pyspark` starts the driver's Python without a script and with its shell as the start-up file."""
    startup = write(tmp_path / "startup.py", "mine = 'started'\n")
    leader, follower = pty.openpty()
    environment = ENVIRONMENT | {"PYTHONSTARTUP": str(startup), "TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
    process = subprocess.Popen(
        LAUNCHER, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    os.close(follower)
    os.write(
        leader,
        b"import sys, os; print(mine, os.environ['PYTHONSTARTUP'], type(sys.meta_path[0]).__name__)\nexit(4)\n",
    )
    try:
        out, _ = process.communicate(timeout=900)
    finally:
        process.kill()
        os.close(leader)
    assert f"started {startup} _SessionImport" in out.decode()
    assert process.returncode == 4
