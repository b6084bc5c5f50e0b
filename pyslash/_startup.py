"""Start-up file of `slash-python`'s prompt (`PYTHONSTARTUP`): its names become those of the prompt, hence so few."""

exec(__import__("pyslash.launcher", fromlist=["startup_code"]).startup_code())
