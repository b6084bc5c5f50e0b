"""What people read: every command and every Python block of README.md, CONTRIBUTING.md and docs/*.md, and their claims."""
