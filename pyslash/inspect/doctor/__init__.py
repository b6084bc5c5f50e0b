"""`pyslash doctor`: checks what pyslash needs on this machine, and says how to fix each failure.

`software`, `memory` and `fabric` have the checks, `finding` their result, `main` the command.
"""
