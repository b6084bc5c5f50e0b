"""What update jobs read, and under which secret."""

from tests.support.events import application_secret, events

__all__ = ["application_secret", "events"]
