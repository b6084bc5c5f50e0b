"""The harness on the hosts of a cluster: checked one by one, measured on 1, 2, 4, ... of them, collected in one file.

`hosts` reads the host file, `launcher` runs commands there (ssh, or here for a trial), `check` asks each host's doctor,
`standalone` runs a Spark cluster over some hosts, `scaling` measures on it. How to run it: docs/cluster-eval.md.
"""
