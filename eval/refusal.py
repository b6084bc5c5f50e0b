"""How an engine or a workload says that a measurement is not to be had by design."""


class CannotRunError(Exception):
    """An engine refuses a workload by design; the message is its reason, in its own words where it gave any."""
