"""`pyslash doctor`: checks what pyslash needs on this machine, and says for each failure what to do.

`finding` is what a check returns, `software`, `memory` and `fabric` hold the checks, `main` is the command.
"""
