"""RDMA: what needs a device is marked `rdma` and runs on this machine's, or in the lab (`make lab`)."""
