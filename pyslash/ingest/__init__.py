"""A micro-batch's rows become blocks, and tasks tell of them in receipts."""
