"""An agent's life: `launch` finds or starts it, `runtime` is where both sides meet, `serve` its main function."""
