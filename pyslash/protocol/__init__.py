"""What drivers, tasks and agents say to each other, for either side: it knows neither Spark nor what an agent holds.

`descriptor` says where an agent is, `process` whether it lives, `messages` the requests to it, each field with
its bounds, `codec` how that is written and checked, `wire` how it travels between two that have proved themselves,
`token` what a caller may do, `client` how to ask.

Nothing is imported here: an executor waits for its agent, which needs few of them.
"""
