"""What people read: the commands, the Python blocks and the claims of README.md, CONTRIBUTING.md and docs/*.md."""
