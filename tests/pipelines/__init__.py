"""Whole pipelines, with a real Kafka broker: `scripts/test_pipelines.sh` runs them."""
