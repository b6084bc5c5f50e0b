"""Scale on paper: an epoch's seconds on 1 to 1,024 nodes, from measured rates of kernels and a link.

`inputs` holds what goes in, and where each figure comes from; `costs` is the model; `compare` holds it against what was
measured and published; `curves` prints and draws it. What follows from it is in docs/scaling.md.
"""
