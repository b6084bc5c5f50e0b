"""Start-up file of `slash-python`'s prompt (`PYTHONSTARTUP`). Its names become names at the prompt, so it has few."""

exec(__import__("pyslash.api.launcher", fromlist=["startup_code"]).startup_code())
